//! Messages on standard error: one line each, `cmwq: ` in front. A progress bar there makes room.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Mutex, PoisonError, TryLockError, mpsc};
use std::thread;
use std::time::Duration;

use cmwq::foreign::harmless_lines;
use indicatif::ProgressBar;
use os_display::Quotable as _;
use rustix::io::Errno;

use crate::descriptors;

/// What is on the terminal, and is taken away for each message.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Held by whoever writes while the bar is not there, or draws it. The bar has a lock of its own
/// for that, which nobody can try.
static BESIDE: Mutex<()> = Mutex::new(());

/// From now on this bar is on standard error.
pub(crate) fn stand_beside(bar: &ProgressBar) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
}

/// Writes something while the bar is not there.
pub(crate) fn beside<T>(bar: &ProgressBar, write: impl FnOnce() -> T) -> T {
    let _beside = BESIDE.lock().unwrap_or_else(PoisonError::into_inner);
    bar.suspend(write)
}

/// Draws the bar, unless somebody writes beside it: he may have to wait for the terminal, and who
/// draws has other things to do.
pub(crate) fn draw(draw: impl FnOnce()) {
    let _beside = match BESIDE.try_lock() {
        Err(TryLockError::WouldBlock) => return,
        Err(TryLockError::Poisoned(beside)) => beside.into_inner(),
        Ok(beside) => beside,
    };
    draw();
}

/// Says `text` on standard error, in one write so that lines of several processes stay whole.
/// Whatever it quotes cannot do anything to a terminal.
pub(crate) fn say(text: impl Display) {
    // Tests of what is inside run a thousand cases, and look at what is returned.
    if cfg!(any(test, fuzzing)) {
        return;
    }
    let text = text.to_string();
    let text = harmless_lines(&text);
    let line = format!("cmwq: {text}\n");
    // When standard error is gone there is nobody left to tell; the exit code still speaks.
    let write = || _ = descriptors::write_all(io::stderr().lock(), line.as_bytes());
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => beside(&bar, write),
        None => write(),
    }
}

/// As [`say`], for who must not wait until the terminal, or another reader, takes it.
pub(crate) fn say_meanwhile(text: impl Display) {
    say_within(Duration::ZERO, text);
}

/// As [`say_meanwhile`], for who ends the process then: waits for so long.
pub(crate) fn say_within(time: Duration, text: impl Display) {
    let text = text.to_string();
    let said = text.clone();
    let (sayer, ended) = mpsc::channel::<()>();
    let say_it = move || {
        let _sayer = sayer;
        say(said);
    };
    match thread::Builder::new().name("message".into()).spawn(say_it) {
        // That it says nothing any more is all.
        Ok(_) => _ = ended.recv_timeout(time),
        Err(_) => say(text),
    }
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
