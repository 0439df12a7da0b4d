//! A worker that has nothing to do runs items of another pod, as a guest there.
//!
//! Why: docs/decisions/managed-pool-per-cpu.md

use cmwq_core::help::{self, Visit};
use cmwq_core::{Creator, Kick, Lend, LockFor};

use super::Worker;
use crate::engine::pool::Pool;
use crate::engine::threads::current::Context;
use crate::engine::threads::running::As;
use crate::os::clock;

impl Worker {
    /// Helps a pod that has a backlog, while this one has a CPU to spare. `false`: no pod had one.
    pub(super) fn help(&self, context: &Context) -> bool {
        // While a caller computes on the pod's CPU, only the sentinel calls the pod's workers.
        if self.pool.caller_computes() {
            return false;
        }
        let Some(busy) = self.pool.runtime.pool_to_help(self.pool) else { return false };
        if !self.pool.may_help() {
            return false;
        }
        // This may be the one that all rely on to come for an item, so it must not hang.
        let _ = self.pool.ask_for_worker(Creator::Spare);
        let mut own = self.pool.lock(LockFor::Decide);
        let mut lend = own.core.lend(self.id, self.thread.is_unbound());
        if lend == Lend::Rebind {
            self.pool.unlock(own, Kick::None);
            self.pool.rebind(&self.thread);
            own = self.pool.lock(LockFor::Decide);
            lend = own.core.lend(self.id, false);
        }
        let Lend::Lent(seq) = lend else {
            self.pool.unlock(own, Kick::None);
            return false;
        };
        let helper = Helper::begin(seq, own.core.items_wait_first());
        self.thread.meter.charge(&mut own.core);
        self.pool.unlock_lent(own);
        self.serve(context, busy, helper);
        let mut own = self.pool.lock(LockFor::Decide);
        own.core.lend_end(self.id);
        self.pool.unlock(own, Kick::None);
        true
    }

    /// Runs items of another pool as its guest, until there are none or this worker's own pool has
    /// work, or they are so short that it is not worth it.
    fn serve(&self, context: &Context, busy: &'static Pool, mut helper: Helper) {
        let mut guard = busy.lock(LockFor::Decide);
        let guest = guard.core.helper_enter(self.batch.clone());
        let mut visit = Visit::begin(clock::now(), guard.core.nr_started(), busy.has_tick);
        self.thread.set_guest(Some((busy.id, guest)));
        self.thread.mirror.serve(busy.id.0, false);
        let server = self.server(busy, guest, As::Guest);
        while let Some(claim) = guard.core.guest_next(guest, helper.waits_first) {
            guard = server.run_item(guard, &claim, || {
                self.call_first(context, &claim, helper.seq);
                helper.ran = 1;
                if claim.more > 0 {
                    helper.ran += self.run_batch(context, &claim, busy, Some(helper.seq));
                }
                helper.ask_home(self);
            });
            let may_leave = || guard.core.guest_may_leave(guest);
            if visit.is_over(helper.ran, helper.is_wanted, || guard.progress_now(), may_leave) {
                break;
            }
            if visit.stays_alone() && !busy.has_short_items() {
                guard.found_short(busy);
            }
        }
        self.thread.meter.charge(&mut guard.core);
        self.thread.set_guest(None);
        self.thread.mirror.serve(self.pool.id.0, true);
        let is_short = visit.finds_short(clock::now(), guard.core.work_waits());
        if is_short {
            guard.found_short(busy);
        } else if visit.leaves_nobody() {
            guard.found_long(busy);
        }
        let kick = guard.core.guest_leave(guest);
        busy.unlock(guard, kick);
        if is_short {
            busy.runtime.service.wake_now();
        }
    }

    pub(super) fn helper_may_begin_next(&self) -> bool {
        let own = self.pool;
        let (is_crowded, is_empty) = (own.is_crowded(), own.inbox.is_empty());
        let was_blocked = self.thread.was_blocked();
        let (has_backlog, caller) = (|| own.wants_help(), || own.caller_computes());
        help::may_begin_next(was_blocked, is_crowded, is_empty, has_backlog, caller)
    }
}

/// A worker that helps another pool, as its own pool knows of it.
struct Helper {
    /// The run that it is in there.
    seq: u64,
    /// What its own pool expects of items: they wait first.
    waits_first: bool,
    /// Its own pool wants it back.
    is_wanted: bool,
    /// Items that it ran for the last claim.
    ran: u32,
}

impl Helper {
    fn begin(seq: u64, waits_first: bool) -> Self {
        Self { seq, waits_first, is_wanted: false, ran: 0 }
    }

    /// Between two claims. Caller holds no core lock.
    #[inline(always)]
    fn ask_home(&mut self, worker: &Worker) {
        let pool = worker.pool;
        let mut own = pool.lock(LockFor::Decide);
        self.seq = own.core.lend_again(worker.id);
        self.is_wanted = own.core.wants_back(|| pool.caller_computes());
        self.waits_first = own.core.items_wait_first();
        own.note_crowd(pool);
        pool.unlock(own, Kick::None);
    }
}
