//! A flush of a queue returns when what was queued before has finished, sees what that did, and
//! hands over to those who flush behind it. Loom reports one that sleeps for ever.

use std::ptr::NonNull;

use cmwq_core::{Kick, LockFor, Next, WorkItem, WorkerId};
use loom::thread;

use super::pools::hire;
use super::{Owned, check, check_three};
use crate::engine::pool::Pool;
use crate::engine::process::on_one_cpu;
use crate::engine::wq::flushes::Flusher;
use crate::engine::wq::{Kind, Queueing, Spec, Wq};
use crate::os::park::Event;
use crate::os::sync::Arc;

unsafe extern "C" fn nothing(_: *mut WorkItem) {}

/// A queue with an item, and the worker that is going to run it.
struct Shared {
    wq: Arc<Wq>,
    pool: &'static Pool,
    worker: WorkerId,
    owned: Owned,
}

fn shared() -> Arc<Shared> {
    let runtime = on_one_cpu();
    runtime.set_fault_no_threads(true);
    let wq = runtime.new_wq("model", Spec::of(Kind::Percpu)).expect("it is not shut down");
    let pool = wq.cpu_pwq(Some(0)).pool;
    let [(worker, _), _] = [hire(pool), hire(pool)];
    let item = Box::leak(Box::new(WorkItem::new(nothing)));
    // SAFETY: it lives for ever.
    let queued = unsafe { wq.queue_item(Some(0), NonNull::from(item)) };
    assert_eq!(queued, Queueing::Queued);
    Arc::new(Shared { wq, pool, worker, owned: Owned::new() })
}

/// A worker's loop, as far as it matters here.
fn work(s: &Shared) {
    loop {
        let mut guard = s.pool.lock(LockFor::Find);
        let next = guard.core.next(s.worker, || 0);
        let Next::Run(claim) = next else { return s.pool.unlock(guard, Kick::None) };
        s.pool.unlock(guard, claim.kick);
        s.owned.touch();
        let mut guard = s.pool.lock(LockFor::Find);
        let effects = guard.core.finish(s.worker);
        s.pool.unlock(guard, Kick::None);
        s.pool.act_effects(effects);
    }
}

fn worker(s: &Arc<Shared>) -> thread::JoinHandle<()> {
    let s = Arc::clone(s);
    thread::spawn(move || work(&s))
}

#[test]
fn a_flush_returns_and_sees_what_was_done() {
    check(|| {
        let s = shared();
        let worker = worker(&s);
        s.wq.flush();
        s.owned.touch();
        worker.join().unwrap();
    });
}

/// Whoever begins second waits for the first one, who lets him go.
#[test]
fn the_first_flusher_hands_over() {
    check_three(|| {
        let s = shared();
        let worker = worker(&s);
        let other = {
            let s = Arc::clone(&s);
            thread::spawn(move || s.wq.flush())
        };
        s.wq.flush();
        other.join().unwrap();
        s.owned.touch();
        worker.join().unwrap();
    });
}

/// A flush that is awaited has no thread: whoever finds that it is over hands over in its place.
fn behind_one_without_a_thread(is_forgotten: bool) {
    check(move || {
        let s = shared();
        let worker = worker(&s);
        let told = Arc::new(Event::new());
        let begun = s.wq.begin_flush({
            let told = Arc::clone(&told);
            move || Flusher::Call(Box::new(move || told.set()))
        });
        match begun {
            Some(flusher) if is_forgotten => s.wq.forget_flusher(flusher),
            _ => {}
        }
        s.wq.flush();
        if begun.is_some() && !is_forgotten {
            told.wait(None);
        }
        s.owned.touch();
        worker.join().unwrap();
    });
}

#[test]
fn a_flusher_without_a_thread_hands_over() {
    behind_one_without_a_thread(false);
}

#[test]
fn a_flusher_that_was_forgotten_hands_over() {
    behind_one_without_a_thread(true);
}
