//! What runs already when a trace begins: of a process that hangs, that is all there is.
//!
//! Workers have shown it ([`cmwq_observe::inspect`]) before anybody traced; here it becomes the
//! events that nobody saw, at the time at which the trace begins. What ran for less than [`COARSE`]
//! then is left out: workers may show its beginning as that much earlier than it was, so that the
//! trace may have it, too.

use std::io;
use std::time::Duration;

use cmwq::foreign::harmless;
use cmwq::trace::{ANY_CPU, Event, Kind};
use cmwq_observe::inspect::{Snapshot, Target, Worker};
use rustix::time::{ClockId, clock_gettime};

use super::Subject;
use super::merge::{Take, Thread, Timed};

/// Beginnings are shown as the tick saw them, which comes after 4 ms at the latest.
const COARSE: Duration = Duration::from_millis(5);

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Tells what the process ran when it was `begin`. Tracing is on since then, so that what ends,
/// ends in the trace.
pub(super) fn hand_on(
    pid: u32,
    begin: u64,
    subject: &mut Subject,
    take: &mut Take<'_>,
) -> io::Result<()> {
    // A process that shows nothing can be traced all the same.
    let snapshot = Target::open(pid).ok().and_then(|target| target.snapshot().ok());
    let Some(snapshot) = snapshot else { return Ok(()) };
    for (worker, ago) in begun(&snapshot, begin) {
        tell(&snapshot, worker, (begin, ago), subject, take)?;
    }
    Ok(())
}

/// Workers that ran what they run for so many nanoseconds at that time; the longest first.
fn begun(snapshot: &Snapshot, begin: u64) -> Vec<(&Worker, u64)> {
    let ago = |worker: &Worker| begin.checked_sub(worker.activity.as_ref()?.since_ns);
    let all = snapshot.workers.iter().filter_map(|worker| Some((worker, ago(worker)?)));
    let mut begun: Vec<_> = all.filter(|(_, ago)| *ago > COARSE.as_nanos() as u64).collect();
    begun.sort_by_key(|(worker, ago)| (std::cmp::Reverse(*ago), worker.own_tid));
    begun
}

/// Its start, and that it is blocked.
fn tell(
    snapshot: &Snapshot,
    worker: &Worker,
    (ns, ago): (u64, u64),
    subject: &mut Subject,
    take: &mut Take<'_>,
) -> io::Result<()> {
    let Some(activity) = &worker.activity else { return Ok(()) };
    let pool = snapshot.pools.iter().find(|pool| Some(pool.id) == worker.pool);
    let cpu = pool.and_then(|pool| pool.cpu);
    let start = Event {
        stamp: 0,
        kind: Kind::ExecuteStart,
        // Where it is now, nobody has told.
        cpu: cpu.and_then(|cpu| u16::try_from(cpu).ok()).unwrap_or(0),
        pool: worker.pool.unwrap_or(u32::MAX),
        wq: activity.queue,
        requested_cpu: ANY_CPU,
        work: activity.work,
        func: activity.func,
        tid: 0,
        pool_cpu: cpu.map_or(-1, |cpu| cpu as i32),
    };
    let queue = snapshot.queues.iter().find(|queue| queue.key == activity.queue);
    let queue = queue.map(|queue| harmless(&queue.name));
    let queue = queue.as_deref();
    // As in what the process traces itself.
    let thread = Thread { tid: worker.own_tid, name: &harmless(&worker.name) };
    take(subject, &Timed { ns, thread, event: &start, queue, ago })?;
    if worker.is_blocked {
        let blocked = Event { kind: Kind::WorkerBlocked, tid: worker.own_tid, ..start };
        take(subject, &Timed { ns, thread, event: &blocked, queue: None, ago: 0 })?;
    }
    Ok(())
}
