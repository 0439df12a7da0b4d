//! Attributes of queues: given when they are built, and changed while they are used.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cmwq::{AffinityScope, Attrs, Builder, CpuSet, ErrorKind, JoinHandle, Sched, Work, Workqueue};

use crate::bh::bh;
use crate::rescue::reclaim;
use crate::support::load::Random;
use crate::support::scene::{NOBODY, Scene, Stage, skip};
use crate::support::wait::Opened;
use crate::support::{
    Gate, Peak, eventually, joined, managed, nodes, percpu, procfs, sys, unbound,
};

pub(crate) const SCENES: &[Scene] = &[
    ("attrs::real_time_refused", real_time_refused),
    ("attrs::workers_go", workers_go),
    ("attrs::inherited_niceness", inherited_niceness),
    ("attrs::another_policy", another_policy),
    ("attrs::favoured", favoured),
    ("attrs::needed_first", needed_first),
    ("attrs::used_first", used_first),
    ("attrs::reniced", reniced),
];

fn ordered(name: &str) -> Workqueue {
    Workqueue::builder(name).ordered().build().unwrap()
}

fn only(cpu: u32) -> Attrs {
    Attrs::new().cpumask(CpuSet::single(cpu))
}

/// As the kernel was seen to: the mask and niceness hold for what is queued afterwards.
#[test]
fn an_unbound_queue_moves_to_other_cpus() {
    let wq = unbound("moves");
    assert_eq!(wq.attrs(), Attrs::new());
    for (n, cpu) in (0..).zip(sys::allowed_cpus()) {
        // There may be more CPUs than niceness.
        let wanted = sys::nicer(5 + n % 15);
        let attrs = only(cpu).nice(wanted);
        wq.apply_attrs(&attrs).unwrap();
        assert_eq!(wq.attrs(), attrs);
        for _ in 0..20 {
            let (ran_on, nice) = joined(wq.queue(|| (sys::current_cpu(), sys::nice())));
            assert_eq!((ran_on, nice), (cpu, wanted));
        }
    }
    wq.apply_attrs(&Attrs::new()).unwrap();
    assert_eq!(joined(wq.queue(sys::nice)), sys::nice());
}

#[test]
fn attributes_can_be_given_from_the_start() {
    let cpu = *sys::allowed_cpus().last().unwrap();
    let mask = CpuSet::single(cpu);
    let nice = sys::nicer(3);
    let queues = [
        Workqueue::builder("first").unbound().cpumask(mask.clone()).nice(nice).build().unwrap(),
        Workqueue::builder("first").ordered().cpumask(mask).nice(nice).build().unwrap(),
    ];
    for wq in queues {
        assert_eq!(joined(wq.queue(|| (sys::current_cpu(), sys::nice()))), (cpu, nice));
    }
    let nice = sys::nicer(4);
    let wq = Workqueue::builder("first").managed().nice(nice).build().unwrap();
    for cpu in sys::allowed_cpus() {
        assert_eq!(joined(wq.queue_on(cpu, sys::nice)), nice);
    }
}

#[test]
fn a_change_of_some_attributes_leaves_the_others() {
    let wq = Workqueue::builder("urgent").unbound().highpri().build().unwrap();
    let cpu = *sys::allowed_cpus().last().unwrap();
    wq.update_attrs(|attrs| attrs.cpumask = Some(CpuSet::single(cpu))).unwrap();
    assert_eq!(wq.attrs(), only(cpu).nice(-20), "it is urgent as before");
    assert_eq!(joined(wq.queue(sys::current_cpu)), cpu);
    wq.apply_attrs(&only(cpu)).unwrap();
    assert_eq!(wq.attrs().nice, 0, "all of them are replaced");
    let odd = wq.update_attrs(|attrs| attrs.nice = 20).unwrap_err();
    assert_eq!(odd.kind(), ErrorKind::InvalidInput, "{odd}");
    assert_eq!(wq.attrs(), only(cpu), "nothing has changed");
    let other = wq.clone();
    wq.close().wait();
    let closed = other.update_attrs(|attrs| attrs.affinity_strict = true).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Unavailable, "{closed}");
}

/// Each thread finds what it has written last, though the other writes all the while.
#[test]
fn changes_at_the_same_time_are_not_lost() {
    let wq = unbound("both");
    let cpus = sys::allowed_cpus();
    thread::scope(|s| {
        let writer = s.spawn(|| {
            for n in 0..300 {
                let is_strict = n % 2 == 0;
                wq.update_attrs(|attrs| attrs.affinity_strict = is_strict).unwrap();
                assert_eq!(wq.attrs().affinity_strict, is_strict, "round {n}");
            }
        });
        for n in 0.. {
            let mask = CpuSet::single(cpus[n % cpus.len()]);
            wq.update_attrs(|attrs| attrs.cpumask = Some(mask.clone())).unwrap();
            assert_eq!(wq.attrs().cpumask, Some(mask), "round {n}");
            if writer.is_finished() {
                break;
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn other_kinds_of_queue_refuse() {
    for wq in [percpu("bound"), managed("bound")] {
        for refused in [wq.apply_attrs(&Attrs::new()), wq.update_attrs(|_| ())] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
    let builder = || Workqueue::builder("bound");
    let mask = CpuSet::single(0);
    for wrong in [
        builder().percpu().nice(1),
        builder().managed().cpumask(mask),
        builder().managed().affinity_strict(true),
        builder().unbound().nice(20),
        builder().unbound().sched(Sched::Fifo(0)),
    ] {
        assert_eq!(wrong.build().unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

/// The items of each producer run in order and one at a time, however often the attributes change.
#[test]
fn an_ordered_queue_stays_ordered_through_a_hundred_changes() {
    let wq = ordered("steady");
    let inside = Arc::new(Peak::new());
    let ran = Arc::new(Mutex::new(Vec::new()));
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        let producers: Vec<_> = (0..2)
            .map(|producer| {
                let (wq, inside, ran) = (&wq, &inside, &ran);
                s.spawn(move || {
                    for n in 0..3_000 {
                        let (inside, ran) = (Arc::clone(inside), Arc::clone(ran));
                        drop(wq.queue(move || {
                            let _inside = inside.enter();
                            ran.lock().unwrap().push((producer, n));
                            if n % 100 == 0 {
                                thread::sleep(Duration::from_micros(200));
                            }
                        }));
                        if n % 30 == 0 {
                            thread::sleep(Duration::from_micros(100));
                        }
                    }
                })
            })
            .collect();
        let (wq, done) = (&wq, &done);
        s.spawn(move || {
            let cpus = sys::allowed_cpus();
            let mut changes = 0;
            while changes < 100 || !done.load(Ordering::Relaxed) {
                let nice = sys::nicer(changes as i32 % 3);
                wq.apply_attrs(&only(cpus[changes % cpus.len()]).nice(nice)).unwrap();
                changes += 1;
                thread::yield_now();
            }
        });
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    wq.flush();
    assert_eq!(inside.most(), 1, "two items at a time");
    let ran = ran.lock().unwrap();
    assert_eq!(ran.len(), 6_000);
    for producer in 0..2 {
        let own = ran.iter().filter(|(who, _)| *who == producer).map(|(_, n)| *n);
        assert!(own.eq(0..3_000), "the items of thread {producer} ran out of order");
    }
}

/// The new workers of an ordered queue wait for the old ones; those of an unbound queue do not.
#[test]
fn only_an_ordered_queue_waits_for_its_old_workers() {
    let [one, two, three] = [1, 2, 3].map(sys::nicer);
    for (wq, waits) in [(ordered("old"), true), (unbound("old"), false)] {
        let gate = Gate::new();
        let _opened = Opened(&gate);
        let blocked = wq.queue({
            let gate = gate.clone();
            move || gate.pass()
        });
        wq.apply_attrs(&Attrs::new().nice(one)).unwrap();
        let behind = wq.queue(sys::nice);
        if waits {
            // Two changes more: those in between have items, too, or none.
            wq.apply_attrs(&Attrs::new().nice(two)).unwrap();
            wq.apply_attrs(&Attrs::new().nice(three)).unwrap();
            let last = wq.queue(sys::nice);
            assert!(!behind.is_finished() && !last.is_finished());
            gate.open();
            assert_eq!((joined(behind), joined(last)), (one, three));
        } else {
            assert_eq!(joined(behind), one);
            gate.open();
        }
        joined(blocked);
    }
}

/// `max_active` holds for what the old workers run and what the new ones may, together.
#[test]
fn the_limit_holds_across_a_change() {
    let wq = Workqueue::builder("limited").unbound().max_active(2).build().unwrap();
    let inside = Arc::new(Peak::new());
    let round = || {
        let handles = queue_and_change(&wq, &inside);
        handles.into_iter().for_each(joined);
        let most = inside.most();
        assert!(most <= nodes::total_of(2, 2), "{most}");
        most
    };
    // On a busy machine two may never meet.
    assert!((0..10).any(|_| round() >= 2));
}

fn queue_and_change(wq: &Workqueue, inside: &Arc<Peak>) -> Vec<JoinHandle<()>> {
    (0..400)
        .map(|n| {
            if n % 20 == 0 {
                wq.apply_attrs(&Attrs::new().nice(sys::nicer(n / 20 % 3))).unwrap();
            }
            let inside = Arc::clone(inside);
            wq.queue(move || {
                let _inside = inside.enter();
                thread::sleep(Duration::from_micros(100));
            })
        })
        .collect()
}

/// As the kernel was seen to: an item that is queued again while it runs does not run twice at
/// once.
#[test]
fn an_item_that_queues_itself_survives_changes() {
    let wq = Arc::new(unbound("again"));
    let (runs, inside) = (Arc::new(AtomicUsize::new(0)), Arc::new(Peak::new()));
    let me: Arc<Mutex<Option<Work>>> = Arc::default();
    let work = Work::new({
        let (wq, runs, inside, me) =
            (Arc::clone(&wq), Arc::clone(&runs), Arc::clone(&inside), Arc::clone(&me));
        move || {
            let _inside = inside.enter();
            if runs.fetch_add(1, Ordering::Relaxed) < 500 {
                let me = me.lock().unwrap().clone();
                assert!(wq.queue_work(&me.expect("it was queued by itself")));
            }
        }
    });
    *me.lock().unwrap() = Some(work.clone());
    assert!(wq.queue_work(&work));
    for n in 0..50 {
        wq.apply_attrs(&Attrs::new().nice(sys::nicer(n % 4))).unwrap();
    }
    eventually("all runs", || runs.load(Ordering::Relaxed) == 501);
    work.flush();
    assert_eq!(inside.most(), 1);
    *me.lock().unwrap() = None;
}

/// Queues come and go, change and are flushed, all at once; nothing is lost.
#[test]
fn changes_flushes_and_drops_at_random() {
    let mut random = Random(0x000a_7725);
    let cpus = sys::allowed_cpus();
    for _ in 0..40 {
        let wq = if random.below(2) == 0 { unbound("busy") } else { ordered("busy") };
        let ran = Arc::new(AtomicUsize::new(0));
        let mut queued = 0;
        for _ in 0..100 {
            match random.below(10) {
                0 => wq.apply_attrs(&only(cpus[random.below(cpus.len())])).unwrap(),
                1 => {
                    let nice = sys::nicer(random.below(3) as i32);
                    wq.apply_attrs(&Attrs::new().nice(nice)).unwrap();
                }
                2 => {
                    wq.flush();
                    assert_eq!(ran.load(Ordering::SeqCst), queued);
                }
                _ => {
                    let ran = Arc::clone(&ran);
                    drop(wq.queue(move || ran.fetch_add(1, Ordering::SeqCst)));
                    queued += 1;
                }
            }
        }
        drop(wq);
        assert_eq!(ran.load(Ordering::SeqCst), queued);
    }
}

#[test]
fn real_time_workers_where_permitted() {
    let builder = || Workqueue::builder("real-time");
    let wants = [
        (Sched::Fifo(7), (libc::SCHED_FIFO, 7)),
        (Sched::RoundRobin(5), (libc::SCHED_RR, 5)),
        (
            Sched::Deadline {
                runtime: Duration::from_micros(100),
                deadline: Duration::from_millis(20),
                period: Duration::from_millis(20),
            },
            (libc::SCHED_DEADLINE, 0),
        ),
    ];
    for (sched, policy) in wants {
        // A deadline thread cannot be confined; that it was asked for must not matter.
        let builder = builder().unbound().sched(sched);
        let wq = match builder.affinity_scope(AffinityScope::Cpu).affinity_strict(true).build() {
            Ok(wq) => wq,
            Err(refused) => {
                assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{refused}");
                skip(refused);
                continue;
            }
        };
        // An item of another queue, queued by a real-time worker, does not inherit anything.
        let (mine, plain) = joined(wq.queue(|| {
            let plain = Workqueue::builder("plain").unbound().nice(7).build().unwrap();
            (sys::policy(), joined(plain.queue(|| (sys::policy(), sys::nice()))))
        }));
        assert_eq!(mine, policy, "{sched:?}");
        assert_eq!(plain, ((libc::SCHED_OTHER, 0), 7), "from {sched:?}");
    }
}

#[test]
fn a_refused_priority_is_an_error() {
    Stage::new("attrs::real_time_refused").user(NOBODY).play();
}

fn real_time_refused() {
    let wq = unbound("modest");
    let before = wq.attrs();
    // Level 0 stands for the process's own.
    let own = sys::nice();
    let less_nice = [own - 1, own - 2].into_iter().find(|nice| *nice != 0 && *nice >= -20);
    let refused = less_nice.map(|nice| Attrs::new().nice(nice));
    for attrs in [Attrs::new().sched(Sched::Fifo(1))].into_iter().chain(refused) {
        let refused = wq.apply_attrs(&attrs).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        let text = refused.to_string();
        assert!(text.contains("'modest'") && text.contains("CAP_SYS_NICE"), "{text}");
        let built = Workqueue::builder("modest").unbound().attrs(attrs).build();
        assert_eq!(built.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
    assert_eq!(wq.attrs(), before);
    let nicer = (own + 5).clamp(1, 19);
    wq.apply_attrs(&Attrs::new().nice(nicer)).unwrap();
    assert_eq!(joined(wq.queue(sys::nice)), nicer, "being nicer is always allowed");
}

/// A thread inherits its creator's niceness, and may not undo it without privileges.
#[test]
fn a_nicer_worker_creates_no_nicer_ones_for_others() {
    Stage::new("attrs::inherited_niceness").play();
    Stage::new("attrs::inherited_niceness").user(NOBODY).play();
}

/// Somebody changes the policy of all threads, as `chrt --all-tasks` does.
#[test]
fn pools_get_workers_after_the_process_was_given_another_policy() {
    Stage::new("attrs::another_policy").play();
}

fn another_policy() {
    joined(unbound("before").queue(|| ()));
    for task in procfs::other_tasks() {
        sys::set_batch(task.tid).unwrap();
    }
    sys::set_batch(0).unwrap();
    let other = || Workqueue::builder("other").unbound().nice(sys::nicer(4)).build().unwrap();
    joined(other().queue(|| ()));
    let cpu = sys::allowed_cpus()[0];
    joined(Workqueue::builder("high").percpu().highpri().build().unwrap().queue_on(cpu, || ()));
}

/// A process that was started with a favourable niceness keeps it, though it could not ask for it.
#[test]
fn no_worker_of_a_favoured_process_loses_its_niceness() {
    Stage::new("attrs::favoured").play();
}

fn favoured() {
    if !sys::is_root() {
        return crate::support::scene::skip("only root can favour a process");
    }
    for tid in [std::process::id().cast_signed(), 0] {
        if let Err(error) = sys::set_nice_of(tid, -5) {
            return crate::support::scene::skip(error);
        }
    }
    sys::become_user(NOBODY).unwrap();
    assert!(sys::set_nice(-6).is_err());
    inherited_niceness();
}

fn inherited_niceness() {
    let own = sys::nice();
    let nicer = (own + 9).clamp(1, 19);
    let nice = Workqueue::builder("nice").unbound().nice(nicer).build().unwrap();
    let (mine, others) = joined(nice.queue(|| {
        let others =
            sys::allowed_cpus().into_iter().map(|cpu| percpu("plain").queue_on(cpu, sys::nice));
        (sys::nice(), others.map(joined).collect::<Vec<_>>())
    }));
    assert_eq!(mine, nicer);
    assert!(others.iter().all(|nice| *nice == own), "{others:?}");
    assert_eq!(cmwq::notices(), [""; 0]);
}

/// The first to need a BH context or a rescuer may be anybody.
#[test]
fn no_bh_context_or_rescuer_is_as_who_needs_it_first() {
    for first in ["nice", "batch", "idle", "real-time"] {
        let stage = || Stage::new("attrs::needed_first").env(FIRST, first);
        stage().play();
        stage().user(NOBODY).play();
    }
}

const FIRST: &str = "CMWQ_TEST_FIRST";

fn become_first() -> std::io::Result<()> {
    match std::env::var(FIRST).unwrap().as_str() {
        "nice" => sys::set_nice(19),
        "batch" => sys::set_batch(0),
        "idle" => sys::set_idle(),
        _ => sys::set_real_time(),
    }
}

fn needed_first() {
    let may_be_favoured = thread::spawn(|| sys::set_nice(-20).is_ok()).join().unwrap();
    let (class, _) = sys::policy();
    let expected = Some((class, if may_be_favoured { -20 } else { sys::nice() }));
    joined(unbound("begins").queue(|| ()));
    let first = thread::spawn(move || {
        if let Err(error) = become_first() {
            return skip(error);
        }
        let class_and_nice = || procfs::class_and_nice(sys::gettid());
        for cpu in sys::allowed_cpus() {
            assert_eq!(joined(bh("first").queue_on(cpu, class_and_nice)), expected);
        }
        let _wq = reclaim("first", Builder::percpu);
        let of_rescuer = || procfs::class_and_nice(procfs::tid_of("kworker/R-first")?);
        eventually("the rescuer is as it should be", || of_rescuer() == expected);
    });
    first.join().unwrap();
}

/// The first to use the library may be anybody.
#[test]
fn no_worker_is_as_who_uses_the_library_first() {
    for first in ["nice", "batch", "idle", "real-time"] {
        Stage::new("attrs::used_first").env(FIRST, first).play();
    }
    // Who is nicer, or idle, cannot undo it without privileges.
    Stage::new("attrs::used_first").env(FIRST, "batch").user(NOBODY).play();
    Stage::new("attrs::used_first").env(FIRST, "real-time, once privileged").play();
}

fn used_first() {
    let expected = procfs::class_and_nice(std::process::id().cast_signed());
    let odd = thread::spawn(move || {
        if let Err(error) = become_first() {
            return skip(error);
        }
        if std::env::var(FIRST).unwrap().contains("once privileged") && sys::is_root() {
            sys::become_user(NOBODY).unwrap();
        }
        let class_and_nice = || procfs::class_and_nice(sys::gettid());
        for cpu in sys::allowed_cpus() {
            assert_eq!(joined(percpu("odd").queue_on(cpu, class_and_nice)), expected);
        }
        assert_eq!(joined(unbound("odd").queue(class_and_nice)), expected);
        let service = procfs::tid_of("cmwq/service").unwrap();
        assert_eq!(procfs::class_and_nice(service), expected);
        assert_eq!(cmwq::notices(), [""; 0]);
    });
    odd.join().unwrap();
}

/// Somebody changes the niceness of all threads, as `renice` does. New workers cannot undo it.
#[test]
fn what_is_said_of_refused_niceness_is_of_those_who_wanted_it() {
    Stage::new("attrs::reniced").user(NOBODY).play();
}

fn reniced() {
    let own = sys::nice();
    joined(unbound("before").queue(|| ()));
    for task in procfs::other_tasks() {
        sys::set_nice_of(task.tid, 19).unwrap();
    }
    sys::set_nice(19).unwrap();
    let cpu = sys::allowed_cpus()[0];
    assert_eq!(joined(percpu("later").queue_on(cpu, sys::nice)), 19);
    if own != 19 {
        let notices = cmwq::notices();
        assert!(notices.len() == 1 && notices[0].contains("the process's own"), "{notices:?}");
    }
}

/// Nobody needs the workers of attributes that no queue has.
#[test]
fn workers_that_no_queue_needs_go() {
    Stage::new("attrs::workers_go").play();
}

fn workers_go() {
    // One pool for each niceness, however many caches there are.
    cmwq::set_default_affinity_scope(AffinityScope::System).unwrap();
    let wq = unbound("goes");
    for nice in (1..=5).map(sys::nicer) {
        wq.apply_attrs(&Attrs::new().nice(nice)).unwrap();
        assert_eq!(joined(wq.queue(sys::nice)), nice);
    }
    wq.apply_attrs(&Attrs::new()).unwrap();
    joined(wq.queue(|| ()));
    eventually("only the default pool has workers", || {
        let names = procfs::workers("kworker/u");
        let pool = |name: &String| name.split(':').next().map(str::to_owned);
        names.iter().all(|name| pool(name) == pool(&names[0]))
    });
    // The pools can be had again.
    wq.apply_attrs(&Attrs::new().nice(sys::nicer(2))).unwrap();
    assert_eq!(joined(wq.queue(sys::nice)), sys::nicer(2));
}
