//! Functions that run at intervals.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use cmwq_core::{MissedTicks as Rule, Ticks};

use crate::api::work::{DelayedWork, WeakDelayedWork};
use crate::api::workqueue::{DroppedLater, Workqueue};
use crate::os::clock;
use crate::os::sync::{Arc, AtomicBool, Ordering, PlainMutex, lock_plain};

/// What becomes of ticks whose time came while the function was still running, or had nobody to run
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedTicks {
    /// They are left out, and the next tick keeps to the grid of the first one; [`Tick::missed`]
    /// tells how many.
    #[default]
    Skip,
    /// They follow at once, one after the other: in the long run there are as many ticks as
    /// intervals.
    Burst,
    /// The next tick is one interval after the end of the function.
    Delay,
}

impl MissedTicks {
    fn rule(self) -> Rule {
        match self {
            Self::Skip => Rule::Skip,
            Self::Burst => Rule::Burst,
            Self::Delay => Rule::Delay,
        }
    }
}

/// A function that a queue runs at intervals, until this handle is dropped or [`stop`](Self::stop)
/// is called. Dropping it is `stop`: it does not wait for a tick that runs;
/// [`stop_sync`](Self::stop_sync) does.
///
/// It never runs twice at once, and never before its time; afterwards usually within a millisecond,
/// or when the queue comes to it. It keeps the queue alive. A panic in it goes to the [panic
/// handler](crate::set_panic_handler), and the next tick comes all the same. A tick that is due
/// while the queue is being drained, closed or shut down is refused, and was the last one:
/// [`is_active`](Self::is_active) tells.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let wq = cmwq::Workqueue::new("doc")?;
/// let (send, receive) = mpsc::channel();
/// let periodic = cmwq::Periodic::every(Duration::from_millis(2)).start(&wq, move |tick| {
///     let _ = send.send(tick.missed());
/// });
/// for _ in 0..3 {
///     receive.recv().unwrap();
/// }
/// periodic.stop_sync();
/// # Ok::<(), cmwq::Error>(())
/// ```
#[must_use = "dropping it ends the ticks: `detach` lets them go on for ever"]
pub struct Periodic {
    work: DelayedWork,
    /// The queue's name. A handle of the queue is the item's alone.
    queue: Box<str>,
    has_stopped: Arc<AtomicBool>,
    is_detached: bool,
}

/// A description of a [`Periodic`]; see [`Periodic::every`].
#[must_use = "nothing happens until `start` is called"]
#[derive(Clone, Copy, Debug)]
pub struct PeriodicBuilder {
    interval: Duration,
    first_after: Duration,
    missed: MissedTicks,
    is_deferrable: bool,
}

/// One tick, as its function sees it.
#[derive(Debug)]
pub struct Tick {
    missed: u64,
    is_last: bool,
}

impl Tick {
    /// How many ticks were left out between the one before and this one: [`MissedTicks::Skip`].
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// This tick is the last one.
    pub fn stop(&mut self) {
        self.is_last = true;
    }
}

impl PeriodicBuilder {
    /// When the first tick comes: after one interval unless said otherwise. Zero: at once.
    pub fn first_after(mut self, delay: Duration) -> Self {
        self.first_after = delay;
        self
    }

    /// What becomes of ticks that are missed: [`MissedTicks::Skip`] unless said otherwise.
    pub fn missed(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }

    /// Its timer never wakes an idle process: a tick that is due waits until something else
    /// happens. See [`DelayedWork::deferrable`].
    pub fn deferrable(mut self) -> Self {
        self.is_deferrable = true;
        self
    }

    /// Begins. Does not wait.
    pub fn start<F>(self, wq: &Workqueue, func: F) -> Periodic
    where
        F: FnMut(&mut Tick) + Send + 'static,
    {
        let [first, interval] = [self.first_after, self.interval]
            .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let ticks = Ticks::new(clock::now().saturating_add(first), interval, self.missed.rule());
        let has_stopped = Arc::new(AtomicBool::new(false));
        let body = Body {
            wq: DroppedLater::new(wq),
            has_stopped: Arc::clone(&has_stopped),
            turn: PlainMutex::new(Some(Turn { ticks, missed: 0, func: Box::new(func) })),
        };
        let make = |me: &WeakDelayedWork| {
            let me = me.clone();
            move || body.tick(&me)
        };
        let work = DelayedWork::cyclic_as::<F, _>(self.is_deferrable, make);
        wq.queue_delayed_work(&work, self.first_after);
        Periodic { work, queue: wq.name().into(), has_stopped, is_detached: false }
    }
}

impl Periodic {
    /// Describes something that happens at such intervals.
    ///
    /// # Panics
    /// If `interval` is zero.
    pub fn every(interval: Duration) -> PeriodicBuilder {
        assert!(!interval.is_zero(), "a periodic function needs an interval above zero");
        PeriodicBuilder {
            interval,
            first_after: interval,
            missed: MissedTicks::Skip,
            is_deferrable: false,
        }
    }

    /// No tick begins any more. Does not wait for one that runs. To be called from anywhere, also
    /// from the function itself.
    ///
    /// KERNEL: `disable_delayed_work` — same.
    pub fn stop(&self) {
        if self.stops_now() {
            self.work.disable();
        } else {
            self.work.cancel();
        }
    }

    /// As [`stop`](Self::stop), and waits for a tick that runs. Called from a work function it
    /// counts as blocking at once; from its own, it is reported and does not wait.
    ///
    /// KERNEL: `disable_delayed_work_sync` — same.
    pub fn stop_sync(&self) {
        if self.stops_now() {
            self.work.disable_sync();
        } else {
            self.work.cancel_sync();
        }
    }

    fn stops_now(&self) -> bool {
        // ORDERING: no pairing: only whether it was asked for before.
        !self.has_stopped.swap(true, Ordering::Relaxed)
    }

    /// Whether there is a tick to come, or one that runs.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.work.busy().is_idle()
    }

    /// The ticks go on without a handle: until one says [`Tick::stop`], or the queue refuses one.
    pub fn detach(mut self) {
        self.is_detached = true;
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        if !self.is_detached {
            self.stop();
        }
    }
}

impl fmt::Debug for Periodic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Periodic")
            .field("function", &format_args!("{}", self.work.function()))
            .field("queue", &self.queue)
            .field("is_active", &self.is_active())
            .finish()
    }
}

/// What the item of a periodic function has.
struct Body {
    /// Whoever drops a [`Periodic`] waits for nothing.
    wq: DroppedLater,
    has_stopped: Arc<AtomicBool>,
    /// Taken by the run: one at a time, and it holds no lock meanwhile.
    turn: PlainMutex<Option<Turn>>,
}

struct Turn {
    ticks: Ticks,
    missed: u64,
    func: Box<dyn FnMut(&mut Tick) + Send>,
}

impl Body {
    fn tick(&self, me: &WeakDelayedWork) {
        let Some(mut turn) = lock_plain(&self.turn).take() else { return };
        let mut tick = Tick { missed: turn.missed, is_last: false };
        let outcome = catch_unwind(AssertUnwindSafe(|| (turn.func)(&mut tick)));
        let now = clock::now();
        turn.missed = turn.ticks.advance(now);
        let delay = Duration::from_nanos(turn.ticks.due().saturating_sub(now));
        *lock_plain(&self.turn) = Some(turn);
        if tick.is_last {
            // ORDERING: no pairing: see `stops_now`.
            self.has_stopped.store(true, Ordering::Relaxed);
        } else if self.wq.handle().closed().lets_repeat(delay.is_zero())
            && let Some(work) = me.upgrade()
        {
            // Refused if somebody has stopped it meanwhile: it is disabled then.
            self.wq.queue_delayed_work(&work, delay);
        }
        if let Err(payload) = outcome {
            resume_unwind(payload);
        }
    }
}
