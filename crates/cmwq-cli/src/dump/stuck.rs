//! What each busy worker runs, since when, and where it is.

use std::fmt::Write as _;

use cmwq_observe::inspect::{Activity, Snapshot, Worker};
use serde::Serialize;

use crate::look::threads::{self, Sched, Thread};
use crate::look::{Place, Stacks, limit};

/// A busy worker.
#[derive(Debug, Serialize)]
pub(super) struct Busy {
    worker: String,
    tid: u32,
    pool: Option<u32>,
    queue: String,
    /// The item's function; of a reusable item the outermost of its frames that is the program's
    /// own.
    function: String,
    /// Where it is now, in the program's own code.
    at: Option<String>,
    work: String,
    /// Seconds.
    since: f64,
    state: String,
    /// Items that wait behind it at its pool, or behind its queue's limit.
    others_wait: bool,
    /// The innermost first. Empty where there is none.
    stack: Vec<String>,
    /// Why there is none.
    no_stack: Option<String>,
    /// How many items the worker has started, with this one.
    #[serde(skip)]
    runs: u64,
}

/// Busy workers, the longest first, `most` of them; and how many more there are.
pub(super) fn busy(seen: &Snapshot, most: usize) -> (Vec<Busy>, usize) {
    let mut workers: Vec<(&Worker, Activity)> =
        seen.workers.iter().filter_map(|worker| Some((worker, worker.activity?))).collect();
    workers.sort_by_key(|(worker, now)| (now.since_ns, worker.tid));
    let left_out = limit::cut(&mut workers, most);
    let tids: Vec<u32> = workers.iter().map(|(worker, _)| worker.tid).collect();
    let threads = threads::look(seen.pid, &tids);
    let mut stacks = Stacks::of(seen.pid);
    let told = workers.into_iter().zip(threads);
    let told = told.map(|((worker, now), thread)| tell(seen, worker, now, thread, &mut stacks));
    (told.collect(), left_out)
}

fn tell(
    seen: &Snapshot,
    worker: &Worker,
    now: Activity,
    thread: Option<Thread>,
    stacks: &mut Stacks,
) -> Busy {
    let (stack, no_stack) = match stacks.of_thread(worker.tid) {
        Ok(stack) => (stack, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let item = down_to_item(&stack);
    let own = || item.iter().filter(|place| is_own(place));
    let name = stacks.symbols.name(now.func);
    let function = match own().next_back() {
        // All reusable items have the same one.
        Some(place) if is_library(&name) => &place.function,
        _ => &*name,
    };
    let queue = seen.queue(now.queue);
    let waits_at_pool =
        worker.pool.and_then(|pool| seen.pool(pool)).is_some_and(|pool| pool.work_waits);
    let waits_behind =
        queue.is_some_and(|queue| seen.links_of(queue).iter().any(|link| link.has_inactive));
    Busy {
        worker: worker.name.clone(),
        tid: worker.tid,
        pool: worker.pool,
        queue: queue.map_or_else(String::new, |queue| queue.name.clone()),
        function: function.to_string(),
        at: own().next().and_then(line),
        work: format!("{:#x}", now.work),
        since: seen.taken_ns.saturating_sub(now.since_ns) as f64 / 1e9,
        state: state(seen.pid, worker.tid, thread),
        others_wait: waits_at_pool || waits_behind,
        stack: item.iter().map(frame).collect(),
        no_stack,
        runs: worker.runs,
    }
}

/// Leaves out those whose item has ended since: their stack may be that of an idle worker.
pub(super) fn keep_those_that_still_run(busy: &mut Vec<Busy>, seen: &Snapshot) {
    // The same function and item may be another run: reusable items, and memory that is used again.
    let runs = |it: &Busy, worker: &Worker| {
        worker.activity.is_some() && (worker.tid, worker.runs) == (it.tid, it.runs)
    };
    busy.retain(|it| seen.workers.iter().any(|worker| runs(it, worker)));
}

fn state(pid: u32, tid: u32, thread: Option<Thread>) -> String {
    let there = || threads::wchan(pid, tid).map_or(String::new(), |wchan| format!(" in {wchan}"));
    match thread.map(|thread| thread.state) {
        Some(Sched::OnCpu) => "running".to_owned(),
        Some(Sched::Preempted) => "preempted".to_owned(),
        Some(Sched::Sleeps) => format!("sleeping{}", there()),
        Some(Sched::SleepsHard) => format!("sleeping uninterruptibly{}", there()),
        Some(Sched::Stopped) => "stopped".to_owned(),
        None => "gone".to_owned(),
    }
}

/// The part of a worker's stack that is about its item: down to the program's function that was
/// queued.
pub(crate) fn down_to_item(stack: &[Place]) -> &[Place] {
    let item = &stack[..stack.iter().position(is_call).unwrap_or(stack.len())];
    // What is between that and the call is the same for all.
    let len = item.iter().rposition(is_own).map_or(item.len(), |last| last + 1);
    &item[..len]
}

/// Where the library calls items' functions.
fn is_call(place: &Place) -> bool {
    let name = place.function.as_str();
    ["cmwq::engine::threads::worker::Worker::", "cmwq::engine::threads::bh_thread::run"]
        .iter()
        .any(|start| name.starts_with(start))
        || !place.has_path()
            && place.is_in_library_file()
            && place.file.as_ref().is_some_and(|file| file.ends_with("/worker.rs"))
            && ["call_first", "run_claim", "run", "main"].contains(&name)
}

/// The program's own code, not the library's, the language's or the system's.
pub(crate) fn is_own(place: &Place) -> bool {
    let is_library = if place.has_path() {
        is_library(&place.function)
    } else {
        place.is_in_library_file() || place.function.starts_with("__")
    };
    !is_library && !is_system(&place.module) && place.file.is_some()
}

/// A function of this library or the language's.
fn is_library(name: &str) -> bool {
    let name = name.trim_start_matches('<');
    ["cmwq::", "std::", "core::", "alloc::", "__", "0x"].iter().any(|start| name.starts_with(start))
}

fn is_system(module: &str) -> bool {
    ["libc.", "libc-", "libpthread", "ld-linux", "ld-musl", "[vdso]", "libcmwq"]
        .iter()
        .any(|name| module.starts_with(name))
}

/// `FILE:LINE`.
pub(crate) fn line(place: &Place) -> Option<String> {
    let file = place.file.as_ref()?;
    Some(place.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}")))
}

/// A line about it.
pub(crate) fn frame(place: &Place) -> String {
    match line(place) {
        Some(line) => format!("{} at {line}", place.function),
        None => format!("{} ({})", place.function, place.module),
    }
}

/// For people.
pub(super) fn text(busy: &[Busy]) -> String {
    let mut out = String::new();
    if busy.is_empty() {
        out.push_str("No worker runs anything.\n");
    }
    for (number, worker) in busy.iter().enumerate() {
        let gap = if number == 0 { "" } else { "\n" };
        let Busy { worker: name, tid, queue, function, since, state, .. } = worker;
        let pool = worker.pool.map_or("-".to_owned(), |pool| pool.to_string());
        let _ =
            writeln!(out, "{gap}{name} (thread {tid}) of pool {pool}, for {since:.1} s: {state}");
        let waits = if worker.others_wait { "; others wait" } else { "" };
        let _ =
            writeln!(out, "  runs  {function}, item {} of workqueue '{queue}'{waits}", worker.work);
        if let Some(at) = &worker.at {
            let _ = writeln!(out, "  at    {at}");
        }
        if let Some(why) = &worker.no_stack {
            let _ = writeln!(out, "  no stack: {why}");
        }
        for frame in &worker.stack {
            let _ = writeln!(out, "    {frame}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::{Duration, Instant};

    use cmwq::{Work, Workqueue};
    use cmwq_observe::inspect::Target;

    use super::*;

    /// The function, the item and the queue are the same.
    #[test]
    fn another_run_of_the_same_item_is_not_the_one_that_was_seen() {
        let wq = Workqueue::builder("again").ordered().build().unwrap();
        let (begin, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let work = Arc::new(Work::new(move || {
            begin.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        }));
        let look = || {
            let seen = Target::open(std::process::id()).unwrap().snapshot().unwrap();
            let key = seen.queues.iter().find(|queue| queue.name == "again").unwrap().key;
            let is_ours = |worker: &Worker| worker.activity.is_some_and(|now| now.queue == key);
            (seen.workers.iter().any(is_ours), seen)
        };
        let eventually_runs = || {
            let patience = Instant::now() + Duration::from_secs(120);
            loop {
                let (runs, seen) = look();
                if runs {
                    return seen;
                }
                assert!(Instant::now() < patience, "it does not run");
            }
        };
        let ours = |mut busy: Vec<Busy>| {
            busy.retain(|it| it.queue == "again");
            busy
        };
        wq.queue_work(&work);
        begun.recv().unwrap();
        let mut first = ours(busy(&eventually_runs(), usize::MAX).0);
        keep_those_that_still_run(&mut first, &eventually_runs());
        assert_eq!(first.len(), 1, "it still runs");
        wq.queue_work(&work);
        release.send(()).unwrap();
        begun.recv().unwrap();
        keep_those_that_still_run(&mut first, &eventually_runs());
        assert!(first.is_empty(), "{first:?}");
        release.send(()).unwrap();
        wq.flush();
    }
}
