//! The limit that the pools of one node share.

use std::boxed::Box;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

use super::support::{
    ItemPtr, Rng, count, free_item, new_item, pwq_config, steps, with_seeds, work,
};
use crate::consts::WQ_DFL_MIN_ACTIVE;
use crate::policy::UNMANAGED;
use crate::{
    Effects, Grab, Kick, Next, NodeSlots, NodeState, PoolConfig, PoolId, PoolState, PwqId, PwqRef,
    WorkerId,
};

const fn at(pool: u32, pwq: u32) -> PwqRef {
    PwqRef { pool: PoolId(pool), pwq: PwqId(pwq) }
}

// ---- the node alone ------------------------------------------------------------------------------------

#[test]
fn a_slot_is_handed_to_whoever_waits_longest() {
    let mut node = NodeState::new(1);
    assert!(node.try_get(at(0, 0)));
    assert!(!node.try_get(at(1, 0)));
    assert!(!node.try_get(at(2, 0)));
    assert_eq!((node.nr(), node.max()), (1, 1));
    assert_eq!(node.put(), Some(at(1, 0)));
    assert_eq!(node.nr(), 1, "the slot changed hands, it was not free in between");
    assert_eq!(node.put(), Some(at(2, 0)));
    assert_eq!(node.put(), None);
    assert_eq!(node.nr(), 0);
}

#[test]
fn nobody_jumps_the_queue() {
    let mut node = NodeState::new(1);
    assert!(node.try_get(at(0, 0)));
    assert!(!node.try_get(at(1, 0)));
    node.set_max(2);
    assert!(!node.try_get(at(2, 0)), "a slot is free, but pool 1 was first");
    assert_eq!(node.next_granted(), Some(at(1, 0)));
    assert_eq!(node.next_granted(), None);
    node.set_max(3);
    assert_eq!(node.next_granted(), Some(at(2, 0)));
}

#[test]
fn a_lowered_limit_takes_back_slots_as_they_are_returned() {
    let mut node = NodeState::new(2);
    assert!(node.try_get(at(0, 0)) && node.try_get(at(0, 1)));
    assert!(!node.try_get(at(1, 0)));
    node.set_max(1);
    assert_eq!(node.put(), None, "two were out and one may be");
    assert_eq!(node.put(), Some(at(1, 0)));
}

#[test]
fn who_leaves_the_line_gets_no_slot() {
    let mut node = NodeState::new(1);
    assert!(node.try_get(at(0, 0)));
    assert!(!node.try_get(at(1, 0)));
    assert!(!node.try_get(at(2, 0)));
    assert!(node.leave(at(1, 0)));
    assert!(!node.leave(at(1, 0)), "it is not in line any more");
    assert_eq!(node.put(), Some(at(2, 0)));
    assert!(!node.leave(at(2, 0)), "it has the slot already");
}

#[test]
fn the_share_of_a_node_is_proportional_within_bounds() {
    // (max_active, min_active, CPUs of the node, CPUs in all) and clamp(ceil(max * cpus / total), min, max).
    let table = [
        ((16, 8, 2, 4), 8),
        ((64, 8, 2, 4), 32),
        ((64, 8, 3, 4), 48),
        ((10, 1, 1, 3), 4),
        ((1024, 8, 1, 1024), 8),
        ((1024, 8, 9, 1024), 9),
        ((2048, 8, 1, 1), 2048),
        // No CPU of the node, or none at all, is effective: the minimum.
        ((64, 8, 0, 4), 8),
        ((64, 8, 0, 0), 8),
        // The minimum is never more than the maximum.
        ((4, 8, 1, 4), 4),
        ((1, 8, 0, 4), 1),
        ((1, 8, 4, 4), 1),
        // No overflow on the way.
        ((u32::MAX, 8, u32::MAX, u32::MAX), u32::MAX),
    ];
    for ((max, min, cpus, total), share) in table {
        assert_eq!(NodeState::share(max, min, cpus, total), share, "{max} {min} {cpus}/{total}");
    }
    assert_eq!(WQ_DFL_MIN_ACTIVE, 8);
}

// ---- pools on a node -----------------------------------------------------------------------------------

#[derive(Debug)]
struct Shared(Mutex<NodeState>);

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, NodeState> {
        self.0.lock().expect("not poisoned")
    }
}

impl NodeSlots for Shared {
    fn try_get(&self, who: PwqRef) -> bool {
        self.state().try_get(who)
    }

    fn put(&self) -> Option<PwqRef> {
        self.state().put()
    }

    fn leave(&self, who: PwqRef) -> bool {
        self.state().leave(who)
    }
}

/// Unmanaged pools with a pwq each on one node, and a driver that acts on every outcome at once.
struct Pools {
    node: Arc<Shared>,
    pools: Vec<PoolState>,
    pwqs: Vec<PwqId>,
    items: Vec<ItemPtr>,
    /// Who runs which item.
    busy: Vec<(usize, WorkerId, ItemPtr)>,
}

impl Pools {
    fn new(n: u32, max: u32) -> Box<Self> {
        let node = Arc::new(Shared(Mutex::new(NodeState::new(max))));
        let mut this =
            Self { node, pools: Vec::new(), pwqs: Vec::new(), items: Vec::new(), busy: Vec::new() };
        for id in 0..n {
            let mut pool = PoolState::new(PoolConfig::new(PoolId(id), UNMANAGED));
            let mut config = pwq_config(1, 0);
            config.node = Some(Arc::clone(&this.node) as Arc<dyn NodeSlots>);
            this.pwqs.push(pool.add_pwq(config));
            let worker = pool.worker_new();
            let _ = pool.worker_created(worker, None, 0);
            this.pools.push(pool);
        }
        Box::new(this)
    }

    fn queue(&mut self, pool: usize) -> ItemPtr {
        let item = new_item(count);
        self.items.push(item);
        assert!(!work(item).claim().is_pending());
        // SAFETY: freed only after the pools.
        let kick = unsafe { self.pools[pool].enqueue(self.pwqs[pool], item) };
        self.act(pool, kick);
        item
    }

    fn act(&mut self, pool: usize, kick: Kick) {
        self.pools[pool].check();
        if let Kick::Wake(id) = kick {
            self.look(pool, id);
        }
    }

    fn look(&mut self, pool: usize, id: WorkerId) {
        match self.pools[pool].next(id, || 0) {
            Next::Run(claim) => {
                let item = ItemPtr::new(claim.item).expect("an item");
                self.busy.push((pool, id, item));
                self.act(pool, claim.kick);
            }
            Next::Manage => {
                let new = self.pools[pool].worker_new();
                let kick = self.pools[pool].worker_created(new, Some(id), 0);
                self.look(pool, id);
                self.act(pool, kick);
            }
            Next::Sleep { .. } | Next::Exit => {}
        }
    }

    fn grant(&mut self, mut grant: Option<PwqRef>) {
        while let Some(to) = grant {
            let pool = to.pool.0 as usize;
            let effects = self.pools[pool].grant(to.pwq);
            grant = effects.grant;
            self.act(pool, effects.kick);
        }
    }

    fn finish(&mut self, item: ItemPtr) {
        let at = self.busy.iter().position(|&(_, _, i)| i == item).expect("not running");
        let (pool, id, _) = self.busy.swap_remove(at);
        let effects = self.pools[pool].finish(id);
        self.grant(effects.grant);
        self.look(pool, id);
        self.pools[pool].check();
    }

    fn cancel(&mut self, item: ItemPtr) -> Option<Effects> {
        for pool in 0..self.pools.len() {
            // SAFETY: not freed yet.
            let Grab::Taken(effects) = (unsafe { self.pools[pool].try_grab(item) }) else {
                continue;
            };
            work(item).publish_idle(work(item).word().with_pending(false));
            self.grant(effects.grant);
            self.act(pool, effects.kick);
            return Some(effects);
        }
        None
    }

    fn set_max(&mut self, max: u32) {
        self.node.state().set_max(max);
        loop {
            let granted = self.node.state().next_granted();
            let Some(granted) = granted else { return };
            self.grant(Some(granted));
        }
    }

    fn running(&self) -> Vec<ItemPtr> {
        self.busy.iter().map(|&(_, _, item)| item).collect()
    }

    fn is_running(&self, item: ItemPtr) -> bool {
        self.busy.iter().any(|&(_, _, i)| i == item)
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        if std::thread::panicking() {
            core::mem::take(&mut self.pools).into_iter().for_each(core::mem::forget);
            return;
        }
        assert!(self.pools.iter().all(|pool| !pool.work_waits()), "items were left behind");
        self.pools.clear();
        for &item in &self.items {
            // SAFETY: the pools are gone.
            unsafe { free_item(item) };
        }
    }
}

#[test]
fn two_pools_share_the_limit() {
    let mut p = Pools::new(2, 2);
    let [a, b, c, d] = [0, 1, 0, 1].map(|pool| p.queue(pool));
    assert_eq!(p.running(), [a, b]);
    assert_eq!(p.node.state().nr(), 2);
    p.finish(b);
    assert!(p.is_running(c), "pool 0 waited first, so it gets the slot that pool 1 gave back");
    assert!(!p.is_running(d));
    p.finish(a);
    assert!(p.is_running(d));
    p.finish(c);
    p.finish(d);
    assert_eq!(p.node.state().nr(), 0);
}

#[test]
fn waiting_pools_take_turns() {
    let mut p = Pools::new(2, 1);
    let a = [(); 3].map(|()| p.queue(0));
    let b = [(); 3].map(|()| p.queue(1));
    for item in [a[0], a[1], b[0], a[2], b[1], b[2]] {
        assert_eq!(p.running(), [item]);
        p.finish(item);
    }
    assert!(p.running().is_empty());
}

#[test]
fn a_slot_comes_back_to_the_same_pool_without_a_detour() {
    let mut p = Pools::new(1, 1);
    let [a, b] = [0, 0].map(|pool| p.queue(pool));
    let (pool, id, _) = p.busy.pop().expect("a runs");
    assert!(p.pools[pool].is_executing(work(a)));
    let effects = p.pools[pool].finish(id);
    assert_eq!(effects.grant, None, "no other pool has to be locked");
    p.look(pool, id);
    assert_eq!(p.running(), [b]);
    p.finish(b);
}

#[test]
fn a_slot_for_a_pwq_that_needs_none_any_more_is_passed_on() {
    let mut p = Pools::new(3, 1);
    let [a, b, c] = [0, 1, 2].map(|pool| p.queue(pool));
    assert_eq!(p.running(), [a]);
    // Pool 1 stays in line, but what it waits for is cancelled.
    assert!(p.cancel(b).is_some());
    p.finish(a);
    assert_eq!(p.running(), [c], "through pool 1 to pool 2");
    p.finish(c);
    assert_eq!(p.node.state().nr(), 0, "no slot was lost");
    // And pool 1 can wait again.
    let [a, b] = [0, 1].map(|pool| p.queue(pool));
    p.finish(a);
    p.finish(b);
}

#[test]
fn a_pwq_in_line_keeps_its_place_when_its_items_change() {
    let mut p = Pools::new(3, 1);
    let [a, b, c] = [0, 1, 2].map(|pool| p.queue(pool));
    assert!(p.cancel(b).is_some());
    let late = p.queue(1);
    assert!(work(late).word().is_inactive());
    p.finish(a);
    assert_eq!(p.running(), [late], "pool 1 was before pool 2");
    p.finish(late);
    p.finish(c);
}

#[test]
fn cancelling_an_active_item_hands_its_slot_over() {
    let mut p = Pools::new(2, 2);
    // Pool 0's only worker may not start a second item at once here, so keep one unstarted.
    let a = p.queue(0);
    let queued = new_item(count);
    p.items.push(queued);
    assert!(!work(queued).claim().is_pending());
    // SAFETY: freed only after the pools. Nobody is woken: it stays on the worklist.
    let _ = unsafe { p.pools[0].enqueue(p.pwqs[0], queued) };
    assert!(!work(queued).word().is_inactive());
    let b = p.queue(1);
    assert!(!p.is_running(b), "both slots are taken");
    let effects = p.cancel(queued).expect("it was queued");
    assert_eq!(effects.grant, Some(at(1, p.pwqs[1].0)));
    assert!(p.is_running(b));
    p.finish(a);
    p.finish(b);
}

#[test]
fn a_removed_pwq_leaves_the_line() {
    // Its place in the line names it; a slot granted to a removed pwq would be lost, and one granted to
    // another in the same place would be given twice.
    let mut p = Pools::new(3, 1);
    let [a, b, c] = [0, 1, 2].map(|pool| p.queue(pool));
    assert!(p.cancel(b).is_some());
    assert!(p.pools[1].remove_pwq(p.pwqs[1]).is_some());
    p.finish(a);
    assert_eq!(p.running(), [c]);
    p.finish(c);
    assert_eq!(p.node.state().nr(), 0);
}

#[test]
fn a_pwq_cannot_be_removed_while_a_slot_is_on_its_way() {
    let mut p = Pools::new(2, 1);
    let [a, b] = [0, 1].map(|pool| p.queue(pool));
    let (_, id, _) = p.busy.pop().expect("a runs");
    assert!(p.pools[0].is_executing(work(a)));
    let effects = p.pools[0].finish(id);
    p.look(0, id);
    // The driver of pool 0 has not told pool 1 yet, when what the slot is for is cancelled.
    let pwq = p.pwqs[1];
    assert_eq!(effects.grant, Some(at(1, pwq.0)));
    assert!(p.cancel(b).is_some());
    assert_eq!(p.pools[1].remove_pwq(pwq), None);
    p.grant(effects.grant);
    assert_eq!(p.node.state().nr(), 0, "the slot went there and came back");
    assert!(p.pools[1].remove_pwq(pwq).is_some());
}

#[test]
fn a_limit_that_keeps_no_line_keeps_the_pwq() {
    #[derive(Debug)]
    struct Full;
    impl NodeSlots for Full {
        fn try_get(&self, _: PwqRef) -> bool {
            false
        }
        fn put(&self) -> Option<PwqRef> {
            None
        }
    }
    let mut pool = PoolState::new(PoolConfig::new(PoolId(0), UNMANAGED));
    let mut config = pwq_config(1, 0);
    config.node = Some(Arc::new(Full));
    let pwq = pool.add_pwq(config);
    let item = new_item(count);
    assert!(!work(item).claim().is_pending());
    // SAFETY: taken back before it is freed.
    let grab = unsafe {
        assert_eq!(pool.enqueue(pwq, item), Kick::None);
        pool.try_grab(item)
    };
    assert!(matches!(grab, Grab::Taken(_)));
    assert_eq!(pool.remove_pwq(pwq), None);
    assert_eq!(pool.grant(pwq), Effects::NONE);
    assert!(pool.remove_pwq(pwq).is_some());
    // SAFETY: it is on no list.
    unsafe { free_item(item) };
}

#[test]
fn raising_the_nodes_limit_starts_those_in_line() {
    let mut p = Pools::new(2, 1);
    let [a, b, c] = [0, 1, 0].map(|pool| p.queue(pool));
    p.set_max(3);
    assert_eq!(p.running(), [a, b, c]);
    for item in [a, b, c] {
        p.finish(item);
    }
    assert_eq!(p.node.state().nr(), 0);
}

#[test]
fn an_idle_item_is_never_queued_in_one_step_on_a_shared_limit() {
    let mut p = Pools::new(1, 1);
    let item = new_item(count);
    p.items.push(item);
    let seen = work(item).word();
    // SAFETY: freed only after the pools.
    let outcome = unsafe { p.pools[0].enqueue_idle(p.pwqs[0], item, seen) };
    assert_eq!(outcome, crate::Enqueued::Changed);
    assert!(!work(item).is_pending());
}

#[test]
fn the_limit_is_kept_and_used_under_random_load() {
    with_seeds(30, |rng| {
        let mut p = Pools::new(3, 2);
        let mut max = 2;
        let mut waiting: Vec<ItemPtr> = Vec::new();
        for _ in 0..steps(400, 50) {
            let before = p.busy.len();
            random_step(&mut p, rng, &mut max, &mut waiting);
            waiting.retain(|&item| work(item).is_pending());
            assert!(p.busy.len() <= before.max(max), "the limit is kept");
            assert!(p.busy.len() >= max.min(p.busy.len() + waiting.len()), "and used");
            assert_eq!(p.node.state().nr() as usize, p.busy.len(), "each slot is somebody's");
        }
        p.set_max(1000);
        while let Some(item) = p.running().first().copied() {
            p.finish(item);
        }
        assert_eq!(p.node.state().nr(), 0);
    });
}

fn random_step(p: &mut Pools, rng: &mut Rng, max: &mut usize, waiting: &mut Vec<ItemPtr>) {
    match rng.below(10) {
        0 => {
            *max = 1 + rng.below(4);
            p.set_max(*max as u32);
        }
        1 => {
            if let Some(item) = rng.pick(waiting) {
                assert!(p.cancel(item).is_some());
            }
        }
        2..=5 => {
            let item = p.queue(rng.below(3));
            waiting.push(item);
        }
        _ => {
            if let Some(item) = rng.pick(&p.running()) {
                p.finish(item);
            }
        }
    }
}
