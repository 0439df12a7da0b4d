//! Messages on standard error: one line each, `cmwq: ` in front.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use os_display::Quotable as _;
use rustix::io::Errno;

/// Says `text` on standard error, in one write so that lines of several processes stay whole.
pub(crate) fn say(text: impl Display) {
    // When standard error is gone there is nobody left to tell; the exit code still speaks.
    let _ = io::stderr().lock().write_all(format!("cmwq: {text}\n").as_bytes());
}

/// Says `text` about the file called `path`, which is quoted for the shell where it must be, so
/// that no name can forge a second line or send control sequences to a terminal.
pub(crate) fn say_about(path: &[u8], text: impl Display) {
    say(format_args!("{}: {text}", OsStr::from_bytes(path).maybe_quote()));
}

/// What the C library calls this error, without the number that the standard library adds.
pub(crate) fn errno_text(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_named_as_the_c_library_names_them() {
        assert_eq!(errno_text(Errno::ACCESS), "Permission denied");
        assert_eq!(errno_text(Errno::NOENT), "No such file or directory");
    }
}
