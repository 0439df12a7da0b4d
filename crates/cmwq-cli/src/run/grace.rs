//! How long a command may take to end that was asked to, before it is killed.
//!
//! A command may be a run itself, whose commands have groups of their own: whoever kills it does
//! not reach them. So it has to have killed them by then, and each run tells its commands a second
//! less.

use std::env;
use std::ffi::OsStr;
use std::sync::OnceLock;
use std::time::Duration;

/// Who is no command of another run has so many seconds,
const USUAL: u64 = 5;
/// and everybody has this.
const LEAST: u64 = 1;
/// By which a run tells its commands, which may be runs.
const NAME: &str = "CMWQ_RUN_GRACE";

/// For the commands of this process.
pub(super) fn grace() -> Duration {
    Duration::from_secs(seconds())
}

/// Tells the commands to come, in the environment that they inherit: with one of its own for each
/// command, it would be copied as often.
///
/// # Safety
/// This process has one thread.
pub(super) unsafe fn tell_commands() {
    let told = next(seconds()).to_string();
    // SAFETY: nobody else reads the environment now.
    unsafe { env::set_var(NAME, told) };
}

fn seconds() -> u64 {
    static SECONDS: OnceLock<u64> = OnceLock::new();
    *SECONDS.get_or_init(|| of(env::var_os(NAME).as_deref()))
}

/// Never more than usual: a supervisor counts on that.
fn of(told: Option<&OsStr>) -> u64 {
    let told = told.and_then(|told| told.to_str()?.parse().ok());
    told.unwrap_or(USUAL).clamp(LEAST, USUAL)
}

fn next(seconds: u64) -> u64 {
    seconds.saturating_sub(1).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_inside_of_another_has_a_second_less() {
        for (told, own, tells) in
            [(None, 5, 4), (Some("4"), 4, 3), (Some("2"), 2, 1), (Some("1"), 1, 1)]
        {
            let seconds = of(told.map(OsStr::new));
            assert_eq!((seconds, next(seconds)), (own, tells), "{told:?}");
        }
        let odd = ["0", "99", "-1", "", "soon"].map(|told| of(Some(told.as_ref())));
        assert_eq!(odd, [1, 5, 5, 5, 5]);
    }
}
