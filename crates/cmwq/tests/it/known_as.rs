//! By which name an item is known: of the function or closure that the program has written, also
//! where the library runs it inside of one of its own.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::{DelayedWork, IteratorOn, Periodic, RcuWork, Tick, Work, Workqueue};
use cmwq_observe::inspect::Target;

use crate::support::wait::{PATIENCE, eventually};
use crate::support::{joined, managed, sys};

const MS: Duration = Duration::from_millis(1);

/// The name of the item that the calling thread runs, as other processes see it.
fn known_as() -> String {
    let (target, tid) = (Target::open(std::process::id()).unwrap(), sys::gettid().unsigned_abs());
    let mut name = None;
    eventually("the running item is shown", || {
        let seen = target.snapshot().unwrap();
        let mine = seen.workers.iter().find(|worker| worker.tid == tid);
        let func = mine.and_then(|worker| worker.activity).map(|now| now.func);
        name = func.and_then(|func| target.functions().unwrap().get(&func).cloned());
        name.is_some()
    });
    name.unwrap()
}

/// The program's function, for whatever takes no argument.
fn written() -> String {
    known_as()
}

/// As [`written`], for whatever takes one.
fn written_for<T>(_: T) -> String {
    known_as()
}

/// For what is queued again and again.
fn written_again() {}

#[track_caller]
fn assert_written(name: &str) {
    assert_eq!(name, "it::known_as::written");
}

#[track_caller]
fn assert_written_for(name: &str, argument: &str) {
    assert_eq!(name, format!("it::known_as::written_for<{argument}>"));
}

#[test]
fn closures_of_every_queue() {
    let bounded = Workqueue::builder("bounded").max_queued(5).build().unwrap();
    let sampled = Workqueue::builder("sampled").sample_times(1).build().unwrap();
    let cpu = sys::allowed_cpus()[0];
    for wq in [managed("plain"), bounded, sampled] {
        assert_written(&joined(wq.queue(written)));
        assert_written(&joined(wq.queue_on(cpu, written)));
        assert_written(&joined(wq.try_queue(written).unwrap()));
        assert_written(&joined(wq.try_queue_on(cpu, written).unwrap()));
        assert_written(&joined(wq.queue_delayed(written, MS)));
        assert_written(&joined(wq.queue_delayed_on(cpu, written, Duration::ZERO)));
    }
}

#[test]
fn a_closure_is_known_by_where_it_is_written() {
    let wq = Workqueue::builder("bounded").max_queued(5).build().unwrap();
    let here = "it::known_as::a_closure_is_known_by_where_it_is_written::{{closure}}";
    let name = joined(wq.queue(|| (0, known_as()))).1;
    assert_eq!(name, here);
    let (_, name) = wq.scope(|scope| scope.queue(|| (0, known_as())).join().unwrap());
    assert_eq!(name, format!("{here}::{{{{closure}}}}"), "inside of the scope's");
}

#[test]
fn closures_that_borrow() {
    let (wq, cpu) = (managed("scope"), sys::allowed_cpus()[0]);
    wq.scope(|scope| {
        assert_written(&scope.queue(written).join().unwrap());
        assert_written(&scope.queue_on(cpu, written).join().unwrap());
    });
    assert_written(&cmwq::work_on_cpu(cpu, written));
    let names = Mutex::new(Vec::new());
    let tell = Tell(&names);
    cmwq::schedule_on_each_cpu(|| tell.name());
    let names = names.into_inner().unwrap();
    assert!(!names.is_empty());
    let closure = "it::known_as::closures_that_borrow::{{closure}}";
    assert!(names.iter().all(|name| name == closure), "{names:?}");
}

struct Tell<'a>(&'a Mutex<Vec<String>>);

impl Tell<'_> {
    fn name(&self) {
        let name = known_as();
        self.0.lock().unwrap().push(name);
    }
}

#[test]
fn functions_over_iterators() {
    let wq = managed("iterators");
    for name in [1_u8, 2, 3].into_iter().map_on(&wq, 2, written_for) {
        assert_written_for(&name, "u8");
    }
    for name in [1_u16, 2, 3].into_iter().map_unordered_on(&wq, 2, written_for) {
        assert_written_for(&name, "u16");
    }
    let names = Mutex::new(Vec::new());
    (0..3).for_each_on(&wq, 2, |_| Tell(&names).name());
    let closure = "it::known_as::functions_over_iterators::{{closure}}";
    assert_eq!(names.into_inner().unwrap(), [closure; 3]);
}

#[test]
fn items_that_are_queued_again() {
    let (wq, (send, names)) = (managed("items"), channel());
    let heard = || names.recv_timeout(PATIENCE).unwrap();
    let closure = "it::known_as::items_that_are_queued_again::{{closure}}";
    let tell = Telling(send.clone());
    let work = Work::new(move || tell.name());
    assert!(wq.queue_work(&work));
    assert_eq!(heard(), closure);
    let tell = Telling(send.clone());
    let timed = DelayedWork::new(move || tell.name());
    assert!(wq.queue_delayed_work(&timed, MS));
    assert_eq!(heard(), closure);
    let tell = Telling(send.clone());
    let waits = RcuWork::new(move || tell.name());
    assert!(wq.queue_rcu_work(&waits));
    assert_eq!(heard(), closure);
    let tell = Telling(send);
    let knows_itself = Work::new_cyclic(|_| move || tell.name());
    assert!(wq.queue_work(&knows_itself));
    assert_eq!(heard(), format!("{closure}::{{{{closure}}}}"));
}

struct Telling(Sender<String>);

impl Telling {
    fn name(&self) {
        self.0.send(known_as()).unwrap();
    }
}

#[test]
fn functions_at_intervals() {
    let wq = managed("intervals");
    for is_deferrable in [false, true] {
        let (send, names) = channel();
        let interval = Periodic::every(Duration::from_secs(3600)).first_after(Duration::ZERO);
        let interval = if is_deferrable { interval.deferrable() } else { interval };
        let periodic = interval.start(&wq, move |tick: &mut Tick| {
            send.send(known_as()).unwrap();
            tick.stop();
        });
        let name = names.recv_timeout(PATIENCE).unwrap();
        assert_eq!(name, "it::known_as::functions_at_intervals::{{closure}}");
        periodic.stop_sync();
    }
}

#[test]
fn handles_tell_the_name() {
    let wq = Workqueue::builder("told").max_queued(5).build().unwrap();
    let hold = Arc::new(Mutex::new(()));
    let held = hold.lock().unwrap();
    let theirs = Arc::clone(&hold);
    let handle = wq.queue(move || drop(theirs.lock()));
    let text = format!("{handle:?}");
    assert!(text.contains("function: it::known_as::handles_tell_the_name::{{closure}},"), "{text}");
    wq.scope(|scope| {
        let theirs = Arc::clone(&hold);
        let handle = scope.queue(move || drop(theirs.lock()));
        let text = format!("{handle:?}");
        let here = "it::known_as::handles_tell_the_name::{{closure}}::{{closure}}";
        let start = format!("ScopedJoinHandle {{ function: {here}, queue: \"told\", is_finished: ");
        assert!(text.starts_with(&start), "{text}");
        drop(held);
    });
    joined(handle);
    let often = Periodic::every(Duration::from_secs(3600)).start(&wq, |_| ());
    let here = "it::known_as::handles_tell_the_name::{{closure}}";
    let text = |is| format!("Periodic {{ function: {here}, queue: \"told\", is_active: {is} }}");
    assert_eq!(format!("{often:?}"), text(true));
    often.stop_sync();
    assert_eq!(format!("{often:?}"), text(false));
    let function = "{ function: it::known_as::written_again,";
    let (work, timed) = (Work::new(written_again), DelayedWork::new(written_again));
    let waits = RcuWork::new(written_again);
    for text in [format!("{work:?}"), format!("{timed:?}"), format!("{waits:?}")] {
        assert!(text.contains(function), "{text}");
    }
}
