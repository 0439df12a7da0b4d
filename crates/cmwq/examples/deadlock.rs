//! Two ordered queues whose items flush each other: neither ever ends. For trying what shows it:
//! `cmwq dump --stuck PID`.
//!
//! It says `ready PID` once both wait, and stays so until it is killed.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::{Arc, Barrier};

fn main() -> Result<(), cmwq::Error> {
    let left = Arc::new(cmwq::Workqueue::builder("left").ordered().build()?);
    let right = Arc::new(cmwq::Workqueue::builder("right").ordered().build()?);
    let both = Arc::new(Barrier::new(3));
    drop(left.queue(work_on_left(Arc::clone(&right), Arc::clone(&both))));
    drop(right.queue(work_on_right(Arc::clone(&left), Arc::clone(&both))));
    both.wait();
    println!("ready {}", std::process::id());
    loop {
        std::thread::park();
    }
}

fn work_on_left(right: Arc<cmwq::Workqueue>, both: Arc<Barrier>) -> impl FnOnce() + Send {
    move || {
        both.wait();
        flush_right(&right);
    }
}

fn work_on_right(left: Arc<cmwq::Workqueue>, both: Arc<Barrier>) -> impl FnOnce() + Send {
    move || {
        both.wait();
        flush_left(&left);
    }
}

/// Waits for the other one, which waits for us.
#[inline(never)]
fn flush_right(right: &cmwq::Workqueue) {
    right.flush();
}

/// Likewise.
#[inline(never)]
fn flush_left(left: &cmwq::Workqueue) {
    left.flush();
}
