//! Loom models: every interleaving of two or three threads, and every value the memory model lets
//! them read.
//!
//! `RUSTFLAGS="--cfg cmwq_loom" cargo test --manifest-path models/Cargo.toml -p cmwq-models
//! --release loom`
//!
//! One module for each protocol; `mutation` takes each ordering away in turn and expects some model
//! to notice. The orderings of queueing itself are modelled in `cmwq-core`.

mod board;
mod closure;
mod countdown;
mod cpu_pwq;
mod event;
mod flushing;
mod mutation;
mod mutex;
mod parker;
mod plan;
mod pools;
mod published;
mod record;
mod ticking;
mod timers;
mod trace;
mod watchdog;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};

/// Checks a model of two threads, in all its interleavings.
fn check(model: impl Fn() + Send + Sync + 'static) {
    loom::model::Builder::new().check(model);
}

/// Checks a model of three threads, in its interleavings with few preemptions.
fn check_three(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// What somebody stores before he tells others, and they must see: only the protocol can make it
/// visible.
#[derive(Debug)]
struct News(AtomicUsize);

impl News {
    fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn write(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What only one thread at a time touches, as the protocol sees to it: loom reports anything else.
#[derive(Debug)]
struct Owned(UnsafeCell<u32>);

// SAFETY: whether it is used by one at a time is what the models are about.
unsafe impl Sync for Owned {}

impl Owned {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn touch(&self) {
        // SAFETY: loom checks what the models claim, that nobody else does this now.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }
}
