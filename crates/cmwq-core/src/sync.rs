//! The only module that names `core::sync::atomic`, loom or shuttle, and the only one with
//! orderings stronger than Relaxed.
//!
//! Everything that correctness needs of an atomic operation is a *site* with a name:
//! `claim.acquire` is the acquire half of `claim`, `set_queued.chain` its being a
//! read-modify-write, `claim_for.seen` its looking at the whole word, `inbox_push.fence` the fence
//! in `push`. Under `--cfg cmwq_loom` the environment variable `CMWQ_WEAKEN=<site>` takes that one
//! thing away; the mutation test runs the loom models once for each name in [`ORDERING_SITES`] and
//! expects a failure each time, so an ordering that no model needs, or that no model tests, cannot
//! stay unnoticed.
//!
//! Why: docs/decisions/no-fence-behind-an-exchange.md

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub use core::sync::atomic::AtomicU64;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, fence};
#[cfg(cmwq_loom)]
pub use loom::sync::atomic::AtomicU64;
#[cfg(cmwq_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, fence};
#[cfg(cmwq_shuttle)]
pub use shuttle::sync::atomic::AtomicU64;
#[cfg(cmwq_shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, fence};

/// A number that only a heuristic reads, so no model has to try all its values.
pub(crate) use core::sync::atomic::AtomicU32 as RoughCount;
/// A number that only tools read.
pub(crate) use core::sync::atomic::AtomicU64 as RoughTotal;

/// The names of all ordering sites of this crate.
pub const ORDERING_SITES: &[&str] = &[
    "claim.acquire",
    "claim.release",
    "claim_for.acquire",
    "claim_for.seen",
    "set_in_transit.chain",
    "set_queued.chain",
    "update_queued.chain",
    "queue_from_idle.acquire",
    "queue_from_idle.seen",
    "start.acquire",
    "start.release",
    "start.chain",
    "publish_idle.acquire",
    "publish_idle.release",
    "take_over.chain",
    "inbox_push.release",
    "inbox_push.fence",
    "inbox_take.acquire",
    "inbox_newest.acquire",
    "inbox_desaturate.fence",
    "batch_begin.release",
    "batch_call_back.acquire",
    "batch_begun.acquire",
    "limit_wait.fence",
    "limit_put.fence",
    "limit_hand_over.lock",
];

/// Whether the mutation test takes `what` of `site` away.
#[cfg(not(cmwq_loom))]
#[inline(always)]
const fn is_weakened(_site: &str, _what: &str) -> bool {
    false
}

#[cfg(cmwq_loom)]
fn is_weakened(site: &str, what: &str) -> bool {
    static WEAKENED: std::sync::OnceLock<std::string::String> = std::sync::OnceLock::new();
    let weakened = WEAKENED.get_or_init(|| std::env::var("CMWQ_WEAKEN").unwrap_or_default());
    debug_assert!(
        weakened.is_empty() || ORDERING_SITES.contains(&&*std::format!("{site}.{what}")),
        "{site}.{what} is not listed"
    );
    weakened.split_once('.') == Some((site, what))
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

/// Whether the mutation test leaves out a lock that looks as if it were not needed.
#[inline(always)]
pub(crate) fn without(site: &'static str) -> bool {
    match site.split_once('.') {
        Some((site, what)) => is_weakened(site, what),
        None => false,
    }
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
pub(crate) fn release_in_order(site: &'static str) -> Ordering {
    if cfg!(cmwq_loom) { release(site) } else { Ordering::SeqCst }
}

/// The same, for a read-modify-write that guards no data.
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

/// Replaces `word` by a read-modify-write, which continues the release sequences of those before
/// it: a thread that acquires a later value synchronises with them too. Weakened, it is a store and
/// a full fence, as in the kernel.
#[inline(always)]
pub(crate) fn swap_in_chain(
    word: &AtomicU64,
    bits: u64,
    order: Ordering,
    site: &'static str,
) -> u64 {
    if is_weakened(site, "chain") {
        let was = word.load(Ordering::Relaxed);
        word.store(bits, Ordering::Release);
        fence(Ordering::SeqCst);
        return was;
    }
    word.swap(bits, order)
}

/// The same, if `word` is still `seen`. Weakened, another thread may have changed it in between.
pub(crate) fn exchange_in_chain(
    word: &AtomicU64,
    seen: u64,
    bits: u64,
    order: Ordering,
    site: &'static str,
) -> bool {
    if is_weakened(site, "chain") {
        let is_seen = word.load(Ordering::Relaxed) == seen;
        if is_seen {
            word.store(bits, Ordering::Release);
            fence(Ordering::SeqCst);
        }
        return is_seen;
    }
    word.compare_exchange(seen, bits, order, Ordering::Relaxed).is_ok()
}

/// Makes an idle word `bits`, which has PENDING set, if it is still `seen`: PENDING and the disable
/// depth are looked at together. Weakened, PENDING alone decides, as if the depth were kept
/// elsewhere and had been looked at before.
#[inline(always)]
pub(crate) fn exchange_idle(
    word: &AtomicU64,
    seen: u64,
    bits: u64,
    order: Ordering,
    site: &'static str,
) -> bool {
    if is_weakened(site, "seen") {
        let pending = crate::word::WorkWord::PENDING_MASK;
        let is_mine = word.fetch_or(pending, order) & pending == 0;
        if is_mine {
            word.swap(bits, Ordering::Relaxed);
        }
        return is_mine;
    }
    word.compare_exchange(seen, bits, order, Ordering::Relaxed).is_ok()
}
