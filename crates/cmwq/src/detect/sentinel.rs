//! The idle-class sentinel: a thread per CPU that runs almost only when nothing else on it can.
//!
//! It is armed while work waits. When it gets the CPU, the CPU has just gone idle although work
//! waits: it wakes the pool's standby, which looks for blocked workers, and parks. Rules, each paid
//! for in measurements: it holds **no lock** (a preempted idle-class holder would stop the pool for
//! as long as the CPU is busy), allocates nothing, decides nothing (under a CPU hog it gets a small
//! share too, so it may be wrong), and never spins.
//!
//! Why: docs/decisions/one-alarm.md

use std::{io, iter, ptr};

use cmwq_core::Retry;

use crate::os::IS_MODEL;
use crate::os::clock;
use crate::os::notice::{self, Notice};
use crate::os::park::{Parker, WAKE};
use crate::os::published::Published;
use crate::os::sense;
use crate::os::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, lock, yield_now};
use crate::os::thread_group::ThreadGroup;
use crate::os::topo::CpuSet;

/// A pool, as a sentinel knows it. Lock-free.
pub(crate) trait Guarded: Sync {
    /// Whether an alarm now is likely false, and others are to have the CPU once before it.
    fn yields_first(&self) -> bool;
    /// The CPU has nothing else to run: no caller computes there any more.
    fn cpu_idles(&'static self);
}

/// All sentinels, by CPU number.
#[derive(Debug)]
pub(crate) struct Sentinels<P: 'static> {
    cpus: Box<[Sentinel<P>]>,
    /// Serialises starting threads, moving them and publishing pools.
    setup: Mutex<()>,
    events: Events,
}

/// What sentinels tell of themselves.
#[derive(Debug)]
struct Events {
    /// A sentinel has found itself on another CPU.
    is_one_astray: AtomicBool,
    /// A CPU will never have a sentinel.
    is_one_refused: AtomicBool,
}

#[derive(Debug)]
struct Sentinel<P: 'static> {
    /// Has a token while it is armed.
    parker: Parker,
    state: AtomicU32,
    /// Its thread's id, once the thread is ready.
    tid: AtomicU32,
    /// There was no thread to be had: not before this time again. Lock: `setup`.
    retry_at: AtomicU64,
    /// The first of the pools whose workers may run on this CPU.
    pools: Published<Known<P>>,
}

/// A pool that a sentinel knows, for good, and the next.
#[derive(Debug)]
struct Known<P: 'static> {
    pool: &'static P,
    next: Published<Self>,
}

const OFF: u32 = 0;
const ON: u32 = 1;
const REFUSED: u32 = 2;
const LEAVING: u32 = 3;

const SENTINEL_STACK: usize = 64 << 10;

impl<P: Guarded> Sentinels<P> {
    pub(crate) fn new(cpus: &CpuSet) -> Self {
        let count = cpus.last().map_or(0, |last| last as usize + 1);
        let new = |_| Sentinel {
            parker: Parker::new(),
            state: AtomicU32::new(OFF),
            tid: AtomicU32::new(0),
            retry_at: AtomicU64::new(0),
            pools: Published::nothing(),
        };
        Self {
            cpus: (0..count).map(new).collect(),
            setup: Mutex::new(()),
            events: Events {
                is_one_astray: AtomicBool::new(false),
                is_one_refused: AtomicBool::new(false),
            },
        }
    }

    /// Lets the CPU's sentinel run when the CPU has nothing else to do. One load if it is armed
    /// already.
    #[inline]
    pub(crate) fn arm(&self, cpu: u32) {
        let Some(sentinel) = self.cpus.get(cpu as usize) else { return };
        // A stale value arms once too often, or not, and then the tick finds the blocked worker.
        if !sentinel.parker.has_token() {
            sentinel.parker.unpark(WAKE);
        }
    }

    /// Whether the CPU's sentinel tells when the CPU idles, if it is armed. `true` also before it
    /// was first needed; not while there is no thread for it, and where it was refused.
    pub(crate) fn reports(&self, cpu: u32) -> bool {
        self.cpus.get(cpu as usize).is_some_and(Sentinel::reports)
    }

    /// Some CPU will never have a sentinel.
    pub(crate) fn is_one_refused(&self) -> bool {
        // ORDERING: no pairing: a hint that comes true at some time.
        self.events.is_one_refused.load(Ordering::Relaxed)
    }

    /// Whether a sentinel has found itself on another CPU since the last call. It may have been
    /// moved away on purpose: whoever knows the process's CPUs decides whether it goes back.
    pub(crate) fn is_one_astray(&self) -> bool {
        // ORDERING: no pairing: a hint; a sentinel that is still astray sets it again.
        let is_one_astray = &self.events.is_one_astray;
        is_one_astray.load(Ordering::Relaxed) && is_one_astray.swap(false, Ordering::Relaxed)
    }

    /// The process has these CPUs now: pins their sentinels to them.
    pub(crate) fn bring_back(&self, allowed: &CpuSet) {
        // A thread ends only after `stop`, which takes this lock.
        let _setup = lock(&self.setup);
        for cpu in allowed.iter() {
            let Some(sentinel) = self.cpus.get(cpu as usize) else { continue };
            // ORDERING: no pairing: a number, and `state` is written under `setup`.
            let tid = sentinel.tid.load(Ordering::Relaxed);
            if tid != 0 && sentinel.state.load(Ordering::Relaxed) == ON {
                // If this is refused, the CPU has left again.
                let _ = sense::sched::pin(tid.cast_signed(), &CpuSet::single(cpu));
            }
        }
    }

    /// Ends all sentinels, and starts no more.
    pub(crate) fn stop(&self) {
        let _setup = lock(&self.setup);
        for sentinel in &self.cpus {
            // ORDERING: no pairing of its own: ordered by the token.
            sentinel.state.store(LEAVING, Ordering::Relaxed);
            sentinel.parker.unpark(WAKE);
        }
    }

    /// Whether [`cover`](Self::cover) would have nothing to do. Lock-free.
    pub(crate) fn covers(&self, pool: &'static P, cpus: impl IntoIterator<Item = u32>) -> bool {
        let mut sentinels = cpus.into_iter().filter_map(|cpu| self.cpus.get(cpu as usize));
        sentinels.all(|sentinel| sentinel.knows(pool) && !sentinel.is_to_start())
    }

    /// Makes sure that these CPUs have sentinels that know `pool`; `cpus` is called under the lock
    /// under which sentinels are moved. Creates threads: not for hot paths. Where there is none to
    /// be had, a call a second later tries again.
    #[cold]
    pub(crate) fn cover(
        &'static self,
        pool: &'static P,
        threads: &'static ThreadGroup,
        cpus: impl FnOnce() -> Option<CpuSet>,
    ) {
        let _setup = lock(&self.setup);
        let Some(cpus) = cpus() else { return };
        for cpu in cpus.iter() {
            let Some(sentinel) = self.cpus.get(cpu as usize) else { continue };
            if !sentinel.knows(pool) {
                sentinel.add(pool);
            }
            if sentinel.is_to_start() {
                sentinel.start(cpu, threads, &self.events);
            }
        }
    }
}

impl<P: Guarded> Sentinel<P> {
    fn pools(&self) -> impl Iterator<Item = &'static P> {
        iter::successors(self.pools.get(), |known| known.next.get()).map(|known| known.pool)
    }

    fn knows(&self, pool: &'static P) -> bool {
        self.pools().any(|known| ptr::eq(known, pool))
    }

    /// Caller holds `setup`.
    fn add(&self, pool: &'static P) {
        let mut end = &self.pools;
        while let Some(known) = end.get() {
            end = &known.next;
        }
        end.publish(Box::new(Known { pool, next: Published::nothing() }));
    }

    fn reports(&self) -> bool {
        // ORDERING: no pairing: hints that come true at some time.
        match self.state.load(Ordering::Relaxed) {
            ON => true,
            // Not tried yet.
            OFF => self.retry_at.load(Ordering::Relaxed) == 0,
            _ => false,
        }
    }

    /// There is no thread to be had. Caller holds `setup`.
    fn goes_without(&self) {
        // ORDERING: no pairing: see `is_to_start`.
        self.state.store(OFF, Ordering::Relaxed);
        self.retry_at.store(Retry::after_failure(clock::now()), Ordering::Relaxed);
    }

    fn start(&'static self, cpu: u32, threads: &'static ThreadGroup, events: &'static Events) {
        // ORDERING: no pairing: see `cover`.
        self.state.store(ON, Ordering::Relaxed);
        let started = threads
            .spawn(&format!("cmwq/idle:{cpu}"), SENTINEL_STACK, move || self.main(cpu, events));
        if let Err(error) = started {
            self.goes_without();
            notice::once(Notice::SentinelThread, || {
                format!(
                    "there is no thread for an idle-class sentinel on CPU {cpu} ({error}): until \
                     there is, blocked workers there are told by the tick (raise RLIMIT_NPROC or \
                     the pids limit of the cgroup)"
                )
            });
        }
    }

    /// A hint to who does not hold `setup`.
    fn is_to_start(&self) -> bool {
        // ORDERING: no pairing: written under `setup`, or by the thread itself for good.
        self.state.load(Ordering::Relaxed) == OFF
            && clock::now() >= self.retry_at.load(Ordering::Relaxed)
    }

    fn refused(&self, cpu: u32, error: &io::Error, events: &Events) {
        self.state.store(REFUSED, Ordering::Relaxed);
        events.is_one_refused.store(true, Ordering::Relaxed);
        notice::once(Notice::SentinelRefused, || {
            format!(
                "no idle-class sentinel on CPU {cpu} ({error}); blocked workers there are told by \
                 the tick"
            )
        });
    }

    fn main(&self, cpu: u32, events: &Events) {
        if !IS_MODEL {
            // It would handle them when nothing else wants the CPU, and on a small stack.
            sense::signal::handle_none();
        }
        let home = match sense::sched::pin_current(&CpuSet::single(cpu)) {
            // The CPU has just left, and may return.
            Err(error) if sense::sched::is_absent(&error) => Ok(()),
            home => home,
        };
        if let Err(error) = home.and_then(|()| sense::sched::enter_idle_class()) {
            self.refused(cpu, &error, events);
            return;
        }
        // ORDERING: no pairing: a number.
        self.tid.store(sense::sched::gettid().unsigned_abs(), Ordering::Relaxed);
        loop {
            // With the token come the hints of the pools.
            self.parker.park(None);
            // ORDERING: no pairing of its own: ordered by the token.
            if self.state.load(Ordering::Relaxed) == LEAVING {
                return;
            }
            if self.pools().any(Guarded::yields_first) {
                // A worker whose turn was over goes on, and this thread does not get the CPU soon
                // again unless nobody else can run.
                yield_now();
            }
            if sense::sched::current_cpu().is_some_and(|here| here != cpu) {
                // Its CPU has left, or it was moved from outside. It knows nothing about the CPU
                // that it runs on now. ORDERING: no pairing: a hint.
                events.is_one_astray.store(true, Ordering::Relaxed);
                continue;
            }
            for pool in self.pools() {
                pool.cpu_idles();
            }
        }
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use super::*;

    struct Nobody;

    impl Guarded for Nobody {
        fn yields_first(&self) -> bool {
            false
        }

        fn cpu_idles(&'static self) {}
    }

    /// Whoever relies on a report must not while there is nobody to make it.
    #[test]
    fn a_sentinel_without_a_thread_reports_nothing() {
        let sentinels = Sentinels::<Nobody>::new(&CpuSet::single(1));
        let sentinel = &sentinels.cpus[1];
        assert!(sentinels.reports(1), "it is made when it is needed");
        sentinel.goes_without();
        assert!(!sentinels.reports(1));
        sentinel.state.store(ON, Ordering::Relaxed);
        assert!(sentinels.reports(1), "a thread was had later");
        sentinel.state.store(REFUSED, Ordering::Relaxed);
        assert!(!sentinels.reports(1) && !sentinels.reports(7));
    }
}
