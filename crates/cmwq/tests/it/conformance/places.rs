//! Where items run, and how many workers there are for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cmwq::{Builder, DelayedWork, JoinHandle, Work, Workqueue, system};

use super::{build, cpu, gated, play};
use crate::support::load::burn;
use crate::support::scene::{Stage, skip};
use crate::support::wait::Opened;
use crate::support::{Gate, Peak, eventually, joined, procfs, sys};

/// Assertion (n), observed: `nonreentrance` and `requeue_after_idle`, all cases.
#[test]
fn a_running_item_is_queued_where_it_runs_if_the_queue_is_the_same() {
    play("conformance::moved");
}

/// An item whose runs wait for a gate each; where they were, and how many there were at once.
struct Traveller {
    work: Work,
    gates: [Gate; 2],
    places: Arc<Mutex<Vec<u32>>>,
    peak: Arc<Peak>,
}

impl Traveller {
    fn new() -> Self {
        let (places, peak) = (Arc::<Mutex<Vec<u32>>>::default(), Arc::new(Peak::new()));
        let gates = [Gate::new(), Gate::new()];
        let work = Work::new({
            let (places, peak, gates) = (Arc::clone(&places), Arc::clone(&peak), gates.clone());
            move || {
                let _inside = peak.enter();
                let run = {
                    let mut places = places.lock().unwrap();
                    places.push(sys::current_cpu());
                    places.len() - 1
                };
                gates[run].pass();
            }
        });
        Self { work, gates, places, peak }
    }

    fn runs(&self) -> usize {
        self.places.lock().unwrap().len()
    }

    /// Queued on `to` while it runs on `from`: whether both runs were at once; where they were.
    fn travel(self, from: (&Workqueue, u32), to: (&Workqueue, u32)) -> (bool, Vec<u32>) {
        let _opened = self.gates.each_ref().map(Opened);
        assert!(from.0.queue_work_on(from.1, &self.work));
        eventually("it runs", || self.runs() == 1);
        assert!(to.0.queue_work_on(to.1, &self.work));
        // A later item of the other place has had its turn.
        joined(to.0.queue_on(to.1, || ()));
        let is_serialised = self.work.busy().pending;
        if !is_serialised {
            eventually("it runs twice", || self.runs() == 2);
        }
        self.gates.iter().for_each(Gate::open);
        self.work.flush();
        eventually("nobody is inside", || self.peak.now() == 0);
        assert_eq!((self.runs(), self.peak.most()), (2, 2 - usize::from(is_serialised)));
        let places = self.places.lock().unwrap().clone();
        (!is_serialised, places)
    }
}

pub(super) fn moved() {
    let [one, two, ..] = sys::allowed_cpus()[..] else { return skip("it takes two CPUs") };
    let [a, b] = ["a", "b"].map(|name| build(name, Builder::percpu));
    let [free, other_free] = ["free", "other"].map(|name| build(name, Builder::unbound));
    let travel = |from, to| Traveller::new().travel(from, to);
    assert_eq!(travel((&a, one), (&a, two)), (false, vec![one, one]), "the same queue");
    assert_eq!(travel((&a, one), (&b, two)), (true, vec![one, two]), "another queue, another pool");
    assert_eq!(
        travel((&a, one), (&b, one)),
        (false, vec![one, one]),
        "another queue, the same pool"
    );
    assert!(travel((&a, one), (&free, two)).0, "to an unbound queue");
    assert!(!travel((&free, one), (&free, two)).0, "the same unbound queue");
    assert!(!travel((&free, one), (&other_free, one)).0, "another one of the same pool");
    // Idle, it goes where it is told.
    for cpu in [one, two, one] {
        let traveller = Traveller::new();
        traveller.gates[0].open();
        assert!(a.queue_work_on(cpu, &traveller.work));
        traveller.work.flush();
        assert_eq!(*traveller.places.lock().unwrap(), [cpu]);
    }
}

/// Observed: `system_wqs`. Queues of their own on shared pools: flushing one does not flush
/// another.
#[test]
fn system_queues_are_flushed_one_by_one() {
    play("conformance::system_queues");
}

pub(super) fn system_queues() {
    for [held, flushed] in [
        [system::long(), system::percpu()],
        [system::unbound_long(), system::unbound()],
        [system::freezable(), system::percpu()],
        [system::power_efficient(), system::percpu()],
        [system::freezable_power_efficient(), system::power_efficient()],
    ] {
        let gate = Gate::new();
        let _opened = Opened(&gate);
        let item = gated(held, cpu(), &gate);
        joined(flushed.queue_on(cpu(), || ()));
        flushed.flush();
        assert!(!item.is_finished(), "{} and {}", held.name(), flushed.name());
        gate.open();
        joined(item);
    }
}

/// Observed: `schedule_on_each_cpu`, `work_on_cpu`.
#[test]
fn a_function_runs_once_on_each_cpu() {
    play("conformance::each_cpu");
}

pub(super) fn each_cpu() {
    let check = || {
        let counts = Mutex::new(BTreeMap::new());
        cmwq::schedule_on_each_cpu(|| {
            *counts.lock().unwrap().entry(sys::current_cpu()).or_insert(0) += 1;
        });
        let expected: BTreeMap<_, _> =
            sys::allowed_cpus().into_iter().map(|cpu| (cpu, 1)).collect();
        assert_eq!(counts.into_inner().unwrap(), expected);
        for cpu in sys::allowed_cpus() {
            assert_eq!(cmwq::work_on_cpu(cpu, || (sys::current_cpu(), 207)), (cpu, 207));
        }
        assert_eq!(cmwq::work_on_cpu(u32::MAX, || 207), 207, "elsewhere");
    };
    let all = sys::allowed_cpus();
    check();
    // From a worker, which itself is confined to one CPU.
    let wq = build("from inside", Builder::unbound);
    joined(wq.queue(move || {
        assert_eq!(sys::allowed_cpus(), all);
        check();
    }));
    let panicked = std::panic::catch_unwind(|| cmwq::work_on_cpu(cpu(), || panic!("payload")));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"payload"));
}

/// Observed: `queue_work_node`.
#[test]
fn a_node_that_does_not_exist_stands_for_any() {
    play("conformance::nodes");
}

pub(super) fn nodes() {
    let (runs, wq) = (Arc::new(AtomicU32::new(0)), build("nodes", Builder::unbound));
    let theirs = Arc::clone(&runs);
    let work = Work::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    for (node, expected) in [0, 1, 4_000, u32::MAX].into_iter().zip(1..) {
        assert!(wq.queue_work_node(node, &work));
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), expected);
    }
    let is_it = |text: &String| text.contains("queue_work_node on per-CPU workqueue 'bound'");
    assert!(!cmwq::notices().iter().any(is_it));
    let bound = build("bound", Builder::percpu);
    for _ in 0..2 {
        assert!(bound.queue_work_node(0, &work), "it goes on");
        work.flush();
    }
    assert_eq!(cmwq::notices().iter().filter(|text| is_it(text)).count(), 1, "said once");
    assert_eq!(runs.load(Ordering::SeqCst), 6);
}

/// Workers of one CPU's normal pool.
fn nr_workers(cpu: u32) -> usize {
    let is_high = |name: &String| name.contains('H');
    procfs::workers(&format!("kworker/{cpu}:")).iter().filter(|name| !is_high(name)).count()
}

/// Observed: `burst64_started`: one worker each for those that block, and one in reserve.
#[test]
fn sixty_four_sleepers_make_sixty_five_workers() {
    play("conformance::burst");
}

/// Items that wait for `gate` and have started, in order.
fn sleepers(wq: &Workqueue, number: usize, gate: &Gate) -> Vec<JoinHandle<()>> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let items: Vec<_> = (0..number)
        .map(|n| {
            let (order, gate) = (Arc::clone(&order), gate.clone());
            wq.queue_on(cpu(), move || {
                order.lock().unwrap().push(n);
                gate.pass();
            })
        })
        .collect();
    eventually("all have started", || order.lock().unwrap().len() == number);
    items
}

pub(super) fn burst() {
    let (wq, gate) = (build("p", Builder::percpu), Gate::new());
    let _opened = Opened(&gate);
    let items = sleepers(&wq, 64, &gate);
    eventually("one is in reserve", || nr_workers(cpu()) == 65);
    gate.open();
    items.into_iter().for_each(joined);
    assert_eq!(nr_workers(cpu()), 65, "none was made for nothing, and none leaves before its time");
}

/// Observed: `burst64_burning`. A page fault may look like sleeping, so a few more are no mistake.
#[test]
fn sixty_four_computing_items_make_no_workers() {
    play("conformance::burners");
}

pub(super) fn burners() {
    let wq = build("p", Builder::percpu);
    joined(wq.queue_on(cpu(), || ()));
    let item = || burn(Duration::from_micros(300));
    let items: Vec<_> = (0..64).map(|_| wq.queue_on(cpu(), item)).collect();
    items.into_iter().for_each(joined);
    assert!(nr_workers(cpu()) <= 6, "{} workers", nr_workers(cpu()));
}

/// Assertion (k): beside nine busy workers four idle ones stay, 2 + ⌊(9 − 1) / 4⌋.
#[test]
fn idle_workers_shrink_to_what_the_busy_ones_justify() {
    Stage::new("conformance::some_busy").params("idle_timeout=0.2").play();
}

pub(super) fn some_busy() {
    let (wq, stays, goes) = (build("p", Builder::percpu), Gate::new(), Gate::new());
    let _opened = (Opened(&stays), Opened(&goes));
    let busy = sleepers(&wq, 9, &stays);
    let others = sleepers(&wq, 30, &goes);
    goes.open();
    others.into_iter().for_each(joined);
    eventually("the surplus has left", || nr_workers(cpu()) <= 13);
    // More than enough time for others to leave.
    joined(build("clock", Builder::unbound).queue_delayed(|| (), Duration::from_millis(700)));
    assert_eq!(nr_workers(cpu()), 13);
    stays.open();
    busy.into_iter().for_each(joined);
}

/// Observed: `mod_later`.
#[test]
fn a_timer_that_is_put_off_runs_once_and_not_before() {
    play("conformance::re_timed_later");
}

pub(super) fn re_timed_later() {
    let wq = build("later", Builder::managed);
    let (runs, at) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(None)));
    let work = DelayedWork::new({
        let (runs, at) = (Arc::clone(&runs), Arc::clone(&at));
        move || {
            *at.lock().unwrap() = Some(Instant::now());
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    let (first, later) = (Duration::from_millis(60), Duration::from_millis(150));
    for _ in 0..10 {
        let before = runs.load(Ordering::SeqCst);
        assert!(wq.queue_delayed_work(&work, first));
        let from = Instant::now();
        if !wq.mod_delayed_work(&work, later) {
            // It had expired already: this machine stood still.
            work.cancel_sync();
            continue;
        }
        eventually("it has run", || !work.is_pending());
        work.flush();
        assert!(at.lock().unwrap().unwrap() >= from + later);
        assert_eq!(runs.load(Ordering::SeqCst), before + 1, "once");
        return;
    }
    skip("no timer was ever re-timed in time");
}
