//! BH contexts: one thread per CPU, which serves that CPU's BH pools as a guest, high priority
//! first.

use cmwq_core::{BhNext, BhRound, BhVisit, LockFor, WorkerId};

use super::working::Turn;
use super::{Engine, Mode, Role};
use crate::event::PoolNo;
use crate::machine::{Place, Tid};
use crate::places::PoolKind;

/// What serves a CPU's BH pools.
#[derive(Debug)]
pub(super) struct Context {
    cpu: u32,
    tid: Tid,
    /// By their [place](BhRound::place).
    pub(super) pools: [Option<PoolNo>; BhRound::NR_POOLS],
    round: BhRound,
    visit: Option<BhVisit>,
}

impl Engine<'_> {
    /// Makes a new pool known to its CPU's context, which is created with its first pool.
    pub(super) fn cover_bh(&mut self, pool: PoolNo) {
        let PoolKind::Bh(cpu) = self.pools.list[pool].kind else { return };
        let known = self.contexts.iter().position(|context| context.cpu == cpu);
        let index = known.unwrap_or_else(|| self.make_context(cpu));
        let place = BhRound::place(self.pools.list[pool].is_high);
        self.contexts[index].pools[place] = Some(pool);
        self.pools.list[pool].context = Some(index);
        self.count_also(self.contexts[index].tid, pool);
    }

    fn make_context(&mut self, cpu: u32) -> usize {
        let tid = self.machine.spawn(Place::Cpu(cpu), true);
        self.spawn_thread(PoolNo::MAX, WorkerId(0), Mode::Serve(self.contexts.len()));
        self.threads[tid].role = Role::BhContext(self.contexts.len());
        self.threads[tid].is_parked = true;
        let (pools, round, visit) = (Default::default(), BhRound::begin(), None);
        self.contexts.push(Context { cpu, tid, pools, round, visit });
        self.contexts.len() - 1
    }

    /// An item was queued at a BH pool: wakes the pool's context, unless it knows.
    pub(super) fn raise(&mut self, pool: PoolNo, context: usize) {
        if !std::mem::replace(&mut self.pools.list[pool].is_watched, true) {
            self.unpark(self.contexts[context].tid);
            self.update_pool(pool);
        }
    }

    /// What a context does next.
    pub(super) fn serve(&mut self, tid: Tid, index: usize) -> Turn {
        let pool = self.threads[tid].home;
        if self.contexts[index].visit.is_none() {
            return self.look_for_bh(tid, index);
        }
        let id = self.threads[tid].id;
        let claim = self.pools.list[pool].lock(LockFor::NextItem).guest_next(id, false);
        self.check_pool(pool);
        match claim {
            Some(claim) => self.begin(tid, pool, id, claim),
            None => self.end_bh_visit(tid, index),
        }
    }

    /// Begins a visit to the next pool that has work; after a round that left nothing it sleeps.
    fn look_for_bh(&mut self, tid: Tid, index: usize) -> Turn {
        let context = &mut self.contexts[index];
        let next = context.round.next();
        if let BhNext::Look(place) = next {
            match context.pools[place] {
                Some(pool) if self.pools.list[pool].lock(LockFor::Find).work_waits() => {
                    context.visit = Some(BhVisit::begin(self.now));
                    let id = self.pools.list[pool].lock(LockFor::NextItem).guest_enter();
                    (self.threads[tid].home, self.threads[tid].id) = (pool, id);
                }
                // No work, or it was taken back.
                Some(pool) => self.leave_bh_pool(pool, index),
                None => {}
            }
            return Turn::Again;
        }
        let has_token = std::mem::take(&mut self.threads[tid].token);
        if next == BhNext::Again || has_token {
            return Turn::Again;
        }
        self.threads[tid].is_parked = true;
        Turn::Off
    }

    fn leave_bh_pool(&mut self, pool: PoolNo, index: usize) {
        let work_waits = self.pools.list[pool].read().work_waits();
        // Items that came by the inbox meanwhile raise the context again.
        self.pools.list[pool].is_watched = self.contexts[index].round.leaves(work_waits);
        self.check_pool(pool);
    }

    /// A context has run an item: its visit may be over.
    pub(super) fn bh_item_done(&mut self, tid: Tid, index: usize) -> Turn {
        let (pool, id, now) = (self.threads[tid].home, self.threads[tid].id, self.now);
        let Some(visit) = &mut self.contexts[index].visit else { return Turn::Again };
        let core = self.pools.list[pool].lock(LockFor::NextItem);
        if visit.is_over(|| now, || core.guest_may_leave(id)) {
            return self.end_bh_visit(tid, index);
        }
        Turn::Again
    }

    fn end_bh_visit(&mut self, tid: Tid, index: usize) -> Turn {
        let (pool, id) = (self.threads[tid].home, self.threads[tid].id);
        // The kick is for the context, which looks by itself.
        let _ = self.pools.list[pool].lock(LockFor::NextItem).guest_leave(id);
        self.contexts[index].visit = None;
        self.leave_bh_pool(pool, index);
        Turn::Again
    }
}
