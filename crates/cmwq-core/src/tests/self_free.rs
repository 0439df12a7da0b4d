//! A function that frees its own item: nothing may touch the item afterwards. Miri is the judge.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::boxed::Box;
use std::sync::Arc;

use super::support::pwq_config;
use crate::policy::UNMANAGED;
use crate::{Effects, FlushTarget, Next, PoolConfig, PoolId, PoolState, PwqId, WorkItem, WorkerId};

#[repr(C)]
struct Owned {
    work: WorkItem,
    ran: Arc<AtomicU32>,
}

unsafe extern "C" fn free_me(work: *mut WorkItem) {
    // SAFETY: `new_owned` leaked a box, and this is the only run.
    let owned = unsafe { Box::from_raw(work.cast::<Owned>()) };
    owned.ran.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn barrier_done(_: *mut WorkItem) {}

fn new_owned(ran: &Arc<AtomicU32>) -> NonNull<WorkItem> {
    let owned = Owned { work: WorkItem::new(free_me), ran: Arc::clone(ran) };
    NonNull::from(Box::leak(Box::new(owned))).cast()
}

fn pool(workers: usize) -> (PoolState, PwqId, WorkerId) {
    let mut pool = PoolState::new(PoolConfig::new(PoolId(0), UNMANAGED));
    let pwq = pool.add_pwq(pwq_config(1, 10));
    let ids = [(); 8].map(|()| pool.worker_new());
    for &id in &ids[..workers] {
        let _ = pool.worker_created(id, None, 0);
    }
    (pool, pwq, ids[workers - 1])
}

fn queue(pool: &mut PoolState, pwq: PwqId, item: NonNull<WorkItem>) {
    // SAFETY: alive until its function frees it.
    unsafe {
        assert!(!item.as_ref().claim().is_pending());
        let _ = pool.enqueue(pwq, item);
    }
}

/// Runs one item to its end as a driver does.
fn run_one(pool: &mut PoolState, id: WorkerId) -> Effects {
    let Next::Run(claim) = pool.next(id, || 0) else { panic!("nothing to run") };
    // SAFETY: claimed.
    unsafe { (claim.func)(claim.item) };
    pool.check();
    let effects = pool.finish(id);
    pool.check();
    effects
}

#[test]
fn an_item_may_free_itself() {
    let ran = Arc::new(AtomicU32::new(0));
    let (mut pool, pwq, id) = pool(2);
    for _ in 0..3 {
        queue(&mut pool, pwq, new_owned(&ran));
    }
    for n in 1..=3 {
        let _ = run_one(&mut pool, id);
        assert_eq!(ran.load(Ordering::Relaxed), n);
    }
    assert_eq!(Arc::strong_count(&ran), 1, "all are freed");
    assert_eq!(pool.pwq_load(pwq), Some((0, false, false)));
}

#[test]
fn its_barriers_and_flushes_do_not_need_it() {
    let ran = Arc::new(AtomicU32::new(0));
    let (mut pool, pwq, id) = pool(2);
    let item = new_owned(&ran);
    let barriers = [(); 2].map(|()| Box::new(WorkItem::new(barrier_done)));
    let barriers = barriers.map(|b| NonNull::from(Box::leak(b)));
    queue(&mut pool, pwq, item);
    // SAFETY: both are alive.
    assert_eq!(unsafe { pool.insert_barrier(item, barriers[0]) }, FlushTarget::Queued);
    let Next::Run(claim) = pool.next(id, || 0) else { panic!("nothing to run") };
    // SAFETY: as above.
    assert_eq!(unsafe { pool.insert_barrier(item, barriers[1]) }, FlushTarget::Running(id));
    assert!(pool.flush_prep(pwq, Some(0), Some(1)));
    // SAFETY: claimed.
    unsafe { (claim.func)(claim.item) };
    assert_eq!(pool.finish(id).flush_done, None);
    assert_eq!(run_one(&mut pool, id).flush_done, None);
    assert!(run_one(&mut pool, id).flush_done.is_some(), "the barriers were the last");
    for barrier in barriers {
        // SAFETY: it has run.
        drop(unsafe { Box::from_raw(barrier.as_ptr()) });
    }
}

#[test]
fn the_memory_may_be_an_item_again_while_the_function_still_runs() {
    let ran = Arc::new(AtomicU32::new(0));
    let (mut pool, pwq, id) = pool(3);
    queue(&mut pool, pwq, new_owned(&ran));
    let Next::Run(claim) = pool.next(id, || 0) else { panic!("nothing to run") };
    // SAFETY: claimed. The function frees the item; the worker is still inside it.
    unsafe { (claim.func)(claim.item) };
    // Perhaps at the same address: then this worker must run it, else anybody may.
    queue(&mut pool, pwq, new_owned(&ran));
    let _ = pool.finish(id);
    let _ = run_one(&mut pool, id);
    assert_eq!(ran.load(Ordering::Relaxed), 2);
}
