//! Saying once what is degraded.
//!
//! A library should be quiet, and it should not hide that it works with one arm tied. So each kind
//! of degradation is said once per process, on standard error, and kept for
//! [`notices`](crate::notices). What is said of a call of the program's is said each time, and kept
//! once with a count: a program that repeats its mistake for ever must not need memory for it.

use crate::os::sync::plain::{AtomicU32, Mutex, Ordering};
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
use crate::os::sync::plain::{MutexGuard, PoisonError};
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use crate::os::environment;
use crate::os::sense::stderr;
use crate::os::sync::OnceLock;

/// Something that does not work here, or works less well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Nice,
    ThreadCreation,
    MaxWorkers,
    SentinelRefused,
    SentinelThread,
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
    Policy,
    Control,
    RcuDisabled,
    Watchdog,
    DumpSignal,
    Inspect,
    Pools,
}

static SAID: AtomicU32 = AtomicU32::new(0);
static TEXTS: Mutex<Vec<Said>> = Mutex::new(Vec::new());

/// LIMIT: so many different texts of one kind are kept; the kinds are as many as the places that
/// say something.
const TEXTS_PER_KIND: usize = 16;

/// What was said, and how often.
#[derive(Debug)]
pub(crate) struct Said {
    /// Where it is said from.
    kind: &'static Location<'static>,
    text: String,
    count: u64,
    /// How many of its kind came when there were enough.
    others: u64,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.count > 1 {
            write!(f, " (said {} times)", self.count)?;
        }
        if self.others > 0 {
            write!(f, " (and {} more of this kind)", self.others)?;
        }
        Ok(())
    }
}

/// See `fork`.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) type TextsGuard = MutexGuard<'static, Vec<Said>>;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) fn lock_texts() -> TextsGuard {
    TEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says `text` if nothing of this kind was said before.
#[cold]
#[track_caller]
pub(crate) fn once(kind: Notice, text: impl FnOnce() -> String) {
    // ORDERING: no pairing: the bit only limits how often a message is printed.
    if SAID.fetch_or(1 << kind as u32, Ordering::Relaxed) & (1 << kind as u32) == 0 {
        always(text());
    }
}

/// Says `text` each time. Its kind is the place of the call.
#[cold]
#[track_caller]
pub(crate) fn always(text: String) {
    say(&text);
    let kind = Location::caller();
    if let Ok(mut texts) = TEXTS.lock() {
        keep(&mut texts, kind, text);
    }
}

/// Says `text` if it was not said before. Its kind is the place of the call; where there are too
/// many of the kind, each time.
#[cold]
#[track_caller]
pub(crate) fn once_each(text: String) {
    let kind = Location::caller();
    let Ok(mut texts) = TEXTS.lock() else { return };
    if texts.iter().any(|said| said.text == text) {
        return;
    }
    keep(&mut texts, kind, text.clone());
    drop(texts);
    say(&text);
}

fn keep(texts: &mut Vec<Said>, kind: &'static Location<'static>, text: String) {
    let mut nr_alike = 0;
    let mut last = None;
    for (index, said) in texts.iter_mut().enumerate().filter(|(_, said)| said.kind == kind) {
        if said.text == text {
            said.count += 1;
            return;
        }
        nr_alike += 1;
        last = Some(index);
    }
    match last {
        Some(last) if nr_alike >= TEXTS_PER_KIND => texts[last].others += 1,
        _ => texts.push(Said { kind, text, count: 1, others: 0 }),
    }
}

/// Who is told in place of standard error.
pub(crate) type Sink = Box<dyn Fn(&str) + Send + Sync>;

/// Set once, before the library is used; a forked child has the same.
static SINK: OnceLock<Sink> = OnceLock::new();

pub(crate) fn set_sink(sink: Sink) {
    let _ = SINK.set(sink);
}

/// Says `text` and forgets it.
#[cold]
pub(crate) fn say(text: &str) {
    if let Some(sink) = SINK.get() {
        let said = catch_unwind(AssertUnwindSafe(|| sink(text)));
        // What it panicked with may panic when it is dropped.
        let _ = said.map_err(std::mem::forget);
        return;
    }
    let quiet = environment::var_os("CMWQ_QUIET").is_some_and(|v| v != "0" && !v.is_empty());
    if !quiet {
        let text = crate::os::foreign::harmless_lines(text);
        // In one piece. Nothing can be done about a closed standard error.
        stderr::write(&format!("cmwq: {text}\n"));
    }
}

/// Says `text`, and the process ends: also in a silent one.
#[cold]
pub(crate) fn last_word(text: &str) {
    // As in `say`.
    stderr::write(&format!("cmwq: {text}\n"));
}

/// See [`notices`](crate::notices).
pub(crate) fn all() -> Vec<String> {
    TEXTS.lock().map(|texts| texts.iter().map(Said::to_string).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_is_kept_once_with_a_count() {
        let (mut texts, here) = (Vec::new(), Location::caller());
        for _ in 0..1000 {
            keep(&mut texts, here, "twice removed".to_owned());
        }
        assert_eq!(texts.len(), 1);
        assert_eq!(texts[0].to_string(), "twice removed (said 1000 times)");
    }

    #[test]
    fn of_one_kind_there_are_no_more_than_some() {
        let (mut texts, here) = (Vec::new(), Location::caller());
        for index in 0..1000 {
            keep(&mut texts, here, format!("queue {index}"));
        }
        keep(&mut texts, Location::caller(), "of another kind".to_owned());
        assert_eq!(texts.len(), TEXTS_PER_KIND + 1);
        assert_eq!(texts[0].to_string(), "queue 0");
        assert_eq!(texts[15].to_string(), "queue 15 (and 984 more of this kind)");
        assert_eq!(texts[16].to_string(), "of another kind");
    }
}
