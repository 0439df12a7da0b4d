//! The way into a saturated pool without its lock, and batches: in scopes with inboxes.
//!
//! What is done first with a pool's lock depends on what it is taken for ([`LockFor`]). Here an
//! event does so with all pools that it might lock: that it does it with one too many is a history
//! in which somebody else takes that lock just before.

use std::ptr::NonNull;

use cmwq_core::{Kick, LockFor, PoolId, PoolState, PwqId, PwqRef, WorkItem};

use super::{Micro, Named, Pool, Progress, Tid, World};

impl Pool {
    /// The lock is taken.
    pub(super) fn lock(&mut self, what_for: LockFor) -> &mut PoolState {
        if self.has_inbox {
            let kick = self.core.begin_hold(&self.inbox, what_for);
            self.owe(kick);
        }
        &mut self.core
    }

    /// A worker of the pool asks for an item.
    pub(super) fn take_inbox_after_item(&mut self) {
        let kick = self.core.take_inbox_after_item(&self.inbox);
        self.owe(kick);
    }

    /// Keeps the inbox's word on whether pushing is enough.
    pub(super) fn update_saturation(&mut self) {
        let turned = self.core.update_saturation(&self.inbox, self.is_watched, || false);
        self.owe(turned.unwrap_or(Kick::None));
    }

    fn owe(&mut self, kick: Kick) {
        self.kick = self.kick.or(kick);
        if self.inbox.is_empty() {
            self.pushed.clear();
        }
    }
}

impl World<'_> {
    /// The locks are taken.
    pub(crate) fn lock_all(&mut self, what_for: LockFor) {
        for pool in &mut self.pools {
            pool.lock(what_for);
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
        self.pools[usize::from(pool)].lock(LockFor::Inbox);
        self.unlock(tid, pool, Kick::None);
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
