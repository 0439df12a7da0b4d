//! Takes so many thousand items one way through a queue, for `.ci/instructions`, which counts the
//! instructions. Everything is in turn, so that the same happens each time: either items are
//! queued, or they are run. To be run on one CPU.

use std::error::Error;
use std::fs::{self, File};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use std::{array, env, thread};

use cmwq::trace::{Kind, Session};
use cmwq::{DelayedWork, Work, Workqueue};

/// Items of a batch; all of them may be active at once.
const BATCH: usize = 1000;
/// Enough for all others on this CPU to come to rest.
const YIELDS: usize = 4;
const FAR: Duration = Duration::from_secs(1_000_000);
/// The kernel's four, of each item.
const EVENTS: u32 = Kind::QueueWork.bit()
    | Kind::ActivateWork.bit()
    | Kind::ExecuteStart.bit()
    | Kind::ExecuteEnd.bit();

fn main() -> Result<(), Box<dyn Error>> {
    let [Some(way), Some(batches)] = array::from_fn(|i| env::args().nth(i + 1)) else {
        return Err("which way, and how many thousand items?".into());
    };
    let batches: usize = batches.parse()?;
    // `pods-help-64`: with 64 pods, most of which are only pretended.
    let (way, last_cpu) = match way.rsplit_once('-').map(|(way, pods)| (way, pods.parse::<u32>())) {
        Some((way, Ok(nr_pods))) => {
            cmwq::set_param("debug_pretend_cpus", &nr_pods.to_string())?;
            (way.to_owned(), nr_pods - 1)
        }
        _ => (way, 0),
    };
    let percpu = Workqueue::builder("percpu").percpu().build()?;
    let managed = Workqueue::new("managed")?;
    match &*way {
        "percpu-embedded" => (0..batches).for_each(embedded(&percpu)),
        "percpu-closure" => (0..batches).for_each(closures(&percpu)),
        "managed-embedded" => (0..batches).for_each(embedded(&managed)),
        "managed-closure" => (0..batches).for_each(closures(&managed)),
        // As a producer who is far ahead leaves it.
        "managed-deep" => behind_a_gate(&managed, || queue_closures(&managed, batches * BATCH)),
        "percpu-from-inside" => from_inside(&Arc::new(percpu), batches),
        "managed-from-inside" => from_inside(&Arc::new(managed), batches),
        "percpu-wait" => {
            let work = Work::new(|| ());
            for _ in 0..batches * BATCH {
                percpu.queue_work(&work);
                work.flush();
            }
        }
        "percpu-closure-wait" => {
            (0..batches * BATCH).for_each(|_| percpu.queue(|| ()).join().unwrap())
        }
        "alarm-percpu" => alarmed(&percpu, batches),
        "alarm-managed" => alarmed(&managed, batches),
        "traced-embedded" => traced(batches, embedded(&percpu))?,
        "traced-closure" => traced(batches, closures(&percpu))?,
        "pods-idle" => far_apart(&managed, last_cpu, batches, || ()),
        "pods-block" => far_apart(&managed, last_cpu, batches, || cmwq::blocking(|| ())),
        "pods-help" => helped(&managed, batches),
        "delayed-arm-cancel" => {
            let work = DelayedWork::new(|| ());
            for _ in 0..batches * BATCH {
                assert!(percpu.queue_delayed_work(&work, FAR));
                assert!(work.cancel());
            }
        }
        _ => return Err(format!("no such way: {way}").into()),
    }
    Ok(())
}

/// A batch of reusable items, which are the same each time.
fn embedded(wq: &Workqueue) -> impl FnMut(usize) {
    let works: Vec<_> = (0..BATCH).map(|_| Work::new(|| ())).collect();
    move |_| behind_a_gate(wq, || works.iter().for_each(|work| assert!(wq.queue_work(work))))
}

/// A batch of closures.
fn closures(wq: &Workqueue) -> impl FnMut(usize) {
    move |_| behind_a_gate(wq, || queue_closures(wq, BATCH))
}

fn queue_closures(wq: &Workqueue, count: usize) {
    (0..count).for_each(|_| drop(wq.queue(|| ())));
}

/// Queues items while the queue's one running worker is held, and waits until all have run.
fn behind_a_gate(wq: &Workqueue, queue: impl FnOnce()) {
    let gate = Arc::new(Barrier::new(2));
    let at_gate = Arc::clone(&gate);
    drop(wq.queue(move || {
        at_gate.wait();
        at_gate.wait();
    }));
    gate.wait();
    queue();
    gate.wait();
    wq.flush();
}

/// Each second item finds its worker blocked in a call that tells nobody, and lets it go.
fn alarmed(wq: &Workqueue, batches: usize) {
    let gate = Arc::new(Barrier::new(2));
    let [blocks, next] = array::from_fn(|_| {
        let gate = Arc::clone(&gate);
        Work::new(move || _ = gate.wait())
    });
    for _ in 0..batches * BATCH {
        wq.queue_work(&blocks);
        wq.queue_work(&next);
        next.flush();
        blocks.flush();
    }
}

/// Takes so many batches while this process is traced. Nobody reads the events, for which the rings
/// have room.
fn traced(batches: usize, mut batch: impl FnMut(usize)) -> Result<(), Box<dyn Error>> {
    let mut trace = own_trace()?;
    trace.begin(EVENTS)?;
    for number in 0..batches {
        trace.renew();
        batch(number);
    }
    if !trace.is_on() {
        return Err("the trace has ended by itself: what was counted is not what it costs".into());
    }
    Ok(())
}

fn own_trace() -> Result<Session, Box<dyn Error>> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        if fs::read_link(&path).is_ok_and(|to| to.to_string_lossy().contains("memfd:cmwq-trace")) {
            let file = File::options().read(true).write(true).open(path)?;
            return Ok(Session::open(file.into())?);
        }
    }
    Err("this process has no trace".into())
}

/// Each item finds its pod idle, and leaves it so; the pods are as far from each other as they can
/// be.
fn far_apart(wq: &Workqueue, last_cpu: u32, batches: usize, body: fn()) {
    let work = Work::new(body);
    for n in 0..batches * BATCH {
        wq.queue_work_on(if n % 2 == 0 { 0 } else { last_cpu }, &work);
        work.flush();
    }
}

/// Each item finds its pod busy, and is run by another one.
fn helped(wq: &Workqueue, batches: usize) {
    let work = Work::new(|| ());
    let gate = Arc::new(Barrier::new(2));
    let at_gate = Arc::clone(&gate);
    drop(wq.queue_on(0, move || {
        at_gate.wait();
        at_gate.wait();
    }));
    gate.wait();
    for _ in 0..batches * BATCH {
        wq.queue_work_on(0, &work);
        work.flush();
        // Whoever has run it goes idle before the next one comes: with two pods there is nobody
        // else.
        (0..YIELDS).for_each(|_| thread::yield_now());
    }
    gate.wait();
    wq.flush();
}

fn from_inside(wq: &Arc<Workqueue>, batches: usize) {
    for _ in 0..batches {
        let inner = Arc::clone(wq);
        drop(wq.queue(move || (0..BATCH).for_each(|_| drop(inner.queue(|| ())))));
        wq.flush();
        // Those that it queued were not among what was waited for.
        wq.flush();
    }
}
