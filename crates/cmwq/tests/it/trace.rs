//! Trace events: each in its place, nothing lost without being counted, nobody in anybody's way.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cmwq::trace::{ALL, Event, Kind, Record, Session, unpack};
use cmwq::{Work, Workqueue};

use crate::nproc::user;
use crate::rescue::{Stuck, reclaim};
use crate::support::scene::{Scene, Stage};
use crate::support::wait::{Gate, Opened, eventually};
use crate::support::{joined, occupy, percpu, procfs, sys, unbound};

pub(crate) const SCENES: &[Scene] = &[
    ("trace::order", order),
    ("trace::expired", expired),
    ("trace::batches", batches),
    ("trace::blocking", blocking),
    ("trace::full", full),
    ("trace::full_of_runs", full_of_runs),
    ("trace::lease", lease),
    ("trace::overtaken", overtaken),
    ("trace::ends", ends),
    ("trace::late", late),
    ("trace::fork", fork),
    ("trace::threads", threads),
    ("trace::mayday", mayday),
    ("trace::culled", culled),
    ("trace::hog", hog),
    ("trace::renamed", renamed),
    ("trace::crowded_out", crowded_out),
];

/// The process's own trace, as a tool finds it.
fn open() -> Session {
    open_at(&path_of_trace())
}

/// As [`open`], and events of these kinds are traced from now on.
pub(crate) fn begin(kinds: u32) -> Session {
    let mut session = open();
    session.begin(kinds).unwrap();
    session
}

fn open_at(path: &Path) -> Session {
    let file = File::options().read(true).write(true).open(path).unwrap();
    Session::open(file.into()).unwrap()
}

/// Of this process, as its children can name it, too.
fn path_of_trace() -> PathBuf {
    let is_it = |path: &Path| {
        fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains("memfd:cmwq-trace"))
    };
    let folder = format!("/proc/{}/fd", std::process::id());
    let mut entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| is_it(path)).expect("the runtime has started")
}

/// Reads what there is: in each ring's order, with the names of queues and of threads by ring.
#[derive(Debug, Default)]
struct Found {
    events: Vec<Event>,
    queues: HashMap<u32, String>,
    threads: HashMap<u32, String>,
    lost: u64,
    /// The last look came too late.
    has_lapsed: bool,
}

impl Found {
    /// What there is to read now.
    fn read_from(session: &mut Session) -> Self {
        let mut found = Self::default();
        found.read(session);
        found
    }

    fn read(&mut self, session: &mut Session) {
        let round = session.round(|ring, words| {
            for record in unpack(words) {
                match record {
                    Record::Event(event) => self.events.push(event),
                    Record::Thread { name, .. } => drop(self.threads.insert(ring, name)),
                    Record::QueueName { wq, part, .. } => {
                        self.queues.insert(wq, String::from_utf8(part).unwrap());
                    }
                    Record::FunctionName { .. } => {}
                }
            }
        });
        let round = round.unwrap();
        (self.lost, self.has_lapsed) = (round.lost, round.has_lapsed);
        self.events.sort_by_key(|event| event.stamp);
    }

    /// What happened to items of the queue.
    fn of(&self, queue: &str) -> Vec<Event> {
        let is_it = |event: &&Event| self.queues.get(&event.wq).is_some_and(|name| name == queue);
        self.events.iter().filter(is_it).copied().collect()
    }

    /// Whom events of that kind are about.
    fn workers(&self, kind: Kind) -> Vec<i32> {
        let about = self.events.iter().filter(|event| event.kind == kind);
        about.map(|event| i32::try_from(event.tid).unwrap()).collect()
    }

    fn count(&self, queue: &str, kind: Kind) -> usize {
        self.of(queue).iter().filter(|event| event.kind == kind).count()
    }
}

fn ordered(name: &str) -> Workqueue {
    Workqueue::builder(name).ordered().build().unwrap()
}

#[test]
fn each_item_has_its_four_events_in_order() {
    Stage::new("trace::order").play();
}

fn order() {
    let wq = ordered("one by one");
    joined(wq.queue(|| ()));
    // An item has ended a little later than its result is there.
    wq.flush();
    let mut session = begin(ALL);
    let (first, second) = (Gate::new(), Gate::new());
    let _handle = {
        let (first, second) = (first.clone(), second.clone());
        wq.queue(move || {
            first.open();
            second.pass();
        })
    };
    first.pass();
    let waiting = wq.queue(|| ());
    second.open();
    joined(waiting);
    wq.flush();
    session.stop();
    let found = Found::read_from(&mut session);
    assert_eq!(found.lost, 0);
    let events = found.of("one by one");
    let of_work = |work: u64| -> Vec<Kind> {
        events.iter().filter(|event| event.work == work).map(|event| event.kind).collect()
    };
    let queued: Vec<_> = events.iter().filter(|event| event.kind == Kind::QueueWork).collect();
    assert_eq!(queued.len(), 2, "{events:#?}");
    let whole = [Kind::QueueWork, Kind::ActivateWork, Kind::ExecuteStart, Kind::ExecuteEnd];
    for event in &queued {
        assert_eq!(of_work(event.work), whole, "{events:#?}");
        assert_eq!((event.requested_cpu, event.pool_cpu), (-1, -1));
    }
    assert_ne!(queued[0].func, queued[1].func, "two closures");
    let at = |work: u64, kind: Kind| {
        let event = events.iter().find(|event| event.work == work && event.kind == kind);
        event.expect("it is there").stamp
    };
    // The second one gets its slot when the first one gives it back.
    let ended = at(queued[0].work, Kind::ExecuteEnd);
    assert!(ended <= at(queued[1].work, Kind::ActivateWork), "{events:#?}");
}

#[test]
fn items_whose_timers_expire_are_queued() {
    Stage::new("trace::expired").play();
}

fn expired() {
    const ITEMS: usize = 5;
    let wq = percpu("expired");
    joined(wq.queue(|| ()));
    wq.flush();
    let mut session = begin(ALL);
    let delay = Duration::from_millis(1);
    let handles: Vec<_> = (0..ITEMS).map(|_| wq.queue_delayed_on(0, || (), delay)).collect();
    handles.into_iter().for_each(joined);
    wq.flush();
    session.stop();
    let found = Found::read_from(&mut session);
    for kind in [Kind::QueueWork, Kind::ActivateWork, Kind::ExecuteStart, Kind::ExecuteEnd] {
        assert_eq!(found.count("expired", kind), ITEMS, "{kind:?}: {:#?}", found.of("expired"));
    }
}

#[test]
fn items_that_are_taken_along_and_called_back_become_active_once() {
    Stage::new("trace::batches").play();
}

fn batches() {
    const ITEMS: usize = 200;
    // By then many may be taken along at once, and this is one of the first of many.
    const CALLS_BACK: usize = 40;
    let (wq, cpu) = (percpu("batches"), sys::allowed_cpus()[0]);
    let [begun, are_queued] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let item = |n| {
        let (wq, begun, are_queued) = (wq.clone(), Arc::clone(&begun), Arc::clone(&are_queued));
        Work::new(move || {
            begun.store(true, Ordering::Relaxed);
            // It computes, so what is queued meanwhile goes through the inbox.
            while !are_queued.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            if n == CALLS_BACK {
                // Who changes a limit takes the pool's lock.
                wq.set_max_active(300).unwrap();
            }
        })
    };
    let items: Vec<_> = (0..ITEMS).map(item).collect();
    joined(wq.queue(|| ()));
    // An item has ended a little later than its result is there.
    wq.flush();
    let mut session = begin(ALL);
    for item in &items {
        assert!(wq.queue_work_on(cpu, item));
        eventually("the first one runs", || begun.load(Ordering::Relaxed));
    }
    are_queued.store(true, Ordering::Relaxed);
    wq.flush();
    session.stop();
    let found = Found::read_from(&mut session);
    assert_eq!(found.lost, 0);
    let (mut kinds, mut ended) = (HashMap::<u64, Vec<Kind>>::new(), 0);
    let mut nr_at_once = 0;
    for event in found.of("batches") {
        kinds.entry(event.work).or_default().push(event.kind);
        match event.kind {
            Kind::ExecuteStart => nr_at_once += usize::from(ended == event.stamp),
            Kind::ExecuteEnd => ended = event.stamp,
            _ => {}
        }
    }
    // What is taken along begins when the one before ends.
    assert!((1..ITEMS).contains(&nr_at_once), "{nr_at_once}");
    let whole = [Kind::QueueWork, Kind::ActivateWork, Kind::ExecuteStart, Kind::ExecuteEnd];
    let others: Vec<_> = kinds.iter().filter(|(_, kinds)| **kinds != whole).collect();
    assert_eq!((kinds.len(), others), (ITEMS, Vec::new()));
}

#[test]
fn a_worker_that_blocks_is_named_and_so_is_its_return() {
    Stage::new("trace::blocking").play();
}

fn blocking() {
    let wq = Workqueue::builder("blocks").percpu().build().unwrap();
    joined(wq.queue(|| ()));
    // An item has ended a little later than its result is there.
    wq.flush();
    let mut session = begin(ALL);
    let tid = joined(wq.queue(|| {
        cmwq::blocking(|| ());
        sys::gettid()
    }));
    wq.flush();
    let found = Found::read_from(&mut session);
    let about = |kind| {
        let tid = u32::try_from(tid).unwrap();
        found.events.iter().filter(|event| event.kind == kind && event.tid == tid).count()
    };
    // A page fault that is seen is another pair.
    let (blocked, resumed) = (about(Kind::WorkerBlocked), about(Kind::WorkerResumed));
    assert!(blocked >= 1 && blocked == resumed, "{blocked} {resumed}");
    assert!(found.threads.values().any(|name| name.starts_with("kworker/")), "{:?}", found.threads);
}

#[test]
fn a_full_ring_drops_and_counts() {
    Stage::new("trace::full").play();
}

fn full() {
    const ITEMS: usize = 70_000;
    let wq = ordered("too much");
    joined(wq.queue(|| ()));
    // An item has ended a little later than its result is there.
    wq.flush();
    let mut session = begin(Kind::QueueWork.bit());
    // One ring has 65,536 places, and nobody reads.
    for _ in 0..ITEMS {
        drop(wq.queue(|| ()));
        session.renew();
    }
    session.stop();
    let found = Found::read_from(&mut session);
    assert!(found.lost > 0);
    assert_eq!(found.count("too much", Kind::QueueWork) + found.lost as usize, ITEMS);
    // The ring is empty again, so there is room.
    session.renew();
    session.begin(Kind::QueueWork.bit()).unwrap_err();
    drop(session);
    let mut session = begin(Kind::QueueWork.bit());
    drop(wq.queue(|| ()));
    let found = Found::read_from(&mut session);
    assert_eq!((found.count("too much", Kind::QueueWork), found.lost), (1, 0));
}

#[test]
fn of_a_record_that_is_dropped_each_event_counts() {
    Stage::new("trace::full_of_runs").play();
}

fn full_of_runs() {
    // Two records of each item, which tell of three events.
    const ITEMS: usize = 50_000;
    let (wq, cpu) = (percpu("too many runs"), sys::allowed_cpus()[0]);
    joined(wq.queue(|| ()));
    // An item has ended a little later than its result is there.
    wq.flush();
    let kinds = [Kind::ActivateWork, Kind::ExecuteStart, Kind::ExecuteEnd];
    let mut session = begin(kinds.iter().fold(0, |mask, kind| mask | kind.bit()));
    let (mut found, mut nr) = (Found::default(), 0);
    // On a busy machine two workers may share the items, and each ring has room for its part.
    while found.lost == 0 {
        for _ in 0..ITEMS / 500 {
            (0..500).for_each(|_| drop(wq.queue_on(cpu, || ())));
            wq.flush();
            session.renew();
        }
        found.read(&mut session);
        nr += ITEMS;
    }
    session.stop();
    let seen: usize = kinds.iter().map(|kind| found.count("too many runs", *kind)).sum();
    assert_eq!(seen + found.lost as usize, kinds.len() * nr);
}

/// Nobody renews the lease any more: who works finds it ended, and switches tracing off.
fn lapse(wq: &Workqueue, seen: &Session) {
    eventually("the lease ends, and somebody finds it so", || {
        joined(wq.queue(|| ()));
        !seen.is_on()
    });
}

#[test]
fn a_reader_that_dies_leaves_nothing_switched_on() {
    Stage::new("trace::lease").play();
}

fn lease() {
    let wq = ordered("lease");
    joined(wq.queue(|| ()));
    std::mem::forget(begin(ALL));
    let mut session = open();
    let refused = session.begin(ALL).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy, "{refused}");
    eventually("the dead reader's lease ends", || session.begin(ALL).is_ok());
    drop(session);
    let mut dead = begin(ALL);
    Found::default().read(&mut dead);
    lapse(&wq, &dead);
}

#[test]
fn a_reader_that_comes_too_late_goes_on_and_knows() {
    Stage::new("trace::late").play();
}

fn late() {
    let wq = ordered("late");
    joined(wq.queue(|| ()));
    let mut session = begin(ALL);
    let mut found = Found::read_from(&mut session);
    assert!(!found.has_lapsed);
    let seen = open();
    lapse(&wq, &seen);
    wq.flush();
    found.read(&mut session);
    assert!(found.has_lapsed, "it was off");
    assert!(seen.is_on(), "and is on again");
    drop(seen);
    let before = found.count("late", Kind::ExecuteEnd);
    assert!(before > 0);
    joined(wq.queue(|| ()));
    wq.flush();
    found.read(&mut session);
    assert_eq!(found.count("late", Kind::ExecuteEnd), before + 1);
    session.stop();
    found.read(&mut session);
    assert!(!found.has_lapsed, "this time it was asked for");
}

#[test]
fn a_reader_that_comes_too_late_leaves_another_alone() {
    Stage::new("trace::overtaken").play();
}

fn overtaken() {
    let wq = ordered("overtaken");
    joined(wq.queue(|| ()));
    let mut late = open();
    late.begin(ALL).unwrap();
    lapse(&wq, &late);
    // Readers are known by their process. The child has the late one, too.
    let path = path_of_trace();
    let status = sys::fork(|| {
        let mut other = open_at(&path);
        other.begin(ALL).unwrap();
        let refused = late.round(|_, _| ()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy, "{refused}");
        late.stop();
        assert!(other.is_on());
        late.release();
        assert!(other.is_on());
        other.round(|_, _| ()).unwrap();
        assert!(open_at(&path).begin(ALL).is_err(), "it is the other's");
    });
    assert_eq!(status, 0);
}

#[test]
fn an_end_is_named_to_readers_who_have_not_seen_the_start() {
    Stage::new("trace::ends").play();
}

fn ends() {
    let wq = ordered("handed over");
    joined(wq.queue(|| ()));
    wq.flush();
    // It starts while another reader is there, and while none is.
    for has_other in [true, false] {
        let mut other = has_other.then(open);
        other.iter_mut().for_each(|other| other.begin(ALL).unwrap());
        let end = Gate::new();
        let item = occupy(&wq, &end);
        drop(other);
        let mut session = begin(Kind::ExecuteEnd.bit());
        end.open();
        joined(item);
        wq.flush();
        session.stop();
        let found = Found::read_from(&mut session);
        assert_eq!(found.count("handed over", Kind::ExecuteEnd), 1, "{has_other}: {found:?}");
    }
}

#[test]
fn a_child_is_not_traced_with_its_parent_and_disturbs_nothing() {
    Stage::new("trace::fork").play();
}

fn fork() {
    let wq = ordered("family");
    joined(wq.queue(|| ()));
    // An item has ended a little later than its result is there.
    wq.flush();
    let mut session = begin(ALL);
    joined(wq.queue(|| ()));
    wq.flush();
    let status = sys::fork(|| {
        for _ in 0..100 {
            joined(wq.queue(|| ()));
        }
        wq.flush();
        let mut own = open();
        own.begin(ALL).unwrap();
        joined(wq.queue(|| ()));
        wq.flush();
        let found = Found::read_from(&mut own);
        assert_eq!(found.count("family", Kind::ExecuteEnd), 1, "its own trace has its own items");
    });
    assert_eq!(status, 0);
    joined(wq.queue(|| ()));
    wq.flush();
    let found = Found::read_from(&mut session);
    assert_eq!(found.count("family", Kind::ExecuteEnd), 2, "the child's are not there");
    assert_eq!(found.lost, 0);
}

#[test]
fn threads_that_come_and_go_share_a_few_rings() {
    Stage::new("trace::threads").play();
}

fn threads() {
    const THREADS: usize = 300;
    let wq = ordered("comers");
    joined(wq.queue(|| ()));
    // An item has ended a little later than its result is there.
    wq.flush();
    let mut session = begin(Kind::QueueWork.bit());
    for _ in 0..THREADS {
        let wq = wq.clone();
        std::thread::spawn(move || joined(wq.queue(|| ()))).join().unwrap();
        session.renew();
    }
    let found = Found::read_from(&mut session);
    assert_eq!((found.count("comers", Kind::QueueWork), found.lost), (THREADS, 0));
    assert!(found.threads.len() < 20, "{} rings", found.threads.len());
}

#[test]
fn a_call_for_the_rescuer_names_its_queue() {
    Stage::new("trace::mayday").user(user(31)).play();
}

fn mayday() {
    let cpu = sys::allowed_cpus()[0];
    let (rescued, other) = (reclaim("rescued", |builder| builder.percpu()), percpu("other"));
    let stuck = Stuck::new(other.clone(), &[cpu]);
    let mut session = begin(ALL);
    assert!(joined(rescued.queue_on(cpu, cmwq::current_is_rescuer)));
    rescued.flush();
    let found = Found::read_from(&mut session);
    stuck.free();
    let events = found.of("rescued");
    let first = |kind| {
        events.iter().find(|event| event.kind == kind).unwrap_or_else(|| panic!("{events:#?}"))
    };
    assert!(first(Kind::QueueWork).stamp <= first(Kind::Mayday).stamp, "{events:#?}");
    assert!(first(Kind::Mayday).stamp <= first(Kind::ExecuteStart).stamp, "{events:#?}");
    assert_eq!(first(Kind::Mayday).pool, first(Kind::QueueWork).pool);
    assert_eq!(found.count("other", Kind::Mayday), 0, "it has no rescuer");
}

#[test]
fn each_worker_that_comes_or_goes_is_named_once() {
    Stage::new("trace::culled").params("idle_timeout=0.2").play();
}

fn culled() {
    const ITEMS: usize = 40;
    let wq = unbound("crowd");
    joined(wq.queue(|| ()));
    let alive = || -> HashSet<i32> {
        let tasks = procfs::other_tasks().into_iter();
        tasks.filter(|task| task.name.starts_with("kworker/")).map(|task| task.tid).collect()
    };
    let mut session = begin(Kind::WorkerCreated.bit() | Kind::WorkerCulled.bit());
    let mut known = alive();
    let mut found = Found::default();
    let entered = Arc::new(AtomicUsize::new(0));
    let gate = Gate::new();
    let opened = Opened(&gate);
    let items: Vec<_> = (0..ITEMS)
        .map(|_| {
            let (entered, gate) = (Arc::clone(&entered), gate.clone());
            wq.queue(move || {
                entered.fetch_add(1, Ordering::SeqCst);
                gate.pass();
            })
        })
        .collect();
    eventually("every item has a worker", || {
        found.read(&mut session);
        entered.load(Ordering::SeqCst) == ITEMS
    });
    drop(opened);
    items.into_iter().for_each(joined);
    // Two stay, so that one stands by while the other one works.
    eventually("the surplus has left", || {
        found.read(&mut session);
        alive().len() <= 2
    });
    eventually("those who left are named", || {
        found.read(&mut session);
        found.workers(Kind::WorkerCulled).len() + 2 > ITEMS
    });
    assert!(session.is_on(), "nobody came to renew the lease in time: what follows has no meaning");
    assert_eq!(found.lost, 0);
    known.extend(found.workers(Kind::WorkerCreated));
    let culled = found.workers(Kind::WorkerCulled);
    let gone: HashSet<i32> = culled.iter().copied().collect();
    assert_eq!(culled.len(), gone.len(), "each once: {culled:?}");
    assert_eq!(&known - &gone, alive(), "who came and did not go is there");
}

#[test]
fn a_hog_is_named_when_work_waits_behind_it() {
    Stage::new("trace::hog").params("cpu_intensive_thresh_us=5000").play();
}

fn hog() {
    let cpu = sys::allowed_cpus()[0];
    let wq = percpu("hogged");
    joined(wq.queue_on(cpu, || ()));
    wq.flush();
    let mut session = begin(ALL);
    let (begun, over) = (Gate::new(), Gate::new());
    let opened = Opened(&over);
    let hog = wq.queue_on(cpu, {
        let (begun, over) = (begun.clone(), over.clone());
        move || {
            begun.open();
            over.spin();
            sys::gettid()
        }
    });
    begun.pass();
    // It starts beside the hog, or never.
    joined(wq.queue_on(cpu, || ()));
    let mut found = Found::default();
    eventually("the hog is named", || {
        found.read(&mut session);
        !found.workers(Kind::CpuHog).is_empty()
    });
    drop(opened);
    let tid = joined(hog);
    wq.flush();
    found.read(&mut session);
    assert_eq!(found.workers(Kind::CpuHog), [tid], "once for a run");
    let named = found.events.iter().find(|event| event.kind == Kind::CpuHog).expect("it is there");
    let events = found.of("hogged");
    let queued: Vec<_> = events.iter().filter(|event| event.kind == Kind::QueueWork).collect();
    assert_eq!(queued.len(), 2, "{events:#?}");
    assert_eq!((named.pool, named.pool_cpu), (queued[0].pool, i32::try_from(cpu).unwrap()));
    assert!(named.stamp >= queued[1].stamp, "nobody waited before: {events:#?}");
}

#[test]
fn a_queue_that_gets_the_number_of_another_has_its_own_name() {
    Stage::new("trace::renamed").play();
}

/// An item of the queue has run, by the only thread that there is for such queues on a CPU.
fn run_one(wq: &Workqueue, work: &Work) {
    assert!(wq.queue_work_on(sys::allowed_cpus()[0], work));
    wq.flush();
}

fn renamed() {
    let bh = |name| Workqueue::builder(name).bh().build().unwrap();
    // The same function each time.
    let work = Work::new(|| ());
    let first = bh("first");
    run_one(&first, &work);
    let mut session = begin(Kind::ExecuteStart.bit() | Kind::ExecuteEnd.bit());
    run_one(&first, &work);
    let before = Found::read_from(&mut session);
    assert!(before.count("first", Kind::ExecuteEnd) > 0, "{before:?}");
    drop(first);
    let second = bh("second");
    run_one(&second, &work);
    let found = Found::read_from(&mut session);
    assert_eq!(found.events[0].wq, before.of("first")[0].wq, "it has the first one's number");
    assert!(found.count("second", Kind::ExecuteEnd) > 0, "{found:?}");
}

#[test]
fn a_name_for_which_there_was_no_room_is_told_when_there_is() {
    Stage::new("trace::crowded_out").play();
}

fn crowded_out() {
    const PLACES: usize = 70_000;
    let crowd = ordered("crowd");
    joined(crowd.queue(|| ()));
    crowd.flush();
    let mut session = begin(Kind::QueueWork.bit());
    for _ in 0..PLACES {
        drop(crowd.queue(|| ()));
        session.renew();
    }
    // This thread's ring is full.
    let late = ordered("late");
    joined(late.queue(|| ()));
    let mut found = Found::read_from(&mut session);
    assert!(found.lost > 0);
    assert_eq!(found.count("late", Kind::QueueWork), 0);
    joined(late.queue(|| ()));
    found.read(&mut session);
    assert_eq!(found.count("late", Kind::QueueWork), 1, "{:?}", found.queues);
}
