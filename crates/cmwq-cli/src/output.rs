//! What a verb says on standard output.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use cmwq::foreign::{harmless_json, harmless_lines};

use crate::{descriptors, exit, message};

/// How wide the terminal is, if standard output is one.
pub(crate) fn columns() -> Option<usize> {
    let size = io::stdout().is_terminal().then(|| ratatui::crossterm::terminal::size().ok());
    size.flatten().map(|(columns, _)| usize::from(columns))
}

/// Prints a text about another process: what it says of itself cannot do anything to a terminal.
pub(crate) fn print_foreign(text: &str) -> ExitCode {
    print(&harmless_lines(text))
}

/// As [`print_foreign`], for JSON, which stays the same to those who read it.
pub(crate) fn print_json(document: &str) -> ExitCode {
    print(&harmless_json(document))
}

/// Prints `text`; the exit code says whether that could be done.
pub(crate) fn print(text: &str) -> ExitCode {
    write(text).err().unwrap_or(ExitCode::from(exit::DONE))
}

/// Prints a part of what is to be printed.
///
/// # Errors
/// The exit code, if it could not be: a message said why.
pub(crate) fn write(text: &str) -> Result<(), ExitCode> {
    match descriptors::write_all(io::stdout().lock(), text.as_bytes()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(ExitCode::from(exit::OUTPUT_CLOSED))
        }
        Err(error) => {
            message::say(format_args!("cannot write to standard output: {error}"));
            Err(ExitCode::from(exit::FAILED))
        }
    }
}
