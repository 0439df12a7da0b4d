//! Charges CPU time to pwqs.
//!
//! A worker's CPU time goes to the pwq whose items it runs. Asking for it is a system call, which
//! is a lot beside an empty item, so a worker asks only when it turns to another pwq, and only if
//! the coarse clock has moved since it last asked: at most once per tick, as the kernel samples.
//! Until then the time is *pending*; readers add it, since a thread's clock can be read from
//! outside, and stands still while the thread is idle. A worker that serves one queue only is
//! measured exactly, and never asks.
//!
//! *Owns* the account of one thread, under the lock of the pool that the thread serves. The thread
//! changes it, and so does the removal of a pwq.
//!
//! Why: docs/decisions/cpu-time-charged-late.md

use cmwq_core::{Nanos, PoolState, PwqId};

use crate::os::clock;
use crate::os::sense::{self, CpuClock};
use crate::os::sync::{AtomicU64, Ordering};
use crate::record::WorkerRecord;

/// See the module header.
#[derive(Debug)]
pub(crate) struct Meter {
    // ORDERING (all accesses): no pairing: under the lock of the pool that the thread serves.
    /// The pwq, in the pool being served, to which the time since `charged_until` belongs, or
    /// `NOBODY`.
    pwq: AtomicU64,
    /// The thread's CPU time up to which all is charged.
    charged_until: AtomicU64,
    /// The coarse clock when the time was charged last.
    when: AtomicU64,
    /// Where readers in other processes find `pwq` and `charged_until`.
    mirror: Option<&'static WorkerRecord>,
}

const NOBODY: u64 = u64::MAX;

impl Meter {
    pub(crate) fn new(mirror: Option<&'static WorkerRecord>) -> Self {
        Self {
            pwq: AtomicU64::new(NOBODY),
            charged_until: AtomicU64::new(0),
            when: AtomicU64::new(0),
            mirror,
        }
    }

    fn publish(&self, core: &PoolState) {
        if let Some(mirror) = self.mirror {
            mirror.show_meter(core.id(), self.pwq(), self.charged_until.load(Ordering::Relaxed));
        }
    }

    /// The thread begins to serve: its CPU time until now is charged to no pwq.
    pub(crate) fn begin(&self) {
        self.charged_until.store(sense::current_cpu_time(), Ordering::Relaxed);
    }

    /// The thread is about to run an item of `pwq`.
    #[inline(always)]
    pub(crate) fn turn_to(&self, core: &mut PoolState, pwq: PwqId) {
        if self.pwq.load(Ordering::Relaxed) != u64::from(pwq.0) {
            self.turn(core, pwq, clock::coarse(), sense::current_cpu_time);
        }
    }

    /// `now`: the coarse clock. `cpu`: asks for the thread's CPU time, which is a system call.
    #[inline(never)]
    fn turn(&self, core: &mut PoolState, pwq: PwqId, now: Nanos, cpu: impl FnOnce() -> Nanos) {
        if now != self.when.load(Ordering::Relaxed) {
            self.charge_at(cpu, core);
            self.when.store(now, Ordering::Relaxed);
        }
        self.pwq.store(u64::from(pwq.0), Ordering::Relaxed);
        self.publish(core);
    }

    /// The thread is about to leave the pool, for another one or for good.
    #[inline]
    pub(crate) fn charge(&self, core: &mut PoolState) {
        self.charge_at(sense::current_cpu_time, core);
    }

    /// `pwq` is about to be removed. `clock`: the thread's.
    pub(crate) fn forget(&self, pwq: PwqId, clock: CpuClock, core: &mut PoolState) {
        if self.pwq() == Some(pwq)
            && let Some(cpu) = clock.now_ns()
        {
            self.charge_at(|| cpu, core);
        }
    }

    /// Charges the pending time. `cpu` is called only if there is some.
    fn charge_at(&self, cpu: impl FnOnce() -> Nanos, core: &mut PoolState) {
        let Some(pwq) = self.pwq() else { return };
        self.pwq.store(NOBODY, Ordering::Relaxed);
        let micros = self.uncharged(cpu());
        core.charge(pwq, micros);
        // A fraction of a microsecond is charged next time.
        self.charged_until.fetch_add(micros * 1_000, Ordering::Relaxed);
        self.publish(core);
    }

    /// The time of `pwq` that was not charged yet, in µs. `clock`: the thread's.
    pub(crate) fn pending(&self, pwq: PwqId, clock: CpuClock) -> u64 {
        if self.pwq() != Some(pwq) {
            return 0;
        }
        clock.now_ns().map_or(0, |cpu| self.uncharged(cpu))
    }

    fn pwq(&self) -> Option<PwqId> {
        let pwq = self.pwq.load(Ordering::Relaxed);
        (pwq != NOBODY).then_some(PwqId(pwq as u32))
    }

    fn uncharged(&self, cpu: Nanos) -> u64 {
        cpu.saturating_sub(self.charged_until.load(Ordering::Relaxed)) / 1_000
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use cmwq_core::{PoolConfig, PoolId, PwqConfig, WqKey};

    use super::*;

    fn pool() -> (PoolState, [PwqId; 2]) {
        let mut core = PoolState::new(PoolConfig::new(PoolId(0), 1));
        let pwqs = [0, 1].map(|wq| {
            let wq = WqKey(wq);
            let config = PwqConfig {
                wq,
                max_active: 1,
                node: None,
                cpu_intensive: false,
                rescuer: false,
                work_color: 0,
            };
            core.add_pwq(config)
        });
        (core, pwqs)
    }

    /// Uses at least so many microseconds.
    fn burn(micros: u64) {
        let end = sense::current_cpu_time() + micros * 1_000;
        while sense::current_cpu_time() < end {}
    }

    fn charged(core: &PoolState, pwq: PwqId) -> u64 {
        core.pwq_stats(pwq).expect("the pwq").cpu_time
    }

    #[test]
    fn time_is_pending_until_the_thread_turns_away() {
        let ((mut core, [a, b]), meter) = (pool(), Meter::new(None));
        let clock = CpuClock::of_current_thread().expect("threads have clocks");
        burn(2_000);
        meter.begin();
        assert_eq!(meter.pending(a, clock), 0, "nobody's");
        meter.turn_to(&mut core, a);
        burn(500);
        meter.turn_to(&mut core, a);
        assert_eq!(charged(&core, a), 0);
        let pending = meter.pending(a, clock);
        assert!(pending >= 500 && meter.pending(b, clock) == 0);
        meter.charge(&mut core);
        assert!(charged(&core, a) >= pending);
        assert_eq!((charged(&core, b), meter.pending(a, clock)), (0, 0));
        let before = charged(&core, a);
        meter.charge(&mut core);
        assert_eq!(charged(&core, a), before, "charged once");
    }

    /// Turning often costs a look at the coarse clock only; over many ticks each gets its share.
    #[test]
    fn time_is_divided_by_ticks() {
        const TICK: u64 = 4_300_000;
        const ROUNDS: u64 = 4_300;
        let ((mut core, [a, b]), meter) = (pool(), Meter::new(None));
        let asked = std::cell::Cell::new(0);
        let mut now = 0;
        let turn = |core: &mut PoolState, pwq, now: u64| {
            let cpu = || {
                asked.set(asked.get() + 1);
                now
            };
            meter.turn(core, pwq, now / TICK, cpu);
        };
        for _ in 0..ROUNDS {
            turn(&mut core, a, now);
            now += 900_000;
            turn(&mut core, b, now);
            now += 100_000;
        }
        meter.charge_at(|| now, &mut core);
        let (a, b) = (charged(&core, a), charged(&core, b));
        assert_eq!(a + b, ROUNDS * 1_000, "nothing is lost");
        // The ticks meet every phase of a round equally often, so the shares are those of the time.
        assert!(b.abs_diff(ROUNDS * 100) <= ROUNDS * 10, "{a} and {b}");
        assert!(asked.get() <= now / TICK, "{} times in {} ticks", asked.get(), now / TICK);
    }

    #[test]
    fn a_removed_pwq_takes_its_time_along() {
        let ((mut core, [a, _]), meter) = (pool(), Meter::new(None));
        let clock = CpuClock::of_current_thread().expect("threads have clocks");
        meter.begin();
        meter.turn_to(&mut core, a);
        burn(300);
        meter.forget(PwqId(9), clock, &mut core);
        assert_eq!(charged(&core, a), 0, "another one's removal");
        meter.forget(a, clock, &mut core);
        assert!(charged(&core, a) >= 300);
        assert_eq!(meter.pending(a, clock), 0);
    }
}
