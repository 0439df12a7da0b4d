//! A pool of a run, with its lock.
//!
//! A simulation is one thread, so nobody ever waits for a lock. But what the runtime does wherever
//! it takes one is done here, too, by the same functions of the core: whoever asks the core for
//! something says what it would have locked the pool for.

use cmwq_core::help::board::Entry;
use cmwq_core::help::{Facts, Progress};
use cmwq_core::{Inbox, Kick, LockFor, MaydayTimer, PoolConfig, PoolState, Reading, WorkerId};

use super::PoolKind;
use crate::Nanos;
use crate::grown::grown;
use crate::machine::Tid;

/// A pool and what the driver knows of it.
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

    /// The lock, taken, or still held.
    pub(crate) fn lock(&mut self, what_for: LockFor) -> &mut PoolState {
        let kick = self.core.begin_hold(&self.inbox, what_for);
        self.owe(kick);
        &mut self.core
    }

    /// As [`PoolState::take_inbox_after_item`].
    pub(crate) fn take_inbox_after_item(&mut self) {
        let kick = self.core.take_inbox_after_item(&self.inbox);
        self.owe(kick);
    }

    /// As [`PoolState::update_saturation`]. The last thing to do with the lock.
    pub(crate) fn update_saturation(&mut self, may_be_helped: bool) {
        let turned = self.core.update_saturation(&self.inbox, self.is_watched, || may_be_helped);
        self.owe(turned.unwrap_or(Kick::None));
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
            is_asked_to_help: self.core.is_asked_to_help(),
            is_closed: !self.may_help,
            caller_computes: self.caller_computes,
            is_watched: self.is_watched,
        };
        facts.entry()
    }
}
