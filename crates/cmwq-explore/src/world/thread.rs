//! A thread: who it is, how far it has come, and what it has to do next.

use cmwq_core::{EmptyCheck, PwqId, PwqRef, RescueVisit, WorkerId};

use super::Todo;
use crate::scope::Op;

/// Who a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Creates where that failed, calls rescuers, lets timers expire, detects.
    Service,
    Client(u8),
    Rescuer(u8),
    Worker(u8, WorkerId),
}

/// Where a worker is between two items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    /// Asleep, or about to be.
    Parked,
    /// About to ask.
    Awake,
    /// About to sleep: looks at other pools before.
    Looking,
    /// Will be lent to this pool if it may.
    Lending(u8),
    /// Serves this pool.
    Serving(u8),
    /// About to go home.
    Returning,
}

/// What a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) what: Named,
    /// The pool whose item it is, and the record that runs it.
    pub(crate) pool: u8,
    pub(crate) id: WorkerId,
    pub(crate) at: PwqId,
}

/// An item by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    Item(u8),
    /// With which this thread waits.
    Barrier(u8),
}

/// How far a program has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Exec {
    pub(crate) pc: u8,
    pub(crate) micro: Micro,
}

/// Within one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Micro {
    #[default]
    Start,
    /// A timer was taken, and with it PENDING.
    Expired,
    /// PENDING is ours; this pwq was read.
    Claimed(usize),
    /// And the last pool does not run the item.
    Checked(usize),
    /// This pwq was read, and the item's word, which was idle.
    AtHome(usize, u64),
    /// PENDING was taken from whoever had queued the item.
    Held,
    /// The item is disabled; wait for its run.
    Disabled,
    /// A barrier, or a flush, will tell.
    Waiting,
    /// The wait is over.
    Waited,
    /// PENDING is ours, and the pool of this pwq was saturated.
    Pushes(usize),
    /// What was pushed into this pool's inbox has to be looked after.
    Relieves(u8),
    /// By this pwq an item was begun as that guest.
    RunsHere(usize, WorkerId),
    /// See `queues`.
    Phase(u8),
}

/// A look whether a queue is empty, which reads one pwq in each step.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) queue: u8,
    pub(crate) last: EmptyCheck,
    /// Those that are still to be read.
    pub(crate) left: Vec<PwqRef>,
}

/// A thread. See the module header.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) who: Who,
    pub(crate) at: At,
    /// Somebody woke it.
    pub(crate) token: bool,
    pub(crate) todo: Vec<Todo>,
    pub(crate) run: Option<Run>,
    /// Items that it has taken along.
    pub(crate) more: u32,
    pub(crate) exec: Exec,
    /// Of a timer that has expired.
    pub(crate) fired: Option<Op>,
    /// What it waits for has happened.
    pub(crate) event: bool,
    /// Its record where it is a guest.
    pub(crate) guest: Option<WorkerId>,
    /// A guest's own pool wants it back.
    pub(crate) is_wanted: bool,
    pub(crate) visit: Option<RescueVisit>,
    /// Pwqs to be retired, to be removed, and pools that they led to.
    pub(crate) retire: Vec<PwqRef>,
    pub(crate) remove: Option<PwqRef>,
    pub(crate) unused: Vec<u8>,
    pub(crate) look: Option<Look>,
}

impl Thread {
    /// A worker between two lock holds behind an item.
    pub(crate) fn is_between(&self) -> bool {
        self.at == At::Awake && self.run.is_none()
    }

    /// A worker that sleeps, or that was woken and has not begun to look what to do.
    pub(crate) fn is_parked(&self) -> bool {
        self.at == At::Parked && self.run.is_none() && self.todo.is_empty()
    }

    pub(crate) fn new(who: Who) -> Self {
        Self {
            who,
            at: At::Parked,
            token: false,
            todo: Vec::new(),
            run: None,
            more: 0,
            exec: Exec::default(),
            fired: None,
            event: false,
            guest: None,
            is_wanted: false,
            visit: None,
            retire: Vec::new(),
            remove: None,
            unused: Vec::new(),
            look: None,
        }
    }
}
