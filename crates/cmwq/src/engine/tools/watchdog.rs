//! What the engine reports to the watchdog: that work waits, and what an item waits for.
//!
//! The watchdog itself is a thread of the room above (`observe/watchdog`), which looks at pools and
//! reports stalls; the service thread, or its creator, starts it when it is first needed.

use cmwq_core::{Nanos, PanicPolicy};

use crate::engine::tools::params::Params;
use crate::os::IS_MODEL;
use crate::os::clock;
use crate::os::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::os::topo::CpuSet;

mod alarm;
mod waits;

#[cfg(all(test, cmwq_loom))]
pub(crate) use alarm::Alarm as ModelledAlarm;
pub(crate) use waits::{Wait, WaitFor};

use alarm::Alarm;
use waits::Waits;

/// What the engine reports to the watchdog, and the watchdog's settings.
#[derive(Debug)]
pub(crate) struct Watchdog {
    pub(crate) alarm: Alarm,
    pub(crate) on_stall: AtomicU32,
    pub(crate) on_stall_time: AtomicU64,
    /// When it was last touched: on any account, and by CPU number.
    pub(crate) touched: AtomicU64,
    pub(crate) touched_on: Box<[AtomicU64]>,
    pub(crate) waits: Waits,
    pub(crate) has_to_dump: AtomicBool,
    is_started: AtomicBool,
    pub(crate) is_stopping: AtomicBool,
}

// ORDERING (all accesses here): no pairing: settings and hints; the thread sees them when it is
// woken.
impl Watchdog {
    pub(crate) fn new(params: &Params, cpus: &CpuSet) -> Self {
        let this = Self {
            alarm: Alarm::new(params.watchdog_thresh_ns),
            on_stall: AtomicU32::new(params.panic_on_stall),
            on_stall_time: AtomicU64::new(params.panic_on_stall_time_ns),
            touched: AtomicU64::new(0),
            touched_on: (0..=cpus.last().unwrap_or(0)).map(|_| AtomicU64::new(0)).collect(),
            waits: Waits::default(),
            has_to_dump: AtomicBool::new(false),
            is_started: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        };
        if params.watchdog_thresh_ns != 0 && !IS_MODEL {
            this.alarm.unset();
        }
        this
    }

    /// Sets the alarm. `true`: the watchdog is on, and needs its thread.
    #[must_use]
    pub(crate) fn set_alarm(&self) -> bool {
        let thresh = self.alarm.thresh();
        if thresh != 0 {
            self.alarm.set(clock::now() + cmwq_core::Watchdog::<()>::interval(thresh));
        }
        thresh != 0
    }

    /// Whether this is the first request for the thread.
    pub(crate) fn is_first_to_start(&self) -> bool {
        !self.is_started.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.alarm.wake();
    }

    /// The parameters as they are now.
    pub(crate) fn as_params(&self, read: &Params) -> Params {
        let policy = self.policy();
        Params {
            watchdog_thresh_ns: self.alarm.thresh(),
            panic_on_stall: policy.on_stall,
            panic_on_stall_time_ns: policy.on_stall_time,
            ..read.clone()
        }
    }

    pub(crate) fn policy(&self) -> PanicPolicy {
        PanicPolicy {
            on_stall: self.on_stall.load(Ordering::Relaxed),
            on_stall_time: self.on_stall_time.load(Ordering::Relaxed),
        }
    }

    /// KERNEL: `wq_watchdog_touch` — same.
    pub(crate) fn touch(&self, cpu: Option<u32>) {
        let now = clock::now();
        if let Some(touched) = cpu.and_then(|cpu| self.touched_on.get(cpu as usize)) {
            touched.store(now, Ordering::Relaxed);
        }
        let (thresh, touched) = (self.alarm.thresh(), self.touched.load(Ordering::Relaxed));
        if cmwq_core::Watchdog::<()>::notes_touch(thresh, touched, now) {
            self.touched.store(now, Ordering::Relaxed);
        }
    }

    /// When it was last touched, on account of one CPU and on any.
    pub(crate) fn touched(&self, cpu: Option<u32>) -> (Nanos, Nanos) {
        let on_cpu = cpu.and_then(|cpu| self.touched_on.get(cpu as usize));
        let on_cpu = on_cpu.map_or(0, |touched| touched.load(Ordering::Relaxed));
        (on_cpu, self.touched.load(Ordering::Relaxed))
    }
}
