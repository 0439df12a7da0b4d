//! Which pwqs a queue's slots lead to: making them, replacing them, removing those replaced.
//!
//! A change publishes the new pwq first and then retires the old one under its pool's lock. A
//! thread that queues meanwhile takes the pool's lock before that, and its item is served there, or
//! after it: then the pwq refuses the item, and the thread finds the new pwq. Only unbound and
//! ordered queues have pwqs that change; their pools are never saturated, so the way into a pool
//! without its lock (its inbox) never leads to a retired pwq.
//!
//! Which slots and pwqs that are is said by [`Pwqs`].
//!
//! Why: docs/decisions/pwq-per-cpu.md

use std::mem;

use cmwq_core::{Kick, LockFor, NodeSlots, PoolState, PwqConfig, PwqId, PwqRef, PwqStats, Pwqs};

use super::cpu_pwq::{CpuPwq, Slot, Store};
use super::{Kind, Spec, State, Wq};
use crate::engine::pool::{Pool, Todo};
use crate::engine::runtime::placement::Layout;
use crate::engine::runtime::{Found, PoolKey};
use crate::engine::tools::attrs::Attrs;
use crate::engine::tools::limit::{Memory, NodeCpus};
use crate::os::sync::{Arc, lock};

/// What a queue needs for its pwqs, made with the first one. Lock: WQ.
#[derive(Debug)]
pub(super) struct CpuPwqs {
    /// `None`: the default ones.
    attrs: Option<Attrs>,
    store: Store,
    /// Counters of pwqs that were removed.
    removed: PwqStats,
}

/// What is left to do once WQ is dropped.
#[derive(Debug, Default)]
struct After {
    todos: Vec<(&'static Pool, Todo)>,
    unused: Vec<&'static Pool>,
}

impl CpuPwqs {
    fn new() -> Self {
        Self { attrs: None, store: Store::new(), removed: PwqStats::default() }
    }
}

impl State {
    fn cpu_pwqs(&mut self) -> &mut CpuPwqs {
        self.cpu_pwqs.get_or_insert_with(|| Box::new(CpuPwqs::new()))
    }

    /// Attributes that are not the default ones.
    pub(crate) fn attrs_set(&self) -> Option<Attrs> {
        self.cpu_pwqs.as_ref()?.attrs.clone()
    }

    /// Counters of pwqs that were removed.
    pub(crate) fn removed(&self) -> PwqStats {
        self.cpu_pwqs.as_ref().map_or_else(PwqStats::default, |cpu_pwqs| cpu_pwqs.removed)
    }

    pub(crate) fn count_removed(&mut self, stats: PwqStats) {
        self.cpu_pwqs().removed += stats;
    }
}

impl Wq {
    /// Whether the queue's pwqs can be replaced.
    #[inline]
    pub(crate) fn is_replaceable(&self) -> bool {
        self.spec.kind.is_replaceable()
    }

    /// Whether this pwq was replaced, so that the slot has to be read again. `pool`: the pwq's,
    /// locked.
    #[inline]
    pub(crate) fn is_replaced(&self, cpu_pwq: &CpuPwq, pool: &PoolState) -> bool {
        let leads_here = || {
            let slot = self.slots.get().and_then(|slots| slots.first());
            slot.and_then(Slot::get).is_some_and(|now| std::ptr::eq(now, cpu_pwq))
        };
        self.is_replaceable()
            && pool.is_replaced(cpu_pwq.pwq, self.key, self.spec.kind == Kind::Ordered, leads_here)
    }

    /// Its attributes.
    pub(crate) fn attrs(&self) -> Attrs {
        self.attrs_in(&lock(&self.state))
    }

    fn attrs_in(&self, state: &State) -> Attrs {
        let cpu_pwqs = state.cpu_pwqs.as_ref();
        cpu_pwqs.and_then(|cpu_pwqs| cpu_pwqs.attrs.clone()).unwrap_or_else(|| self.default_attrs())
    }

    pub(crate) fn default_attrs(&self) -> Attrs {
        default_attrs(&self.spec)
    }

    /// Records limits and attributes in the mapping. Under WQ.
    pub(crate) fn record_settings(&self, state: &State) {
        let (max_active, min_active) = (state.limits.max_active(), state.limits.min_active());
        let attrs = self.attrs_in(state);
        let settings = attrs.recorded(max_active, min_active);
        self.mirror.publish(&self.runtime.inspect, &settings);
    }

    /// The attributes of a queue that nothing was queued on yet.
    pub(crate) fn set_first_attrs(&self, attrs: Attrs) {
        let mut state = lock(&self.state);
        state.cpu_pwqs().attrs = Some(attrs);
        self.record_settings(&state);
    }

    // ---- pwqs

    #[cold]
    pub(super) fn make_cpu_pwq<'a>(&'a self, slots: &'a [Slot], index: usize) -> &'a CpuPwq {
        self.make_cpu_pwq_in(&mut lock(&self.state), slots, index)
    }

    /// As [`make_cpu_pwq`](Self::make_cpu_pwq). `None`: the queue has been destroyed, and who would
    /// take the pwq down again?
    #[cold]
    pub(super) fn make_cpu_pwq_unless_gone<'a>(
        &'a self,
        slots: &'a [Slot],
        index: usize,
    ) -> Option<&'a CpuPwq> {
        let mut state = lock(&self.state);
        let is_gone = self.is_going() && state.pwqs.is_empty();
        (!is_gone).then(|| self.make_cpu_pwq_in(&mut state, slots, index))
    }

    fn make_cpu_pwq_in<'a>(
        &'a self,
        state: &mut State,
        slots: &'a [Slot],
        index: usize,
    ) -> &'a CpuPwq {
        if let Some(cpu_pwq) = slots[index].get() {
            return cpu_pwq;
        }
        loop {
            let layout = self.layout(state);
            let key = self.key_behind(state, layout.as_ref(), index);
            let found = self.runtime.pool_by_key(key.clone());
            let found = found.or_else(|| self.pool_in_use(state));
            let found = found.or_else(|| self.runtime.pool_instead(&key));
            let found = found.unwrap_or_else(|| {
                panic!("workqueue '{}' needs a worker pool, and there may be no more", self.name)
            });
            if self.lead(state, (index, &slots[index]), &found, layout.as_ref()) {
                break;
            }
        }
        slots[index].get().expect("it leads somewhere now")
    }

    /// Where an unbound or ordered queue leads.
    fn layout(&self, state: &State) -> Option<Layout> {
        let kind = self.spec.kind;
        self.is_replaceable().then(|| self.runtime.layout(kind, &self.attrs_in(state)))
    }

    fn pool_behind(&self, layout: &Layout, index: usize) -> Option<Found> {
        self.runtime.pool_by_key(layout.key(self.runtime.machine.cpus[index]))
    }

    fn key_behind(&self, state: &State, layout: Option<&Layout>, index: usize) -> PoolKey {
        match layout {
            Some(layout) => layout.key(self.runtime.machine.cpus[index]),
            None => self.runtime.key_for(self.spec, self.attrs_in(state).priority(), index),
        }
    }

    /// A pool that the queue uses already, for when no more pools may be made.
    fn pool_in_use(&self, state: &State) -> Option<Found> {
        let in_use = state.pwqs.in_use().next_back()?;
        self.runtime.pool(in_use.pool).map(Found::now)
    }

    /// Leads a slot to a pool, by a pwq of its own: the CPUs of a pod share workers, but behind
    /// `max_active` each CPU has its turn. KERNEL: `alloc_unbound_pwq` for each CPU — same.
    ///
    /// `false`: the pool was renewed meanwhile, and has to be looked up again.
    fn lead(
        &self,
        state: &mut State,
        (index, slot): (usize, &Slot),
        found: &Found,
        layout: Option<&Layout>,
    ) -> bool {
        let cpu = self.runtime.cpu_of_slot(self.spec.kind, index);
        let Some(pwq) = self.add_pwq(state, found, cpu, layout) else { return false };
        let cpu_pwq = state.cpu_pwqs().store.keep_once(CpuPwq { pool: found.pool, pwq });
        // SAFETY: the store is dropped with the queue, as the slots are.
        unsafe { slot.set(cpu_pwq) };
        true
    }

    fn add_pwq(
        &self,
        state: &mut State,
        found: &Found,
        cpu: Option<u32>,
        layout: Option<&Layout>,
    ) -> Option<PwqId> {
        let pool = found.pool;
        let (spread, is_frozen) = (self.spread_over(state, layout), self.is_frozen());
        let memory = |node| Memory::new(self.runtime.inspect.node(self.key, node));
        // The node is looked up now: when the pool was made, that of a CPU that had never been on
        // was unknown.
        let of = self.runtime.placement.now().node_of(&pool.own_cpus());
        let node = state.nodes.of(&state.limits, of, is_frozen, spread, memory);
        let config = PwqConfig {
            wq: self.key,
            max_active: state.limits.own(is_frozen),
            node: node.map(|node| node as Arc<dyn NodeSlots>),
            cpu_intensive: self.spec.cpu_intensive,
            rescuer: self.spec.mem_reclaim,
            work_color: state.work_color(),
        };
        let is_plugged = state.pwqs.begins_plugged(self.spec.kind == Kind::Ordered);
        let pwq = pool.add_pwq(&found.spec, config, is_plugged, cpu)?;
        state.pwqs.add(PwqRef { pool: pool.id, pwq });
        Some(pwq)
    }

    /// The CPUs over which `max_active` is split, if it is.
    pub(crate) fn spread(&self, state: &State) -> Vec<NodeCpus> {
        // Cutting pods takes time.
        if !state.limits.is_split() {
            return Vec::new();
        }
        self.spread_over(state, self.layout(state).as_ref())
    }

    /// The same, with the layout that the caller has.
    fn spread_over(&self, state: &State, layout: Option<&Layout>) -> Vec<NodeCpus> {
        match layout {
            _ if !state.limits.is_split() => Vec::new(),
            Some(layout) => self.runtime.spread(layout),
            None => self.runtime.managed_spread(),
        }
    }

    // ---- changes

    /// Changes the attributes of an unbound or ordered queue. KERNEL: `apply_workqueue_attrs` —
    /// same.
    pub(crate) fn apply_attrs(&self, attrs: Attrs) {
        debug_assert!(self.is_replaceable());
        self.change(|state| state.cpu_pwqs().attrs = Some(attrs));
    }

    /// Changes some of the attributes, as [`apply_attrs`](Self::apply_attrs) does all. `what` is
    /// called under WQ.
    pub(crate) fn update_attrs(&self, what: impl FnOnce(&mut Attrs)) {
        debug_assert!(self.is_replaceable());
        self.change(|state| {
            let mut attrs = self.attrs_in(state);
            what(&mut attrs);
            state.cpu_pwqs().attrs = Some(attrs);
        });
    }

    /// As [`apply_attrs`](Self::apply_attrs), if they are `before`. `false`: somebody else has
    /// changed them.
    pub(crate) fn replace_attrs(&self, before: &Attrs, attrs: Attrs) -> bool {
        debug_assert!(self.is_replaceable());
        let mut are_before = false;
        self.change(|state| {
            are_before = self.attrs_in(state) == *before;
            if are_before {
                state.cpu_pwqs().attrs = Some(attrs);
            }
        });
        are_before
    }

    /// The process's CPUs, the default scope or the CPUs of unbound queues have changed. KERNEL:
    /// `wq_update_unbound_numa`, `workqueue_apply_unbound_cpumask` — same.
    pub(crate) fn follow_placement(&self) {
        self.change(|_| ());
    }

    fn change(&self, what: impl FnOnce(&mut State)) {
        let mut after = After::default();
        let mut state = lock(&self.state);
        what(&mut state);
        self.record_settings(&state);
        // Without any pwq there is nothing to replace, or the queue was destroyed.
        if !state.pwqs.is_empty()
            && let Some(layout) = self.layout(&state)
        {
            self.relink(&mut state, &layout, &mut after);
        }
        let follow_cpus = state.limits.follow_cpus();
        drop(state);
        self.act(after);
        if follow_cpus {
            self.adjust_max_active();
        }
    }

    /// Leads every slot in use to the pool that `layout` names.
    fn relink(&self, state: &mut State, layout: &Layout, after: &mut After) {
        let Some(slots) = self.slots.get() else { return };
        let mut has_moved = false;
        for (index, slot) in slots.iter().enumerate() {
            let Some(now) = slot.get().map(|cpu_pwq| cpu_pwq.pool.id) else { continue };
            // One after the other: a pool that is found, and has no queue yet, may be renewed.
            while let Some(found) = self.pool_behind(layout, index)
                && Pwqs::moves(now, found.pool.id)
            {
                if !mem::replace(&mut has_moved, true) && self.spec.kind.leaves_runs_behind() {
                    self.runtime.leaves_runs_behind();
                }
                if self.lead(state, (index, slot), &found, Some(layout)) {
                    break;
                }
            }
        }
        if !has_moved {
            return;
        }
        let is_led =
            |at| slots.iter().any(|slot| slot.get().is_some_and(|cpu_pwq| cpu_pwq.at() == at));
        for at in state.pwqs.replaced(is_led) {
            self.retire(state, at, after);
        }
        self.unplug_oldest(state, after);
    }

    fn retire(&self, state: &mut State, at: PwqRef, after: &mut After) {
        let Some(pool) = self.runtime.pool(at.pool) else { return };
        let mut guard = pool.lock(LockFor::Find);
        let is_idle = guard.core.retire_pwq(at.pwq);
        guard.mirror.retire_pwq(at.pwq);
        after.todos.push((pool, pool.unlock_for_later(guard, Kick::None)));
        state.pwqs.retire(at);
        if is_idle {
            self.remove_retired(state, at, after);
        }
    }

    fn remove_retired(&self, state: &mut State, at: PwqRef, after: &mut After) {
        if !self.remove_pwq(state, at) {
            return;
        }
        state.pwqs.remove(at);
        after.unused.extend(self.runtime.pool(at.pool));
    }

    /// The oldest pwq of an ordered queue may start items.
    fn unplug_oldest(&self, state: &State, after: &mut After) {
        let Some(at) = state.pwqs.to_unplug(self.spec.kind == Kind::Ordered) else { return };
        let Some(pool) = self.runtime.pool(at.pool) else { return };
        let mut guard = pool.lock(LockFor::Find);
        let kick = guard.core.unplug_pwq(at.pwq);
        after.todos.push((pool, pool.unlock_for_later(guard, kick)));
    }

    /// A replaced pwq has drained. KERNEL: `pwq_release_workfn` — same.
    #[cold]
    pub(crate) fn release_retired(&self) {
        let mut after = After::default();
        let mut state = lock(&self.state);
        for at in state.pwqs.retired().collect::<Vec<_>>() {
            let Some(pool) = self.runtime.pool(at.pool) else { continue };
            if pool.read(|_, locked| locked.core.has_drained(at.pwq)) {
                self.remove_retired(&mut state, at, &mut after);
            }
        }
        self.unplug_oldest(&state, &mut after);
        drop(state);
        self.act(after);
    }

    fn act(&self, after: After) {
        for (pool, todo) in after.todos {
            pool.act(todo);
        }
        self.runtime.work_waits();
        for pool in after.unused {
            pool.close_if_unused();
        }
    }
}

/// The attributes of a queue that was given none.
pub(super) fn default_attrs(spec: &Spec) -> Attrs {
    let priority = spec.default_priority();
    Attrs { nice: priority.nice, sched: priority.sched, ..Attrs::new() }
}
