//! What the kinds of queue promise: where items run, in which order, and how queues are made.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use cmwq::{ErrorKind, Workqueue, system};

use crate::support::wait::Opened;
use crate::support::{Gate, Peak, joined, managed, percpu, sys};

#[test]
fn percpu_items_run_on_the_cpu_they_were_queued_on() {
    let wq = percpu("on");
    for cpu in sys::allowed_cpus() {
        let handles: Vec<_> = (0..100).map(|_| wq.queue_on(cpu, sys::current_cpu)).collect();
        for handle in handles {
            assert_eq!(joined(handle), cpu);
        }
        // From a thread that cannot be elsewhere, without naming a CPU.
        let ran_on = thread::scope(|s| {
            let here = s.spawn(|| {
                sys::confine(0, &[cpu]).unwrap();
                joined(wq.queue(sys::current_cpu))
            });
            here.join().unwrap()
        });
        assert_eq!(ran_on, cpu);
    }
}

#[test]
fn an_unknown_cpu_still_runs() {
    for wq in [percpu("unknown"), managed("unknown")] {
        for cpu in [1_000, 4_095, 1 << 20, u32::MAX] {
            let ran_on = joined(wq.queue_on(cpu, sys::current_cpu));
            assert!(sys::allowed_cpus().contains(&ran_on), "{ran_on}");
        }
    }
}

#[test]
fn an_ordered_queue_runs_one_at_a_time_in_order() {
    let wq = Workqueue::builder("ordered").ordered().build().unwrap();
    let (inside, ran) = (Arc::new(Peak::new()), Arc::new(Mutex::new(Vec::new())));
    thread::scope(|s| {
        for queuer in 0..4 {
            let (wq, inside, ran) = (&wq, &inside, &ran);
            s.spawn(move || {
                let cpus = sys::allowed_cpus();
                for n in 0..500 {
                    let (inside, ran) = (Arc::clone(inside), Arc::clone(ran));
                    let item = move || {
                        let _inside = inside.enter();
                        ran.lock().unwrap().push((queuer, n));
                        if n % 50 == 0 {
                            thread::sleep(std::time::Duration::from_micros(100));
                        }
                    };
                    drop(wq.queue_on(cpus[n % cpus.len()], item));
                }
            });
        }
    });
    wq.flush();
    assert_eq!(inside.most(), 1);
    let ran = ran.lock().unwrap();
    assert_eq!(ran.len(), 2_000);
    for queuer in 0..4 {
        let own = ran.iter().filter(|(who, _)| *who == queuer).map(|(_, n)| *n);
        assert!(own.eq(0..500), "the items of thread {queuer} ran out of order");
    }
}

#[test]
fn items_of_a_cpu_start_in_the_order_of_queueing() {
    let wq = percpu("start order");
    for cpu in sys::allowed_cpus() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let handles: Vec<_> = (0..500_usize)
            .map(|n| {
                let order = Arc::clone(&order);
                // Computes only, so that one runs at a time.
                wq.queue_on(cpu, move || order.lock().unwrap().push(n))
            })
            .collect();
        handles.into_iter().for_each(joined);
        // Another worker may take over from one that is preempted inside of the lock, so a
        // neighbour may slip in between; what must not happen is an item that waits while much
        // later ones start.
        let order = order.lock().unwrap();
        for (at, &n) in order.iter().enumerate() {
            assert!(n.abs_diff(at) <= 8, "item {n} started as number {at}: {order:?}");
        }
    }
}

#[test]
fn highpri_items_have_workers_of_their_own() {
    let high = Workqueue::builder("high").percpu().highpri().build().unwrap();
    let normal = percpu("normal");
    let cpu = sys::allowed_cpus()[0];
    let gate = Gate::new();
    let _opened = Opened(&gate);
    // A computing item of normal priority does not keep it waiting, if only because it is another
    // pool's.
    let normal = normal.queue_on(cpu, {
        let gate = gate.clone();
        move || {
            gate.spin();
            sys::nice()
        }
    });
    let high = joined(high.queue_on(cpu, sys::nice));
    gate.open();
    assert_eq!(joined(normal), sys::nice());
    assert_eq!(high, if sys::is_root() { -20 } else { sys::nice() });
}

#[test]
fn every_system_queue_runs_items() {
    let queues = [
        system::managed(),
        system::percpu(),
        system::highpri(),
        system::long(),
        system::unbound(),
        system::power_efficient(),
    ];
    let names: Vec<_> = queues.iter().map(|queue| queue.name()).collect();
    assert_eq!(
        names,
        [
            "events_managed",
            "events",
            "events_highpri",
            "events_long",
            "events_unbound",
            "events_power_efficient"
        ]
    );
    for queue in queues {
        assert_eq!(joined(queue.queue(|| 3)), 3);
        queue.flush();
    }
    assert!(std::ptr::eq(system::managed(), system::managed()), "made once");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let builder = Workqueue::builder;
    let bad = [
        builder(""),
        builder("nul\0"),
        builder("two").percpu().unbound(),
        builder("two").managed().ordered(),
        builder("two").unbound().managed(),
        builder("limit").ordered().max_active(2),
        builder("efficient").power_efficient().managed(),
    ];
    for builder in bad {
        let text = format!("{builder:?}");
        let error = builder.build().expect_err(&text);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        assert!(!error.to_string().is_empty());
    }
    let good = [
        builder("one").ordered().max_active(1),
        builder("twice").percpu().percpu(),
        builder("efficient").power_efficient().percpu(),
        builder("all").managed().highpri().cpu_intensive().max_active(3),
    ];
    for builder in good {
        let text = format!("{builder:?}");
        let wq = builder.build().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(joined(wq.queue(|| 1)), 1);
    }
}

#[test]
fn names_are_cut_to_31_bytes_between_characters() {
    let long = "0123456789012345678901234567890123456789";
    assert_eq!(managed(long).name(), &long[..31]);
    assert_eq!(managed(&long[..31]).name(), &long[..31]);
    // The 31st byte is the first of two.
    let accent = "012345678901234567890123456789é";
    assert_eq!(managed(accent).name(), &accent[..30]);
    let said = cmwq::notices().into_iter().filter(|text| text.contains("too long")).count();
    assert_eq!(said, 1, "it is said once");
}

#[test]
fn too_large_a_limit_is_said_and_clamped() {
    let wq = Workqueue::builder("too many").unbound().max_active(2_049).build().unwrap();
    assert_eq!(joined(wq.queue(|| 1)), 1);
    let is_it = |text: &String| text.contains("2049") && text.contains("'too many'");
    assert_eq!(cmwq::notices().iter().filter(|text| is_it(text)).count(), 1);
    drop(Workqueue::builder("enough").unbound().max_active(2_048).build().unwrap());
    assert!(!cmwq::notices().iter().any(|text| text.contains("'enough'")));
}

#[test]
fn clones_are_the_same_queue() {
    let wq = Workqueue::builder("clones").ordered().build().unwrap();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let (clone, count) = (wq.clone(), Arc::new(AtomicUsize::new(0)));
    let blocked = wq.queue({
        let gate = gate.clone();
        move || gate.pass()
    });
    let next = clone.queue({
        let count = Arc::clone(&count);
        move || count.fetch_add(1, Ordering::SeqCst)
    });
    drop(clone);
    assert_eq!(count.load(Ordering::SeqCst), 0, "one queue runs one at a time");
    gate.open();
    joined(blocked);
    assert_eq!(joined(next), 0);
    assert_eq!(wq.name(), "clones");
}

#[test]
fn a_mistake_that_is_repeated_is_kept_once() {
    const REPEATED: usize = 5;
    for _ in 0..REPEATED {
        drop(Workqueue::builder("repeated").unbound().max_active(2_049).build().unwrap());
    }
    let said: Vec<_> =
        cmwq::notices().into_iter().filter(|text| text.contains("'repeated'")).collect();
    assert_eq!(said.len(), 1);
    assert!(said[0].ends_with(&format!("(said {REPEATED} times)")), "{}", said[0]);
}
