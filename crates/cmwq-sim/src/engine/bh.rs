//! BH contexts: one thread per CPU, which serves that CPU's BH pools as a guest, high priority
//! first.

use cmwq_core::{BhVisit, WorkerId};

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
    /// Of high priority, and normal.
    pub(super) pools: [Option<PoolNo>; 2],
    /// Which of them it looks at next.
    at: usize,
    visit: Option<BhVisit>,
    /// A visit has left work behind.
    is_left: bool,
}

impl Engine<'_> {
    /// Makes a new pool known to its CPU's context, which is created with its first pool.
    pub(super) fn cover_bh(&mut self, pool: PoolNo) {
        let PoolKind::Bh(cpu) = self.pools.list[pool].kind else { return };
        let known = self.contexts.iter().position(|context| context.cpu == cpu);
        let index = known.unwrap_or_else(|| self.make_context(cpu));
        let class = usize::from(!self.pools.list[pool].is_high);
        self.contexts[index].pools[class] = Some(pool);
        self.pools.list[pool].context = Some(index);
        self.count_also(self.contexts[index].tid, pool);
    }

    fn make_context(&mut self, cpu: u32) -> usize {
        let tid = self.machine.spawn(Place::Cpu(cpu), true);
        self.spawn_thread(PoolNo::MAX, WorkerId(0), Mode::Serve(self.contexts.len()));
        self.threads[tid].role = Role::BhContext(self.contexts.len());
        self.threads[tid].is_parked = true;
        let (pools, at, visit, is_left) = ([None; 2], 0, None, false);
        self.contexts.push(Context { cpu, tid, pools, at, visit, is_left });
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
        let claim = self.pools.list[pool].lock_in_turn().guest_next(id, false);
        self.check_pool(pool);
        match claim {
            Some(claim) => self.begin(tid, pool, id, claim),
            None => self.end_bh_visit(tid, index),
        }
    }

    /// Begins a visit to the next pool that has work; after a round that left nothing it sleeps.
    fn look_for_bh(&mut self, tid: Tid, index: usize) -> Turn {
        let context = &mut self.contexts[index];
        let Some(&pool) = context.pools.get(context.at) else {
            context.at = 0;
            let has_token = std::mem::take(&mut self.threads[tid].token);
            if std::mem::take(&mut context.is_left) || has_token {
                return Turn::Again;
            }
            self.threads[tid].is_parked = true;
            return Turn::Off;
        };
        match pool {
            Some(pool) if self.pools.list[pool].lock().work_waits() => {
                context.visit = Some(BhVisit::begin(self.now));
                let id = self.pools.list[pool].lock_in_turn().guest_enter();
                (self.threads[tid].home, self.threads[tid].id) = (pool, id);
            }
            Some(pool) => {
                // No work, or it was taken back. From here on queueing raises the context again.
                context.at += 1;
                self.pools.list[pool].is_watched = false;
                self.check_pool(pool);
            }
            None => context.at += 1,
        }
        Turn::Again
    }

    /// A context has run an item: its visit may be over.
    pub(super) fn bh_item_done(&mut self, tid: Tid, index: usize) -> Turn {
        let (pool, id, now) = (self.threads[tid].home, self.threads[tid].id, self.now);
        let Some(visit) = &mut self.contexts[index].visit else { return Turn::Again };
        if visit.is_over(|| now) && self.pools.list[pool].lock_in_turn().guest_may_leave(id) {
            return self.end_bh_visit(tid, index);
        }
        Turn::Again
    }

    fn end_bh_visit(&mut self, tid: Tid, index: usize) -> Turn {
        let (pool, id) = (self.threads[tid].home, self.threads[tid].id);
        // The kick is for the context, which looks by itself.
        let _ = self.pools.list[pool].lock_in_turn().guest_leave(id);
        let is_left = self.pools.list[pool].read().work_waits();
        self.pools.list[pool].is_watched = is_left;
        // Items that came by the inbox meanwhile raise the context again.
        self.check_pool(pool);
        let context = &mut self.contexts[index];
        (context.visit, context.at) = (None, context.at + 1);
        context.is_left |= is_left;
        Turn::Again
    }
}
