//! Items that wait for programs count as running while the programs do.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, io};

use cmwq::{JoinHandle, Workqueue};

use crate::support::cpus::{confine_all, keep_to_few_cpus};
use crate::support::scene::{Scene, Stage, skip};
use crate::support::wait::PATIENCE;
use crate::support::{eventually, joined, managed, sys, undisturbed};

pub(crate) const SCENES: &[Scene] = &[
    ("programs::running", running),
    ("programs::hidden", hidden),
    ("programs::blocking", blocking),
    ("programs::descendants", descendants),
    ("programs::back", back),
    ("programs::everywhere", everywhere),
    ("programs::of_another_thread", of_another_thread),
    ("programs::watched_inside", watched_inside),
    ("programs::all_cpus", all_cpus),
];

/// Of a failed test it may be nobody's any more, and must not compute for ever.
const SPIN: &str = "ulimit -t 600; while :; do :; done";
/// How much CPU time a program uses while nobody else may start.
const WHILE: Duration = Duration::from_millis(60);

/// A managed queue in a process that keeps to a few CPUs from now on.
fn on_few_cpus(name: &str) -> Workqueue {
    keep_to_few_cpus();
    managed(name)
}

/// A program that an item waits for. Killed when it is dropped.
struct Program {
    pid: u32,
    item: Option<JoinHandle<()>>,
}

impl Program {
    /// Queues an item that starts a shell, and waits until it has.
    fn start(wq: &Workqueue, script: &'static str) -> Self {
        let (item, told) = queue_shell(wq, script);
        let pid = told.recv_timeout(PATIENCE).expect("a program starts");
        Self { pid, item: Some(item) }
    }

    /// Starts a shell on this thread, and queues an item that watches it by its number and waits.
    fn start_here(wq: &Workqueue, script: &'static str) -> Self {
        let mut child = shell(script).unwrap();
        let pid = child.id();
        let (tell, told) = mpsc::channel();
        let item = wq.queue(move || {
            let watch = cmwq::watch_process(pid);
            tell.send(watch.is_effective()).unwrap();
            let _ = cmwq::blocking(|| child.wait());
        });
        assert!(told.recv_timeout(PATIENCE).expect("an item watches"));
        Self { pid, item: Some(item) }
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.pid.to_string()]).status();
        assert!(status.unwrap().success(), "kill {signal}");
    }

    fn cpu_time(&self) -> Duration {
        sys::cpu_time_of_process(self.pid)
    }

    /// Waits until it has used the CPU for a while.
    fn computes(&self) {
        let begin = self.cpu_time();
        eventually("a program computes", || self.cpu_time() >= begin + WHILE);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", &self.pid.to_string()]).status();
        if let Some(item) = self.item.take() {
            joined(item);
        }
    }
}

fn shell(script: &str) -> io::Result<Child> {
    Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn()
}

/// An item that starts a shell, says which process that is, and waits for it.
fn queue_shell(wq: &Workqueue, script: &'static str) -> (JoinHandle<()>, Receiver<u32>) {
    let (tell, told): (Sender<u32>, _) = mpsc::channel();
    let item = wq.queue(move || {
        let watch = cmwq::watch_children();
        assert!(watch.is_effective());
        let mut child = shell(script).unwrap();
        tell.send(child.id()).unwrap();
        // That it says that it waits makes no room.
        let _ = cmwq::blocking(|| child.wait());
    });
    (item, told)
}

/// An item that says that it has begun.
fn queue_next(wq: &Workqueue) -> (JoinHandle<()>, Arc<AtomicBool>) {
    let begun = Arc::new(AtomicBool::new(false));
    let item = wq.queue({
        let begun = Arc::clone(&begun);
        move || begun.store(true, Ordering::SeqCst)
    });
    (item, begun)
}

fn has_begun(begun: &AtomicBool) -> bool {
    begun.load(Ordering::SeqCst)
}

/// Programs on all CPUs that compute.
fn on_all_cpus(wq: &Workqueue, script: &'static str) -> Vec<Program> {
    sys::allowed_cpus().iter().map(|_| Program::start(wq, script)).collect()
}

fn on_each_source(scene: &'static str) {
    for source in ["sentinel", "tick", "perf"] {
        Stage::new(scene).detect(source).params("managed_affinity_scope=system").play();
    }
}

#[test]
fn while_programs_compute_on_all_cpus_nothing_starts() {
    on_each_source("programs::running");
}

fn running() {
    nothing_starts_beside(&on_few_cpus("running"), Program::start);
}

/// Programs that compute on all CPUs.
fn nothing_starts_beside(wq: &Workqueue, start: fn(&Workqueue, &'static str) -> Program) {
    undisturbed(30, || {
        let programs: Vec<_> = sys::allowed_cpus().iter().map(|_| start(wq, SPIN)).collect();
        // Until then they wait now and then: for what they consist of, from a file system.
        programs.iter().for_each(Program::computes);
        let (next, begun) = queue_next(wq);
        programs.iter().for_each(Program::computes);
        let is_early = has_begun(&begun);
        drop(programs);
        joined(next);
        if is_early { Err("another item started".into()) } else { Ok(()) }
    });
}

/// Such as in a `chroot` without procfs, or with `hidepid`.
#[test]
fn programs_that_procfs_does_not_show_are_taken_to_be_running() {
    on_each_source("programs::hidden");
}

fn hidden() {
    keep_to_few_cpus();
    if let Err(error) = sys::hide_proc() {
        return skip(format_args!("/proc cannot be hidden: {error}"));
    }
    let wq = managed("hidden");
    for start in [Program::start, Program::start_here] {
        nothing_starts_beside(&wq, start);
    }
}

#[test]
fn when_a_program_blocks_the_next_item_starts() {
    on_each_source("programs::blocking");
}

fn blocking() {
    let wq = on_few_cpus("blocking");
    let programs = on_all_cpus(&wq, SPIN);
    programs[0].computes();
    let (next, _) = queue_next(&wq);
    programs[0].signal("-STOP");
    joined(next);
}

#[test]
fn a_program_runs_while_its_descendants_do() {
    on_each_source("programs::descendants");
}

/// The shell and the one that it has started wait.
fn descendants() {
    let wq = on_few_cpus("descendants");
    let script =
        "ulimit -t 600; sh -c 'while :; do :; done & echo $! > \"$0\"; wait' \"$0\" & wait";
    undisturbed(30, || {
        let at = tempfile_name();
        let path = Arc::new(Mutex::new(at.clone()));
        let programs: Vec<_> = sys::allowed_cpus()
            .iter()
            .enumerate()
            .map(|(n, _)| {
                let file = format!("{}.{n}", path.lock().unwrap());
                let (tell, told) = mpsc::channel();
                let name = file.clone();
                let item = wq.queue(move || {
                    let _watch = cmwq::watch_children();
                    let mut child = Command::new("sh").args(["-c", script, &name]).spawn().unwrap();
                    tell.send(child.id()).unwrap();
                    let _ = child.wait();
                });
                told.recv_timeout(PATIENCE).expect("a program starts");
                (file, item)
            })
            .collect();
        let computing: Vec<Program> = programs
            .iter()
            .map(|(file, _)| {
                let read = || fs::read_to_string(file).ok()?.trim().parse().ok();
                eventually("a descendant says who it is", || read().is_some());
                Program { pid: read().unwrap(), item: None }
            })
            .collect();
        let (next, begun) = queue_next(&wq);
        // What was started before it said so.
        let was_early = has_begun(&begun);
        computing.iter().for_each(Program::computes);
        let is_early = has_begun(&begun);
        drop(computing);
        joined(next);
        for (file, item) in programs {
            joined(item);
            let _ = fs::remove_file(file);
        }
        if is_early || was_early { Err("another item started".into()) } else { Ok(()) }
    });
}

fn tempfile_name() -> String {
    let dir = std::env::temp_dir();
    dir.join(format!("cmwq-descendants-{}", std::process::id())).display().to_string()
}

#[test]
fn a_program_that_is_back_counts_again() {
    on_each_source("programs::back");
}

fn back() {
    let wq = on_few_cpus("back");
    undisturbed(30, || {
        let programs = on_all_cpus(&wq, SPIN);
        let (item, told) = queue_shell(&wq, SPIN);
        programs[0].signal("-STOP");
        let pid = told.recv_timeout(PATIENCE).expect("the next program starts");
        let another = Program { pid, item: Some(item) };
        // One more than there are CPUs, so nobody may start, even when one has ended.
        let (next, begun) = queue_next(&wq);
        programs[0].signal("-CONT");
        programs.iter().for_each(Program::computes);
        drop(another);
        programs.iter().for_each(Program::computes);
        let is_early = has_begun(&begun);
        drop(programs);
        joined(next);
        if is_early { Err("another item started".into()) } else { Ok(()) }
    });
}

#[test]
fn with_one_pool_for_all_cpus_programs_may_use_all() {
    Stage::new("programs::everywhere").params("managed_affinity_scope=system").play();
}

fn everywhere() {
    let wq = on_few_cpus("everywhere");
    let all = sys::allowed_cpus();
    let pid = Program::start(&wq, SPIN);
    assert_eq!(sys::allowed_cpus_of(pid.pid.cast_signed()).unwrap(), all);
}

#[test]
fn a_program_of_another_thread_is_watched_by_its_number() {
    on_each_source("programs::of_another_thread");
}

/// No item has a child.
fn of_another_thread() {
    let wq = on_few_cpus("another thread");
    undisturbed(30, || {
        let programs: Vec<_> =
            sys::allowed_cpus().iter().map(|_| Program::start_here(&wq, SPIN)).collect();
        let (next, begun) = queue_next(&wq);
        programs.iter().for_each(Program::computes);
        let is_early = has_begun(&begun);
        programs[0].signal("-STOP");
        joined(next);
        if is_early { Err("another item started".into()) } else { Ok(()) }
    });
}

#[test]
fn who_waits_on_after_its_program_has_ended_makes_room() {
    Stage::new("programs::watched_inside").detect("inline").play();
}

/// Nobody but the item says that it waits: where it stops watching, inside of the section in which
/// it does.
fn watched_inside() {
    confine_all(&sys::allowed_cpus()[..1]);
    let wq = managed("inside");
    let (tell, told) = mpsc::channel();
    let waits = wq.queue(move || {
        let mut child = shell("exit 0").unwrap();
        let watch = cmwq::watch_process(child.id());
        cmwq::blocking(|| {
            child.wait().unwrap();
            drop(watch);
            told.recv_timeout(PATIENCE).is_ok()
        })
    });
    let tells = wq.queue(move || tell.send(()).unwrap());
    assert!(joined(waits), "the next item has not begun");
    joined(tells);
}

#[test]
fn outside_of_items_it_does_nothing() {
    assert!(!cmwq::watch_children().is_effective());
    assert!(!cmwq::watch_process(std::process::id()).is_effective());
    let wq = Workqueue::builder("bottom").bh().build().unwrap();
    assert!(!joined(wq.queue(|| cmwq::watch_children().is_effective())));
}

#[test]
fn a_leaked_watch_ends_with_its_item() {
    let wq = Workqueue::builder("leaking").ordered().build().unwrap();
    joined(wq.queue(|| std::mem::forget(cmwq::watch_children())));
    let first = wq.queue(|| {
        let one = cmwq::watch_children();
        let other = cmwq::watch_process(std::process::id());
        one.is_effective() && other.is_effective()
    });
    assert!(joined(first));
}

/// The CPUs of this thread, of a thread that it starts, and of a program that it starts.
fn inherited() -> [Vec<u32>; 3] {
    // Before anything waits, since that may unbind the worker.
    let own = sys::allowed_cpus();
    let of_thread = std::thread::spawn(sys::allowed_cpus).join().unwrap();
    let mut program = Command::new("sleep").arg("600").spawn().unwrap();
    let of_program = sys::allowed_cpus_of(program.id().cast_signed()).unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    [own, of_thread, of_program]
}

/// What an item starts has its worker's CPUs: one, or all once the item has left its CPU.
#[test]
fn items_leave_their_cpu_for_what_they_start() {
    Stage::new("programs::all_cpus").play();
}

fn all_cpus() {
    let wq = on_few_cpus("all-cpus");
    let unbound = Workqueue::builder("elsewhere").unbound().build().unwrap();
    // Without CPUs that are isolated.
    let all = joined(unbound.queue(sys::allowed_cpus));
    let [one, of_thread, _] = joined(wq.queue(inherited));
    assert_eq!((one.len(), &of_thread), (1, &one));
    let left = wq.queue(|| {
        cmwq::leave_cpu();
        inherited()
    });
    assert_eq!(joined(left), [(); 3].map(|()| all.clone()));
    let watching = wq.queue(|| {
        let _watch = cmwq::watch_children();
        inherited()
    });
    assert_eq!(joined(watching), [(); 3].map(|()| all.clone()));
    // Its worker has been idle, or another one begins.
    wq.flush();
    eventually("a bound worker", || joined(wq.queue(sys::allowed_cpus)).len() == 1);
    // In other items, and outside of them, it does nothing.
    let percpu = Workqueue::builder("percpu").percpu().build().unwrap();
    let bound = percpu.queue(|| {
        cmwq::leave_cpu();
        sys::allowed_cpus()
    });
    assert_eq!(joined(bound).len(), 1);
    cmwq::leave_cpu();
}
