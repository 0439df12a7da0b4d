//! The thread of a BH context: runs the items of its CPU's BH pools.

use cmwq_core::{BhNext, BhRound, BhVisit, Claim, Kick, LockFor};

use crate::engine::bh::{BhContext, BhContexts, BhThread, thread_name};
use crate::engine::pool::Pool;
use crate::engine::threads::current::{self, ThreadRun};
use crate::engine::threads::invoke;
use crate::engine::threads::running::{As, Server};
use crate::engine::threads::thread_hooks;
use crate::engine::tools::attrs::{HIGHPRI_NICE, Priority};
use crate::os::clock;
use crate::os::notice::{self, Notice};
use crate::os::park;
use crate::os::sense;
use crate::os::sense::policy::Policy;
use crate::os::sync::Ordering;
use crate::os::topo::CpuSet;

/// What the thread of a CPU's context does.
pub(crate) fn main(contexts: &'static BhContexts, cpu: u32, thread: BhThread) {
    prepare(cpu, thread.policy);
    invoke::watch_thread();
    let _hooks = thread_hooks::begin(|| thread_name(cpu));
    thread.mirror.set_tid(sense::sched::gettid().unsigned_abs());
    let context = &contexts.cpus[cpu as usize];
    thread.meter.begin();
    loop {
        context.parker.park(None);
        if context.serve(&thread) {
            context.parker.unpark(park::WAKE);
        // ORDERING: no pairing of its own: see `stop`.
        } else if contexts.is_leaving.load(Ordering::Relaxed) {
            if contexts.may_leave(cpu) {
                return;
            }
            context.parker.unpark(park::WAKE);
        }
    }
}

/// Puts the calling thread on its CPU, and as far as permitted ahead of other threads, as softirqs
/// are.
fn prepare(cpu: u32, base: Policy) {
    // If the CPU has just left, nothing was refused: the context is brought back when the CPU
    // returns.
    if let Err(error) = sense::sched::pin_current(&CpuSet::single(cpu))
        && !sense::sched::is_absent(&error)
    {
        notice::once(Notice::PinRefused, || {
            format!(
                "the BH context of CPU {cpu} cannot be pinned to it ({error}); it runs where the \
                 system puts it"
            )
        });
    }
    if let Err(error) = Priority::favour(base, HIGHPRI_NICE) {
        notice::once(Notice::Nice, || {
            format!(
                "nice {HIGHPRI_NICE} refused ({error}); BH items run at normal priority (grant \
                 CAP_SYS_NICE or raise \
                 RLIMIT_NICE)"
            )
        });
    }
}

impl BhContext {
    /// Moves the calling thread back to its CPU, if the system has moved it away.
    #[inline]
    fn return_to_cpu(&self, pool: &Pool) {
        // ORDERING: no pairing of its own: see `bring_back`.
        if self.is_astray.load(Ordering::Relaxed) {
            self.is_astray.store(false, Ordering::Relaxed);
            // If this is refused, the CPU has left again.
            let _ = sense::sched::pin_current(&pool.spec().cpus);
        }
    }

    /// A round through the pools. `true`: another one has to follow.
    fn serve(&self, thread: &BhThread) -> bool {
        let mut round = BhRound::begin();
        loop {
            match round.next() {
                BhNext::Look(place) => {
                    if let Some(pool) = self.pools[place].get() {
                        visit(pool, self, thread, &mut round);
                    }
                }
                BhNext::Again => return true,
                BhNext::Sleep => return false,
            }
        }
    }
}

/// Runs items of `pool` in the order of queueing, within the limits of one visit.
///
/// KERNEL: `bh_worker` — same.
fn visit(
    pool: &'static Pool,
    context: &BhContext,
    BhThread { meter, mirror, .. }: &BhThread,
    round: &mut BhRound,
) {
    let mut guard = pool.lock(LockFor::Find);
    if guard.core.work_waits() {
        let guest = guard.core.guest_enter();
        mirror.serve(pool.id.0, true);
        let server = Server { pool, id: guest, is: As::Bh, meter, mirror };
        let mut length = BhVisit::begin(clock::now());
        while let Some(claim) = guard.core.guest_next(guest, false) {
            guard = server.run_item(guard, &claim, || {
                context.return_to_cpu(pool);
                run(pool, &claim);
            });
            guard.take_inbox_after_item(pool);
            // Only this guest can run its scheduled items: a barrier, or the same item once more.
            if length.is_over(clock::now, || guard.core.guest_may_leave(guest)) {
                break;
            }
        }
        meter.charge(&mut guard.core);
        mirror.idle(clock::coarse);
        // The kick would wake this context; the question below answers the same.
        let _ = guard.core.guest_leave(guest);
    }
    if !round.leaves(guard.core.work_waits()) {
        // From here on queueing raises the context again; `unlock` finds items that came by the
        // inbox meanwhile.
        guard.unwatch(pool);
    }
    pool.unlock(guard, Kick::None);
    pool.runtime.service.wake_for_deferred();
}

/// Calls the function. The item must not be touched afterwards.
fn run(pool: &'static Pool, claim: &Claim) {
    current::enter_bh(ThreadRun::of(pool, claim));
    // SAFETY: the caller that queued the item has promised that its function may be called with it,
    // once.
    unsafe { invoke::call(pool, claim) };
    invoke::after_function(pool.runtime);
    current::leave_bh();
}
