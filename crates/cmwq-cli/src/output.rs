//! What a verb says on standard output.

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::{exit, message};

/// Prints `text`; the exit code says whether that could be done.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::from(exit::DONE),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::from(exit::OUTPUT_CLOSED)
        }
        Err(error) => {
            message::say(format_args!("cannot write to standard output: {error}"));
            ExitCode::from(exit::FAILED)
        }
    }
}
