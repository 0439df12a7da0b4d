//! Forks: the children go on with queues that they inherit, and with queues of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{DelayedWork, ErrorKind, Work, Workqueue};
use fastrand::Rng;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::sys;
use crate::watch::{Post, fail};
use crate::world::{Totals, World};

/// How long things may take, as parts of what a call of the parent may.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// For the child's `shutdown`.
    shutdown: Duration,
    /// Then the child says itself what it is at, if it can.
    told: Duration,
    /// Then the parent says what it sees of it.
    seen: Duration,
    /// Then it is killed.
    killed: Duration,
}

impl Terms {
    fn new(patience: Duration) -> Self {
        let part = patience / 24;
        Self { shutdown: 6 * part, told: 7 * part, seen: 10 * part, killed: 12 * part }
    }
}

/// How often the parent looks.
const PAUSE: Duration = Duration::from_millis(1);

/// Queues that children inherit: what the stations have may be locked at the moment of a fork.
fn inherited() -> Vec<Workqueue> {
    let b = || Workqueue::builder("inherited");
    let builders = [
        b().managed(),
        b().percpu(),
        b().percpu().max_active(1),
        b().unbound(),
        b().unbound().nice(sys::nicer_by(3)),
        b().ordered(),
        b().bh(),
        b().unbound().mem_reclaim(),
    ];
    builders.into_iter().filter_map(|builder| builder.build().ok()).collect()
}

/// Forks until it is over.
pub(crate) fn forks(world: &World, post: &Post, patience: Duration, mut rng: Rng) {
    let terms = Terms::new(patience);
    let queues = inherited();
    let runs = Arc::new(AtomicU64::new(0));
    while !world.is_over() {
        // The parent's own items, in all states, are not the child's.
        let works: Vec<_> = queues.iter().map(|_| counting(&runs)).collect();
        for (wq, (work, delayed)) in queues.iter().zip(&works) {
            wq.queue_work(work);
            wq.queue_delayed_work(delayed, Duration::from_micros(rng.u64(..2_000)));
        }
        let seed = rng.u64(..);
        match sys::fork(|| child(world.may_lack_threads, &queues, terms, seed)) {
            Ok(pid) => post.doing("a forked child", || wait(pid, terms)),
            Err(_) if world.may_lack_threads => {}
            Err(error) => fail(&format!("cannot fork: {error}")),
        }
        Totals::add(&world.totals.forks, 1);
        for (work, delayed) in &works {
            post.doing("items across a fork", || (work.flush(), delayed.flush()));
        }
        thread::sleep(Duration::from_millis(rng.u64(20..300)));
    }
}

fn counting(runs: &Arc<AtomicU64>) -> (Work, DelayedWork) {
    let (one, other) = (Arc::clone(runs), Arc::clone(runs));
    let plain = Work::new(move || _ = one.fetch_add(1, Ordering::SeqCst));
    let delayed = DelayedWork::new(move || _ = other.fetch_add(1, Ordering::SeqCst));
    (plain, delayed)
}

/// The first use of the library in the child, for which it needs a thread.
fn own_queue(may_lack_threads: bool) -> Option<Workqueue> {
    let nice = sys::nicer_by(4);
    loop {
        match Workqueue::builder("own").unbound().nice(nice).build() {
            Ok(wq) => return Some(wq),
            Err(error) if may_lack_threads && error.kind() == ErrorKind::ThreadCreation => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(_) => return None,
        }
    }
}

/// In the child: 0 if all was well.
fn child(may_lack_threads: bool, queues: &[Workqueue], terms: Terms, seed: u64) -> i32 {
    sys::alarm(u32::try_from(terms.killed.as_secs()).unwrap_or(u32::MAX).max(1));
    // A limit that was set when it was forked stays; nobody would take it back here.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NPROC) {
        let _kept = setrlimit(Resource::RLIMIT_NPROC, hard, hard);
    }
    // Says what it was at, in time before it is killed.
    let _told = sys::plain_thread(move || {
        thread::sleep(terms.told);
        fail("a forked child does not end");
    });
    let mut rng = Rng::with_seed(seed);
    let runs = Arc::new(AtomicU64::new(0));
    let mut expected = 0;
    let Some(own) = own_queue(may_lack_threads) else { return 2 };
    // Is used for the first time behind the shutdown, if there is one.
    let late = rng.usize(..queues.len() + 1);
    let others = queues.iter().enumerate().filter(|(i, _)| *i != late).map(|(_, wq)| wq);
    for wq in others.chain([&own]) {
        let (work, delayed) = counting(&runs);
        for _ in 0..rng.u8(1..4) {
            expected += u64::from(wq.queue_work(&work));
            expected += u64::from(wq.queue_delayed_work(&delayed, Duration::from_micros(300)));
            if wq.queue(|| 42).join().ok() != Some(42) {
                return 3;
            }
            expected -= u64::from(delayed.cancel_sync());
            work.flush();
        }
        wq.flush();
    }
    drop(own);
    if runs.load(Ordering::SeqCst) != expected {
        return 4;
    }
    if rng.bool() {
        if cmwq::shutdown(terms.shutdown).is_err() {
            return 5;
        }
        let is_refused = |wq: &Workqueue| wq.queue(|| ()).join().is_err_and(|e| e.is_refused());
        if !queues.get(late).is_none_or(is_refused) {
            return 6;
        }
    }
    0
}

/// Waits for a child, which ends, or is killed, in time.
fn wait(pid: Pid, terms: Terms) {
    match status_of(pid, terms) {
        WaitStatus::Exited(_, 0) => {}
        WaitStatus::Signaled(_, Signal::SIGALRM | Signal::SIGKILL, _) => {
            fail(&format!("a forked child has not ended for {:?}", terms.killed));
        }
        // 2: no queue, 3: a lost value, 4: wrong books, 5: no shutdown, 6: a shut queue let in.
        status => fail(&format!("a forked child ended with {status:?}")),
    }
}

#[expect(clippy::print_stderr, reason = "a failure is told to whoever runs this")]
fn status_of(pid: Pid, terms: Terms) -> WaitStatus {
    let (since, mut was_seen) = (Instant::now(), false);
    loop {
        match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => thread::sleep(PAUSE),
            Ok(status) => return status,
            Err(error) => fail(&format!("a forked child: {error}")),
        }
        if since.elapsed() > terms.seen && !was_seen {
            was_seen = true;
            eprintln!("soak: a forked child goes on and on:\n{}", sys::threads_of(pid));
        }
        // In case its alarm does not end it.
        if since.elapsed() > terms.killed + Duration::from_secs(5) {
            let _gone = kill(pid, Signal::SIGKILL);
        }
    }
}
