//! When a machine takes an item: when its own pool would start one.

use cmwq::Workqueue;
use cmwq_nats::ErrorKind;

use crate::support::{Gate, broker_or_skip, eventually, holding, queue, runs};

#[test]
fn an_item_comes_with_its_payload_and_is_done_once() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "thumbs");
    let (note, seen) = runs();
    let serving = queue
        .serve()
        .function("resize", move |item| {
            let told = (item.function(), item.attempt(), item.sequence(), item.id().len() > 10);
            assert_eq!(told, ("resize", 1, 1, true), "{item:?}");
            note.item(item);
            Ok(())
        })
        .start()
        .unwrap();
    let ticket = queue.queue("resize", "cat.png").unwrap();
    assert!(!ticket.was_pending());
    assert_eq!(seen.next(), "cat.png");
    ticket.flush().unwrap();
    let stats = serving.stats();
    assert_eq!((stats.taken, stats.completed, stats.failed, stats.taken_again), (1, 1, 0, 0));
    let backlog = queue.backlog().unwrap();
    assert_eq!((backlog.waiting, backlog.taken, backlog.delayed, backlog.dead), (0, 0, 0, 0));
    serving.close();
    assert_eq!(seen.rest(), [""; 0]);
}

#[test]
fn an_idle_machine_waits_with_one_request() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "idle");
    let _serving = queue.serve().function("f", |_| Ok(())).start().unwrap();
    let waiting = || queue.backlog().unwrap().idle_machines;
    eventually("a request waits", || waiting() == 1);
    // Looks at any other time see it, or the moment between two: never a second one.
    for _ in 0..200 {
        assert!(waiting() <= 1);
    }
}

/// The pool starts one item after the other, so a machine whose item runs holds no other one, and
/// its rest is there for others.
#[test]
fn a_busy_machine_holds_nothing_that_it_does_not_run() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "busy");
    let busy = Workqueue::builder("busy-pool").ordered().build().unwrap();
    let (note, seen) = runs();
    let gate = Gate::default();
    let _first = {
        let (note, gate) = (note.clone(), gate.clone());
        queue.serve().on(&busy).function("f", move |item| {
            note.text(format!("first: {}", crate::support::text(item)));
            gate.pass();
            Ok(())
        })
    }
    .start()
    .unwrap();
    let _ = queue.queue("f", "a").unwrap();
    assert_eq!(seen.next(), "first: a");
    for payload in ["b", "c", "d"] {
        let _ = queue.queue("f", payload).unwrap();
    }
    for _ in 0..50 {
        let backlog = queue.backlog().unwrap();
        assert_eq!((backlog.taken, backlog.waiting, backlog.idle_machines), (1, 3, 0));
    }
    let _second = queue
        .serve()
        .function("f", move |item| {
            note.text(format!("second: {}", crate::support::text(item)));
            Ok(())
        })
        .start()
        .unwrap();
    let mut rest = [seen.next(), seen.next(), seen.next()];
    rest.sort();
    assert_eq!(rest, ["second: b", "second: c", "second: d"]);
    gate.open();
    queue.flush().unwrap();
    assert_eq!(seen.rest(), [""; 0]);
}

/// A program's own items come before a message that was not taken yet.
#[test]
fn local_items_keep_a_machine_from_taking() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "local");
    let wq = Workqueue::builder("local-pool").ordered().build().unwrap();
    let gate = Gate::default();
    let local = wq.queue({
        let gate = gate.clone();
        move || gate.pass()
    });
    let _serving = queue.serve().on(&wq).function("f", |_| Ok(())).start().unwrap();
    let ticket = queue.queue("f", "x").unwrap();
    for _ in 0..50 {
        assert_eq!(queue.backlog().unwrap().waiting, 1);
    }
    gate.open();
    local.join().unwrap();
    ticket.flush().unwrap();
}

/// Items that block make room for others, however many: nobody has said how many.
#[test]
fn blocked_items_let_a_machine_take_more() {
    const MANY: usize = 50;
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "blocked");
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    for i in 0..MANY {
        let _ = queue.queue("f", i.to_string()).unwrap();
    }
    let mut begun: Vec<usize> = (0..MANY).map(|_| seen.next().parse().unwrap()).collect();
    begun.sort();
    assert_eq!(begun, (0..MANY).collect::<Vec<_>>());
    assert_eq!(queue.backlog().unwrap().taken, MANY as u64);
    gate.open();
    queue.flush().unwrap();
}

#[test]
fn closing_waits_for_what_runs_and_leaves_the_rest() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "closing");
    let wq = Workqueue::builder("closing-pool").ordered().build().unwrap();
    let (note, seen) = runs();
    let gate = Gate::default();
    let serving = holding(queue.serve().on(&wq), note, &gate).start().unwrap();
    let _ = queue.queue("f", "runs").unwrap();
    let _ = queue.queue("f", "stays").unwrap();
    assert_eq!(seen.next(), "runs");
    let closing = std::thread::spawn(move || {
        let stats = serving.stats();
        serving.close();
        stats
    });
    gate.open();
    closing.join().unwrap();
    // It may have been about to take the second one.
    let ran = seen.rest().len() as u64;
    eventually("what was not run is there", || {
        let left = queue.backlog().unwrap();
        left.waiting + left.taken + ran == 1
    });
    let _other = queue.serve().function("f", |_| Ok(())).start().unwrap();
    queue.flush().unwrap();
}

/// Its items must not block, and pullers do.
#[test]
fn a_bh_workqueue_is_refused() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "bottom");
    let kinds = [
        (Workqueue::builder("bottom-half").bh(), false),
        (Workqueue::builder("bottom-cpu").percpu(), true),
        (Workqueue::builder("bottom-ordered").ordered(), true),
        (Workqueue::builder("bottom-unbound").unbound(), true),
    ];
    for (builder, may_serve) in kinds {
        let wq = builder.build().unwrap();
        match queue.serve().on(&wq).function("f", |_| Ok(())).start() {
            Ok(_) => assert!(may_serve, "{wq:?}"),
            Err(error) => {
                assert_eq!((error.kind(), may_serve), (ErrorKind::InvalidInput, false), "{error}");
            }
        }
    }
}

#[test]
fn a_workqueue_that_is_closed_serves_nothing() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "refused");
    let wq = Workqueue::new("refused").unwrap();
    let serving = queue.serve().on(&wq).function("f", |_| Ok(())).start().unwrap();
    serving.close();
    // The machine has left nothing there that would keep the workqueue.
    drop(wq.clone().close());
    wq.drain();
    let error = queue.serve().on(&wq).function("f", |_| Ok(())).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Local, "{error}");
}
