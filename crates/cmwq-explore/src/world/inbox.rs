//! The way into a saturated pool without its lock, and batches: in scopes with inboxes.
//!
//! Whoever takes a pool's lock calls its batch back and empties its inbox, but for those who only
//! queue, and a worker behind its own item. Here an event does so with all pools that it might
//! lock: that it does it with one too many is a history in which somebody else takes that lock just
//! before.

use std::ptr::NonNull;

use cmwq_core::{Kick, PoolId, PwqId, PwqRef, WorkItem};

use super::{Micro, Named, Pool, Progress, Tid, World};

impl Pool {
    /// Queues what is in the inbox.
    pub(super) fn empty_inbox(&mut self) {
        let kick = self.core.empty_inbox(&self.inbox);
        self.kick = self.kick.or(kick);
        self.pushed.clear();
    }

    /// As [`empty_inbox`](Self::empty_inbox), but leaves it to the worker that runs, if there is
    /// one.
    pub(super) fn take_inbox(&mut self) -> Kick {
        let kick = self.core.take_inbox(&self.inbox);
        self.pushed.clear();
        match kick {
            Some(kick) => self.kick = self.kick.or(kick),
            None => return Kick::Watch,
        }
        Kick::None
    }

    /// Keeps the inbox's word on whether pushing is enough.
    pub(super) fn update_saturation(&mut self) {
        let is_saturated = self.has_inbox && self.core.is_saturated(self.is_watched, || false);
        if is_saturated == self.inbox.is_saturated() {
            return;
        }
        if is_saturated {
            self.inbox.saturate();
        } else {
            self.inbox.desaturate();
            self.empty_inbox();
        }
    }
}

impl World<'_> {
    /// The locks are taken, for anything but queueing.
    pub(crate) fn catch_up(&mut self) {
        for pool in self.pools.iter_mut().filter(|pool| pool.has_inbox) {
            pool.empty_inbox();
            pool.core.catch_up();
        }
    }

    /// The locks are taken to queue.
    pub(super) fn catch_up_to_queue(&mut self) {
        for pool in self.pools.iter_mut().filter(|pool| pool.has_inbox) {
            pool.empty_inbox();
        }
    }

    /// The locks are taken by workers, and to report: of the items for which a running worker comes
    /// only the first is listed.
    pub(crate) fn catch_up_to_first(&mut self) {
        for pool in self.pools.iter_mut().filter(|pool| pool.has_inbox) {
            if !pool.inbox.is_empty() {
                let kick = pool.take_inbox();
                pool.kick = pool.kick.or(kick);
            }
            pool.core.catch_up_to_first();
        }
    }

    /// The locks are dropped.
    pub(crate) fn drop_locks(&mut self, tid: Tid) {
        for pool in 0..self.pools.len() {
            if self.pools[pool].kick != Kick::None {
                self.unlock(tid, pool as u8, Kick::None);
            }
        }
    }

    /// Pushes an item into a pool's inbox. Its PENDING is the caller's.
    pub(super) fn push(&mut self, tid: Tid, (item, queue): (u8, u8), at: PwqRef) -> Progress {
        let pointer: NonNull<WorkItem> = self.items.pointer(usize::from(item));
        self.ledger.queue(item, queue, at);
        let pool = &mut self.pools[at.pool.0 as usize];
        pool.pushed.push((item, at.pwq));
        // SAFETY: claimed for this pool; items stay as long as the world.
        if unsafe { pool.inbox.push(pointer, at.pwq) } {
            return self.done(tid);
        }
        self.goes_on(tid, Micro::Relieves(at.pool.0 as u8))
    }

    /// Pushing was not enough.
    pub(super) fn relieve(&mut self, tid: Tid, pool: u8) -> Progress {
        let kick = self.pools[usize::from(pool)].take_inbox();
        self.unlock(tid, pool, kick);
        self.done(tid)
    }

    /// Behind its item, a worker begins the next one of its batch. `false`: there is none, or it
    /// was called back.
    pub(super) fn begin_next(&mut self, tid: Tid) -> bool {
        let thread = self.thread(tid);
        let (Some(run), Some(more)) = (thread.run, thread.more.checked_sub(1)) else {
            return false;
        };
        thread.more = more;
        let core = &self.pools[usize::from(run.pool)].core;
        let batch = core.batch_for(run.id).expect("a claim of more than one, and no batch");
        // SAFETY: the worker's own, and as often as its claim says.
        let begun = unsafe { batch.begin(core.id()) };
        let Some((item, _)) = begun else {
            self.thread(tid).more = 0;
            return false;
        };
        let what = self.name_of(item as usize);
        assert!(matches!(what, Named::Item(_)), "{what:?} is in a batch");
        self.ledger.end(run.what);
        self.ledger.start(what, PwqRef { pool: PoolId(run.pool.into()), pwq: run.at });
        let thread = self.thread(tid);
        thread.run = Some(super::Run { what, ..run });
        thread.exec = super::Exec::default();
        true
    }

    /// What is in transit to a pool, and by which pwq.
    pub(crate) fn pushed(&self, pool: usize) -> &[(u8, PwqId)] {
        &self.pools[pool].pushed
    }
}
