//! A work function that forks, and returns in the child, too.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use cmwq::{Workqueue, watchdog};

use crate::support::scene::Stage;
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, joined, managed, occupy, sys};

#[test]
fn a_child_in_which_a_work_function_returns_ends_and_runs_nothing() {
    Stage::new("fork::returning").play();
}

pub(super) fn returning() {
    for wq in super::kinds() {
        let _limited = wq.set_max_active(1);
        let gate = Gate::new();
        let opened = Opened(&gate);
        let before = occupy(&wq, &gate);
        let handles = queue_both(&wq);
        drop(opened);
        joined(before);
        judge(handles);
    }
    // Its items cannot wait.
    judge(queue_both(&Workqueue::builder("bottom").bh().build().unwrap()));
}

type Both = (cmwq::JoinHandle<Option<i32>>, cmwq::JoinHandle<()>, UnixStream);

/// One that forks, and behind it one that says that it has run, to all processes that have it.
fn queue_both(wq: &Workqueue) -> Both {
    let (mut writing, reading) = UnixStream::pair().unwrap();
    let forks = wq.queue(sys::split);
    let behind = wq.queue(move || writing.write_all(b".").unwrap());
    (forks, behind, reading)
}

fn judge((forks, behind, mut reading): Both) {
    let child = joined(forks).expect("only the parent goes on");
    joined(behind);
    aborts(child);
    let mut said = String::new();
    reading.read_to_string(&mut said).unwrap();
    assert_eq!(said, ".", "the parent's item ran here only");
}

#[test]
fn a_child_in_which_a_hook_of_a_thread_returns_ends() {
    Stage::new("fork::hooking").play();
}

pub(super) fn hooking() {
    let (tell, told) = mpsc::channel();
    let forks = move |_: &cmwq::WorkerThread| _ = sys::split().map(|child| tell.send(child));
    cmwq::Config::builder().on_thread_start(forks).install().unwrap();
    joined(managed("hooked").queue(|| ()));
    aborts(told.recv_timeout(PATIENCE).unwrap());
}

#[test]
fn a_child_in_which_a_watchdog_handler_returns_ends() {
    Stage::new("fork::stalling").params("watchdog_thresh=0.05").play();
}

pub(super) fn stalling() {
    let (tell, told) = mpsc::channel();
    // Once: a child that went on would tell, too, and fork for ever.
    let has_forked = AtomicBool::new(false);
    watchdog::set_handler(move |_| {
        if !has_forked.swap(true, Ordering::Relaxed) {
            let _ = sys::split().map(|child| tell.send(child));
        }
    });
    let wq = Workqueue::builder("stands").ordered().build().unwrap();
    let gate = Gate::new();
    let opened = Opened(&gate);
    let before = occupy(&wq, &gate);
    let behind = wq.queue(|| ());
    aborts(told.recv_timeout(PATIENCE).unwrap());
    watchdog::clear_handler();
    drop(opened);
    joined(before);
    joined(behind);
}

fn aborts(child: i32) {
    let status = sys::end_of(child);
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT, "{status:#x}");
}
