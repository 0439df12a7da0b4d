//! Items that wait for a grace period: never before a reader that was inside has gone.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, mpsc};
use std::thread;

use cmwq::{
    ErrorKind, GracePeriods, RcuFunc, RcuHead, RcuWork, Workqueue, rcu_read_lock, set_grace_periods,
};

use crate::support::scene::{Scene, Stage};
use crate::support::wait::{Opened, within};
use crate::support::{Gate, eventually, joined, managed, procfs, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("rcu::slow_queuer", slow_queuer),
    ("rcu::own_source", own_source),
    ("rcu::source_goes_on", source_goes_on),
    ("rcu::nobody_tells", nobody_tells),
    ("rcu::a_reader_tells", a_reader_tells),
    #[cfg(feature = "liburcu")]
    ("rcu::liburcu", liburcu::waits_for_its_readers),
];

/// Whether the tests of this process have another source, after which readers are looked for: those
/// that came meanwhile are waited for, too.
const HAS_SOURCE: bool = cfg!(feature = "liburcu");

fn counter() -> (RcuWork, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = RcuWork::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    (work, runs)
}

/// Flushes on a thread of its own, and returns when that waits.
fn flusher(work: &RcuWork) -> thread::JoinHandle<bool> {
    let (send, receive) = std::sync::mpsc::channel();
    let work = work.clone();
    let flusher = thread::spawn(move || {
        send.send(sys::gettid()).unwrap();
        work.flush()
    });
    let tid = receive.recv().unwrap();
    eventually("the flusher waits", || procfs::waits(tid));
    flusher
}

/// Waits until what was queued on `wq`, an ordered queue, has run.
fn settle(wq: &Workqueue) {
    joined(wq.queue(|| ()));
}

#[test]
fn waits_for_a_reader_that_was_inside() {
    let wq = Workqueue::builder("grace").ordered().build().unwrap();
    let (work, runs) = counter();
    let early = rcu_read_lock();
    assert!(wq.queue_rcu_work(&work));
    assert!(work.is_pending() && work.busy().pending);
    assert!(!wq.queue_rcu_work(&work), "pending already");
    settle(&wq);
    assert_eq!(runs.load(Ordering::SeqCst), 0, "the reader is inside");
    thread::scope(|s| s.spawn(|| drop(rcu_read_lock())).join()).unwrap();
    settle(&wq);
    assert_eq!(runs.load(Ordering::SeqCst), 0, "another reader's end is not this one's");

    let flusher = flusher(&work);
    drop(early);
    assert!(within("the flush", || flusher.join().unwrap()), "it was pending");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(!work.is_pending());
    assert!(!work.flush(), "idle");
}

#[test]
fn sections_nest_and_items_run_in_the_order_in_which_they_were_queued() {
    let wq = Workqueue::builder("grace_order").ordered().build().unwrap();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let works: Vec<_> = (0..20)
        .map(|i| {
            let ran = Arc::clone(&ran);
            RcuWork::new(move || ran.lock().unwrap().push(i))
        })
        .collect();
    let outer = rcu_read_lock();
    for work in &works[..10] {
        assert!(wq.queue_rcu_work(work));
    }
    let inner = rcu_read_lock();
    for work in &works[10..] {
        assert!(wq.queue_rcu_work(work));
    }
    drop(outer);
    if !HAS_SOURCE {
        // The first ten waited for the outer section alone.
        eventually("the first ten run", || ran.lock().unwrap().len() == 10);
    }
    settle(&wq);
    assert!(works[10..].iter().all(RcuWork::is_pending), "the inner section goes on");
    drop(inner);
    for work in &works {
        let work = work.clone();
        within("flush", move || work.flush());
    }
    assert_eq!(*ran.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_reader_that_flushes_is_told_and_does_not_wait() {
    let wq = managed("grace_self");
    let (work, runs) = counter();
    let section = rcu_read_lock();
    assert!(wq.queue_rcu_work(&work));
    assert!(!work.flush(), "it would wait for itself");
    assert!(
        cmwq::notices().iter().any(|notice| notice.contains("waited for inside of rcu_read_lock"))
    );
    drop(section);
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Not for what comes behind it.
#[test]
fn flushed_from_inside_it_waits_for_what_runs_beside_it() {
    let wq = Workqueue::builder("grace_inside").ordered().build().unwrap();
    let other = Workqueue::builder("grace_beside").percpu().build().unwrap();
    let (send, seen) = mpsc::channel();
    let (own, runs) = (Arc::new(OnceLock::<RcuWork>::new()), Arc::new(AtomicU32::new(0)));
    let work = RcuWork::new({
        let (wq, own, runs) = (wq.clone(), Arc::clone(&own), Arc::clone(&runs));
        move || {
            if runs.fetch_add(1, Ordering::SeqCst) > 0 {
                return;
            }
            let own = own.get().unwrap();
            let beside = other.queue_rcu_work(own) && own.flush();
            let nr_runs = runs.load(Ordering::SeqCst);
            send.send((beside, nr_runs, wq.queue_rcu_work(own), own.flush())).unwrap();
        }
    });
    own.set(work.clone()).unwrap();
    assert!(wq.queue_rcu_work(&work));
    let seen = within("it returns", move || seen.recv());
    assert_eq!(seen, Ok((true, 2, true, false)));
    let notices = cmwq::notices();
    assert!(notices.iter().any(|said| said.contains("'grace_inside' is flushed from inside")));
    assert!(work.flush() || runs.load(Ordering::SeqCst) == 3);
}

#[test]
fn queued_again_while_it_runs_it_runs_once_more() {
    let wq = managed("grace_again");
    let (entered, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let runs = Arc::new(AtomicU32::new(0));
    let work = RcuWork::new({
        let (entered, gate, runs) = (entered.clone(), gate.clone(), Arc::clone(&runs));
        move || {
            entered.open();
            gate.pass();
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert!(wq.queue_rcu_work(&work));
    entered.pass();
    assert!(!work.is_pending());
    assert!(wq.queue_rcu_work(&work), "once more");
    let flusher = flusher(&work);
    assert_eq!(runs.load(Ordering::SeqCst), 0, "the second waits for the first");
    gate.open();
    assert!(within("the flush", || flusher.join().unwrap()));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// The queue is asked when the grace period is over, and refuses; nothing is lost by that.
#[test]
fn a_queue_that_drains_refuses_what_comes_out_of_a_grace_period() {
    let wq = managed("grace_drain");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let (work, runs) = counter();
    let section = rcu_read_lock();
    assert!(wq.queue_rcu_work(&work));
    let theirs = gate.clone();
    let last = wq.queue(move || theirs.pass());
    let (send, receive) = std::sync::mpsc::channel();
    let drainer = thread::spawn({
        let wq = wq.clone();
        move || {
            send.send(sys::gettid()).unwrap();
            wq.drain();
        }
    });
    let tid = receive.recv().unwrap();
    eventually("the drainer waits", || procfs::waits(tid));
    drop(section);
    eventually("it was let go", || !work.is_pending());
    gate.open();
    joined(last);
    within("drain", || drainer.join().unwrap());
    assert_eq!(runs.load(Ordering::SeqCst), 0, "refused");
    assert!(wq.queue_rcu_work(&work), "open again");
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn keeps_its_queue_and_itself_until_it_has_run() {
    let wq = managed("grace_alone");
    let (work, runs) = counter();
    let section = rcu_read_lock();
    assert!(wq.queue_rcu_work(&work));
    drop((wq, work));
    assert_eq!(Arc::strong_count(&runs), 2);
    drop(section);
    eventually("it ran", || runs.load(Ordering::SeqCst) == 1);
    eventually("it was let go", || Arc::strong_count(&runs) == 1);
}

/// Readers look at what a writer replaces and takes down after a grace period.
#[test]
fn readers_never_see_what_was_taken_down() {
    const ROUNDS: usize = 300;
    let wq = managed("grace_stress");
    // `alive[i]` is what the pointer `current` leads to.
    let alive: Arc<Vec<AtomicU32>> = Arc::new((0..=ROUNDS).map(|_| AtomicU32::new(1)).collect());
    let current = AtomicUsize::new(0);
    let frees: Vec<_> = (0..ROUNDS)
        .map(|i| {
            let alive = Arc::clone(&alive);
            RcuWork::new(move || alive[i].store(0, Ordering::Relaxed))
        })
        .collect();
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while current.load(Ordering::Acquire) < ROUNDS {
                    let _section = rcu_read_lock();
                    let seen = current.load(Ordering::Acquire);
                    thread::yield_now();
                    assert_eq!(alive[seen].load(Ordering::Relaxed), 1, "{seen} went too early");
                }
            });
        }
        for (i, free) in frees.iter().enumerate() {
            current.store(i + 1, Ordering::Release);
            assert!(wq.queue_rcu_work(free));
        }
    });
    for free in &frees {
        free.flush();
    }
    wq.flush();
    let left: u32 = alive.iter().map(|alive| alive.load(Ordering::Relaxed)).sum();
    assert_eq!(left, 1, "all but the last");
}

/// A barrier must not be passed by what came before it, whichever readers end which.
#[test]
fn a_flush_returns_after_the_run_however_readers_come_and_go() {
    // liburcu takes its time for each.
    const ROUNDS: u32 = if HAS_SOURCE { 50 } else { 2_000 };
    let wq = managed("grace_barrier");
    let stop = AtomicU32::new(0);
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while stop.load(Ordering::Relaxed) < 2 {
                    drop(rcu_read_lock());
                }
            });
        }
        for _ in 0..2 {
            s.spawn(|| {
                let (work, runs) = counter();
                for round in 1..=ROUNDS {
                    assert!(wq.queue_rcu_work(&work));
                    work.flush();
                    let ran = runs.load(Ordering::SeqCst);
                    if ran != round {
                        stop.store(2, Ordering::Relaxed);
                        panic!("flushed in round {round}, and it had run {ran} times");
                    }
                }
                stop.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
}

/// A source whose grace periods end when the test says so.
struct Manual {
    waiting: Mutex<Vec<(usize, RcuFunc)>>,
    ended: Condvar,
    barriers: AtomicU32,
}

// SAFETY: each head is called once, when the test, which has no other readers, says so.
unsafe impl GracePeriods for Manual {
    unsafe fn call_rcu(&self, head: *mut RcuHead, func: RcuFunc) {
        self.waiting.lock().unwrap().push((head.expose_provenance(), func));
    }

    fn rcu_barrier(&self) {
        self.barriers.fetch_add(1, Ordering::SeqCst);
        // Who looks again and again is never found waiting, where that takes long to find.
        let mut waiting = self.waiting.lock().unwrap();
        while !waiting.is_empty() {
            waiting = self.ended.wait(waiting).unwrap();
        }
    }
}

impl Manual {
    const fn new() -> Self {
        Self { waiting: Mutex::new(Vec::new()), ended: Condvar::new(), barriers: AtomicU32::new(0) }
    }

    fn end(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap());
        self.ended.notify_all();
        for (head, func) in waiting {
            // SAFETY: given with this function, and called once.
            unsafe { func(std::ptr::with_exposed_provenance_mut(head)) };
        }
    }
}

/// A source whose grace periods are over at once, for programs without readers of their own. The
/// thread that queues may lose its CPU before it has told the source.
#[derive(Default)]
struct SlowlyTold {
    /// Where it stops next: it opens the first, and passes the second.
    stop: Mutex<Option<[Gate; 2]>>,
    barriers: AtomicU32,
}

// SAFETY: there are no readers to wait for.
unsafe impl GracePeriods for SlowlyTold {
    unsafe fn call_rcu(&self, head: *mut RcuHead, func: RcuFunc) {
        let stop = self.stop.lock().unwrap().take();
        if let Some([entered, gate]) = stop {
            entered.open();
            gate.pass();
        }
        // SAFETY: given with this function, and called once.
        unsafe { func(head) };
    }

    fn rcu_barrier(&self) {
        self.barriers.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_flush_waits_for_a_thread_that_is_about_to_queue_the_item() {
    Stage::new("rcu::slow_queuer").play();
}

fn slow_queuer() {
    let source: &'static SlowlyTold = Box::leak(Box::default());
    set_grace_periods(source).unwrap();
    let (wq, [begun, run_gate]) = (managed("slow"), [Gate::new(), Gate::new()]);
    let runs = Arc::new(AtomicU32::new(0));
    let work = RcuWork::new({
        let (begun, gate, runs) = (begun.clone(), run_gate.clone(), Arc::clone(&runs));
        move || {
            begun.open();
            gate.pass();
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert!(wq.queue_rcu_work(&work));
    begun.pass();
    // While that run goes on, and while the item is idle.
    for wanted in [2, 3] {
        let [entered, gate] = [Gate::new(), Gate::new()];
        *source.stop.lock().unwrap() = Some([entered.clone(), gate.clone()]);
        source.barriers.store(0, Ordering::SeqCst);
        let tid = AtomicI32::new(0);
        thread::scope(|s| {
            let _opened = [Opened(&gate), Opened(&run_gate)];
            s.spawn(|| assert!(wq.queue_rcu_work(&work)));
            entered.pass();
            assert!(!wq.queue_rcu_work(&work), "it is pending");
            let flusher = s.spawn(|| {
                tid.store(sys::gettid(), Ordering::SeqCst);
                (work.flush(), runs.load(Ordering::SeqCst))
            });
            eventually("the flusher waits, or has ended", || {
                let tid = tid.load(Ordering::SeqCst);
                flusher.is_finished() || tid != 0 && procfs::waits(tid)
            });
            run_gate.open();
            eventually("it looks again, or has ended", || {
                flusher.is_finished() || source.barriers.load(Ordering::SeqCst) >= 3
            });
            gate.open();
            assert_eq!(flusher.join().unwrap(), (true, wanted), "it returned before the run");
        });
    }
}

#[test]
fn the_programs_own_source_of_grace_periods() {
    Stage::new("rcu::own_source").play();
}

fn own_source() {
    static SOURCE: Manual = Manual::new();
    set_grace_periods(&SOURCE).unwrap();
    assert_eq!(set_grace_periods(&SOURCE).unwrap_err().kind(), ErrorKind::InvalidInput);
    let wq = Workqueue::builder("source").ordered().build().unwrap();
    let (work, runs) = counter();
    assert!(wq.queue_rcu_work(&work));
    settle(&wq);
    assert_eq!(runs.load(Ordering::SeqCst), 0, "its grace period goes on");
    let flusher = flusher(&work);
    eventually("the barrier", || SOURCE.barriers.load(Ordering::SeqCst) == 1);
    // This crate's own readers are waited for besides.
    let section = rcu_read_lock();
    SOURCE.end();
    settle(&wq);
    assert_eq!(runs.load(Ordering::SeqCst), 0, "a reader of ours is inside");
    drop(section);
    assert!(within("the flush", || flusher.join().unwrap()));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(cmwq::notices().is_empty(), "{:?}", cmwq::notices());
}

/// As liburcu does in a program that tells it of forks.
#[test]
fn in_a_child_a_source_gives_the_parents_item_back_and_it_does_not_run() {
    Stage::new("rcu::source_goes_on").play();
}

fn source_goes_on() {
    static SOURCE: Manual = Manual::new();
    set_grace_periods(&SOURCE).unwrap();
    let wq = managed("source");
    let (work, runs) = counter();
    assert!(wq.queue_rcu_work(&work));
    let status = sys::fork(|| {
        assert!(!work.is_pending() && !work.flush(), "it is the parent's");
        assert!(!wq.queue_rcu_work(&work), "the source has its head");
        SOURCE.end();
        wq.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 0, "the parent's item did not run here");
        assert!(wq.queue_rcu_work(&work), "the source has given it back");
        assert!(work.is_pending());
        SOURCE.end();
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    });
    assert_eq!(status, 0);
    SOURCE.end();
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn without_a_source_it_is_said_once_that_nobody_tells() {
    Stage::new("rcu::nobody_tells").play();
    Stage::new("rcu::a_reader_tells").play();
}

fn nobody_tells() {
    let wq = managed("nobody");
    for _ in 0..2 {
        let (work, runs) = counter();
        assert!(wq.queue_rcu_work(&work));
        assert!(work.flush() || runs.load(Ordering::SeqCst) == 1);
    }
    let said = cmwq::notices().iter().filter(|text| text.contains("grace periods")).count();
    assert_eq!(said, usize::from(cfg!(not(feature = "liburcu"))), "{:?}", cmwq::notices());
    static LATE: OnceLock<Manual> = OnceLock::new();
    assert!(set_grace_periods(LATE.get_or_init(Manual::new)).is_err(), "items have been queued");
}

fn a_reader_tells() {
    drop(rcu_read_lock());
    let (work, _) = counter();
    assert!(managed("reader").queue_rcu_work(&work));
    let said = cmwq::notices().iter().filter(|text| text.contains("grace periods")).count();
    assert_eq!(said, 0, "{:?}", cmwq::notices());
}

#[cfg(feature = "liburcu")]
mod liburcu {
    use std::ffi::CStr;

    use super::*;
    use crate::support::scene::skip;

    #[test]
    fn its_readers_are_waited_for() {
        Stage::new("rcu::liburcu").play();
    }

    fn function(name: &CStr) -> Option<unsafe extern "C" fn()> {
        // SAFETY: strings, and functions without parameters by <urcu/urcu-memb.h>.
        unsafe {
            let library = libc::dlopen(c"liburcu-memb.so.8".as_ptr(), libc::RTLD_NOW);
            let symbol =
                if library.is_null() { library } else { libc::dlsym(library, name.as_ptr()) };
            (!symbol.is_null())
                .then(|| std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn()>(symbol))
        }
    }

    pub(super) fn waits_for_its_readers() {
        let wq = Workqueue::builder("liburcu").ordered().build().unwrap();
        let (work, runs) = counter();
        let Some(register) = function(c"urcu_memb_register_thread") else {
            assert!(wq.queue_rcu_work(&work));
            work.flush();
            let notices = cmwq::notices();
            assert!(notices.iter().any(|text| text.contains("liburcu-memb.so.8")), "{notices:?}");
            return skip("there is no liburcu-memb.so.8: install liburcu");
        };
        let [unregister, lock, unlock] =
            [c"urcu_memb_unregister_thread", c"urcu_memb_read_lock", c"urcu_memb_read_unlock"]
                .map(|name| function(name).unwrap());
        let (inside, gate) = (Gate::new(), Gate::new());
        let _opened = Opened(&gate);
        let reader = thread::spawn({
            let (inside, gate) = (inside.clone(), gate.clone());
            move || {
                // SAFETY: in the order that the library asks for.
                unsafe { (register(), lock()) };
                inside.open();
                gate.pass();
                // SAFETY: as above.
                unsafe { (unlock(), unregister()) };
            }
        });
        inside.pass();
        assert!(wq.queue_rcu_work(&work));
        let flusher = flusher(&work);
        settle(&wq);
        assert_eq!(runs.load(Ordering::SeqCst), 0, "the reader is inside");
        assert!(!flusher.is_finished());
        gate.open();
        reader.join().unwrap();
        assert!(within("the flush", || flusher.join().unwrap()), "it was pending");
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert!(cmwq::notices().is_empty(), "{:?}", cmwq::notices());
    }
}
