//! Requests for work that is due at a time, and not on an event. Any thread makes them; the
//! [service thread](crate::engine::threads::service_thread) does the work, or has its
//! [creator](crate::engine::threads::creator) do what creates threads.
//!
//! Timers of delayed items, the adaptive tick of the detectors, culling of idle workers, retries of
//! failed creation, calls for rescuers, names of idle workers. The thread sleeps without a deadline
//! when there is none of these: a process whose queues are idle is not woken.

use std::cell::Cell;
use std::{io, mem, ptr};

use cmwq_core::detect::tick::TICK_FIRST_NS;
use cmwq_core::{Creator, Nanos};

use crate::detect::ticking::TickList;
use crate::engine::pool::Pool;
use crate::engine::tools::attrs::Priority;
use crate::engine::tools::plan::{NEVER, Plan};
use crate::engine::tools::timers::Timers;
use crate::engine::wq::rescuer::Rescuer;
use crate::os::clock;
use crate::os::generation;
use crate::os::park::Event;
use crate::os::sense::policy::Policy;
use crate::os::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// Delay between a worker's change of queue and the change of its thread's name.
const WRITE_COMMS_AFTER: Nanos = 25_000_000;

/// What the service thread shares with other threads.
#[derive(Debug)]
pub(crate) struct Service {
    /// When the thread will look again; it is woken for an earlier deadline.
    pub(crate) plan: Plan,
    /// Lock: timers.
    pub(crate) timers: Mutex<Timers>,
    /// Copy of [`Timers::deferred_at`] for workers. A hint.
    pub(crate) deferred_at: AtomicU64,
    /// Pools that were watched lately.
    pub(crate) ticking: TickList<Pool>,
    pub(crate) cull_at: AtomicU64,
    pub(crate) retry_at: AtomicU64,
    pub(crate) mayday_at: AtomicU64,
    pub(crate) comms_at: AtomicU64,
    /// The watchdog has to be started.
    pub(crate) watchdog_at: AtomicU64,
    /// A worker was found on a CPU that is not its own.
    pub(crate) rescan_at: AtomicU64,
    to_create_for: Mutex<ToCreateFor>,
    /// The next tick is to come soon.
    pub(crate) is_wanted_now: AtomicBool,
    /// The tick finds blocked workers before the sentinels do. A hint for these.
    pub(crate) is_tick_first: AtomicBool,
    /// See [`has_creator`](Self::has_creator).
    has_creator: AtomicBool,
    pub(crate) is_stopping: AtomicBool,
}

crate::os::sync::thread_local! {
    /// The thread is who creates what others leave to be created.
    static IS_CREATOR: Cell<bool> = const { Cell::new(false) };
    /// It creates none itself: see [`leave_creation`].
    static LEAVES_CREATION: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread has signals blocked that the program's threads have not, or must not be kept
/// by a creation. Workers that it needs are created by the service, or the creator.
pub(crate) fn leave_creation() {
    IS_CREATOR.with(|is| is.set(false));
    LEAVES_CREATION.with(|leaves| leaves.set(true));
}

fn leaves_creation() -> bool {
    LEAVES_CREATION.try_with(Cell::get).unwrap_or(false)
}

/// Whether the calling thread leaves the creation of a thread with this priority to the service, or
/// the creator: it must not be kept by it, or the thread would inherit what it cannot undo. `base`:
/// the process's own policy.
pub(crate) fn delegates_creation(priority: Priority, base: Policy) -> bool {
    !is_creator() && (leaves_creation() || !priority.can_be_inherited(base))
}

/// Whether others leave creations to the calling thread.
pub(crate) fn is_creator() -> bool {
    IS_CREATOR.try_with(Cell::get).unwrap_or(false)
}

/// A pool that wants a worker, and as whom it is created.
pub(crate) type Wanted = (&'static Pool, Creator);

/// Adds one, unless it is among them.
pub(crate) fn add_wanted(all: &mut Vec<Wanted>, new: Wanted) {
    if !all.iter().any(|known| ptr::eq(known.0, new.0) && known.1 == new.1) {
        all.push(new);
    }
}

/// Who relies on the thread for a worker.
#[derive(Debug, Default)]
struct ToCreateFor {
    /// Pools that wait for it to create one, and as whom, see [`Service::create_for`].
    pools: Vec<Wanted>,
    /// Who is about to start a rescuer, and waits for the creator.
    askers: Vec<Arc<Asked>>,
    /// Rescuers that the creator is to start.
    rescuers: Vec<ToStart>,
    /// Nobody may rely on it any more.
    has_ended: bool,
}

/// A rescuer that is to be started, and who waits for it.
pub(crate) type ToStart = (Arc<Rescuer>, Arc<Asked>);

/// A request for the creator, or for a rescuer, and the answer.
#[derive(Debug)]
pub(crate) struct Asked {
    refused: Mutex<Option<io::Error>>,
    is_answered: Event,
}

impl Asked {
    fn new() -> Arc<Self> {
        Arc::new(Self { refused: Mutex::new(None), is_answered: Event::new() })
    }

    pub(crate) fn answer(&self, answer: io::Result<()>) {
        *lock(&self.refused) = answer.err();
        self.is_answered.set();
    }

    /// Waits until the thread is there.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.is_answered.wait(None);
        lock(&self.refused).take().map_or(Ok(()), Err)
    }
}

impl Service {
    pub(crate) fn new() -> Self {
        Self {
            plan: Plan::new(),
            timers: Mutex::new(Timers::new(clock::now(), generation::current())),
            deferred_at: AtomicU64::new(NEVER),
            ticking: TickList::new(),
            cull_at: AtomicU64::new(NEVER),
            retry_at: AtomicU64::new(NEVER),
            mayday_at: AtomicU64::new(NEVER),
            comms_at: AtomicU64::new(NEVER),
            watchdog_at: AtomicU64::new(NEVER),
            rescan_at: AtomicU64::new(NEVER),
            to_create_for: Mutex::new(ToCreateFor::default()),
            is_wanted_now: AtomicBool::new(false),
            is_tick_first: AtomicBool::new(true),
            has_creator: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// The calling thread is the service's or the creator, and creates what others leave to it.
    pub(crate) fn begin() {
        IS_CREATOR.with(|is| is.set(true));
    }

    /// The watchdog is needed at `at`, and has no thread.
    #[cold]
    pub(crate) fn start_watchdog_at(&self, at: Nanos) {
        self.plan.lower(&self.watchdog_at, at);
    }

    /// There is a rescuer, or has been, or is about to be. From now on the service thread creates
    /// nobody, and neither does a thread that only queues: it might hang where memory is short,
    /// until what the rescuer would do is done.
    pub(crate) fn has_creator(&self) -> bool {
        // ORDERING: no pairing: who made the queue has waited for it. Others that miss it are as
        // if they had come before.
        self.has_creator.load(Ordering::Relaxed)
    }

    /// Asks for the creator. `None`: it is there, or the thread has ended, and with it all queues
    /// that could need a rescuer.
    pub(crate) fn ask_for_creator(&self) -> Option<Arc<Asked>> {
        self.tell(|to_create_for| {
            if self.has_creator() {
                return None;
            }
            let asked = Asked::new();
            to_create_for.askers.push(Arc::clone(&asked));
            Some(asked)
        })
    }

    /// Asks the creator, which is there, to start a rescuer that must not be as the caller. `None`:
    /// the thread has ended.
    pub(crate) fn start_for(&self, rescuer: &Arc<Rescuer>) -> Option<Arc<Asked>> {
        self.tell(|to_create_for| {
            let asked = Asked::new();
            to_create_for.rescuers.push((Arc::clone(rescuer), Arc::clone(&asked)));
            Some(asked)
        })
    }

    /// Tells the thread what `add` adds, which is `None` if it adds nothing. `None`: so it is, or
    /// the thread has ended.
    fn tell<T>(&self, add: impl FnOnce(&mut ToCreateFor) -> Option<T>) -> Option<T> {
        let mut to_create_for = lock(&self.to_create_for);
        if to_create_for.has_ended {
            return None;
        }
        let added = add(&mut to_create_for)?;
        drop(to_create_for);
        self.plan.wake();
        Some(added)
    }

    /// Who waits for the creator. By the thread.
    pub(crate) fn askers(&self) -> Vec<Arc<Asked>> {
        mem::take(&mut lock(&self.to_create_for).askers)
    }

    /// The creator is there. By the thread, which creates nobody from now on.
    pub(crate) fn creator_has_come(&self) {
        leave_creation();
        // Under the lock: those who ask see it, or are answered.
        let _to_create_for = lock(&self.to_create_for);
        self.has_creator.store(true, Ordering::Relaxed);
    }

    /// Asks the thread to end.
    pub(crate) fn stop(&self) {
        // ORDERING: no pairing of its own: the thread sees it when it takes the wake-up's token.
        self.is_stopping.store(true, Ordering::Relaxed);
        self.plan.wake();
    }

    /// Surplus idle workers have to be culled at `at`.
    #[inline]
    pub(crate) fn cull_at(&self, at: Option<Nanos>) {
        if let Some(at) = at {
            // ORDERING: no pairing: only a short cut.
            if self.cull_at.load(Ordering::Relaxed) > at {
                self.plan.lower(&self.cull_at, at);
            }
        }
    }

    /// Creation failed; try again at `at`.
    pub(crate) fn retry_at(&self, at: Nanos) {
        self.plan.lower(&self.retry_at, at);
    }

    /// Work waits that no worker comes for: look at `at` whether rescuers have to be called.
    pub(crate) fn mayday_at(&self, at: Nanos) {
        self.plan.lower(&self.mayday_at, at);
    }

    /// A worker's name is wrong.
    #[inline]
    pub(crate) fn write_comms_soon(&self) {
        // ORDERING: no pairing: only a short cut.
        if self.comms_at.load(Ordering::Relaxed) == NEVER {
            self.plan.lower(&self.comms_at, clock::now() + WRITE_COMMS_AFTER);
        }
    }

    /// The pool needs a worker, which must not inherit the caller's scheduling policy, or the
    /// signals that it has blocked. `by`: who the caller would be, as whom the thread acts.
    /// `false`: the caller creates it all the same, since the thread has ended. It has the
    /// process's own policy, unless somebody has given another one to it; so has the creator.
    #[cold]
    pub(crate) fn create_for(&self, pool: &'static Pool, by: Creator) -> bool {
        let told = self.tell(|to_create_for| {
            add_wanted(&mut to_create_for.pools, (pool, by));
            Some(())
        });
        told.is_some()
    }

    /// The pools that wait for a worker, and who would create it; and the rescuers that wait to be
    /// started. By the thread.
    pub(crate) fn to_create_for(&self) -> (Vec<Wanted>, Vec<ToStart>) {
        let mut to_create_for = lock(&self.to_create_for);
        (mem::take(&mut to_create_for.pools), mem::take(&mut to_create_for.rescuers))
    }

    /// From now on nobody relies on the thread; who did before is known to it then.
    pub(crate) fn end(&self) {
        let mut to_create_for = lock(&self.to_create_for);
        to_create_for.has_ended = true;
        let askers = mem::take(&mut to_create_for.askers);
        let rescuers = mem::take(&mut to_create_for.rescuers);
        drop(to_create_for);
        askers.iter().for_each(|asked| asked.answer(Ok(())));
        // There is nothing to rescue any more: who waits stops it at once.
        for (rescuer, asked) in rescuers {
            rescuer.gone.set();
            asked.answer(Ok(()));
        }
    }

    /// Whether the thread has ended: it may have missed what was asked of it before.
    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.to_create_for).has_ended
    }

    /// A worker is not on its CPUs: look which CPUs there are, and pin it again.
    #[cold]
    pub(crate) fn rescan_soon(&self) {
        // ORDERING: no pairing: only a short cut.
        if self.rescan_at.load(Ordering::Relaxed) == NEVER {
            self.plan.lower(&self.rescan_at, clock::now());
        }
    }

    #[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
    pub(crate) fn is_to_rescan(&self) -> bool {
        self.rescan_at.load(Ordering::Relaxed) != NEVER
    }

    /// The pool's work waits at capacity: look at its workers at intervals.
    pub(crate) fn start_ticking(&self, pool: &'static Pool) {
        if self.ticking.add(pool) {
            self.plan.need_by(clock::now() + TICK_FIRST_NS);
        }
    }

    /// Detection relies on the tick: it is to begin again with its first interval.
    pub(crate) fn wake_now(&self) {
        // ORDERING: no pairing of its own: see `Plan`.
        if !self.is_wanted_now.swap(true, Ordering::Relaxed) {
            self.plan.need_by_unlocked(clock::now() + TICK_FIRST_NS);
        }
    }

    /// A worker, a BH context or a rescuer is about to sleep, or a caller has run an item: the
    /// process was not idle, so deferrable timers that are due may expire.
    #[inline]
    pub(crate) fn wake_for_deferred(&self) {
        // ORDERING: no pairing: a hint, and there is no hurry.
        let at = self.deferred_at.load(Ordering::Relaxed);
        if at != NEVER && at <= clock::now() {
            self.plan.wake();
        }
    }

    pub(crate) fn publish_deferred(&self, timers: &Timers) {
        // ORDERING: no pairing: a hint.
        self.deferred_at.store(timers.deferred_at(), Ordering::Relaxed);
    }
}
