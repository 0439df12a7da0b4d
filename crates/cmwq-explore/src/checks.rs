//! What must hold in every state, beside what [`crate::ledger`] checks at every event.

use cmwq_core::PoolId;
use cmwq_core::value::{Listed, PoolValue, WorkerValue};

use crate::world::{At, Named, Todo, Who, World};

/// Panics if something does not hold.
pub(crate) fn check(world: &World<'_>, pools: &[PoolValue]) {
    for (pool, value) in world.pools.iter().zip(pools) {
        pool.core.check();
        if pool.core.config().is_managed() {
            check_hogs(value, pool.core.config().concurrency);
        }
    }
    check_woken(world, pools);
    check_creation(world, pools);
    check_lists(world, pools);
    check_lines(world);
}

/// No slot of a limit is free while a pwq stands in line for it, but where somebody is about to
/// hand it over.
fn check_lines(world: &World<'_>) {
    for (n, queue) in world.queues.iter().enumerate() {
        for (number, limit) in queue.shared.iter().enumerate() {
            let hands_over = Todo::HandOver(n as u8, number as u8);
            let mut todos = world.threads.iter().flatten().flat_map(|thread| &thread.todo);
            let is_idle = limit.nr() < limit.max() && !limit.waiting().is_empty();
            let is_known = !is_idle || todos.any(|todo| *todo == hands_over);
            assert!(is_known, "a slot of queue {n} is free, and some wait in line for it");
        }
    }
}

/// Where *(standby)* or *(coming)* does not hold since a creation has failed or was refused, or
/// since there is no worker at all, somebody knows: he is about to create one, or will try again at
/// a time, or, for a standby that was refused, when work needs one.
fn check_creation(world: &World<'_>, pools: &[PoolValue]) {
    for (n, (pool, value)) in world.pools.iter().zip(pools).enumerate() {
        let mut todos = world.threads.iter().flatten().flat_map(|thread| &thread.todo);
        let is_to_come = pool.retry || todos.any(|todo| todo.creates_for() == Some(n as u8));
        let is_awaited = pool.core.need_more_worker() && !pool.core.is_one_on_the_way();
        assert!(is_to_come || !is_awaited, "(coming): work waits, and nobody creates a worker");
        let works = |worker: &WorkerValue| worker.phase == 2 && !worker.guest;
        let stands_by = |worker: &WorkerValue| worker.phase < 2 && !worker.die && !worker.guest;
        let is_alone = value.workers.iter().any(works) && !value.workers.iter().any(stands_by);
        let is_known = is_to_come || value.is_retried_on_need;
        assert!(is_known || !is_alone, "(standby): some work alone, and nobody tries again");
    }
}

/// Who the core believes was woken is awake: nobody has lost what said so. *(coming)* rests on it.
fn check_woken(world: &World<'_>, pools: &[PoolValue]) {
    for (n, pool) in pools.iter().enumerate() {
        for worker in pool.workers.iter().filter(|worker| worker.woken) {
            let who = Who::Worker(n as u8, worker.id);
            let thread = world.threads.iter().flatten().find(|thread| thread.who == who);
            let is_awake = thread.is_some_and(|thread| thread.token || thread.at != At::Parked);
            assert!(is_awake, "{who:?} was never told that it was woken");
        }
    }
}

/// No more hogs are out of the count in a managed pool than it has CPUs, in scopes where these
/// stay. No scope has a managed queue that is CPU-intensive.
fn check_hogs(pool: &PoolValue, nr_cpus: u32) {
    let is_hog = |worker: &&WorkerValue| worker.cpu_intensive && !worker.sleeping;
    let nr_hogs = pool.workers.iter().filter(is_hog).count();
    assert!(nr_hogs <= nr_cpus as usize, "{nr_hogs} hogs do not count");
}

/// No item is lost: one whose word says that it is queued is on one list of that pool, and nothing
/// else is on a list.
fn check_lists(world: &World<'_>, pools: &[PoolValue]) {
    let mut seen = [0_u8; 64];
    let nr_items = world.scope.items.len();
    let index = |what: Named| match what {
        Named::Item(item) => usize::from(item),
        Named::Barrier(waiter) => nr_items + usize::from(waiter),
    };
    for (n, pool) in pools.iter().enumerate() {
        let scheduled = pool.workers.iter().map(|worker| &worker.scheduled);
        let inactive = pool.pwqs.iter().map(|pwq| &pwq.inactive);
        for entry in scheduled.chain(inactive).chain([&pool.worklist]).flatten() {
            let Listed::Item(addr) = *entry else { continue };
            let what = world.name_of(addr);
            let at = world.items.get(index(what)).word().pwq();
            let is_here = at.is_some_and(|at| at.pool == PoolId(n as u32));
            assert!(is_here, "{what:?} is on a list of pool {n}, and its word says {at:?}");
            seen[index(what)] += 1;
        }
    }
    let mut in_transit = [0_u8; 64];
    for (n, pool) in pools.iter().enumerate() {
        let arrived = pool.arrived.iter().map(|arrived| arrived.0);
        let kept = pool.out.iter().flat_map(|out| &out.items[out.begun as usize..]).copied();
        let pushed = world.pushed(n).iter().map(|pushed| usize::from(pushed.0));
        let all = arrived.chain(kept).map(|addr| index(world.name_of(addr))).chain(pushed);
        for number in all {
            let word = world.items.get(number).word();
            let is_coming = word.is_pending() && !word.is_queued();
            let is_here = is_coming && word.pool() == Some(PoolId(n as u32));
            assert!(is_here, "item {number} is in transit to pool {n}, and its word is {word:?}");
            in_transit[number] += 1;
        }
    }
    for (number, &times) in seen.iter().enumerate().take(nr_items + world.threads.len()) {
        let is_queued = world.items.get(number).word().is_queued();
        assert_eq!(times, u8::from(is_queued), "item {number} is on {times} lists");
        let times = times + in_transit[number];
        if let Some(standing) = world.ledger.items.get(number) {
            assert_eq!(times, u8::from(standing.pending.is_some()), "item {number} was lost");
        }
    }
}
