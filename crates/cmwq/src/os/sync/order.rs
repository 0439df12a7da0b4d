//! Orderings by the name of the place that needs them, so that each can be taken away for a test.
//!
//! `unpark.release` is the Release half of what `unpark` does, `plan_sleep.fence` the fence in
//! `Plan::sleep`, `limit_hand_over.lock` the lock that `hand_over` takes before it looks. Under
//! `--cfg cmwq_loom` the environment variable `CMWQ_WEAKEN=<site>` takes that one thing away;
//! `models::loom::mutation` does so for each of [`SITES`] and expects some model to notice.
//! `cmwq_core::ORDERING_SITES` is the same for the core. It is another list, because the models of
//! a crate are run with the sites of that crate, and the core has ways to weaken that only its work
//! word needs.
//!
//! Two fences in `sense/perf` are no sites. They pair with the kernel, which no model has.

use super::Ordering;
use super::primitives::fence;

/// The names of all ordering sites of this crate.
#[cfg(cmwq_loom)]
pub(crate) const SITES: &[&str] = &[
    "futex.wake",
    "mutex_lock.acquire",
    "mutex_sleep.acquire",
    "mutex_unlock.release",
    "unpark.release",
    "park_take.acquire",
    "event_set.release",
    "event_is_set.acquire",
    "event_wait.acquire",
    "publish.release",
    "published.acquire",
    "countdown.acquire",
    "countdown.release",
    "plan_need_by.fence",
    "plan_sleep.fence",
    "forget_timers.lock",
    "closure_end.acquire",
    "closure_publish.release",
    "closure_detach.release",
    "closure_is_detached.acquire",
    "closure_finish.acquire",
    "closure_finish.release",
    "closure_leave.acquire",
    "closure_leave.release",
    "tick_add.release",
    "tick_drop.acquire",
    "watch.release",
    "is_watched.acquire",
    "stack_ask.release",
    "stack_claim.acquire",
    "stack_answer.release",
    "stack_answered.acquire",
    "ring_push.release",
    "ring_read.acquire",
    "ring_read.release",
    "ring_room.acquire",
    "record_begin.fence",
    "record_end.release",
    "record_copy.acquire",
    "record_copy.fence",
    "board_put.fence",
    "board_retire.fence",
    "board_look.fence",
];

/// What a mutation test takes away.
#[cfg(any(cmwq_loom, cmwq_shuttle))]
pub(super) fn weakened() -> Option<&'static str> {
    static WEAKENED: super::OnceLock<Option<String>> = super::OnceLock::new();
    WEAKENED.get_or_init(|| std::env::var("CMWQ_WEAKEN").ok()).as_deref()
}

/// Whether the mutation test takes `what` of `site` away.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
#[inline(always)]
const fn is_weakened(_site: &str, _what: &str) -> bool {
    false
}

#[cfg(any(cmwq_loom, cmwq_shuttle))]
fn is_weakened(site: &str, what: &str) -> bool {
    let Some(weakened) = weakened() else { return false };
    #[cfg(cmwq_loom)]
    debug_assert!(SITES.contains(&&*format!("{site}.{what}")), "{site}.{what} is not listed");
    weakened.split_once('.') == Some((site, what))
}

/// Whether the mutation test does without `site`: a hold of a lock that looks as if it could be
/// saved, or under shuttle a step of a protocol.
#[inline(always)]
pub(crate) fn without(site: &'static str) -> bool {
    site.split_once('.').is_some_and(|(site, what)| is_weakened(site, what))
}

/// Whether the mutation test of the shuttle models leaves this step of the driver out.
#[cfg(not(cmwq_shuttle))]
#[inline(always)]
pub(crate) const fn leaves_out(_step: &'static str) -> bool {
    false
}

#[cfg(cmwq_shuttle)]
pub(crate) fn leaves_out(step: &'static str) -> bool {
    weakened() == Some(step)
}

#[inline(always)]
pub(crate) fn acq_rel(site: &'static str) -> Ordering {
    if is_weakened(site, "acquire") {
        Ordering::Release
    } else if is_weakened(site, "release") {
        Ordering::Acquire
    } else {
        Ordering::AcqRel
    }
}

#[inline(always)]
pub(crate) fn acquire(site: &'static str) -> Ordering {
    if is_weakened(site, "acquire") { Ordering::Relaxed } else { Ordering::Acquire }
}

#[inline(always)]
pub(crate) fn release(site: &'static str) -> Ordering {
    if is_weakened(site, "release") { Ordering::Relaxed } else { Ordering::Release }
}

/// A full fence.
#[inline(always)]
pub(crate) fn seq_cst_fence(site: &'static str) {
    if !is_weakened(site, "fence") {
        fence(Ordering::SeqCst);
    }
}

/// The order of a read-modify-write that [`fenced_load`] follows.
#[inline(always)]
pub(crate) fn in_order() -> Ordering {
    if cfg!(cmwq_loom) { Ordering::Relaxed } else { Ordering::SeqCst }
}

/// The order of a load as with a full fence before it, which follows a read-modify-write by the
/// same thread that has the order above: if another thread writes what is loaded, has a
/// [`seq_cst_fence`] and reads what was written, one of them sees the other.
///
/// C++20, [atomics.order] 4: both are in the total order S, the write first. If the load misses the
/// other's write, it precedes the fence in S, and if the other's read misses ours, the fence
/// precedes our write: a circle. It spares processors whose read-modify-writes are full fences
/// another one. loom knows S of fences only, so in models there is one.
#[inline(always)]
pub(crate) fn fenced_load(site: &'static str) -> Ordering {
    if cfg!(cmwq_loom) {
        seq_cst_fence(site);
        return Ordering::Relaxed;
    }
    Ordering::SeqCst
}

/// Half a fence: nothing before it comes after what follows it.
#[inline(always)]
pub(crate) fn release_fence(site: &'static str) {
    if !is_weakened(site, "fence") {
        fence(Ordering::Release);
    }
}

/// The other half: nothing after it comes before what precedes it.
#[inline(always)]
pub(crate) fn acquire_fence(site: &'static str) {
    if !is_weakened(site, "fence") {
        fence(Ordering::Acquire);
    }
}
