//! Handles keep a queue in being, and find its successor after a fork.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use cmwq_core::{Closed, WqKey};

use crate::engine::queue::reaper;
use crate::engine::runtime::Runtime;
use crate::engine::threads::current;
use crate::engine::threads::rescuer;
use crate::engine::tools::account::Account;
use crate::engine::tools::reclaim;
use crate::engine::wq::Wq;
use crate::os::error::Error;
use crate::os::published::Lasting;
use crate::os::sync::{
    Arc, AtomicBool, AtomicU64, Ordering, PlainGuard, PlainMutex, lock_plain, try_lock,
};

mod timers;

pub(crate) use timers::TimersHandle;

/// Keeps a queue in being: dropping the last handle drains and destroys the queue.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Owner>);

// Nothing that a panic leaves behind is seen through it: what the program's functions panic in, the
// library catches, and holds no lock there.
impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

pub(crate) struct Owner {
    wq: Arc<Wq>,
    /// In a child of the process that made `wq`: the child's own queue in its place. If that child
    /// forks in turn, its queue is leaked in the grandchild.
    successor: Lasting<Arc<Wq>>,
    /// Timers that are armed for the queue; together they hold one reference. Lock: timers. In a
    /// child that has no queue yet, those of the parent.
    nr_timers: AtomicU64,
    /// The thread that drops it must not wait.
    is_left_to_others: bool,
    /// The queue was destroyed already, by [`Handle::destroy`]. In a child that has no queue yet:
    /// one that it makes is destroyed at once.
    is_destroyed: AtomicBool,
    /// It is closed, and to be destroyed when no timer is armed for it. Set under the timers' lock.
    is_left_to_timers: AtomicBool,
    /// The queue was closed and drained: destroying it is quick.
    is_drained: AtomicBool,
    /// The account of closures, if the queue was asked to keep one.
    account: Option<Arc<Account>>,
}

/// Held while a child makes itself a queue.
static SUCCESSORS: PlainMutex<()> = PlainMutex::new(());

/// See `fork`, which holds it, too.
pub(crate) fn lock_successors() -> PlainGuard<'static, ()> {
    lock_plain(&SUCCESSORS)
}

impl Handle {
    pub(crate) fn new(wq: Arc<Wq>, account: Option<Arc<Account>>) -> Self {
        let (successor, nr_timers) = (Lasting::nothing(), AtomicU64::new(0));
        let [is_destroyed, is_left_to_timers, is_drained] =
            [(); 3].map(|()| AtomicBool::new(false));
        Self(Arc::new(Owner {
            wq,
            successor,
            nr_timers,
            is_left_to_others: false,
            is_destroyed,
            is_left_to_timers,
            is_drained,
            account,
        }))
    }

    #[inline]
    pub(crate) fn account(&self) -> Option<&Arc<Account>> {
        self.0.account.as_ref()
    }

    /// Makes the queue in a child that has none yet: dereferencing does not panic afterwards.
    ///
    /// # Errors
    /// If its service thread, the queue's rescuer or, with the first of them, the creator cannot be
    /// created.
    #[inline]
    pub(crate) fn make_ready(&self) -> Result<(), Error> {
        Owner::try_wq(&self.0).map(drop)
    }

    /// Whether [`make_ready`](Self::make_ready) has nothing to make.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.0.is_own()
    }

    /// The queue's name. As the next one, it makes no queue in a child.
    pub(crate) fn name(&self) -> &str {
        &self.0.wq.name
    }

    /// Whether the queue takes nothing any more. `None`, in a child that has none yet: no, unless
    /// the library was shut down there.
    pub(crate) fn is_closed(&self) -> Option<bool> {
        let closed = Closed::DESTROYING.and(Closed::SHUT);
        let own = self.0.own().map(|wq| wq.closed().is_for(closed));
        own.or_else(|| self.0.has_ended().then_some(true))
    }

    /// The queue, for looking at it: does not keep it from being destroyed.
    pub(crate) fn shared(&self) -> Arc<Wq> {
        let owner = &self.0;
        let own = owner.own();
        own.unwrap_or_else(|| {
            Owner::wq(owner);
            owner.own().expect("a child has its own queue once it was asked for")
        })
    }

    /// Takes no more items, and waits for those it has. The queue is destroyed only with its last
    /// handle: a thread with another handle may have been let in just before.
    pub(crate) fn close_and_drain(&self) {
        Owner::wq(&self.0).close_and_drain();
        // ORDERING: no pairing: read when the last reference is dropped, which comes after this.
        self.0.is_drained.store(true, Ordering::Relaxed);
    }

    /// Destroys the queue: now, or, if the caller cannot wait, inside of one of the queue's items,
    /// when its items are done. Other handles keep the memory of the queue, and find it closed. In
    /// a child that has not used the queue there is nothing to take down.
    pub(crate) fn destroy(&self) {
        let Some(wq) = self.0.own() else { return self.note_destroyed() };
        if !cannot_wait_for(&wq) {
            return self.destroy_now(&wq);
        }
        wq.close(Closed::DESTROYING);
        let this = self.clone();
        wq.runtime.end_later(move || this.destroy_now(&wq));
    }

    fn destroy_now(&self, wq: &Wq) {
        wq.destroy();
        self.note_destroyed();
    }

    fn note_destroyed(&self) {
        // ORDERING: no pairing: read when the last reference is dropped, which comes after this.
        self.0.is_destroyed.store(true, Ordering::Relaxed);
    }

    /// Closes the queue, waits for its items if the caller can, and destroys it behind the timers
    /// that are armed for it: when they have expired or were cancelled, and their items have run.
    pub(crate) fn destroy_behind_timers(&self) {
        let Some(wq) = self.0.own() else { return self.note_destroyed() };
        let is_left_to_timers = self.leave_to_timers(&wq);
        match cannot_wait_for(&wq) {
            true if is_left_to_timers => {}
            true => self.clone().end_later(&wq),
            false if is_left_to_timers => wq.wait_until_idle(),
            false => self.end(&wq),
        }
    }

    fn end_later(self, wq: &Arc<Wq>) {
        let wq = Arc::clone(wq);
        wq.runtime.end_later(move || self.end(&wq));
    }

    /// Ends a closed queue. One that has pools or a thread of its own gives them up. Another one
    /// leaves its pools with its last handle only, when no thread can be about to queue any more.
    fn end(&self, wq: &Wq) {
        if wq.is_replaceable() || wq.spec.mem_reclaim {
            self.destroy_now(wq);
        } else {
            self.close_and_drain();
        }
    }

    /// Drops the handle without waiting: if it is the last one, the reaper destroys the queue.
    pub(crate) fn drop_later(self) {
        // ORDERING: no pairing: who drops the timers' handle has counted them under their lock.
        if self.0.is_left_to_timers.load(Ordering::Relaxed) {
            return self.end_behind_timers();
        }
        if let Some(mut owner) = Arc::into_inner(self.0) {
            owner.is_left_to_others = true;
        }
    }

    /// The queue is to be destroyed if no timer is armed for it any more.
    #[cold]
    fn end_behind_timers(self) {
        let Some(wq) = self.0.own() else { return };
        // The items that they have queued are still to be waited for.
        if self.takes_over_from_timers(&wq) {
            self.end_later(&wq);
        }
    }
}

impl Owner {
    #[inline]
    fn wq(this: &Arc<Self>) -> &Wq {
        if this.is_own() { &this.wq } else { Self::successor_or_die(this) }
    }

    #[inline]
    fn try_wq(this: &Arc<Self>) -> Result<&Wq, Error> {
        if this.is_own() { Ok(&this.wq) } else { Self::successor(this) }
    }

    /// Whether this process has made the queue.
    #[inline]
    fn is_own(&self) -> bool {
        self.wq.is_own()
    }

    #[cold]
    fn successor_or_die(this: &Arc<Self>) -> &Wq {
        Self::successor(this).unwrap_or_else(|error| {
            panic!("cannot make workqueue '{}' again after a fork: {error}", this.wq.name)
        })
    }

    /// The queue that this child has in its place, if it was made already.
    fn known_successor(&self) -> Option<&Arc<Wq>> {
        self.successor.get().filter(|wq| wq.is_own())
    }

    #[cold]
    fn successor(this: &Arc<Self>) -> Result<&Wq, Error> {
        if let Some(wq) = this.known_successor() {
            return Ok(wq);
        }
        // Not behind the lock: who forks locks the making of a runtime first.
        let runtime = (this.wq.runtime.upcalls.runtime_of_process)()?;
        let _successors = lock_plain(&SUCCESSORS);
        if let Some(wq) = this.known_successor() {
            return Ok(wq);
        }
        let wq = Box::leak(Box::new(this.make_successor(runtime)?));
        Self::leave_parents_timers(this);
        this.successor.set(wq);
        Ok(wq)
    }

    fn make_successor(&self, runtime: &'static Runtime) -> Result<Arc<Wq>, Error> {
        let wq = runtime.new_successor(&self.wq.name, self.wq.spec);
        if self.has_ended() {
            // As in the parent, who queues on it is refused.
            wq.destroy();
            return Ok(wq);
        }
        // One that is shut has nothing to rescue.
        if wq.spec.mem_reclaim
            && !wq.closed().is_for(Closed::SHUT)
            && let Err(error) = rescuer::start(&wq)
        {
            // The next attempt makes another one.
            wq.destroy();
            runtime.forget_wq(wq.key);
            return Err(Error::thread("cannot create the queue's rescuer", error));
        }
        // Behind what may fail, as in `Builder::build`: from now on others find it by its name.
        self.wq.pass_settings_to(&wq);
        Ok(wq)
    }

    /// Whether the parent has destroyed its queue, or timers were to.
    fn has_ended(&self) -> bool {
        // ORDERING: see `Handle::note_destroyed`.
        let is_destroyed = self.is_destroyed.load(Ordering::Relaxed);
        // Of the parent, if it is a child, too.
        let last = self.successor.get().unwrap_or(&self.wq);
        is_destroyed || last.closed().is_for(Closed::BEHIND_TIMERS)
    }

    /// The queue of this process, if it has one.
    fn own(&self) -> Option<Arc<Wq>> {
        if self.is_own() {
            return Some(Arc::clone(&self.wq));
        }
        // The parent destroys its own queue.
        self.known_successor().cloned()
    }
}

impl Wq {
    /// Gives the settings that were changed after the queue was made to its successor in a child. A
    /// change that was under way during the fork is lost.
    fn pass_settings_to(&self, successor: &Self) {
        let Some(state) = try_lock(&self.state) else { return };
        let (max_active, min_active) = (state.limits.max_active(), state.limits.min_active());
        let attrs = state.attrs_set();
        drop(state);
        if let Some(attrs) = attrs {
            successor.set_first_attrs(attrs);
        }
        successor.set_max_active(max_active);
        successor.set_min_active(min_active);
        if self.is_in_sysfs() {
            // A queue that the child made may have the name already; then the successor cannot be
            // found by name.
            let _ = successor.runtime.enter_sysfs(successor);
        }
    }
}

impl std::ops::Deref for Handle {
    type Target = Wq;

    /// The queue.
    ///
    /// # Panics
    /// In a child that uses the library for the first time, if its service thread, the queue's
    /// rescuer or, with the first of them, the creator cannot be created.
    #[inline]
    fn deref(&self) -> &Wq {
        Owner::wq(&self.0)
    }
}

/// Whether the caller would wait for itself, or must not wait at all.
fn cannot_wait_for(wq: &Wq) -> bool {
    is_inside(wq.key) || current::in_bh()
}

/// Whether the caller is one of the queue's items, or its rescuer.
fn is_inside(key: WqKey) -> bool {
    current::runs_item_of(key) || reclaim::rescued_wq() == Some(key)
}

impl Drop for Owner {
    fn drop(&mut self) {
        let Some(wq) = self.own() else { return };
        // ORDERING: see `Handle::note_destroyed`.
        if self.is_destroyed.load(Ordering::Relaxed) {
            return wq.runtime.forget_wq(wq.key);
        }
        // ORDERING: see `Handle::close_and_drain`.
        let takes_long = wq.is_going() && !self.is_drained.load(Ordering::Relaxed);
        let must_not_wait = cannot_wait_for(&wq) || reaper::leaves_ends();
        if self.is_left_to_others || takes_long || must_not_wait {
            // An item or a rescuer must not wait for itself, and an item of a BH queue must not
            // wait at all, nor who shuts the library down until a given time: the reaper does.
            wq.runtime.destroy_later(wq);
        } else {
            wq.destroy();
            wq.runtime.forget_wq(wq.key);
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.own() {
            Some(wq) => fmt::Debug::fmt(&wq, f),
            None => f.debug_struct("Workqueue").field("name", &self.name()).finish_non_exhaustive(),
        }
    }
}
