//! A worker's thread as others see it: how to wake it, and how to tell what it is doing.

use std::fmt;

use crate::park::{Parker, Unparked};
use crate::sense::{CpuClock, EventFd, StatFile, Switch, SwitchRecords};
use crate::title::Title;
use crate::sync::{AtomicU32, AtomicU64, OnceLock, Ordering, PlainMutex};

/// How a worker sleeps. Berths are recycled and never freed, so that a lock-free waker (the sentinel) may hold
/// one longer than its owner lives: at worst the next owner wakes for nothing.
#[derive(Debug)]
pub(crate) struct Berth {
    pub(crate) parker: Parker,
    /// Wakes the owner from `poll`; made when it polls for the first time.
    event: OnceLock<EventFd>,
}

static FREE_BERTHS: PlainMutex<Vec<&'static Berth>> = PlainMutex::new(Vec::new());

impl Berth {
    pub(crate) fn take() -> &'static Self {
        let free = FREE_BERTHS.lock().ok().and_then(|mut free| free.pop());
        free.unwrap_or_else(|| {
            Box::leak(Box::new(Self { parker: Parker::new(), event: OnceLock::new() }))
        })
    }

    /// Leaves a token, and wakes the owner however it sleeps.
    pub(crate) fn unpark(&self, token: u32) {
        if self.parker.unpark(token) == Unparked::Signal
            && let Some(event) = self.event.get()
        {
            event.signal();
        }
    }

    /// The event file to poll beside other things; `None` if there are no file descriptors left.
    pub(crate) fn event(&self) -> Option<&EventFd> {
        if self.event.get().is_none() {
            let _ = self.event.set(EventFd::new().ok()?);
        }
        self.event.get()
    }
}

/// What a look at a thread told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// On a CPU, or waiting for one.
    Running,
    /// Waiting for something else than a CPU.
    Blocked,
    /// Not in the run one asked about, or it cannot be told.
    Unknown,
}

/// The ways to look at a thread, opened by the thread itself when it starts.
#[derive(Debug, Default)]
pub(crate) struct Senses {
    pub(crate) switches: Option<SwitchRecords>,
    pub(crate) stat: Option<StatFile>,
    pub(crate) clock: Option<CpuClock>,
}

/// See the module header.
pub(crate) struct Thread {
    pub(crate) berth: &'static Berth,
    pub(crate) title: Title,
    senses: OnceLock<Senses>,
    /// The run whose function the thread is in; 0 outside functions. What happens outside them (waiting for a
    /// pool's lock, say) is not blocking in the sense of concurrency management.
    run: AtomicU64,
    /// The CPU on which that function was entered.
    cpu: AtomicU32,
    /// The thread's CPU time when it was last looked at.
    looked_at: AtomicU64,
    /// Looks in a row that found its CPU time standing still, for when nothing better than it can be had.
    still: AtomicU32,
    /// A standby polls this thread's switch records. Written under the pool's lock.
    polled: AtomicU32,
}

impl Thread {
    pub(crate) fn new(title: String) -> Self {
        Self {
            berth: Berth::take(),
            title: Title::new(title),
            senses: OnceLock::new(),
            run: AtomicU64::new(0),
            cpu: AtomicU32::new(0),
            looked_at: AtomicU64::new(0),
            still: AtomicU32::new(0),
            polled: AtomicU32::new(0),
        }
    }

    pub(crate) fn set_senses(&self, senses: Senses) {
        let _ = self.senses.set(senses);
    }

    pub(crate) fn switches(&self) -> Option<&SwitchRecords> {
        self.senses.get()?.switches.as_ref()
    }

    // ORDERING (all accesses of `run`, `cpu`, `looked_at`, `still`): no pairing: hints for detectors. What
    // a detector concludes is applied under the pool's lock, with the run's number.

    #[inline]
    pub(crate) fn enter_function(&self, seq: u64, cpu: u32) {
        self.cpu.store(cpu, Ordering::Relaxed);
        self.run.store(seq, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn leave_function(&self) {
        self.run.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_in_run(&self, seq: u64) -> bool {
        self.run.load(Ordering::Relaxed) == seq
    }

    pub(crate) fn cpu(&self) -> u32 {
        self.cpu.load(Ordering::Relaxed)
    }

    pub(crate) fn is_polled(&self) -> bool {
        self.polled.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn set_polled(&self, polled: bool) {
        self.polled.store(u32::from(polled), Ordering::Relaxed);
    }

    /// Looks whether the thread, in run `seq`, is blocked. `patient`: the caller comes back at intervals, so
    /// the cheap look at the CPU time may spare the dearer one at the state.
    pub(crate) fn look(&self, seq: u64, patient: bool) -> Seen {
        if !self.is_in_run(seq) {
            return Seen::Unknown;
        }
        let seen = self.look_now(patient);
        if self.is_in_run(seq) { seen } else { Seen::Unknown }
    }

    fn look_now(&self, patient: bool) -> Seen {
        let Some(senses) = self.senses.get() else { return Seen::Unknown };
        match senses.switches.as_ref().map(SwitchRecords::last) {
            Some(Switch::Blocked) => return Seen::Blocked,
            Some(Switch::Running | Switch::Preempted) => return Seen::Running,
            Some(Switch::None) | None => {}
        }
        let moved = patient.then(|| self.has_run_since(senses)).flatten();
        if moved == Some(true) {
            return Seen::Running;
        }
        match senses.stat.as_ref().map(StatFile::state) {
            Some(Ok(state)) if state.is_blocked() => Seen::Blocked,
            Some(Ok(_)) => Seen::Running,
            // Without /proc a thread whose CPU time stands still for several looks is taken for blocked. It
            // may only be starved of CPU; that costs one worker too many, for a while.
            _ if moved == Some(false) => {
                let still = self.still.fetch_add(1, Ordering::Relaxed) + 1;
                if still >= 3 { Seen::Blocked } else { Seen::Unknown }
            }
            _ => Seen::Unknown,
        }
    }

    /// Whether the thread used CPU since the last look; `None` if that cannot be told.
    fn has_run_since(&self, senses: &Senses) -> Option<bool> {
        let now = senses.clock?.now_ns()?;
        let before = self.looked_at.swap(now, Ordering::Relaxed);
        let moved = now != before;
        if moved {
            self.still.store(0, Ordering::Relaxed);
        }
        Some(moved)
    }

    /// Whether a thread that was seen blocked in run `seq` has come back.
    pub(crate) fn is_back(&self, seq: u64) -> bool {
        let Some(senses) = self.senses.get() else { return false };
        if let Some(switches) = &senses.switches {
            return self.is_in_run(seq)
                && matches!(switches.last(), Switch::Running | Switch::Preempted);
        }
        // One that did not run since the last look cannot be back.
        if self.has_run_since(senses) == Some(false) {
            return false;
        }
        self.look(seq, false) == Seen::Running
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let _ = self.berth.parker.take();
        // A model checker's words must not outlive the execution they were made in.
        if cfg!(not(any(loom, shuttle)))
            && let Ok(mut free) = FREE_BERTHS.lock()
        {
            free.push(self.berth);
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread")
            .field("run", &self.run.load(Ordering::Relaxed))
            .field("cpu", &self.cpu())
            .finish_non_exhaustive()
    }
}
