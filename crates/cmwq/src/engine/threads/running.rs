//! One claimed item, run by a worker, a helper, a rescuer or a BH context: from unlocking the pool
//! to the counts after it. (`run_here` has a way of its own.)

use cmwq_core::{Claim, Effects, Kick, LockFor, WorkerId};

use crate::engine::pool::{Pool, PoolGuard};
use crate::engine::tools::meter::Meter;
use crate::record::WorkerMirror;

/// As what a thread runs an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum As {
    /// As a worker of the pool, which leaves the inbox alone: items that wait are older. Counts
    /// that lag are made right by the core, when the item is finished.
    Worker,
    /// As a helper or a rescuer, which finds right counts and an empty inbox.
    Guest,
    /// As the context of the pool's CPU, the only one that runs anything there.
    Bh,
}

/// A thread that serves a pool.
pub(crate) struct Server<'a> {
    pub(crate) pool: &'static Pool,
    /// What it is called there.
    pub(crate) id: WorkerId,
    pub(crate) is: As,
    pub(crate) meter: &'a Meter,
    pub(crate) mirror: &'a WorkerMirror,
}

impl Server<'_> {
    /// Runs a claimed item: `call` calls its function. Returns with the lock held, under which the
    /// next item is claimed.
    #[inline(always)]
    pub(crate) fn run_item(
        &self,
        mut guard: PoolGuard<'static>,
        claim: &Claim,
        call: impl FnOnce(),
    ) -> PoolGuard<'static> {
        self.meter.turn_to(&mut guard.core, claim.pwq);
        guard.record_start(self.pool, self.mirror, claim);
        if self.is == As::Worker {
            self.pool.unlock_to_run(guard, claim.kick);
        } else {
            self.pool.unlock(guard, claim.kick);
        }
        call();
        let mut guard = self.lock();
        let effects = guard.core.finish(self.id);
        if !effects.is_none() {
            self.charge_what_may_go(&mut guard, &effects);
            match self.is {
                // Emptying the inbox may have called for somebody.
                As::Guest => self.pool.unlock(guard, Kick::None),
                As::Worker | As::Bh => drop(guard),
            }
            self.pool.act_effects(effects);
            guard = Self::lock_again(self.pool, self.is);
        }
        guard
    }

    /// Who is told that a queue has nothing left may remove the pwq, whose number is another one's
    /// then. The pool's own workers are asked for their time there.
    #[cold]
    fn charge_what_may_go(&self, guard: &mut PoolGuard<'static>, effects: &Effects) {
        if self.is != As::Worker && (effects.flush_done.is_some() || effects.retired.is_some()) {
            self.meter.charge(&mut guard.core);
        }
    }

    /// Between an end and the next claim: a helper may have taken items along meanwhile.
    #[cold]
    fn lock_again(pool: &'static Pool, is: As) -> PoolGuard<'static> {
        match is {
            As::Worker | As::Bh => pool.lock(LockFor::Counts),
            As::Guest => pool.lock(LockFor::Decide),
        }
    }

    #[inline(always)]
    fn lock(&self) -> PoolGuard<'static> {
        match self.is {
            As::Worker => self.pool.lock(LockFor::NextItem),
            As::Guest => self.pool.lock(LockFor::Decide),
            As::Bh => self.pool.lock(LockFor::Counts),
        }
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use std::ptr::NonNull;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use cmwq_core::{Offered, WorkItem};

    use super::*;
    use crate::engine::process::on_one_cpu;
    use crate::engine::wq::cpu_pwq::CpuPwq;
    use crate::engine::wq::flushes::Flusher;
    use crate::engine::wq::{Kind, Spec};
    use crate::os::sense::current_cpu_time;
    use crate::record::Role;

    unsafe extern "C" fn nothing(_: *mut WorkItem) {}

    #[test]
    fn a_guest_charges_its_time_before_it_tells_who_waits() {
        const BURNT_US: u64 = 300;
        let runtime = on_one_cpu();
        runtime.set_fault_no_threads(true);
        let wq = runtime.new_wq("flushed", Spec::of(Kind::Percpu)).expect("it is not shut down");
        let &CpuPwq { pool, pwq } = wq.cpu_pwq(Some(0));
        let item = WorkItem::new(nothing);
        assert!(!item.claim().is_pending());
        let mut guard = pool.lock(LockFor::Queue);
        let id = guard.core.guest_enter();
        // SAFETY: it was claimed, and stays until it has run.
        let offered = unsafe { guard.core.offer(id, pwq, NonNull::from(&item)) };
        let Offered::Begun(claim) = offered else { panic!("{offered:?}") };
        let mirror = runtime.inspect.worker(Role::Bh(0), "guest");
        let meter = Meter::new(None);
        meter.begin();
        let server = Server { pool, id, is: As::Guest, meter: &meter, mirror: &mirror };
        let told = Arc::new(AtomicU64::new(0));
        let mut guard = server.run_item(guard, &claim, || {
            let told = Arc::clone(&told);
            let tell = move || told.store(pool.stats_of(pwq).cpu_time, Ordering::Relaxed);
            assert!(wq.begin_flush(|| Flusher::Call(Box::new(tell))).is_some());
            let end = current_cpu_time() + BURNT_US * 1_000;
            while current_cpu_time() < end {}
        });
        assert!(told.load(Ordering::Relaxed) >= BURNT_US);
        let kick = guard.core.guest_leave(id);
        pool.unlock(guard, kick);
    }
}
