//! Saying once what is degraded.
//!
//! A library should be quiet, and it should not hide that it works with one arm tied. So each kind
//! of degradation is said once per process, on standard error, and kept for [`notices`].

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Something that does not work here, or works less well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Nice,
    ThreadCreation,
    SentinelRefused,
    ProcMissing,
    PerfBudget,
    PinRefused,
    Params,
    Name,
    DisableDepth,
    EnableDepth,
    Refused,
    GracePeriods,
    #[cfg(feature = "liburcu")]
    Liburcu,
    Node,
    Dependency,
    UnboundCpus,
    BhContext,
    BhWaits,
    Cpu,
    Sched,
    Control,
    RcuDisabled,
    Watchdog,
    DumpSignal,
    Inspect,
}

static SAID: AtomicU32 = AtomicU32::new(0);
static TEXTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// See `fork`.
#[cfg(not(any(loom, shuttle)))]
pub(crate) type TextsGuard = std::sync::MutexGuard<'static, Vec<String>>;

#[cfg(not(any(loom, shuttle)))]
pub(crate) fn lock_texts() -> TextsGuard {
    TEXTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Says `text` if nothing of this kind was said before.
#[cold]
pub(crate) fn once(kind: Notice, text: impl FnOnce() -> String) {
    // ORDERING: no pairing: the bit only limits how often a message is printed.
    if SAID.fetch_or(1 << kind as u32, Ordering::Relaxed) & (1 << kind as u32) == 0 {
        always(text());
    }
}

/// Says `text` each time.
#[cold]
pub(crate) fn always(text: String) {
    say(&text);
    if let Ok(mut texts) = TEXTS.lock() {
        texts.push(text);
    }
}

/// Says `text` and forgets it.
#[cold]
pub(crate) fn say(text: &str) {
    let quiet = std::env::var_os("CMWQ_QUIET").is_some_and(|v| v != "0" && !v.is_empty());
    if !quiet {
        // In one piece. Nothing can be done about a closed standard error.
        let _ = std::io::stderr().lock().write_all(format!("cmwq: {text}\n").as_bytes());
    }
}

/// What was said so far: each degradation once, in order. For diagnosis and tests.
#[must_use]
pub fn notices() -> Vec<String> {
    TEXTS.lock().map(|texts| texts.clone()).unwrap_or_default()
}
