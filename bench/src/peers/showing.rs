//! The load of `showing`: empty items of a per-CPU queue, queued and run by one worker.

use std::fs::{self, File};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cmwq::trace::{Kind, Session, unpack};
use cmwq::{Work, Workqueue};

use crate::bench_showing::Sample;
use crate::job::Job;
use crate::sys;
use crate::systems::System;

/// What may be active at once is more.
const BATCH: usize = 500;
/// Batches between two looks at the clock: their events fit into a ring.
const BATCHES: usize = 16;
/// As long as the reader of a trace takes to begin. Behind a sleep, each item takes 10 to 15 ns
/// longer, traced or not.
const PAUSE: Duration = Duration::from_millis(5);
/// The kernel's four.
const EVENTS: u32 = Kind::QueueWork.bit()
    | Kind::ActivateWork.bit()
    | Kind::ExecuteStart.bit()
    | Kind::ExecuteEnd.bit();

struct Load {
    wq: Workqueue,
    works: Vec<Work>,
    done: Sender<()>,
}

/// Runs one round in this process.
pub(super) fn measure(system: System, job: &Job) -> Result<Sample> {
    let mut reader = (system == System::CmwqTraced).then(reader).transpose()?;
    let (done, is_done) = channel();
    let wq = Workqueue::builder("showing").percpu().build().context("creating a workqueue")?;
    let works = (0..BATCH).map(|_| Work::new(|| ())).collect();
    let load = Arc::new(Load { wq, works, done });
    let portions = job.count.div_ceil(BATCH * BATCHES);
    let mut figures = [0.0; 4];
    for (kind, figures) in figures.chunks_mut(2).enumerate() {
        let is_closure = kind == 1;
        let warm_up = portions / 10 + 1;
        for portion in 0..warm_up + portions {
            let took = portion_of(&load, &is_done, is_closure, reader.as_mut())?;
            if portion >= warm_up {
                figures[0] += took[0];
                figures[1] += took[1];
            }
        }
        figures.iter_mut().for_each(|ns| *ns /= (portions * BATCH * BATCHES) as f64);
    }
    Ok(Sample(figures))
}

/// CPU time of the process and time that some batches take. What the reader of the trace does comes
/// before and after.
fn portion_of(
    load: &Arc<Load>,
    is_done: &Receiver<()>,
    is_closure: bool,
    mut reader: Option<&mut Session>,
) -> Result<[f64; 2]> {
    if let Some(reader) = &mut reader {
        reader.begin(EVENTS).context("tracing this process")?;
    } else {
        thread::sleep(PAUSE);
    }
    let (cpu, time) = (sys::cpu_ns(), sys::now_ns());
    let of_first = Arc::clone(load);
    drop(load.wq.queue(move || feed(of_first, BATCHES, is_closure)));
    is_done.recv().context("the last batch has no end")?;
    let took = [sys::cpu_ns() - cpu, sys::now_ns() - time];
    if let Some(reader) = reader {
        reader.stop();
        let mut events = 0;
        let round = reader.round(|_, words| events += unpack(words).count());
        let round = round.context("reading this process's trace")?;
        ensure!(round.lost == 0, "{} events were lost", round.lost);
        let expected = 4 * BATCH * BATCHES;
        ensure!(events >= expected, "{events} events of {expected}");
        reader.release();
    }
    Ok(took.map(|ns| ns as f64))
}

/// The queue is that of the caller's CPU, so all this waits behind the caller, and nobody is woken.
fn feed(load: Arc<Load>, batches: usize, is_closure: bool) {
    if batches == 0 {
        // Nobody listens only if the receiver is gone, and then nobody waits either.
        let _ = load.done.send(());
        return;
    }
    if is_closure {
        (0..BATCH).for_each(|_| drop(load.wq.queue(|| ())));
    } else {
        load.works.iter().for_each(|work| _ = load.wq.queue_work(work));
    }
    let of_next = Arc::clone(&load);
    drop(load.wq.queue(move || feed(of_next, batches - 1, is_closure)));
}

/// This process's trace, which is there once the library is in use.
fn reader() -> Result<Session> {
    let _first = Workqueue::new("first").context("creating a workqueue")?;
    let entries = fs::read_dir("/proc/self/fd").context("listing /proc/self/fd")?;
    let is_trace = |path: &std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains("memfd:cmwq-trace"))
    };
    let path = entries.flatten().map(|entry| entry.path()).find(is_trace);
    let path = path.context("this process has no trace")?;
    let file = File::options().read(true).write(true).open(path).context("opening the trace")?;
    Session::open(file.into()).context("reading the trace")
}
