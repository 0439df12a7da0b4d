//! Handlers of signals: whether one is there, and setting one; threads that handle none; and
//! whether there is somebody to send one to.
//!
//! *Does not* replace a handler that the program has.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// A handler.
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Whether there is such a process, whatever procfs shows.
pub fn is_process(pid: u32) -> bool {
    // Other numbers would mean groups of processes.
    let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0) else { return false };
    // SAFETY: signal 0 is none; takes numbers only.
    let is_refused = unsafe { libc::kill(pid, 0) } != 0;
    !is_refused || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// What is done with a signal now.
fn action(signal: i32) -> Option<libc::sigaction> {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asking changes nothing, and `now` is writable.
    let rc = unsafe { libc::sigaction(signal, ptr::null(), now.as_mut_ptr()) };
    // SAFETY: all zeroes is a value of it.
    (rc == 0).then(|| unsafe { now.assume_init() })
}

/// Whether nobody has done anything about the signal.
pub(crate) fn is_free(signal: i32) -> bool {
    action(signal).is_some_and(|now| now.sa_sigaction == libc::SIG_DFL)
}

/// Whether the signal has this handler.
pub(crate) fn is_taken_by(signal: i32, handler: Handler) -> bool {
    action(signal).is_some_and(|now| now.sa_sigaction == handler as *const () as usize)
}

/// Gives the signal a handler that keeps to what is allowed in one. It runs on the alternative
/// stack, where the thread has one, and system calls go on after it where that is possible.
///
/// # Errors
/// If there is no such signal, or it cannot be caught.
pub(crate) fn take(signal: i32, handler: Handler) -> io::Result<()> {
    // SAFETY: all zeroes is a value of it: no flags, an empty mask.
    let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    ours.sa_sigaction = handler as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler lives as long as the process, because this library stays loaded.
    let rc = unsafe { libc::sigaction(signal, &raw const ours, ptr::null_mut()) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The calling thread handles no signals from now on, but those that it brings about itself: with
/// these blocked the process would end, and no handler would say why.
pub(crate) fn handle_none() {
    const FAULTS: [i32; 6] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        // What a filter of system calls traps.
        libc::SIGSYS,
    ];
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `signals` is writable, and made by the first call; the rest are numbers. Those that
    // the C library needs are not among all of them.
    unsafe {
        libc::sigfillset(signals.as_mut_ptr());
        for fault in FAULTS {
            libc::sigdelset(signals.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), ptr::null_mut());
    }
}

/// Calls `f`, in a handler, which must not change the `errno` of what it interrupts.
pub(crate) fn keeping_errno(f: impl FnOnce()) {
    // SAFETY: the thread's own, always there.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let kept = unsafe { *errno };
    f();
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// A signal by its number or name: `10`, `USR1`, `SIGUSR1`.
pub(crate) fn parse(text: &str) -> Option<i32> {
    const NAMES: [(&str, i32); 6] = [
        ("HUP", libc::SIGHUP),
        ("QUIT", libc::SIGQUIT),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
        ("WINCH", libc::SIGWINCH),
        ("PWR", libc::SIGPWR),
    ];
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal);
    known.or_else(|| text.parse().ok().filter(|signal| (1..=libc::SIGRTMAX()).contains(signal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_numbers_and_names() {
        assert_eq!(parse("USR1"), Some(libc::SIGUSR1));
        assert_eq!(parse("SIGQUIT"), Some(libc::SIGQUIT));
        assert_eq!(parse("12"), Some(12));
        for bad in ["", "0", "-1", "65000", "USR3", "usr1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
