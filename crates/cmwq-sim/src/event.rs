//! What can be observed of a run, and its digest.

use cmwq_core::Waited;
use cmwq_core::help::Set;

use crate::Nanos;
use crate::plan::{Attrs, ItemId, QueueId};

/// Numbers the queueings of a run, in their order: one queueing of an item is run once or
/// cancelled.
pub type Ticket = u64;
/// A worker's thread, numbered through the whole run from 1.
pub type WorkerNo = usize;
/// A pool, numbered through the whole run.
pub type PoolNo = usize;
/// What shares a limit: a queue's items on one pool, or on one node. Numbered through the whole
/// run.
pub type GroupNo = usize;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// When, in virtual nanoseconds.
    pub t: Nanos,
    /// What.
    pub what: What,
}

/// A queueing of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queueing {
    /// The item.
    pub item: ItemId,
    /// Which of its queueings.
    pub ticket: Ticket,
    /// Its queue.
    pub queue: QueueId,
}

/// Where a queueing is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// The pool.
    pub pool: PoolNo,
    /// What shares the limit.
    pub group: GroupNo,
}

/// Who runs something, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Runner {
    /// The thread.
    pub worker: WorkerNo,
    /// The CPU it is on.
    pub cpu: u32,
}

/// See [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A delayed queueing waits for its time.
    Armed(Queueing, Nanos),
    /// Somebody wants the item on a pool's lists at another time than before.
    Retimed(ItemId, Nanos),
    /// A queueing is on a pool's lists.
    Queued(Queueing, Site),
    /// A queueing was taken back.
    Cancelled(Queueing),
    /// The item's function was entered.
    Started(Queueing, Site, Runner),
    /// The function blocked.
    Slept(Queueing, Runner),
    /// The function runs again.
    Woke(Queueing, Runner),
    /// The function returned.
    Finished(Queueing, Runner),
    /// A worker's pool was told that an item had waited, and what it used of the CPU.
    ToldWaited(PoolNo, Waited),
    /// The tick lets one more worker of the pool begin an item than may run.
    BeginsAnother(PoolNo),
    /// It was told that an item had not waited.
    ToldNotWaited(PoolNo),
    /// A process of an item of the pool was found waiting for the first time, so long after it was
    /// started; or it has ended, and was not found.
    ProcessWaited(PoolNo, Option<Nanos>),
    /// A CPU idles, and that is enough for the pool to begin another item.
    BeginsOnAlarm(PoolNo),
    /// A flush of the queue began.
    FlushBegan(usize, QueueId),
    /// It returned.
    FlushEnded(usize, QueueId),
    /// A wait for a queueing began.
    WaitBegan(usize, Queueing),
    /// It returned.
    WaitEnded(usize, Queueing),
    /// Somebody wanted to wait for the item, and found nothing to wait for.
    FoundIdle(ItemId),
    /// A limit was set.
    LimitSet(GroupNo, u32),
    /// A queue's `max_active` was changed; the limits of its parts follow.
    MaxActiveSet(QueueId, u32),
    /// Its `min_active` was to be changed.
    MinActiveSet(QueueId, u32),
    /// A CPU went offline.
    CpuLeft(u32),
    /// A CPU is online again.
    CpuReturned(u32),
    /// The creation of a worker began.
    WorkerWanted(PoolNo),
    /// A pool has a new worker.
    WorkerMade(PoolNo, WorkerNo),
    /// A worker left its pool.
    WorkerLeft(PoolNo, WorkerNo),
    /// A pool counts so many of its workers as running.
    Counted(PoolNo, u32),
    /// A managed pool is in this set of the board.
    OnBoard(PoolNo, Set),
    /// A worker could not be created.
    CreateFailed(PoolNo),
    /// The watchdog says that nothing has happened there for so long.
    Stalled(PoolNo, Nanos),
    /// It said the same of a queue whose items wait for a slot.
    QueueStalled(QueueId, Nanos),
    /// It said the same of items that wait for each other in a circle, this one for longest.
    CircleStalled(ItemId, Nanos),
    /// The queue has a rescuer, which will be called by that number.
    RescuerMade(QueueId, WorkerNo),
    /// A queue leads to a pool that is closed while no queue does.
    Linked(QueueId, PoolNo),
    /// It does no longer; what it had there is done.
    Unlinked(QueueId, PoolNo),
    /// A worker has not done yet what an item of this group left to do beside the counts.
    Unlocked(GroupNo),
    /// It has.
    Relocked(GroupNo),
    /// It was frozen, or thawed.
    Frozen(QueueId, bool),
    /// Its attributes were changed.
    AttrsSet(QueueId, Attrs),
    /// It leads to other pools from now on, by its attributes or since CPUs have left or come back.
    Led(QueueId),
    /// Somebody drops the queue: callers from outside are refused from now on.
    DropBegan(QueueId),
    /// The queue has gone.
    QueueGone(QueueId),
    /// It is there again.
    QueueMade(QueueId),
}

/// The digest of a run's events: equal runs have equal digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// The number.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }

    /// Adds an event.
    pub fn add(&mut self, event: &Event) {
        use std::hash::Hash;
        event.hash(&mut Fnv(&mut self.0));
    }
}

/// FNV-1a by 64-bit words, as a hasher that does not depend on the standard library's choice of
/// one.
struct Fnv<'a>(&'a mut u64);

impl std::hash::Hasher for Fnv<'_> {
    fn finish(&self) -> u64 {
        *self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            *self.0 = (*self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
            *self.0 ^= *self.0 >> 29;
        }
    }
}
