//! Closures without a queue: the run is called, on this thread or another one.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use super::*;

/// How often races are run.
const TIMES: usize = if cfg!(miri) { 20 } else { 300 };

/// A closure's item, to be run once.
struct Item(NonNull<WorkItem>);

// SAFETY: whoever has it runs it.
unsafe impl Send for Item {}

impl Item {
    fn run(self) {
        // SAFETY: from `make`, and not queued.
        unsafe { (self.0.as_ref().func())(self.0.as_ptr()) };
    }
}

fn item<F, T>(func: F) -> (Item, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (item, handle) = make::<F, WorkItem, F, T>(func);
    (Item(item), handle)
}

fn refused<F, T>(func: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (item, handle) = make::<F, WorkItem, F, T>(func);
    // SAFETY: made above, and not queued.
    unsafe { refuse::<WorkItem, F, T>(item, Closed::NOT) };
    handle
}

fn size<F: FnOnce() -> T, T>(_: &F) -> usize {
    size_of::<Closure<WorkItem, F, T>>()
}

#[test]
fn a_closure_with_a_word_takes_56_bytes() {
    let (number, text) = (7_u64, String::from("text"));
    assert_eq!(size(&|| ()), 56);
    assert_eq!(size(&|| &number), 56);
    assert_eq!(size(&|| number), 56);
    assert_eq!(size(&move || number), 56);
    assert_eq!(size(&|| panic!("never called")), 56);
    assert_eq!(size(&move || text), 56 + size_of::<String>() - 8);
    assert_eq!(size(&|| [0_u64; 9]), 120, "the largest that is kept");
    assert_eq!(size_of::<Closure<DelayedItem, (), ()>>(), 120, "kept, too");
}

#[test]
fn values_of_any_form_come_back() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(128))]
    struct Aligned(u8);
    fn comes_back<T: Clone + PartialEq + std::fmt::Debug + Send + 'static>(value: T) {
        let theirs = value.clone();
        let (item, handle) = item(move || theirs);
        item.run();
        assert_eq!(handle.join().unwrap(), value);
        // Without having been taken out of a variable.
        let (item, handle) = self::item(|| ());
        drop(handle);
        item.run();
    }
    comes_back(());
    comes_back(1_u8);
    comes_back(u64::MAX);
    comes_back(u128::MAX);
    comes_back(Aligned(3));
    comes_back([5_u16; 100]);
    comes_back(String::from("text"));
    comes_back(Some(Box::new(9)));
}

#[test]
fn a_panic_comes_back() {
    let (item, handle) = item(|| -> u8 { resume_unwind(Box::new("expected")) });
    item.run();
    assert_eq!(handle.join().unwrap_err().message(), Some("expected"));
}

#[test]
fn a_refused_closure_lets_go_of_what_it_captured() {
    let captured = Arc::new(());
    let theirs = Arc::clone(&captured);
    let handle = refused(move || Arc::clone(&theirs));
    assert_eq!(Arc::strong_count(&captured), 1);
    assert!(handle.join().unwrap_err().is_refused());
    let theirs = Arc::clone(&captured);
    drop(refused(move || drop(theirs)));
    assert_eq!(Arc::strong_count(&captured), 1);
}

#[test]
fn what_is_not_joined_is_dropped_before_or_after_the_run() {
    let value = Arc::new(());
    let theirs = Arc::clone(&value);
    let (before, handle) = item(move || theirs);
    drop(handle);
    before.run();
    assert_eq!(Arc::strong_count(&value), 1);
    let theirs = Arc::clone(&value);
    let (after, handle) = item(move || theirs);
    after.run();
    assert_eq!(Arc::strong_count(&value), 2);
    drop(handle);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// Counts its wake-ups, and panics when it is dropped if it is to.
struct Bell {
    rings: AtomicU32,
    is_loud: bool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rings.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if self.is_loud {
            resume_unwind(Box::new("a bell"));
        }
    }
}

impl Bell {
    fn new() -> Arc<Self> {
        Arc::new(Self { rings: AtomicU32::new(0), is_loud: false })
    }

    fn rings(&self) -> u32 {
        self.rings.load(Ordering::Acquire)
    }
}

fn poll<T>(handle: &mut JoinHandle<T>, bell: &Arc<Bell>) -> Poll<Result<T, JoinError>> {
    let waker = Waker::from(Arc::clone(bell));
    pin!(handle).poll(&mut Context::from_waker(&waker))
}

#[test]
fn the_last_waker_is_woken_and_none_is_kept() {
    let bells = [(); 2].map(|()| Bell::new());
    let (item, mut handle) = item(|| 5);
    for bell in [&bells[0], &bells[0], &bells[1]] {
        assert!(poll(&mut handle, bell).is_pending());
    }
    assert_eq!(bells.each_ref().map(Arc::strong_count), [1, 2], "a replaced waker is let go");
    item.run();
    assert_eq!(bells.each_ref().map(|bell| bell.rings()), [0, 1]);
    let Poll::Ready(value) = poll(&mut handle, &bells[0]) else { panic!("it is done") };
    assert_eq!((value.unwrap(), handle.is_finished()), (5, true));
    assert_eq!(bells.each_ref().map(Arc::strong_count), [1, 1]);
    let again = catch_unwind(AssertUnwindSafe(|| poll(&mut handle, &bells[0])));
    assert!(again.is_err(), "there is no second value");
}

#[test]
fn a_handle_that_was_polled_can_go_at_any_time() {
    let bell = Bell::new();
    let (item, mut handle) = item(|| ());
    assert!(poll(&mut handle, &bell).is_pending());
    drop(handle);
    assert_eq!(Arc::strong_count(&bell), 1, "the waker goes with the handle");
    item.run();
    let (item, mut handle) = self::item(|| ());
    assert!(poll(&mut handle, &bell).is_pending());
    item.run();
    drop(handle);
    assert_eq!((bell.rings(), Arc::strong_count(&bell)), (1, 1));
}

#[test]
fn a_handle_that_was_polled_can_be_joined() {
    let bell = Bell::new();
    let (item, mut handle) = item(|| 5);
    assert!(poll(&mut handle, &bell).is_pending());
    let handle = handle.join_timeout(Duration::from_millis(1)).unwrap_err();
    let runner = thread::spawn(|| item.run());
    assert_eq!(handle.join().unwrap(), 5);
    runner.join().unwrap();
    assert_eq!((bell.rings(), Arc::strong_count(&bell)), (1, 1));
}

#[test]
fn a_waker_that_panics_when_dropped_harms_nobody() {
    let loud = || Arc::new(Bell { rings: AtomicU32::new(0), is_loud: true });
    // Dropped by the run, with the handle before the end, and by the one that it gives way to.
    let (item, mut handle) = item(|| 5);
    assert!(poll(&mut handle, &loud()).is_pending());
    item.run();
    assert_eq!(handle.join().unwrap(), 5);
    let (item, mut handle) = self::item(|| ());
    assert!(poll(&mut handle, &loud()).is_pending());
    drop(handle);
    item.run();
    let (item, mut handle) = self::item(|| 6);
    assert!(poll(&mut handle, &loud()).is_pending());
    let replaced = catch_unwind(AssertUnwindSafe(|| poll(&mut handle, &Bell::new())));
    assert!(replaced.is_err(), "where it is the caller's own doing, he has the panic");
    item.run();
    assert_eq!(handle.join().unwrap(), 6);
    // The one that took its place is not left behind with a handle that is dropped.
    let (item, mut handle) = self::item(|| ());
    assert!(poll(&mut handle, &loud()).is_pending());
    let bell = Bell::new();
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut handle, &bell))).is_err());
    drop(handle);
    item.run();
    assert_eq!(Arc::strong_count(&bell), 1);
}

/// Runs a closure on another thread, while `wait` has its handle; its value is gone in the end.
fn race(wait: impl Fn(usize, JoinHandle<Arc<usize>>)) {
    for n in 0..TIMES {
        let value = Arc::new(n);
        let theirs = Arc::clone(&value);
        let (item, handle) = item(move || theirs);
        let runner = thread::spawn(|| item.run());
        if n % 2 == 0 {
            thread::yield_now();
        }
        wait(n, handle);
        runner.join().unwrap();
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

#[test]
fn a_run_races_with_joining() {
    race(|n, handle| assert_eq!(*handle.join().unwrap(), n));
}

#[test]
fn a_run_races_with_joining_for_some_time() {
    race(|n, handle| match handle.join_timeout(Duration::from_micros(n as u64)) {
        Ok(value) => assert_eq!(*value.unwrap(), n),
        Err(handle) => assert_eq!(*handle.join().unwrap(), n),
    });
}

#[test]
fn a_run_races_with_dropping() {
    race(|_, handle| drop(handle));
}

#[test]
fn a_run_races_with_polling() {
    race(|n, mut handle| {
        let bell = Bell::new();
        let value = loop {
            if let Poll::Ready(value) = poll(&mut handle, &bell) {
                break value;
            }
            let other = Bell::new();
            if let Poll::Ready(value) = poll(&mut handle, &other) {
                break value;
            }
            if n % 3 == 0 {
                return drop(handle);
            }
            while other.rings() == 0 {
                thread::yield_now();
            }
            assert!(handle.is_finished());
        };
        assert_eq!(*value.unwrap(), n);
    });
}

// ---- closures of somebody's, which may borrow

/// What an owner was told, and when it went.
#[derive(Default)]
struct Log(std::sync::Mutex<Vec<&'static str>>);

impl Log {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }
}

struct Noting<'a>(&'a Log);

impl Owner for Noting<'_> {
    fn unjoined<T>(&self, outcome: Outcome<T>, _: Origin) {
        self.0.note(match &outcome {
            Outcome::Value(_) => "value",
            Outcome::Panicked(_) => "panic",
            Outcome::Refused(_) => "refused",
        });
    }
}

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        self.0.note("owner");
    }
}

/// Notes when it is dropped.
struct Value<'a>(&'a Log);

impl Drop for Value<'_> {
    fn drop(&mut self) {
        self.0.note("gone");
    }
}

/// What is noted of a closure that returns a `Value` or panics, while `what` is done with it.
fn noted(panics: bool, what: impl for<'a> FnOnce(&'a Log, Item, JoinHandle<Value<'a>>)) -> String {
    let log = Log::default();
    let func = || if panics { resume_unwind(Box::new("expected")) } else { Value(&log) };
    fn make<'a, F: FnOnce() -> Value<'a> + Send>(
        log: &'a Log,
        func: F,
    ) -> (NonNull<WorkItem>, JoinHandle<Value<'a>>) {
        make_borrowing::<F, WorkItem, _, Value<'a>>(Owned(func, Noting(log)))
    }
    let (item, handle) = make(&log, func);
    what(&log, Item(item), handle);
    log.0.lock().unwrap().join(" ")
}

#[test]
fn an_owner_goes_behind_everything_but_a_value_that_is_the_handles() {
    let detached = |_: &Log, item: Item, mut handle: JoinHandle<Value<'_>>| {
        handle.let_go(&Noting(&Log::default()));
        item.run();
    };
    assert_eq!(noted(false, detached), "value gone owner");
    assert_eq!(noted(true, detached), "panic owner");
    let joined = |_: &Log, item: Item, handle: JoinHandle<Value<'_>>| {
        item.run();
        drop(handle.join());
    };
    assert_eq!(noted(false, joined), "owner gone");
    assert_eq!(noted(true, joined), "owner");
}

#[test]
fn what_was_over_when_its_handle_went_is_told_by_the_handle() {
    let late = |log: &Log, item: Item, mut handle: JoinHandle<Value<'_>>| {
        item.run();
        let teller = std::mem::ManuallyDrop::new(Noting(log));
        handle.let_go(&*teller);
    };
    assert_eq!(noted(false, late), "owner value gone");
    assert_eq!(noted(true, late), "owner panic");
}

#[test]
fn who_goes_during_a_run_leaves_what_came_of_it_to_one() {
    for _ in 0..TIMES {
        let race = |log: &Log, item: Item, mut handle: JoinHandle<Value<'_>>| {
            thread::scope(|scope| {
                scope.spawn(move || item.run());
                handle.let_go(&*std::mem::ManuallyDrop::new(Noting(log)));
            });
        };
        let noted = noted(false, race);
        let told: Vec<_> = noted.split(' ').filter(|what| *what != "owner").collect();
        assert_eq!(told, ["value", "gone"], "{noted}");
    }
}
