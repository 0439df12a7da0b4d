//! The limit that the pools of one node share.

use core::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

use super::support::{
    Crowd, ItemPtr, Rng, count, free_item, new_item, pwq_config, steps, with_seeds, work,
};
use crate::consts::WQ_DFL_MIN_ACTIVE;
use crate::limit::{Count, Line, NodeCpus, part};
use crate::policy::UNMANAGED;
use crate::{
    Effects, Grab, Kick, Limits, NodeLimit, NodeMemory, NodeSlots, PoolConfig, PoolId, PoolState,
    PwqId, PwqRef, Sharing, Stays,
};

const fn at(pool: u32, pwq: u32) -> PwqRef {
    PwqRef { pool: PoolId(pool), pwq: PwqId(pwq) }
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    counts: [AtomicU64; 3],
    line: Mutex<Line>,
}

impl NodeMemory for Memory {
    fn count(&self, which: Count) -> &AtomicU64 {
        &self.counts[which as usize]
    }

    fn line(&self) -> impl DerefMut<Target = Line> {
        self.line.lock().expect("not poisoned")
    }
}

fn node(max: u32) -> NodeLimit<Memory> {
    NodeLimit::new(max, Memory::default())
}

// ---- the node alone

#[test]
fn a_slot_is_handed_to_whoever_waits_longest() {
    let node = node(1);
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
    let node = node(1);
    assert!(node.try_get(at(0, 0)));
    assert!(!node.try_get(at(1, 0)));
    node.set_max(2);
    assert!(!node.try_get(at(2, 0)), "a slot is free, but pool 1 was first");
    assert_eq!(node.hand_over(), Some(at(1, 0)));
    assert_eq!(node.hand_over(), None);
    node.set_max(3);
    assert_eq!(node.hand_over(), Some(at(2, 0)));
}

#[test]
fn a_lowered_limit_takes_back_slots_as_they_are_returned() {
    let node = node(2);
    assert!(node.try_get(at(0, 0)) && node.try_get(at(0, 1)));
    assert!(!node.try_get(at(1, 0)));
    node.set_max(1);
    assert_eq!(node.put(), None, "two were out and one may be");
    assert_eq!(node.put(), Some(at(1, 0)));
}

#[test]
fn a_slot_may_be_kept_if_nobody_else_waits_and_the_limit_holds() {
    let node = node(2);
    assert!(node.try_get(at(0, 0)) && node.try_get(at(1, 0)));
    assert!(node.may_keep(false, 0));
    node.set_max(1);
    assert!(!node.may_keep(false, 0), "one slot too many is out");
    node.set_max(2);
    assert!(!node.try_get(at(0, 0)));
    assert!(node.may_keep(true, 0), "only pool 0 waits, and pool 0 asks");
    assert!(!node.may_keep(false, 0), "pool 0 waits, and pool 1 asks");
    assert!(!node.try_get(at(1, 0)));
    assert!(!node.may_keep(true, 0));
}

#[test]
fn who_leaves_the_line_gets_no_slot() {
    let node = node(1);
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
    // (max_active, min_active, CPUs of the node, CPUs in all) and clamp(ceil(max * cpus / total),
    // min, max).
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
        // A minimum of 0: who is left behind may still run.
        ((64, 0, 2, 4), 32),
        ((64, 0, 0, 4), 1),
        ((64, 0, 0, 0), 1),
        // The minimum is never more than the maximum.
        ((4, 8, 1, 4), 4),
        ((1, 8, 0, 4), 1),
        ((1, 8, 4, 4), 1),
        // No overflow on the way.
        ((u32::MAX, 8, u32::MAX, u32::MAX), u32::MAX),
    ];
    for ((max, min, cpus, total), share) in table {
        assert_eq!(part(max, min, cpus, total), share, "{max} {min} {cpus}/{total}");
    }
    assert_eq!(WQ_DFL_MIN_ACTIVE, 8);
}

/// Of 16, on two nodes.
const CPUS: [NodeCpus; 2] = [(Some(0), 15), (Some(1), 1)];

#[test]
fn a_node_has_its_part_of_the_cpus_that_the_queue_may_use() {
    let limits = Limits::new(Sharing::Nodes, 100);
    let share = |node, cpus: &[NodeCpus]| limits.share(false, node, cpus.iter().copied());
    let pods = [(Some(0), 6), (Some(0), 6), (Some(1), 4)];
    assert_eq!([Some(0), Some(1), None].map(|node| share(node, &pods)), [75, 25, 100]);
    let masked = [(Some(0), 0), (Some(1), 4)];
    assert_eq!([Some(0), Some(1), None].map(|node| share(node, &masked)), [8, 100, 100]);
    assert_eq!(share(Some(0), &[]), 8, "min_active");
}

#[test]
fn only_limits_that_are_split_follow_the_cpus() {
    let follow = |sharing| Limits::new(sharing, 100).follow_cpus();
    let kinds = [Sharing::Each, Sharing::Fixed, Sharing::Nodes, Sharing::Total(10)];
    assert_eq!(kinds.map(follow), [false, false, true, false]);
    assert_eq!(Limits::new(Sharing::Total(10), 100).share(false, Some(1), CPUS), 10);
}

#[test]
fn a_lowered_limit_takes_the_minimum_with_it_for_good() {
    let mut limits = Limits::new(Sharing::Nodes, 64);
    assert_eq!((limits.min_active(), limits.share(false, Some(1), CPUS)), (8, 8));
    limits.set_max_active(2);
    assert_eq!((limits.min_active(), limits.share(false, Some(1), CPUS)), (2, 2));
    limits.set_max_active(64);
    assert_eq!((limits.min_active(), limits.share(false, Some(1), CPUS)), (2, 4));
    assert_eq!(limits.share(false, None, CPUS), 64, "a pod that lies in no single node");
    assert_eq!(limits.share(true, Some(1), CPUS), 0, "frozen");
}

// ---- pools on a node

#[derive(Debug)]
struct Slots {
    limit: NodeLimit<Memory>,
    /// Whether pools may use a slot again without giving it back first.
    keeps: bool,
}

impl Deref for Slots {
    type Target = NodeLimit<Memory>;

    fn deref(&self) -> &NodeLimit<Memory> {
        &self.limit
    }
}

impl NodeSlots for Slots {
    fn try_get(&self, who: PwqRef) -> bool {
        self.limit.try_get(who)
    }

    fn may_keep(&self, is_waiting: bool, kept: u32) -> bool {
        self.keeps && self.limit.may_keep(is_waiting, kept)
    }

    fn is_exceeded(&self) -> bool {
        self.limit.is_exceeded()
    }

    fn put(&self) -> Option<PwqRef> {
        self.limit.put()
    }

    fn leave(&self, who: PwqRef) -> bool {
        self.limit.leave(who)
    }
}

/// Unmanaged pools with a pwq each on one node, and a driver that acts on every outcome at once.
struct Pools {
    node: Arc<Slots>,
    pools: Vec<Crowd>,
    pwqs: Vec<PwqId>,
}

impl Pools {
    fn new(n: u32, max: u32) -> Self {
        Self::with_keeping(n, max, true)
    }

    fn with_keeping(n: u32, max: u32, keeps: bool) -> Self {
        let node = Arc::new(Slots { limit: node(max), keeps });
        let mut this = Self { node, pools: Vec::new(), pwqs: Vec::new() };
        for id in 0..n {
            let mut pool = Crowd::new(PoolConfig::new(PoolId(id), UNMANAGED));
            let mut config = pwq_config(1, u32::MAX);
            config.node = Some(Arc::clone(&this.node) as Arc<dyn NodeSlots>);
            this.pwqs.push(pool.f.add_pwq(config));
            this.pools.push(pool);
        }
        this
    }

    fn queue(&mut self, pool: usize) -> ItemPtr {
        self.pools[pool].queue(self.pwqs[pool])
    }

    fn grant(&mut self, mut grant: Option<PwqRef>) {
        while let Some(to) = grant {
            let pool = &mut self.pools[to.pool.0 as usize];
            let (kick, next) = pool.f.grant(to.pwq);
            grant = next;
            pool.act(kick);
        }
    }

    /// Finishes a running item without acting on what that demands.
    fn finish_only(&mut self, item: ItemPtr) -> Effects {
        let pool = self.pools.iter_mut().find(|pool| pool.is_running(item)).expect("not running");
        let mut effects = Effects::NONE;
        pool.finish(item, |e| effects = e);
        effects
    }

    fn finish(&mut self, item: ItemPtr) {
        let effects = self.finish_only(item);
        self.grant(effects.grant);
    }

    fn cancel(&mut self, item: ItemPtr) -> Effects {
        let at = work(item).word().pwq().expect("not queued");
        let pool = &mut self.pools[at.pool.0 as usize];
        let (kick, effects) = pool.f.cancel(item);
        pool.act(kick);
        self.grant(effects.grant);
        effects
    }

    fn set_max(&mut self, max: u32) {
        self.node.set_max(max);
        loop {
            let granted = self.node.hand_over();
            let Some(granted) = granted else { return };
            self.grant(Some(granted));
        }
    }

    /// What runs, pool by pool.
    fn running(&self) -> Vec<ItemPtr> {
        self.pools.iter().flat_map(|pool| &pool.busy).map(|&(_, item)| item).collect()
    }

    fn is_running(&self, item: ItemPtr) -> bool {
        self.running().contains(&item)
    }
}

#[test]
fn two_pools_share_the_limit() {
    let mut p = Pools::new(2, 2);
    let [a, b, c, d] = [0, 1, 0, 1].map(|pool| p.queue(pool));
    assert_eq!(p.running(), [a, b]);
    assert_eq!(p.node.nr(), 2);
    p.finish(b);
    assert!(p.is_running(c), "pool 0 waited first, so it gets the slot that pool 1 gave back");
    assert!(!p.is_running(d));
    p.finish(a);
    assert!(p.is_running(d));
    p.finish(c);
    p.finish(d);
    assert_eq!(p.node.nr(), 0);
}

#[test]
fn a_slot_on_its_way_does_not_exceed_a_lowered_limit() {
    let mut p = Pools::new(2, 2);
    let [a, b, c] = [1, 1, 0].map(|pool| p.queue(pool));
    let effects = p.finish_only(a);
    assert_eq!((effects.grant.map(|to| to.pool), p.node.nr()), (Some(PoolId(0)), 2));
    p.set_max(1);
    p.grant(effects.grant);
    assert_eq!(p.running(), [b]);
    p.finish(b);
    assert_eq!(p.running(), [c], "it has stood in line again");
    p.finish(c);
    assert_eq!(p.node.nr(), 0);
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

/// With 192 slots a pool uses three again, and gives the fourth away.
#[test]
#[cfg_attr(miri, ignore = "a quarter of an hour, for so many slots")]
fn a_pool_keeps_a_64th_of_the_slots_in_turn() {
    let mut p = Pools::new(2, 192);
    let here: Vec<_> = (0..300).map(|_| p.queue(0)).collect();
    let there = [(); 2].map(|()| p.queue(1));
    assert_eq!(p.running().len(), 192);
    // Both stand in line, pool 0 first: it is handed every other slot that it gives away itself.
    let mut taken = Vec::new();
    for &item in here.iter().take(16) {
        p.finish(item);
        taken.push(there.iter().filter(|&&item| p.is_running(item)).count());
    }
    assert_eq!(taken, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
    assert_eq!(p.node.nr(), 192);
}

/// Its own limit may be lowered while it has a backlog.
#[test]
fn a_pool_keeps_no_slot_beyond_its_own_limit() {
    let mut p = Pools::new(1, 4);
    let items = [(); 8].map(|()| p.queue(0));
    let pwq = p.pwqs[0];
    let _ = p.pools[0].f.set_max_active(pwq, 1);
    items[..3].iter().for_each(|&item| p.finish(item));
    assert_eq!(p.running(), [items[3]]);
    p.finish(items[3]);
    assert_eq!(p.running(), [items[4]]);
}

#[test]
fn a_slot_comes_back_to_the_same_pool_without_a_detour() {
    let mut p = Pools::new(1, 1);
    let [a, b] = [0, 0].map(|pool| p.queue(pool));
    assert_eq!(p.finish_only(a).grant, None, "no other pool has to be locked");
    assert_eq!(p.running(), [b]);
    p.finish(b);
}

#[test]
fn a_pwq_that_keeps_its_slot_keeps_no_place_in_line() {
    let mut p = Pools::new(2, 1);
    let [a, b] = [0, 0].map(|pool| p.queue(pool));
    p.finish(a);
    assert_eq!(p.running(), [b], "with the slot of the first");
    let [c, d] = [1, 0].map(|pool| p.queue(pool));
    p.finish(b);
    assert_eq!(p.running(), [c], "pool 0 has nothing left of when it waited before");
    p.finish(c);
    p.finish(d);
    assert_eq!(p.node.nr(), 0);
}

#[test]
fn a_slot_for_a_pwq_that_needs_none_any_more_is_passed_on() {
    let mut p = Pools::new(3, 1);
    let [a, b, c] = [0, 1, 2].map(|pool| p.queue(pool));
    assert_eq!(p.running(), [a]);
    // Pool 1 stays in line, but what it waits for is cancelled.
    let _ = p.cancel(b);
    p.finish(a);
    assert_eq!(p.running(), [c], "through pool 1 to pool 2");
    p.finish(c);
    assert_eq!(p.node.nr(), 0, "no slot was lost");
    // And pool 1 can wait again.
    let [a, b] = [0, 1].map(|pool| p.queue(pool));
    p.finish(a);
    p.finish(b);
}

#[test]
fn a_slot_is_passed_on_within_a_pool_too() {
    // Pool 1 has three pwqs on the node; the first two to be granted the slot need none any more.
    let mut p = Pools::new(2, 1);
    let mut config = pwq_config(1, u32::MAX);
    config.node = Some(Arc::clone(&p.node) as Arc<dyn NodeSlots>);
    let more = [(); 2].map(|()| p.pools[1].f.add_pwq(config.clone()));
    let a = p.queue(0);
    let gone = [p.queue(1), p.pools[1].queue(more[0])];
    let last = p.pools[1].queue(more[1]);
    for item in gone {
        let _ = p.cancel(item);
    }
    p.finish(a);
    assert_eq!(p.running(), [last]);
    assert_eq!(p.pools[1].f.pwq_load(more[1]), Some((1, false, true)));

    // The same when the slot comes back to the pool that frees it.
    let gone = [p.queue(1), p.pools[1].queue(more[0])];
    let next = p.queue(0);
    for item in gone {
        let _ = p.cancel(item);
    }
    p.finish(last);
    assert_eq!(p.running(), [next]);
    p.finish(next);
    assert_eq!(p.node.nr(), 0);
}

#[test]
fn a_pwq_in_line_keeps_its_place_when_its_items_change() {
    let mut p = Pools::new(3, 1);
    let [a, b, c] = [0, 1, 2].map(|pool| p.queue(pool));
    let _ = p.cancel(b);
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
    let a = p.queue(0);
    // Nobody is woken for this one, so it stays on the worklist.
    let queued = p.pools[0].f.queue_new(p.pwqs[0]);
    assert!(!work(queued).word().is_inactive());
    let b = p.queue(1);
    assert!(!p.is_running(b), "both slots are taken");
    assert_eq!(p.cancel(queued).grant, Some(at(1, p.pwqs[1].0)));
    assert!(p.is_running(b));
    p.finish(a);
    p.finish(b);
}

#[test]
fn a_removed_pwq_leaves_the_line() {
    // Its place in the line names it; a slot granted to a removed pwq would be lost, and one
    // granted to another in the same place would be given twice.
    let mut p = Pools::new(3, 1);
    let [a, b, c] = [0, 1, 2].map(|pool| p.queue(pool));
    let _ = p.cancel(b);
    assert!(p.pools[1].f.remove_pwq(p.pwqs[1]).is_ok());
    p.finish(a);
    assert_eq!(p.running(), [c]);
    p.finish(c);
    assert_eq!(p.node.nr(), 0);
}

#[test]
fn a_pwq_cannot_be_removed_while_a_slot_is_on_its_way() {
    let mut p = Pools::new(2, 1);
    let [a, b] = [0, 1].map(|pool| p.queue(pool));
    let effects = p.finish_only(a);
    // The driver of pool 0 has not told pool 1 yet, when what the slot is for is cancelled.
    let pwq = p.pwqs[1];
    assert_eq!(effects.grant, Some(at(1, pwq.0)));
    let _ = p.cancel(b);
    assert_eq!(p.pools[1].f.remove_pwq(pwq), Err(Stays::AwaitsSlot));
    p.grant(effects.grant);
    assert_eq!(p.node.nr(), 0, "the slot went there and came back");
    assert!(p.pools[1].f.remove_pwq(pwq).is_ok());
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
    let mut config = pwq_config(1, u32::MAX);
    config.node = Some(Arc::new(Full));
    let pwq = pool.add_pwq(config);
    let item = new_item(count);
    assert!(!work(item).claim().is_pending());
    // SAFETY: taken back before it is freed.
    let grab = unsafe {
        assert_eq!(pool.enqueue(pwq, item), Kick::None);
        pool.try_grab(item)
    };
    assert!(matches!(grab, Grab::Taken(..)));
    assert_eq!(pool.remove_pwq(pwq), Err(Stays::AwaitsSlot));
    assert_eq!(pool.grant(pwq), (Kick::None, None));
    assert!(pool.remove_pwq(pwq).is_ok());
    // SAFETY: it is on no list.
    unsafe { free_item(item) };
}

#[test]
fn raising_the_nodes_limit_starts_those_in_line() {
    let mut p = Pools::new(2, 1);
    let [a, b, c] = [0, 1, 0].map(|pool| p.queue(pool));
    p.set_max(3);
    assert_eq!(p.running(), [a, c, b], "two in pool 0, one in pool 1");
    for item in [a, b, c] {
        p.finish(item);
    }
    assert_eq!(p.node.nr(), 0);
}

#[test]
fn an_idle_item_is_never_queued_in_one_step_on_a_shared_limit() {
    let mut p = Pools::new(1, 1);
    let item = p.pools[0].f.item();
    let seen = work(item).word();
    // SAFETY: freed only after the pools.
    let outcome = unsafe { p.pools[0].f.enqueue_idle(p.pwqs[0], item, seen) };
    assert_eq!(outcome, crate::Enqueued::Changed);
    assert!(!work(item).is_pending());
}

#[test]
fn the_limit_is_kept_and_used_under_random_load() {
    with_seeds(30, |rng| {
        let mut p = Pools::with_keeping(3, 2, rng.percent(50));
        let mut max = 2;
        let mut waiting: Vec<ItemPtr> = Vec::new();
        for _ in 0..steps(400, 50) {
            let before = p.running().len();
            random_step(&mut p, rng, &mut max, &mut waiting);
            waiting.retain(|&item| work(item).is_pending());
            assert!(p.running().len() <= before.max(max), "the limit is kept");
            assert!(p.running().len() >= max.min(p.running().len() + waiting.len()), "and used");
            assert_eq!(p.node.nr() as usize, p.running().len(), "each slot is somebody's");
            for (pool, &pwq) in p.pools.iter().zip(&p.pwqs) {
                let active = pool.f.pwq_load(pwq).expect("the pwq").0;
                assert_eq!(active as usize, pool.busy.len());
            }
        }
        p.set_max(1000);
        while let Some(item) = p.running().first().copied() {
            p.finish(item);
        }
        assert_eq!(p.node.nr(), 0);
    });
}

/// A per-CPU queue may have a limit for all CPUs besides that of each: both are kept, and what they
/// leave is used.
#[test]
fn a_limit_of_its_own_beside_the_shared_one() {
    with_seeds(30, |rng| {
        let (mut p, mut max) = (Pools::with_keeping(3, 3, rng.percent(50)), 3);
        for (pool, &pwq) in p.pools.iter_mut().zip(&p.pwqs) {
            assert_eq!(pool.f.set_max_active(pwq, 2), Kick::None);
        }
        let mut waiting: Vec<ItemPtr> = Vec::new();
        for _ in 0..steps(400, 50) {
            let before = p.running().len();
            random_step(&mut p, rng, &mut max, &mut waiting);
            waiting.retain(|&item| work(item).is_pending());
            assert!(p.running().len() <= before.max(max), "the shared limit is kept");
            let mut useful = 0;
            for (id, pool) in p.pools.iter().enumerate() {
                assert!(pool.busy.len() <= 2, "each one's own is kept");
                let is_here = |item: &&ItemPtr| {
                    work(**item).word().pwq().is_some_and(|at| at.pool.0 as usize == id)
                };
                useful += (pool.busy.len() + waiting.iter().filter(is_here).count()).min(2);
                pool.f.check();
            }
            assert!(p.running().len() >= useful.min(max), "what they leave is used");
            assert_eq!(p.node.nr() as usize, p.running().len(), "each slot is somebody's");
        }
        p.set_max(1000);
        while let Some(item) = p.running().first().copied() {
            p.finish(item);
        }
        assert_eq!(p.node.nr(), 0);
        waiting.retain(|&item| work(item).is_pending());
        assert!(waiting.is_empty(), "all have run");
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
                let _ = p.cancel(item);
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
