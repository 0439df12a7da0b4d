//! Queues that make progress although no thread can be had: rescuers.
//!
//! The limit is on the threads of a user, so every scene has a user of its own.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{Builder, ErrorKind, JoinHandle, Workqueue};

use crate::idle::assert_quiet;
use crate::nproc::{more_threads, no_more_threads, user};
use crate::support::cpus::confine_all;
use crate::support::load::burn;
use crate::support::scene::{Scene, Stage, skip};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, Peak, eventually, joined, percpu, procfs, sys, undisturbed};

pub(crate) const SCENES: &[Scene] = &[
    ("rescue::in_order", in_order),
    ("rescue::blocked", blocked),
    ("rescue::recovered", recovered),
    ("rescue::first_worker", first_worker),
    ("rescue::creating", creating),
    ("rescue::managed", managed),
    ("rescue::unbound", unbound),
    ("rescue::two_pools", two_pools),
    ("rescue::destroyed", destroyed),
    ("rescue::dropped", dropped),
    ("rescue::refused", refused),
    ("rescue::quiet", quiet),
    ("rescue::hanging", hanging),
];

#[test]
fn a_rescuer_runs_the_items_one_by_one_in_order() {
    for source in ["sentinel", "tick", "perf"] {
        Stage::new("rescue::in_order").detect(source).user(user(8)).play();
    }
}

#[test]
fn while_an_item_blocks_in_the_rescuer_others_wait() {
    Stage::new("rescue::blocked").user(user(9)).play();
}

#[test]
fn when_threads_can_be_had_again_workers_take_over() {
    Stage::new("rescue::recovered").user(user(10)).play();
}

#[test]
fn a_pool_that_never_had_a_worker_is_rescued() {
    Stage::new("rescue::first_worker").user(user(11)).play();
}

#[test]
fn what_a_rescued_item_queues_gets_a_worker() {
    Stage::new("rescue::creating").user(user(16)).play();
}

#[test]
fn managed_and_unbound_queues_are_rescued() {
    Stage::new("rescue::managed").user(user(12)).play();
    Stage::new("rescue::unbound").user(user(12)).play();
}

#[test]
fn one_rescuer_serves_all_pools_of_its_queue() {
    Stage::new("rescue::two_pools").user(user(13)).play();
}

#[test]
fn a_queue_is_drained_by_its_rescuer() {
    Stage::new("rescue::destroyed").user(user(14)).play();
}

#[test]
fn a_rescuer_does_not_wait_for_itself() {
    Stage::new("rescue::dropped").user(user(17)).play();
}

#[test]
fn without_a_thread_for_the_rescuer_there_is_no_queue() {
    Stage::new("rescue::refused").user(user(15)).play();
}

#[test]
fn an_idle_rescuer_sleeps() {
    Stage::new("rescue::quiet").play();
}

#[test]
fn a_rescuer_comes_while_the_creation_of_threads_hangs() {
    Stage::new("rescue::hanging").play();
}

#[test]
fn where_threads_can_be_had_workers_run_the_items() {
    for builder in [Builder::percpu, Builder::unbound, Builder::managed, Builder::ordered] {
        let wq = reclaim("workers", builder);
        // As in `refused`: where a new thread is late the rescuer comes first.
        undisturbed(10, || {
            let told = || (cmwq::current_is_rescuer(), cmwq::current_is_mem_reclaim());
            let handles: Vec<_> = (0..100).map(|_| wq.queue(told)).collect();
            let told: Vec<_> = handles.into_iter().map(joined).collect();
            assert!(told.iter().all(|(_, is_mem_reclaim)| *is_mem_reclaim));
            match told.iter().filter(|(is_rescuer, _)| *is_rescuer).count() {
                0 => Ok(()),
                nr => Err(format!("the rescuer ran {nr} of them")),
            }
        });
    }
    assert!(!cmwq::current_is_rescuer() && !cmwq::current_is_mem_reclaim());
    assert!(!joined(percpu("plain").queue(cmwq::current_is_mem_reclaim)));
}

/// A queue with a rescuer.
pub(crate) fn reclaim(name: &str, kind: impl FnOnce(Builder) -> Builder) -> Workqueue {
    kind(Workqueue::builder(name)).mem_reclaim().build().unwrap()
}

fn cpu() -> u32 {
    sys::allowed_cpus()[0]
}

/// From now on no thread can be had, and all workers of some pools wait for a gate.
pub(crate) struct Stuck {
    gate: Gate,
    limit: u64,
    items: Vec<JoinHandle<()>>,
    /// A queue that is dropped waits for its items.
    _wq: Workqueue,
}

impl Stuck {
    /// The pools are those of `wq` on `cpus`.
    pub(crate) fn new(wq: Workqueue, cpus: &[u32]) -> Self {
        // `kworker/0:1`: all workers of a pool have the part up to the colon in common.
        let pools: Vec<String> = cpus
            .iter()
            .map(|cpu| joined(wq.queue_on(*cpu, thread_name)))
            .map(|name| name.split_inclusive(':').next().unwrap().to_owned())
            .collect();
        let limit = no_more_threads();
        let gate = Gate::new();
        let wait = |started: &Arc<AtomicUsize>| {
            let (gate, started) = (gate.clone(), Arc::clone(started));
            move || {
                started.fetch_add(1, Ordering::SeqCst);
                gate.pass();
            }
        };
        // One worker and its standby, or more if the machine was slow: one may have been in the
        // making until now, and have no name yet. And one of them may leave for another pool that
        // is refused one.
        let mut items: Vec<JoinHandle<()>> = Vec::new();
        // In each pool: how many, and how many of them have started.
        let mut queued: Vec<(usize, Arc<AtomicUsize>)> = Vec::new();
        queued.resize_with(cpus.len(), Default::default);
        eventually("all workers wait", || {
            // One that has left has left room for another one.
            let is_full = procfs::all_are_named() && !has_room();
            let pools = cpus.iter().zip(&pools).zip(&mut queued);
            pools.fold(is_full, |all_wait, ((cpu, pool), (nr_items, started))| {
                let nr_workers = procfs::workers(pool).len();
                while *nr_items < nr_workers {
                    items.push(wq.queue_on(*cpu, wait(started)));
                    *nr_items += 1;
                }
                all_wait && started.load(Ordering::SeqCst) == nr_workers
            })
        });
        Self { gate, limit, items, _wq: wq }
    }

    pub(crate) fn free(self) {
        more_threads(self.limit);
        self.gate.open();
        self.items.into_iter().for_each(joined);
    }
}

/// Whether a thread can be had. It has left its room again: who asks once more would otherwise be
/// refused because of it.
fn has_room() -> bool {
    let Ok(thread) = thread::Builder::new().spawn(sys::gettid) else { return false };
    let path = format!("/proc/self/task/{}", thread.join().unwrap());
    eventually("a thread has gone", || !Path::new(&path).exists());
    true
}

/// What an item saw.
#[derive(Clone, Debug)]
struct Seen {
    number: usize,
    at: Instant,
    is_rescuer: bool,
    cpu: u32,
    name: String,
}

/// Queues `number` items that note what they see and then sleep 2 ms.
fn queue_some(
    wq: &Workqueue,
    cpu: u32,
    number: usize,
    peak: &Arc<Peak>,
) -> (Vec<JoinHandle<()>>, Arc<Mutex<Vec<Seen>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handles = (0..number)
        .map(|number| {
            let (peak, seen) = (Arc::clone(peak), Arc::clone(&seen));
            wq.queue_on(cpu, move || {
                let _inside = peak.enter();
                let name = thread_name();
                let (at, is_rescuer) = (Instant::now(), cmwq::current_is_rescuer());
                assert!(cmwq::current_is_mem_reclaim());
                seen.lock().unwrap().push(Seen {
                    number,
                    at,
                    is_rescuer,
                    cpu: sys::current_cpu(),
                    name,
                });
                thread::sleep(Duration::from_millis(2));
            })
        })
        .collect();
    (handles, seen)
}

fn thread_name() -> String {
    let path = format!("/proc/self/task/{}/comm", sys::gettid());
    std::fs::read_to_string(path).unwrap().trim_end().to_owned()
}

/// How late a rescue may begin: what matters is that it does not wait for the next attempt to
/// create a worker, a second later.
const SOON: Duration = Duration::from_millis(700);

fn is_soon(first: Duration) -> Result<(), String> {
    if first < SOON { Ok(()) } else { Err(format!("the first item began after {first:?}")) }
}

/// As Linux does it: in order, one at a time, soon; and an item of a queue without a rescuer stays
/// where it is.
/// What is less is charged with the next item.
const MICROSECOND: Duration = Duration::from_micros(1);

fn in_order() {
    let cpu = cpu();
    let (wq, plain) = (reclaim("kref_rescue", Builder::percpu), percpu("plain"));
    let stuck = Stuck::new(plain.clone(), &[cpu]);
    let stays = plain.queue_on(cpu, || ());
    undisturbed(10, || {
        let (peak, from) = (Arc::new(Peak::new()), Instant::now());
        let (handles, seen) = queue_some(&wq, cpu, 4, &peak);
        handles.into_iter().for_each(joined);
        let seen = seen.lock().unwrap().clone();
        let numbers: Vec<_> = seen.iter().map(|seen| seen.number).collect();
        assert_eq!((numbers, peak.most()), (vec![0, 1, 2, 3], 1));
        for seen in &seen {
            assert!(seen.is_rescuer, "{seen:?}");
            assert_eq!(seen.cpu, cpu, "it has adopted the pool's CPU");
            assert_eq!(seen.name, "kworker/R-kref_");
        }
        is_soon(seen[0].at - from)
    });
    assert!(!stays.is_finished(), "nobody comes for it");
    let before = wq.stats().cpu_time;
    let used = joined(wq.queue_on(cpu, || {
        let begun = sys::thread_cpu_time();
        burn(Duration::from_millis(5));
        assert!(cmwq::current_is_rescuer());
        sys::thread_cpu_time() - begun
    }));
    eventually("it is charged", || wq.stats().cpu_time + MICROSECOND >= before + used);
    stuck.free();
    joined(stays);
    eventually("a worker runs it", || !joined(wq.queue_on(cpu, cmwq::current_is_rescuer)));
}

fn blocked() {
    let cpu = cpu();
    let [wq, other] = ["blocked", "other"].map(|name| reclaim(name, Builder::percpu));
    let stuck = Stuck::new(percpu("plain"), &[cpu]);
    let (gate, is_in) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let first = wq.queue_on(cpu, {
        let (gate, is_in) = (gate.clone(), is_in.clone());
        move || {
            is_in.open();
            gate.pass();
            cmwq::current_is_rescuer()
        }
    });
    is_in.pass();
    let second = wq.queue_on(cpu, cmwq::current_is_rescuer);
    // Another queue's rescuer is called in the same round as this one's, and has nothing to wait
    // for.
    assert!(joined(other.queue_on(cpu, cmwq::current_is_rescuer)));
    assert!(!second.is_finished(), "one thing at a time");
    gate.open();
    assert!(joined(first) && joined(second));
    stuck.free();
}

fn recovered() {
    let cpu = cpu();
    let (wq, plain) = (reclaim("recovered", Builder::percpu), percpu("plain"));
    let stuck = Stuck::new(plain.clone(), &[cpu]);
    let stays = plain.queue_on(cpu, cmwq::current_is_rescuer);
    assert!(joined(wq.queue_on(cpu, cmwq::current_is_rescuer)));
    assert!(!stays.is_finished());
    // All workers still wait: only a new one can run it.
    more_threads(stuck.limit);
    assert!(!joined(stays));
    eventually("a worker runs it", || !joined(wq.queue_on(cpu, cmwq::current_is_rescuer)));
    stuck.free();
}

fn first_worker() {
    let queues = [Builder::percpu, Builder::unbound, Builder::managed, Builder::ordered]
        .map(|kind| reclaim("first", kind));
    let limit = no_more_threads();
    let peak = Arc::new(Peak::new());
    for wq in &queues {
        let (handles, seen) = queue_some(wq, cpu(), 4, &peak);
        handles.into_iter().for_each(joined);
        let seen = seen.lock().unwrap();
        assert!(seen.iter().all(|seen| seen.is_rescuer), "{seen:?}");
        assert!(seen.iter().map(|seen| seen.number).eq(0..4), "{seen:?}");
    }
    assert_eq!(peak.most(), 1);
    more_threads(limit);
    for wq in queues {
        let is_rescuer = || joined(wq.queue_on(cpu(), cmwq::current_is_rescuer));
        eventually("a worker", || !is_rescuer());
    }
}

/// An item that the rescuer runs queues another on a pool that has no workers: when threads can be
/// had again, the service makes one, since a rescuer must not.
fn creating() {
    let cpu = cpu();
    let (wq, plain) = (reclaim("creating", Builder::percpu), percpu("plain"));
    let first_of_its_pool = Workqueue::builder("new").unbound().build().unwrap();
    let stuck = Stuck::new(plain, &[cpu]);
    let limit = stuck.limit;
    let item = joined(wq.queue_on(cpu, move || {
        assert!(cmwq::current_is_rescuer());
        more_threads(limit);
        first_of_its_pool.queue(|| (cmwq::current_is_rescuer(), sys::nice()))
    }));
    assert_eq!(joined(item), (false, sys::nice()));
    stuck.free();
}

/// There is one pool, since others would yield their idle workers.
fn managed_or_unbound(kind: fn(Builder) -> Builder) {
    let cpu = cpu();
    // No other pod helps.
    confine_all(&[cpu]);
    let wq = reclaim("rescued", kind);
    let stuck = Stuck::new(kind(Workqueue::builder("plain")).build().unwrap(), &[cpu]);
    undisturbed(10, || {
        let (peak, from) = (Arc::new(Peak::new()), Instant::now());
        let (handles, seen) = queue_some(&wq, cpu, 20, &peak);
        handles.into_iter().for_each(joined);
        let seen = seen.lock().unwrap();
        assert!(seen.iter().all(|seen| seen.is_rescuer), "{seen:?}");
        assert!(seen.iter().map(|seen| seen.number).eq(0..20), "{seen:?}");
        assert_eq!(peak.most(), 1);
        is_soon(seen[0].at - from)
    });
    stuck.free();
}

fn managed() {
    managed_or_unbound(Builder::managed);
}

fn unbound() {
    managed_or_unbound(Builder::unbound);
}

/// More items in each pool than a rescuer runs in one go while others wait.
fn two_pools() {
    let cpus = sys::allowed_cpus();
    let [one, two, ..] = cpus[..] else {
        return skip("one rescuer for two pools takes two CPUs");
    };
    let wq = reclaim("two_pools", Builder::percpu);
    let stuck = Stuck::new(percpu("plain"), &[one, two]);
    let peak = Arc::new(Peak::new());
    let both = [one, two].map(|cpu| (cpu, queue_some(&wq, cpu, 40, &peak)));
    for (cpu, (handles, seen)) in both {
        handles.into_iter().for_each(joined);
        let seen = seen.lock().unwrap();
        assert!(seen.iter().all(|seen| seen.is_rescuer && seen.cpu == cpu), "{seen:?}");
        assert!(seen.iter().map(|seen| seen.number).eq(0..40), "{seen:?}");
    }
    assert_eq!(peak.most(), 1);
    stuck.free();
}

fn destroyed() {
    let cpu = cpu();
    let wq = reclaim("destroyed", Builder::percpu);
    let stuck = Stuck::new(percpu("plain"), &[cpu]);
    let is_there = || !procfs::workers("kworker/R-destr").is_empty();
    assert!(is_there());
    let (handles, seen) = queue_some(&wq, cpu, 10, &Arc::new(Peak::new()));
    drop(handles);
    drop(wq);
    assert_eq!(seen.lock().unwrap().len(), 10, "a queue that is dropped waits for its items");
    eventually("the rescuer leaves", || !is_there());
    stuck.free();
}

/// The last handle goes in an item that the rescuer runs: others take the queue down, when they
/// can.
fn dropped() {
    let cpu = cpu();
    let wq = reclaim("dropped", Builder::percpu);
    let stuck = Stuck::new(percpu("plain"), &[cpu]);
    let gate = Gate::new();
    let last = wq.queue_on(cpu, {
        let (gate, wq) = (gate.clone(), wq.clone());
        move || {
            gate.pass();
            drop(wq);
            cmwq::current_is_rescuer()
        }
    });
    drop(wq);
    gate.open();
    assert!(joined(last));
    stuck.free();
    let is_there = || !procfs::workers("kworker/R-dropp").is_empty();
    eventually("the rescuer leaves", || !is_there());
}

fn refused() {
    // There is a service thread already.
    joined(percpu("service").queue(|| ()));
    let limit = no_more_threads();
    let build = || Workqueue::builder("refused").mem_reclaim().build();
    let error = build().expect_err("there is no thread for the rescuer");
    assert_eq!(error.kind(), ErrorKind::ThreadCreation);
    assert!(error.to_string().contains("the rescuer of workqueue 'refused'"), "{error}");
    more_threads(limit);
    let wq = build().unwrap();
    // Where a new thread is late, as it may be beside load, the rescuer rightly comes first.
    undisturbed(10, || match joined(wq.queue(cmwq::current_is_rescuer)) {
        false => Ok(()),
        true => Err("the rescuer ran it".to_owned()),
    });
}

fn quiet() {
    let queues = [Builder::percpu, Builder::unbound, Builder::managed].map(|kind| {
        let wq = reclaim("quiet", kind);
        let sleep = || thread::sleep(Duration::from_millis(1));
        let handles: Vec<_> = (0..50).map(|_| wq.queue(sleep)).collect();
        handles.into_iter().for_each(joined);
        wq
    });
    // A thread has its name when it has begun.
    eventually("the rescuers have their names", || {
        procfs::workers("kworker/R-quiet").len() == queues.len()
    });
    assert_quiet();
}

/// As where memory is short, and the system makes a thread only when it has got some back: by what
/// the rescuer does. So neither who calls the rescuer nor who queues may wait for a thread.
fn hanging() {
    let cpu = cpu();
    let creators = || procfs::workers("cmwq/creator").len();
    joined(percpu("service").queue_on(cpu, || ()));
    assert_eq!(creators(), 0, "there is nobody to call");
    // Each leads to a pool that has no worker.
    let kinds: [fn(Builder) -> Builder; 3] =
        [Builder::unbound, Builder::managed, |builder| builder.percpu().highpri()];
    let [first, late, nicer] = kinds.map(|kind| reclaim("hanging", kind));
    eventually("the creator has its name", || creators() == 1);

    let (tell, told) = mpsc::channel();
    let item = || {
        let tell = tell.clone();
        move || _ = tell.send(cmwq::current_is_rescuer())
    };
    let is_rescued = || told.recv_timeout(PATIENCE).expect("a rescuer comes");
    let (end, ended) = mpsc::channel::<sys::Hanging>();
    thread::spawn(move || ended.recv().map(|hanging| hanging.go_on()));
    let gate = Gate::new();
    let nice_one = thread::spawn({
        let (gate, item) = (gate.clone(), item());
        move || {
            sys::set_nice(sys::nicer(5)).unwrap();
            gate.pass();
            drop(nicer.queue_on(cpu, item));
            nicer
        }
    });
    let hanging = match sys::hang(&[libc::SYS_clone, libc::SYS_clone3]) {
        Ok(hanging) => hanging,
        Err(error) => return skip(format!("no system call can be made to hang: {error}")),
    };
    // Others create its workers, which would be nice, too.
    gate.open();
    assert!(is_rescued());
    let nicer = nice_one.join().unwrap();
    eventually("a creation hangs", || hanging.has_one());
    drop(late.queue_delayed_on(cpu, item(), Duration::from_millis(1)));
    assert!(is_rescued());
    drop(first.queue_on(cpu, item()));
    assert!(is_rescued());

    end.send(hanging).unwrap();
    for wq in [first, late, nicer] {
        eventually("a worker runs it", || {
            drop(wq.queue_on(cpu, item()));
            !is_rescued()
        });
    }
}

/// Allowed, and said once, with both names: in Linux it can deadlock, here it can too.
#[test]
fn waiting_for_a_queue_without_a_rescuer_is_said() {
    let rescued = Workqueue::builder("dependent").percpu().mem_reclaim().build().unwrap();
    let safe = Workqueue::builder("safe").percpu().mem_reclaim().build().unwrap();
    let plain = Workqueue::builder("plain one").unbound().build().unwrap();
    let said = || {
        let notices = cmwq::notices();
        notices.iter().filter(|said| said.contains("has no rescuer")).count()
    };
    let other = safe.clone();
    joined(rescued.queue(move || other.flush()));
    plain.flush();
    let cancelled = cmwq::Work::new(|| ());
    assert!(plain.queue_work(&cancelled));
    joined(rescued.queue(move || cancelled.cancel_sync()));
    assert_eq!(said(), 0, "neither of these is dangerous");
    for _ in 0..2 {
        let other = plain.clone();
        joined(rescued.queue(move || other.flush()));
        assert_eq!(said(), 1);
    }
    let notices = cmwq::notices();
    let said = notices.iter().find(|said| said.contains("has no rescuer")).unwrap();
    assert!(said.contains("'dependent'") && said.contains("'plain one'"), "{said}");
}
