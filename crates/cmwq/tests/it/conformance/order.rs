//! Who starts when: items of one CPU, queued again, beside others, behind a limit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use cmwq::{Builder, Work, Workqueue};

use super::{build, computing, cpu, gated, play};
use crate::support::wait::Opened;
use crate::support::{Gate, Peak, eventually, gated_work, joined, undisturbed};

/// What ran, in order. Noting it does not block, so a CPU's next item starts after that.
#[derive(Default)]
struct Log {
    entries: [AtomicU32; 32],
    used: AtomicUsize,
}

impl Log {
    fn push(&self, entry: u32) {
        self.entries[self.used.fetch_add(1, Ordering::SeqCst)].store(entry, Ordering::SeqCst);
    }

    fn all(&self) -> Vec<u32> {
        let used = &self.entries[..self.used.load(Ordering::SeqCst)];
        used.iter().map(|entry| entry.load(Ordering::SeqCst)).collect()
    }
}

/// An item that notes its number; the first run of number 1 waits for the gate.
fn noting(number: u32, log: &Arc<Log>, gate: &Gate) -> Work {
    let (log, gate) = (Arc::clone(log), gate.clone());
    Work::new(move || {
        log.push(number);
        if number == 1 {
            gate.pass();
        }
    })
}

/// Queued again while it runs, an item goes to the end of the line. Observed:
/// `requeue_while_running_order: wq=percpu_max1`.
#[test]
fn an_item_queued_again_waits_behind_those_before_it() {
    play("conformance::requeued_in_line");
}

pub(super) fn requeued_in_line() {
    for wq in [build("line", |b| b.percpu().max_active(1)), build("line", Builder::ordered)] {
        let (log, gate) = (Arc::new(Log::default()), Gate::new());
        let [one, two, three] = [1, 2, 3].map(|number| noting(number, &log, &gate));
        assert!(wq.queue_work_on(cpu(), &one));
        eventually("the first runs", || log.all() == [1]);
        for work in [&two, &one, &three] {
            assert!(wq.queue_work_on(cpu(), work));
        }
        gate.open();
        wq.flush();
        assert_eq!(log.all(), [1, 2, 1, 3]);
    }
}

/// Without a limit nobody else waits for an item's second run. Observed:
/// `requeue_while_running_order: wq=percpu`.
#[test]
fn an_item_queued_again_holds_up_only_itself() {
    play("conformance::requeued_aside");
}

pub(super) fn requeued_aside() {
    for kind in [Builder::percpu, Builder::unbound, Builder::managed] {
        let wq = build("aside", kind);
        let (log, gate) = (Arc::new(Log::default()), Gate::new());
        let [one, two] = [1, 2].map(|number| noting(number, &log, &gate));
        assert!(wq.queue_work_on(cpu(), &one));
        eventually("the first runs", || log.all() == [1]);
        assert!(wq.queue_work_on(cpu(), &one) && wq.queue_work_on(cpu(), &two));
        eventually("the second runs", || log.all() == [1, 2]);
        assert!(one.busy().pending && one.busy().running);
        gate.open();
        wq.flush();
        assert_eq!(log.all(), [1, 2, 1]);
    }
}

/// Items that queue themselves take turns. Observed: `self_requeue_fairness_ordered`.
#[test]
fn items_that_queue_themselves_take_turns() {
    play("conformance::fairness");
}

/// How often each item queues itself again.
const AGAIN: [u32; 3] = [6, 3, 0];

pub(super) fn fairness() {
    let wqs = [build("turns", Builder::ordered), build("turns", |b| b.percpu().max_active(1))];
    for wq in wqs {
        let (log, gate) = (Arc::new(Log::default()), Gate::new());
        let blocker = gated(&wq, cpu(), &gate);
        let works: Vec<Work> =
            (0..).zip(AGAIN).map(|(n, left)| again(&wq, n, left, &log)).collect();
        for work in &works {
            assert!(wq.queue_work_on(cpu(), work));
        }
        gate.open();
        joined(blocker);
        wq.drain();
        assert_eq!(log.all(), by_turns());
    }
}

fn again(wq: &Workqueue, number: u32, left: u32, log: &Arc<Log>) -> Work {
    let (own, left) = (Arc::new(OnceLock::<Work>::new()), AtomicU32::new(left));
    let work = Work::new({
        let (own, wq, log) = (Arc::clone(&own), wq.clone(), Arc::clone(log));
        move || {
            log.push(number);
            let is_left = |left: u32| left.checked_sub(1);
            if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_left).is_ok() {
                assert!(wq.queue_work_on(cpu(), own.get().unwrap()));
            }
        }
    });
    own.set(work.clone()).unwrap();
    work
}

/// First in, first out.
fn by_turns() -> Vec<u32> {
    let (mut line, mut left): (VecDeque<u32>, _) = ((0..3).collect(), AGAIN);
    let mut order = Vec::new();
    while let Some(next) = line.pop_front() {
        order.push(next);
        if let Some(less) = left[next as usize].checked_sub(1) {
            left[next as usize] = less;
            line.push_back(next);
        }
    }
    order
}

/// Items of two queues that a pool serves start in the order of queueing. Observed:
/// `two_queues_one_pool`.
#[test]
fn two_queues_of_a_pool_are_one_line() {
    play("conformance::two_queues");
}

pub(super) fn two_queues() {
    let wqs = [build("even", Builder::percpu), build("odd", Builder::percpu)];
    // One that sleeps at a page fault makes room for the next.
    undisturbed(10, || two_queues_once(&wqs));
}

fn two_queues_once(wqs: &[Workqueue; 2]) -> Result<(), String> {
    let (log, gate, peak) = (Arc::new(Log::default()), Gate::new(), Arc::new(Peak::new()));
    let _opened = Opened(&gate);
    let first = computing(&wqs[0], cpu(), &gate);
    for n in 0..8_u32 {
        let (log, peak) = (Arc::clone(&log), Arc::clone(&peak));
        drop(wqs[n as usize % 2].queue_on(cpu(), move || {
            let _inside = peak.enter();
            log.push(n);
        }));
    }
    gate.open();
    joined(first);
    wqs.iter().for_each(Workqueue::flush);
    match (log.all(), peak.most()) {
        (log, 1) if log.iter().copied().eq(0..8) => Ok(()),
        (log, most) => Err(format!("{most} at once: {log:?}")),
    }
}

/// Observed: `highpri_vs_normal_blocked`.
#[test]
fn highpri_items_do_not_wait_for_a_computing_normal_one() {
    play("conformance::highpri");
}

pub(super) fn highpri() {
    let (normal, high) =
        (build("normal", Builder::percpu), build("high", |b| b.percpu().highpri()));
    let (log, gate) = (Arc::new(Log::default()), Gate::new());
    let _opened = Opened(&gate);
    let first = computing(&normal, cpu(), &gate);
    for n in 0..8 {
        let log = Arc::clone(&log);
        let wq = if n < 4 { &normal } else { &high };
        drop(wq.queue_on(cpu(), move || log.push(n)));
    }
    high.flush();
    assert_eq!(log.all(), [4, 5, 6, 7], "before the computing one ends");
    gate.open();
    joined(first);
    normal.flush();
    assert_eq!(log.all(), [4, 5, 6, 7, 0, 1, 2, 3]);
}

/// Each CPU-intensive item starts the next one. Observed: `order: wq=percpu_cpu_intensive`.
#[test]
fn cpu_intensive_items_run_beside_each_other() {
    play("conformance::intensive_chain");
}

pub(super) fn intensive_chain() {
    let wq = build("intensive", |b| b.percpu().cpu_intensive());
    let (gate, peak) = (Gate::new(), Arc::new(Peak::new()));
    let _opened = Opened(&gate);
    let items: Vec<_> = (0..4)
        .map(|_| {
            let (gate, peak) = (gate.clone(), Arc::clone(&peak));
            wq.queue_on(cpu(), move || {
                let _inside = peak.enter();
                gate.spin();
            })
        })
        .collect();
    eventually("all compute at once", || peak.now() == 4);
    gate.open();
    items.into_iter().for_each(joined);
}

/// A worker that wakes up beside a computing one finishes its item, and takes no other. Observed:
/// `wake_during_burn`.
#[test]
fn a_worker_that_wakes_up_beside_another_starts_nothing() {
    play("conformance::woken_during_a_burn");
}

pub(super) fn woken_during_a_burn() {
    let wq = build("woken", Builder::percpu);
    // Whoever computes may sleep after all: at a page fault, or inside of a sanitizer.
    for _ in 0..20 {
        undisturbed(5, || {
            let (sleep, burn) = (Gate::new(), Gate::new());
            let _opened = (Opened(&sleep), Opened(&burn));
            let sleeper = gated(&wq, cpu(), &sleep);
            let burner = computing(&wq, cpu(), &burn);
            let ended = burn.clone();
            let last = wq.queue_on(cpu(), move || ended.is_open());
            sleep.open();
            joined(sleeper);
            burn.open();
            let has_ended = joined(last);
            joined(burner);
            has_ended.then_some(()).ok_or_else(|| "it started while another computed".to_owned())
        });
    }
}

/// A second instance has a slot of its own while the first runs; cancelled, it leaves it to the
/// next one in line, which starts at once. Observed: `cancel_activates_next`, where Linux wakes
/// nobody.
#[test]
fn a_cancelled_second_instance_makes_room_at_once() {
    play("conformance::slot_of_a_second_instance");
}

pub(super) fn slot_of_a_second_instance() {
    for kind in [Builder::percpu, Builder::unbound, Builder::managed] {
        let wq = build("second", |b| kind(b).max_active(2));
        let (entered, gate) = (Gate::new(), Gate::new());
        let _opened = Opened(&gate);
        let (work, _) = gated_work(&entered, &gate);
        assert!(wq.queue_work_on(cpu(), &work));
        entered.pass();
        assert!(wq.queue_work_on(cpu(), &work), "it waits for its own end, in the second slot");
        let started = Arc::new(Mutex::new(false));
        let theirs = Arc::clone(&started);
        let next = wq.queue_on(cpu(), move || *theirs.lock().unwrap() = true);
        assert!(wq.is_congested(Some(cpu())) && !*started.lock().unwrap());
        assert!(work.cancel());
        joined(next);
        gate.open();
        wq.flush();
    }
}
