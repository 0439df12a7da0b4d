//! A pool of a run, with its lock.
//!
//! A simulation is one thread, so nobody ever waits for a lock. But what the runtime does wherever
//! it takes one is done here, too, by the same functions of the core: whoever asks the core for
//! something says what it would have locked the pool for.

use cmwq_core::help::board::Entry;
use cmwq_core::help::{Facts, Progress};
use cmwq_core::{Inbox, Kick, MaydayTimer, PoolConfig, PoolState, Reading, WorkerId};

use super::PoolKind;
use crate::Nanos;
use crate::grown::grown;
use crate::machine::Tid;

/// A pool and the driver's books about it.
#[derive(Debug)]
pub(crate) struct Pool {
    core: PoolState,
    /// The way in without the lock.
    pub(crate) inbox: Inbox,
    /// What emptying the inbox demanded; acted on when the lock is dropped.
    owed: Kick,
    pub(crate) kind: PoolKind,
    pub(crate) is_high: bool,
    /// The threads of its own workers, by worker id.
    threads: Vec<Option<Tid>>,
    /// Work waits that may not start now, and detectors know.
    pub(crate) is_watched: bool,
    /// A worker waits for a process that waits, and nobody has looked at it.
    pub(crate) has_unseen: bool,
    /// Its items are too short for others to help, and how far it had come when that was found.
    pub(crate) has_short_items: bool,
    pub(crate) measured: Progress,
    /// A BH pool's context.
    pub(crate) context: Option<usize>,
    /// Whether it helps other pods.
    pub(crate) may_help: bool,
    /// A thread outside of the pools computes on its CPU. Set only while the CPU's sentinel would
    /// report that it does not any more.
    pub(crate) caller_computes: bool,
    /// On the tick's list.
    pub(crate) is_ticking: bool,
    pub(crate) cull_planned: Option<Nanos>,
    pub(crate) mayday: MaydayTimer,
    /// Calls of the core since its invariants were last checked.
    pub(crate) calls_unchecked: u32,
    /// Items on its lists, and pwqs: what a check of its invariants walks.
    pub(crate) nr_listed: u32,
}

impl Pool {
    pub(crate) fn new(config: PoolConfig, kind: PoolKind, is_high: bool) -> Self {
        Self {
            core: PoolState::new(config),
            inbox: Inbox::new(),
            owed: Kick::None,
            kind,
            is_high,
            threads: Vec::new(),
            is_watched: false,
            has_unseen: false,
            has_short_items: false,
            measured: Progress { at: 0, started: 0 },
            context: None,
            may_help: true,
            caller_computes: false,
            is_ticking: false,
            cull_planned: None,
            mayday: MaydayTimer::default(),
            calls_unchecked: 0,
            nr_listed: 0,
        }
    }

    // ---- the lock, as the runtime's `Pool`

    /// Without the lock: a hint, unless the lock is held already.
    pub(crate) fn read(&self) -> &PoolState {
        &self.core
    }

    /// For who only looks: it lists nothing, and counts what came by the inbox where it is.
    pub(crate) fn reading(&self) -> Reading<'_> {
        self.core.reading(&self.inbox)
    }

    /// With everything that was queued before on the core's lists.
    pub(crate) fn lock(&mut self) -> &mut PoolState {
        self.empty_inbox();
        self.core.catch_up();
        &mut self.core
    }

    /// Without what is in the inbox, or was.
    pub(crate) fn lock_only(&mut self) -> &mut PoolState {
        if self.core.is_behind() {
            self.core.call_back();
        }
        &mut self.core
    }

    /// With books that may be behind: for a worker of this pool behind its item.
    pub(crate) fn lock_in_turn(&mut self) -> &mut PoolState {
        &mut self.core
    }

    /// With books that may be behind: for queueing, and nothing else.
    pub(crate) fn lock_to_queue(&mut self) -> &mut PoolState {
        self.empty_inbox();
        &mut self.core
    }

    /// Of what is for the worker that runs only the first item is listed: for workers, detectors
    /// and flushers.
    pub(crate) fn lock_unlisted(&mut self) -> &mut PoolState {
        if !self.inbox.is_empty() {
            self.take_inbox();
        }
        self.core.catch_up_to_first();
        &mut self.core
    }

    fn empty_inbox(&mut self) {
        let kick = self.core.empty_inbox(&self.inbox);
        self.owed = self.owed.or(kick);
    }

    /// Leaves it to the worker that runs, if there is one, to list what is in the inbox.
    pub(crate) fn take_inbox(&mut self) {
        let kick = self.core.take_inbox(&self.inbox).unwrap_or(Kick::Watch);
        self.owed = self.owed.or(kick);
    }

    /// A worker has ended an item: what is in the inbox is younger than what is on the worklist.
    pub(crate) fn take_inbox_behind_item(&mut self) {
        if self.core.work_waits() || self.inbox.is_empty() {
            return;
        }
        // Who claims what it has left is told to watch.
        if let Some(kick) = self.core.take_inbox(&self.inbox) {
            self.owed = self.owed.or(kick);
        }
    }

    /// The inbox says from now on whether pushing is enough. The last thing to do with the lock.
    pub(crate) fn update_saturation(&mut self, is_saturated: bool) {
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

    /// Something more is to be done when the lock is dropped.
    pub(crate) fn owe(&mut self, kick: Kick) {
        self.owed = self.owed.or(kick);
    }

    pub(crate) fn owes(&self) -> bool {
        self.owed != Kick::None
    }

    pub(crate) fn take_owed(&mut self) -> Kick {
        std::mem::replace(&mut self.owed, Kick::None)
    }

    // ---- threads

    pub(crate) fn thread(&self, id: WorkerId) -> Option<Tid> {
        self.threads.get(id.0 as usize).copied().flatten()
    }

    /// Those of its own workers.
    pub(crate) fn threads(&self) -> impl Iterator<Item = Tid> + '_ {
        self.threads.iter().flatten().copied()
    }

    pub(crate) fn set_thread(&mut self, id: WorkerId, tid: Option<Tid>) {
        *grown(&mut self.threads, id.0 as usize) = tid;
    }

    /// What it says on the board.
    pub(super) fn entry(&self) -> Entry {
        let facts = Facts {
            work_waits: self.core.work_waits(),
            is_at_capacity: self.core.is_at_capacity(),
            is_starved: self.core.is_starved(),
            has_short_items: self.has_short_items,
            is_saturated: self.inbox.is_saturated(),
            is_called: self.core.is_called(),
            is_closed: !self.may_help,
            caller_computes: self.caller_computes,
            is_watched: self.is_watched,
        };
        facts.entry()
    }
}
