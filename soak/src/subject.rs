//! Reusable items with their books.
//!
//! What a call answers tells whether it queued or took back an item only if some other calls are
//! not made at the same time: `mod_delayed_work` answers `false` both when it has armed an idle
//! item and when the item is disabled, and `enable_and_queue_work` does not say whether it queued.
//! So there are four classes of item, and the books of the last one are bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cmwq::{DelayedWork, RcuWork, Work, Workqueue};
use fastrand::Rng;

use crate::watch::fail;

/// Which calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Queued, cancelled, disabled.
    Disabled,
    /// Queued, cancelled, re-timed.
    Retimed,
    /// All of them.
    Mixed,
}

enum Item {
    Plain(Work),
    Delayed(DelayedWork),
    Rcu(RcuWork),
}

/// An item, always of the same queue.
pub(crate) struct Subject {
    item: Item,
    class: Class,
    books: Arc<SubjectBooks>,
}

#[derive(Debug, Default)]
pub(crate) struct SubjectBooks {
    /// By calls that said so.
    queued: AtomicU64,
    cancelled: AtomicU64,
    /// Calls of the class `Mixed` that may have queued it.
    perhaps_queued: AtomicU64,
    pub(crate) runs: AtomicU64,
    is_inside: AtomicBool,
}

/// A run of an item: there is one at a time.
pub(crate) struct Inside<'a>(&'a SubjectBooks);

impl SubjectBooks {
    pub(crate) fn enter(&self) -> Inside<'_> {
        if self.is_inside.swap(true, Ordering::SeqCst) {
            fail("an item was entered while it ran");
        }
        Inside(self)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.is_inside.store(false, Ordering::SeqCst);
        self.0.runs.fetch_add(1, Ordering::SeqCst);
    }
}

fn add(count: &AtomicU64, is_so: bool) {
    count.fetch_add(u64::from(is_so), Ordering::SeqCst);
}

/// A call that plain and delayed items have, counted; the others have not.
macro_rules! taking_back {
    ($self:ident . $call:ident) => {{
        let taken = match &$self.item {
            Item::Plain(work) => work.$call(),
            Item::Delayed(work) => work.$call(),
            Item::Rcu(_) => return,
        };
        add(&$self.books.cancelled, taken);
    }};
}

impl Subject {
    /// The `n`-th of a queue; `body` is what its function does.
    pub(crate) fn new(n: usize, body: impl Fn(&SubjectBooks) + Send + Sync + 'static) -> Self {
        let books = Arc::new(SubjectBooks::default());
        let theirs = Arc::clone(&books);
        let func = move || {
            let _inside = theirs.enter();
            body(&theirs);
        };
        let (item, class) = match n % 8 {
            0 => (Item::Plain(Work::new(func)), Class::Mixed),
            1 | 2 => (Item::Plain(Work::new(func)), Class::Disabled),
            3 => (Item::Delayed(DelayedWork::new(func)), Class::Mixed),
            4 => (Item::Delayed(DelayedWork::new(func)), Class::Disabled),
            5 => (Item::Delayed(DelayedWork::deferrable(func)), Class::Retimed),
            6 => (Item::Delayed(DelayedWork::new(func)), Class::Retimed),
            _ => (Item::Rcu(RcuWork::new(func)), Class::Disabled),
        };
        Self { item, class, books }
    }

    pub(crate) fn runs(&self) -> u64 {
        self.books.runs.load(Ordering::SeqCst)
    }

    pub(crate) fn cancelled(&self) -> u64 {
        self.books.cancelled.load(Ordering::SeqCst)
    }

    // ---- calls

    pub(crate) fn queue(&self, wq: &Workqueue, cpus: u32, rng: &mut Rng) {
        let cpu = rng.u32(..cpus);
        let delay = Duration::from_micros(rng.u64(..3_000));
        let is_mine = match (&self.item, rng.u8(..4)) {
            (Item::Plain(work), 0) => wq.queue_work_on(cpu, work),
            (Item::Plain(work), 1) => wq.queue_work_node(0, work),
            (Item::Plain(work), _) => wq.queue_work(work),
            (Item::Delayed(work), 0) => wq.queue_delayed_work(work, Duration::ZERO),
            (Item::Delayed(work), 1) => wq.queue_delayed_work_on(cpu, work, delay),
            (Item::Delayed(work), _) => wq.queue_delayed_work(work, delay),
            (Item::Rcu(work), _) => wq.queue_rcu_work(work),
        };
        add(&self.books.queued, is_mine);
    }

    pub(crate) fn retime(&self, wq: &Workqueue, cpus: u32, rng: &mut Rng) {
        let Item::Delayed(work) = &self.item else { return };
        if self.class == Class::Disabled {
            return;
        }
        let delay = Duration::from_micros(rng.u64(..2) * rng.u64(..3_000));
        let was_pending = match rng.bool() {
            true => wq.mod_delayed_work(work, delay),
            false => wq.mod_delayed_work_on(rng.u32(..cpus), work, delay),
        };
        match self.class {
            Class::Mixed => add(&self.books.perhaps_queued, true),
            // One that was pending is the same queueing as before.
            _ => add(&self.books.queued, !was_pending),
        }
    }

    pub(crate) fn cancel(&self) {
        taking_back!(self.cancel);
    }

    /// Waits for a run. An item that it takes back cannot be queued meanwhile, which `Retimed` must
    /// not meet.
    pub(crate) fn cancel_sync(&self) {
        if self.class != Class::Retimed {
            taking_back!(self.cancel_sync);
        }
    }

    /// Disabled for as long as `meanwhile` takes.
    pub(crate) fn disabled(&self, wq: &Workqueue, is_sync: bool, meanwhile: impl FnOnce()) {
        if self.class == Class::Retimed {
            return;
        }
        if is_sync {
            taking_back!(self.disable_sync);
        } else {
            taking_back!(self.disable);
        }
        meanwhile();
        match &self.item {
            Item::Plain(work) if self.class == Class::Mixed => {
                add(&self.books.perhaps_queued, true);
                wq.enable_and_queue_work(work);
            }
            Item::Plain(work) => _ = work.enable(),
            Item::Delayed(work) => _ = work.enable(),
            Item::Rcu(_) => {}
        }
    }

    pub(crate) fn flush(&self) {
        match &self.item {
            Item::Plain(work) => work.flush(),
            Item::Delayed(work) => work.flush(),
            Item::Rcu(work) => work.flush(),
        };
    }

    /// Looks at it in ways that change nothing.
    pub(crate) fn look(&self) {
        let (busy, is_pending, id) = match &self.item {
            Item::Plain(work) => (work.busy(), work.is_pending(), work.id()),
            Item::Delayed(work) => (work.busy(), work.is_pending(), work.id()),
            Item::Rcu(work) => (work.busy(), work.is_pending(), work.id()),
        };
        std::hint::black_box((busy.is_idle(), is_pending, cmwq::current_work() == Some(id)));
    }

    // ---- the end

    /// No timer is armed when this returns, if nobody makes calls any more.
    pub(crate) fn disarm(&self) {
        if matches!(self.item, Item::Delayed(_)) {
            taking_back!(self.cancel_sync);
        }
    }

    /// A grace period may still be to come.
    pub(crate) fn flush_rcu(&self) {
        if let Item::Rcu(work) = &self.item {
            work.flush();
        }
    }

    /// What is wrong with its books, when everything is over. On a queue that has refused items,
    /// some that were accepted were dropped.
    pub(crate) fn complaint(&self, may_refuse: bool) -> Option<String> {
        let busy = match &self.item {
            Item::Plain(work) => work.busy(),
            Item::Delayed(work) => work.busy(),
            Item::Rcu(work) => work.busy(),
        };
        let load = |count: &AtomicU64| count.load(Ordering::SeqCst);
        let queued = load(&self.books.queued);
        let most = queued + load(&self.books.perhaps_queued);
        let ended = self.runs() + self.cancelled();
        let is_right = if may_refuse {
            ended <= most
        } else if self.class == Class::Mixed {
            (queued..=most).contains(&ended)
        } else {
            ended == queued
        };
        (!is_right || !busy.is_idle())
            .then(|| format!("{self:?} is {busy:?}; its queue may refuse: {may_refuse}"))
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match &self.item {
            Item::Plain(_) => "Work",
            Item::Delayed(_) => "DelayedWork",
            Item::Rcu(_) => "RcuWork",
        };
        write!(f, "{kind} {:?} {:?}", self.class, self.books)
    }
}
