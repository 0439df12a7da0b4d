//! A worker's thread as other threads see it: how to wake it, and how to find out what it does.

use std::fmt;

use cmwq_core::detect::By;
use cmwq_core::detect::evidence::{self, Seen, Used};
use cmwq_core::detect::hogs::Evidence;
use cmwq_core::detect::processes::Asker;
use cmwq_core::{Nanos, PoolId, PoolState, PwqId, Waited, WorkerId};

use crate::detect::hog::HogMarks;
use crate::detect::processes::Processes;
use crate::engine::tools::comm::Comm;
use crate::engine::tools::meter::Meter;
use crate::os::clock;
use crate::os::notice::{self, Notice};
use crate::os::park::Parker;
use crate::os::recycled::Recycled;
use crate::os::sense::{self, CpuClock, StatFile, SwitchRecords};
use crate::os::sync::{AtomicBool, AtomicU32, AtomicU64, OnceLock, Ordering};
use crate::record::WorkerMirror;

/// The parkers of threads that have ended. The sentinel may use one longer than its owner lives.
pub(crate) static PARKERS: Recycled<Parker> = Recycled::new();

/// The ways to look at a thread.
#[derive(Debug, Default)]
pub(crate) struct Senses {
    /// Opened by the thread itself when it starts.
    pub(crate) switches: Option<SwitchRecords>,
    /// `None`: it could not be opened.
    stat: OnceLock<Option<StatFile>>,
    clock: Option<CpuClock>,
    tid: libc::pid_t,
}

impl Senses {
    pub(crate) fn new(tid: libc::pid_t, clock: Option<CpuClock>) -> Self {
        Self { tid, clock, ..Self::default() }
    }

    /// The thread's state, opened when it is asked for the first time. By any thread, which notices
    /// afterwards if this one has ended meanwhile.
    pub(crate) fn stat(&self) -> Option<&StatFile> {
        // A model's threads have none.
        if self.tid == 0 {
            return None;
        }
        if self.stat.get().is_none() {
            // If two threads open it at once, one closes its own. Waiting for the other might be
            // waiting for the CPU that it has lost.
            let _ = self.stat.set(open_stat(self.tid));
        }
        self.stat.get()?.as_ref()
    }
}

#[cold]
fn open_stat(tid: libc::pid_t) -> Option<StatFile> {
    let refused = |error| {
        notice::once(Notice::ProcMissing, || {
            format!(
                "thread states cannot be read ({error}); blocked workers are told by their CPU \
                 time, later than usual"
            )
        });
    };
    StatFile::open(tid).map_err(refused).ok()
}

/// See the module header.
pub(crate) struct Thread {
    pub(crate) parker: &'static Parker,
    pub(crate) comm: Comm,
    pub(crate) meter: Meter,
    pub(crate) mirror: WorkerMirror,
    senses: OnceLock<Senses>,
    /// The run whose function the thread is in; 0 outside functions. What happens outside them
    /// (waiting for a pool's lock, say) is not blocking in the sense of concurrency management.
    run: AtomicU64,
    /// The CPU on which that function was entered.
    cpu: AtomicU32,
    /// The thread's CPU time when it was last looked at, and when that was.
    looked_at: AtomicU64,
    looked_when: AtomicU64,
    /// Looks in a row that found its CPU time unchanged, where only that can be read.
    still: AtomicU32,
    hog: HogMarks,
    /// The processes for which it stands while it waits for them.
    pub(crate) processes: Processes,
    /// Its CPU time when it was first found blocked in this run; 0: it was not found blocked.
    blocked_at: AtomicU64,
    /// Its CPU time when the last item ended of which its pool has learned, or when it began.
    ended_at: AtomicU64,
    /// It was unbound from its pool's CPUs while it was blocked, or has left them. Written under
    /// the attach lock.
    is_unbound: AtomicBool,
    /// The pool that it helps, and its guest id there; or `NO_GUEST`.
    guest: AtomicU64,
    /// The range of its stack; empty: unknown.
    stack: [AtomicU64; 2],
}

const NO_GUEST: u64 = u64::MAX;

impl Thread {
    pub(crate) fn new(name: String, mirror: WorkerMirror) -> Self {
        Self {
            parker: PARKERS.take(Parker::new),
            comm: Comm::new(name),
            meter: Meter::new(mirror.record()),
            mirror,
            senses: OnceLock::new(),
            run: AtomicU64::new(0),
            cpu: AtomicU32::new(0),
            looked_at: AtomicU64::new(0),
            looked_when: AtomicU64::new(0),
            still: AtomicU32::new(0),
            hog: HogMarks::default(),
            processes: Processes::default(),
            blocked_at: AtomicU64::new(0),
            ended_at: AtomicU64::new(0),
            is_unbound: AtomicBool::new(false),
            guest: AtomicU64::new(NO_GUEST),
            stack: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    pub(crate) fn set_senses(&self, senses: Senses) {
        // ORDERING: no pairing: a hint, see below.
        self.ended_at.store(sense::current_cpu_time(), Ordering::Relaxed);
        let _ = self.senses.set(senses);
    }

    /// The thread's id, once it has begun; 0 before.
    pub(crate) fn tid(&self) -> libc::pid_t {
        self.senses.get().map_or(0, |senses| senses.tid)
    }

    // ORDERING (all accesses of `run`, `cpu`, `looked_*`, `still`, `blocked_at`, `ended_at`,
    // `is_unbound`, `guest`, `stack`): no pairing: hints for detectors. What a detector concludes
    // is applied under the pool's lock, with the run's number.

    #[inline]
    pub(crate) fn set_cpu(&self, cpu: u32) {
        self.cpu.store(cpu, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn enter_function(&self, seq: u64) {
        self.run.store(seq, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn leave_function(&self) {
        self.run.store(0, Ordering::Relaxed);
    }

    /// The thread was found blocked in run `seq`. Not recorded while it waits for a process: its
    /// own CPU time says nothing about the process.
    pub(crate) fn record_blocked(&self, seq: u64) {
        if self.blocked_at.load(Ordering::Relaxed) != 0 || self.processes.is_in(seq) {
            return;
        }
        let clock = self.senses.get().and_then(|senses| senses.clock);
        if let Some(now) = clock.and_then(CpuClock::now_ns)
            && self.is_in_run(seq)
        {
            self.blocked_at.store(now.max(1), Ordering::Relaxed);
        }
    }

    /// Whether it was found blocked in the run that has just ended.
    #[inline]
    pub(crate) fn was_blocked(&self) -> bool {
        self.blocked_at.load(Ordering::Relaxed) != 0
    }

    /// The calling thread, which is this one, has ended a run that its pool learns from: returns
    /// the run's CPU time, if it was found blocked. The part before the wait includes runs since
    /// the last call, of which the pool did not learn.
    pub(crate) fn take_waited(&self) -> Option<Waited> {
        let blocked = self.blocked_at.swap(0, Ordering::Relaxed);
        let now = self.senses.get()?.clock?.now_ns()?;
        let ended = self.ended_at.swap(now, Ordering::Relaxed);
        (blocked != 0).then(|| Waited::of(ended, blocked, now))
    }

    #[inline]
    pub(crate) fn is_unbound(&self) -> bool {
        self.is_unbound.load(Ordering::Relaxed)
    }

    pub(crate) fn set_unbound(&self, is_unbound: bool) {
        self.is_unbound.store(is_unbound, Ordering::Relaxed);
    }

    pub(crate) fn is_in_run(&self, seq: u64) -> bool {
        self.run.load(Ordering::Relaxed) == seq
    }

    pub(crate) fn cpu(&self) -> u32 {
        self.cpu.load(Ordering::Relaxed)
    }

    /// Looks whether the thread, in run `seq`, is blocked.
    pub(crate) fn state(&self, seq: u64, by: By) -> Seen {
        if !self.is_in_run(seq) {
            return Seen::Unknown;
        }
        let Some(senses) = self.senses.get() else { return Seen::Unknown };
        let mut view = View { thread: self, senses };
        let seen = if self.processes.is_in(seq) {
            let processes_run = || self.processes.is_any_running(Asker::Runner(by));
            evidence::state_for(&mut view, by, processes_run)
        } else {
            evidence::state(&mut view, by)
        };
        if seen == Seen::Blocked {
            self.hog.slept();
        }
        if self.is_in_run(seq) { seen } else { Seen::Unknown }
    }

    /// Whether the thread, running in run `seq`, has used the CPU for `thresh` without a sleep. To
    /// be asked at intervals, by one thread.
    pub(crate) fn hogs(&self, seq: u64, thresh: Nanos) -> bool {
        let Some(senses) = self.senses.get().filter(|_| self.is_in_run(seq)) else { return false };
        let Some(cpu) = senses.clock.and_then(CpuClock::now_ns) else { return false };
        let now = clock::now();
        let seen = Evidence { seq, cpu, now };
        self.hog.judge(seen, thresh, || sense::nr_sleeps(senses.tid)) && self.is_in_run(seq)
    }

    /// Records the range of the calling thread's stack, if somebody wants to know; the caller is
    /// this thread.
    pub(crate) fn record_stack(&self) {
        if cfg!(not(feature = "stacks")) {
            return;
        }
        let stack = sense::sched::stack();
        self.stack[0].store(stack.start, Ordering::Relaxed);
        self.stack[1].store(stack.end, Ordering::Relaxed);
    }

    #[cfg_attr(not(feature = "stacks"), allow(dead_code, reason = "nobody else wants to know"))]
    pub(crate) fn stack(&self) -> std::ops::Range<u64> {
        self.stack[0].load(Ordering::Relaxed)..self.stack[1].load(Ordering::Relaxed)
    }

    /// See [`Meter::pending`].
    pub(crate) fn pending_time(&self, pwq: PwqId) -> u64 {
        self.own_clock().map_or(0, |clock| self.meter.pending(pwq, clock))
    }

    /// See [`Meter::forget`].
    pub(crate) fn forget_pwq(&self, pwq: PwqId, core: &mut PoolState) {
        if let Some(clock) = self.own_clock() {
            self.meter.forget(pwq, clock, core);
        }
    }

    /// The thread's clock, unless it serves another pool's pwqs.
    fn own_clock(&self) -> Option<CpuClock> {
        self.senses.get()?.clock.filter(|_| self.guest().is_none())
    }

    /// Records that the thread serves a pool as a guest, or its own pool again.
    pub(crate) fn set_guest(&self, guest: Option<(PoolId, WorkerId)>) {
        let packed = guest.map_or(NO_GUEST, |(pool, id)| u64::from(pool.0) << 32 | u64::from(id.0));
        self.guest.store(packed, Ordering::Relaxed);
    }

    pub(crate) fn guest(&self) -> Option<(PoolId, WorkerId)> {
        let packed = self.guest.load(Ordering::Relaxed);
        (packed != NO_GUEST).then_some((PoolId((packed >> 32) as u32), WorkerId(packed as u32)))
    }

    /// Whether a thread that was seen blocked in run `seq` has come back.
    pub(crate) fn is_back(&self, seq: u64) -> bool {
        let Some(senses) = self.senses.get() else { return false };
        let mut view = View { thread: self, senses };
        let is_back = |view: &mut View<'_>| {
            if self.processes.is_in(seq) {
                evidence::is_back_for(view, || self.processes.is_any_running(Asker::Sleeper))
            } else {
                evidence::is_back(view)
            }
        };
        self.is_in_run(seq) && is_back(&mut view) && self.is_in_run(seq)
    }
}

/// A look at a thread from outside.
struct View<'a> {
    thread: &'a Thread,
    senses: &'a Senses,
}

impl evidence::Senses for View<'_> {
    fn switched(&mut self) -> Option<evidence::Switch> {
        Some(self.senses.switches.as_ref()?.last())
    }

    fn used(&mut self) -> Option<Used> {
        let cpu_now = self.senses.clock?.now_ns()?;
        let (now, thread) = (clock::now(), self.thread);
        let used = cpu_now.saturating_sub(thread.looked_at.swap(cpu_now, Ordering::Relaxed));
        let passed = now.saturating_sub(thread.looked_when.swap(now, Ordering::Relaxed));
        if used != 0 {
            thread.still.store(0, Ordering::Relaxed);
        }
        Some(Used::of(used, passed))
    }

    fn is_blocked(&mut self) -> Option<bool> {
        Some(self.senses.stat()?.state().ok()?.is_blocked())
    }

    fn stood_still(&mut self) -> u32 {
        self.thread.still.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let _ = self.parker.take();
        PARKERS.give_back(self.parker);
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
