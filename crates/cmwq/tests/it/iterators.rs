//! Functions over iterators, on queues.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cmwq::{IteratorOn, Workqueue};

use crate::support::wait::Opened;
use crate::support::{Gate, Peak, eventually, every_kind, joined, managed, unbound, within};

#[test]
fn results_are_in_order_or_as_they_come() {
    for wq in every_kind("mapped") {
        for ahead in [0, 1, 3, 1000] {
            let ordered: Vec<_> = (0..200).map_on(&wq, ahead, |n| n * 2).collect();
            assert_eq!(ordered, (0..200).map(|n| n * 2).collect::<Vec<_>>());
            let mut any: Vec<_> = (0..200).map_unordered_on(&wq, ahead, |n| n * 2).collect();
            any.sort_unstable();
            assert_eq!(any, ordered);
        }
        assert_eq!(std::iter::empty::<u8>().map_on(&wq, 4, |n| n).next(), None);
        assert_eq!(std::iter::empty::<u8>().map_unordered_on(&wq, 4, |n| n).next(), None);
    }
}

#[test]
fn an_iterator_that_has_ended_is_not_asked_again() {
    let wq = managed("ended");
    let three = || {
        let mut asked = 0;
        std::iter::from_fn(move || {
            asked += 1;
            assert!(asked <= 4, "it was at its end");
            (asked < 4).then_some(asked)
        })
    };
    for ahead in [1, 2, 8] {
        assert_eq!(three().map_on(&wq, ahead, |n| n).collect::<Vec<_>>(), [1, 2, 3]);
        let mut any: Vec<_> = three().map_unordered_on(&wq, ahead, |n| n).collect();
        any.sort_unstable();
        assert_eq!(any, [1, 2, 3]);
    }
}

#[test]
fn what_is_late_holds_up_the_ordered_only() {
    let wq = unbound("late");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let func = |gate: &Gate| {
        let gate = gate.clone();
        move |n: u32| {
            if n == 0 {
                gate.pass();
            }
            n
        }
    };
    let mut any = fused((0..10).map_unordered_on(&wq, 3, func(&gate)));
    let nine: Vec<_> = any.by_ref().take(9).collect();
    assert!(!nine.contains(&0), "{nine:?}");
    assert_eq!(any.size_hint(), (1, Some(1)));
    let mut ordered = fused((0..10).map_on(&wq, 3, func(&gate)));
    assert_eq!(ordered.size_hint(), (10, Some(10)));
    gate.open();
    assert_eq!((any.next(), any.next()), (Some(0), None));
    assert_eq!(ordered.next(), Some(0));
    assert_eq!(ordered.collect::<Vec<_>>(), (1..10).collect::<Vec<_>>());
}

/// After its end nothing comes any more.
fn fused<I: std::iter::FusedIterator>(iterator: I) -> I {
    iterator
}

/// Neither begun nor taken from the source.
#[test]
fn no_more_are_under_way_than_there_may_be() {
    let wq = unbound("bounded");
    let taken = Arc::new(AtomicU32::new(0));
    let source = || {
        let taken = Arc::clone(&taken);
        (0..100).inspect(move |_| _ = taken.fetch_add(1, Ordering::SeqCst))
    };
    let mut ordered = source().map_on(&wq, 5, |n| n);
    assert_eq!(taken.load(Ordering::SeqCst), 0, "nobody has asked");
    for asked in 1..=10 {
        ordered.next();
        assert_eq!(taken.load(Ordering::SeqCst), asked + 4);
    }
    drop(ordered);
    taken.store(0, Ordering::SeqCst);
    let peak = Peak::new();
    source().for_each_on(&wq, 5, |_| {
        let _inside = peak.enter();
        std::thread::yield_now();
    });
    assert_eq!(taken.load(Ordering::SeqCst), 100);
    assert!(peak.most() <= 5, "{}", peak.most());
}

#[test]
fn a_dropped_iterator_takes_back_what_has_not_begun() {
    let wq = Workqueue::builder("dropped").ordered().build().unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let (begun, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let blocker = wq.queue({
        let (begun, gate) = (begun.clone(), gate.clone());
        move || {
            begun.open();
            gate.pass();
        }
    });
    begun.pass();
    let func = || {
        let runs = Arc::clone(&runs);
        move |_: u32| runs.fetch_add(1, Ordering::SeqCst)
    };
    let asker = {
        let (wq, func) = (wq.clone(), func());
        let mut mapped = (0..10).map_on(&wq, 4, func);
        std::thread::spawn(move || mapped.next())
    };
    eventually("four are queued", || wq.stats().queued == 4);
    gate.open();
    joined(blocker);
    within("the first result", move || asker.join().unwrap());
    wq.flush();
    let stats = wq.stats();
    assert_eq!(stats.started + stats.cancelled, 5, "{stats}");
    assert!(runs.load(Ordering::SeqCst) >= 1);
}

/// What is left of the item says whether it was cancelled.
type Item = (u32, Arc<()>);
type Mapped = Box<dyn Iterator<Item = u32> + Send>;

#[test]
fn a_dropped_iterator_with_the_last_handle_does_so_too_and_waits_for_nothing() {
    fn func(begun: &Gate, gate: &Gate) -> impl Fn(Item) -> u32 + Send + Sync + 'static {
        let (begun, gate) = (begun.clone(), gate.clone());
        move |(n, _)| {
            if n > 0 {
                begun.open();
                gate.pass();
            }
            n
        }
    }
    type Make = fn(&Workqueue, std::vec::IntoIter<Item>, &Gate, &Gate) -> Mapped;
    let kinds: [Make; 2] = [
        |wq, items, begun, gate| Box::new(items.map_on(wq, 4, func(begun, gate))),
        |wq, items, begun, gate| Box::new(items.map_unordered_on(wq, 4, func(begun, gate))),
    ];
    for make in kinds {
        let wq = Workqueue::builder("left to it").ordered().build().unwrap();
        let (begun, gate, kept) = (Gate::new(), Gate::new(), Arc::new(()));
        let _opened = Opened(&gate);
        let items: Vec<Item> = (0..10).map(|n| (n, Arc::clone(&kept))).collect();
        let mut mapped = make(&wq, items.into_iter(), &begun, &gate);
        drop(wq);
        assert_eq!(mapped.next(), Some(0));
        begun.pass();
        within("it is dropped", move || drop(mapped));
        assert_eq!(Arc::strong_count(&kept), 2, "this one's, and that of the item that runs");
        gate.open();
        eventually("that has ended", || Arc::strong_count(&kept) == 1);
    }
}

#[test]
fn panics_come_out_where_the_result_would() {
    let func = |n: u32| if n == 3 { resume_unwind(Box::new("the third")) } else { n };
    let caught = |what: &mut dyn FnMut() -> Option<u32>| {
        let panic = catch_unwind(AssertUnwindSafe(what))
            .map_err(|panic| *panic.downcast::<&str>().expect("it is the function's"));
        panic.unwrap_err()
    };
    for wq in every_kind("panics") {
        let mut ordered = (0..6).map_on(&wq, 2, func);
        assert_eq!(ordered.by_ref().take(3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(caught(&mut || ordered.next()), "the third");
        assert_eq!(ordered.collect::<Vec<_>>(), [4, 5], "it goes on");
        let mut any = (0..6).map_unordered_on(&wq, 1, func);
        assert_eq!(any.by_ref().take(3).count(), 3);
        assert_eq!(caught(&mut || any.next()), "the third");
        assert_eq!(any.count(), 2);
        let runs = AtomicU32::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            (0..1000_u32).for_each_on(&wq, 1, |n| {
                runs.fetch_add(1, Ordering::SeqCst);
                func(n);
            });
        }));
        assert!(outcome.is_err());
        assert_eq!(runs.load(Ordering::SeqCst), 4, "none was begun after it");
    }
}

/// Those that were queued by then are not begun either, and the source is left alone.
#[test]
fn after_a_panic_nothing_is_begun_however_far_ahead() {
    let wq = Workqueue::builder("one by one").ordered().build().unwrap();
    for ahead in [1, 8, 100] {
        let (taken, runs) = (AtomicU32::new(0), AtomicU32::new(0));
        let all_queued = Gate::new();
        let source = (0..1000_u32).inspect(|n| {
            taken.fetch_add(1, Ordering::SeqCst);
            if *n + 1 == ahead {
                all_queued.open();
            }
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            source.for_each_on(&wq, ahead as usize, |n| {
                all_queued.pass();
                runs.fetch_add(1, Ordering::SeqCst);
                if n == 3 {
                    resume_unwind(Box::new("the third"));
                }
            });
        }));
        assert!(outcome.is_err());
        assert_eq!(runs.load(Ordering::SeqCst), 4, "{ahead} ahead: some were begun after it");
        let taken = taken.load(Ordering::SeqCst);
        assert!(taken <= 4 + ahead, "{ahead} ahead: {taken} were taken");
    }
}

#[test]
fn a_closed_queue_is_told() {
    let wq = managed("closed");
    let other = wq.clone();
    wq.close().wait();
    for ahead in [1, 4] {
        let outcome = catch_unwind(AssertUnwindSafe(|| (0..9).map_on(&other, ahead, |n| n).next()));
        let text = *outcome.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("refused"), "{text}");
        let outcome =
            catch_unwind(AssertUnwindSafe(|| (0..9).map_unordered_on(&other, ahead, |n| n).next()));
        assert!(outcome.is_err());
        let mut taken = 0;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let source = (0..9).inspect(|_| taken += 1);
            source.for_each_on(&other, ahead, |_| unreachable!("it is closed"));
        }));
        assert!(outcome.is_err());
        assert_eq!(taken, 1, "it is refused at once");
    }
}

/// From inside of an item: another worker takes over while it waits.
#[test]
fn items_can_map_too() {
    for wq in every_kind("nested") {
        let inner = wq.clone();
        let sums: Vec<u32> = (0..8_u32)
            .map_on(&wq, 8, move |n| (0..10).map_unordered_on(&inner, 2, move |m| n * m).sum())
            .collect();
        assert_eq!(sums, (0..8).map(|n| n * 45).collect::<Vec<_>>());
    }
}
