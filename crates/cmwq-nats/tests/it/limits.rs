//! `max_active` and order, over all machines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cmwq_nats::{ErrorKind, Serving, SharedQueue};
use serde_json::json;

use crate::support::{
    Gate, Server, broker_or_skip, eventually, holding, noting, queue, runs, text,
};

/// A machine whose items note how many run at once, and block for a moment.
fn counting(queue: &SharedQueue, now: &Arc<AtomicU32>, most: &Arc<AtomicU32>) -> Serving {
    let (now, most) = (now.clone(), most.clone());
    queue
        .serve()
        .function("f", move |_| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(2));
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        })
        .start()
        .unwrap()
}

#[test]
fn max_active_holds_for_all_machines_together() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("limited").max_active(3).open().unwrap();
    let (now, most) = (Arc::default(), Arc::default());
    let connections = [server.connect(), server.connect(), server.connect()];
    let _machines = connections
        .each_ref()
        .map(|other| counting(&other.queue("limited").open().unwrap(), &now, &most));
    // Items are short: on a machine that has other things to do, few of them meet.
    eventually("three run at once", || {
        for _ in 0..100 {
            let _ = queue.queue("f", "").unwrap();
        }
        queue.flush().unwrap();
        most.load(Ordering::SeqCst) >= 3
    });
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[test]
fn max_active_changes_while_in_use() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("changing").max_active(1).open().unwrap();
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    for i in 0..4 {
        let _ = queue.queue("f", i.to_string()).unwrap();
    }
    assert_eq!(seen.next(), "0");
    for _ in 0..50 {
        assert_eq!(queue.backlog().unwrap().taken, 1);
    }
    queue.set_max_active(3).unwrap();
    assert_eq!([seen.next(), seen.next()].len(), 2);
    for _ in 0..50 {
        assert_eq!(queue.backlog().unwrap().taken, 3);
    }
    queue.set_max_active(0).unwrap();
    assert_eq!(seen.next(), "3");
    gate.open();
    queue.flush().unwrap();
}

#[test]
fn an_ordered_queue_is_ordered_over_machines_and_failures() {
    const MANY: usize = 60;
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("ordered").ordered().open().unwrap();
    let (note, seen) = runs();
    let connections = [server.connect(), server.connect(), server.connect()];
    let _machines = connections.each_ref().map(|other| {
        let note = note.clone();
        let queue = other.queue("ordered").open().unwrap();
        queue
            .serve()
            .function("f", move |item| {
                // Some fail at first; those behind them wait.
                if item.sequence() % 20 == 7 && item.attempt() == 1 {
                    return Err("not yet".into());
                }
                note.item(item);
                Ok(())
            })
            .retry_after(Duration::from_millis(5))
            .start()
            .unwrap()
    });
    for i in 0..MANY {
        let _ = queue.queue("f", i.to_string()).unwrap();
    }
    queue.flush().unwrap();
    let order: Vec<String> = (0..MANY).map(|_| seen.next()).collect();
    assert_eq!(order, (0..MANY).map(|i| i.to_string()).collect::<Vec<_>>());
    assert_eq!(seen.rest(), [""; 0]);
}

#[test]
fn a_full_queue_refuses_and_loses_nothing() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("full").max_queued(3).open().unwrap();
    for i in 0..3 {
        let _ = queue.queue("f", i.to_string()).unwrap();
    }
    let refused = queue.queue("f", "3").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert!(refused.to_string().contains("flush"), "{refused}");
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    queue.flush().unwrap();
    let _ = queue.queue("f", "4").unwrap();
    let mut ran: Vec<String> = (0..4).map(|_| seen.next()).collect();
    ran.sort();
    assert_eq!(ran, ["0", "1", "2", "4"]);
}

/// By an operator: at once, and not when patience ends.
#[test]
fn a_queue_that_may_have_no_more_bytes_refuses() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "bytes");
    server.configure("cmwq-run_bytes", "max_bytes", json!(2000));
    let _ = queue.queue("f", [0; 1000]).unwrap();
    let refused = queue.queue("f", [0; 1000]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert!(refused.to_string().contains("max_bytes"), "{refused}");
    let _serving = queue.serve().function("f", |_| Ok(())).start().unwrap();
    queue.flush().unwrap();
    let _ = queue.queue("f", [0; 1000]).unwrap();
}

/// Of messages in the stream of what is delayed, which an operator has limited.
#[test]
fn who_may_not_store_beside_the_items_is_told_of_that_stream() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "beside");
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    let running = queue.queue_once("f", "k", "").unwrap();
    assert_eq!(seen.next(), "");
    let hour = Duration::from_secs(3600);
    let _ = queue.queue_delayed("f", "", hour).unwrap();
    server.configure("cmwq-later_beside", "max_msgs", json!(1));
    let refused = [
        queue.queue_delayed("f", "", hour).map(drop),
        queue.queue_once("f", "k", "").map(drop),
        running.cancel().map(drop),
        queue.set_max_active(3),
    ];
    for error in refused.map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        let told = error.to_string();
        assert!(told.contains("cmwq-later_beside") && !told.contains("max_queued"), "{told}");
    }
    let _ = queue.queue("f", "there is room for items").unwrap();
    gate.open();
    queue.flush().unwrap();
}

/// A broker before 2.10.6 takes the oldest item for a new one that it has reckoned smaller than it
/// is: a queue where that may be is not opened there.
#[test]
fn no_item_goes_for_the_bytes_of_another() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "tight");
    let _ = queue.queue("f", "1").unwrap();
    let info = server.api("STREAM.INFO.cmwq-run_tight", &json!({}));
    let bytes = info["state"]["bytes"].as_u64().unwrap();
    server.configure("cmwq-run_tight", "max_bytes", json!(4 * bytes - 1));
    let opened = broker.queue("tight").open();
    if let Err(error) = opened {
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        let told = error.to_string();
        assert!(told.contains("max_bytes") && told.contains("2.10.6"), "{told}");
        return;
    }
    for payload in ["2", "3"] {
        let _ = queue.queue("f", payload).unwrap();
    }
    assert_eq!(queue.queue("f", "4").unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(queue.backlog().unwrap().waiting, 3);
}

/// Also to a broker that looks first whether there is room.
#[test]
fn a_key_that_is_pending_in_a_full_queue_is_pending() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("full-key").max_queued(1).open().unwrap();
    assert!(!queue.queue_once("f", "k", "1").unwrap().was_pending());
    assert!(queue.queue_once("f", "k", "2").unwrap().was_pending());
    assert_eq!(queue.queue_once("f", "other", "").unwrap_err().kind(), ErrorKind::Full);
}

#[test]
fn a_delayed_item_waits_until_a_full_queue_has_room() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("full-later").max_queued(1).open().unwrap();
    let (note, seen) = runs();
    let gate = Gate::default();
    let _ = queue.queue("f", "now").unwrap();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    assert_eq!(seen.next(), "now");
    let later = queue.queue_delayed("f", "later", Duration::from_millis(1)).unwrap();
    eventually("it has been due", || queue.backlog().unwrap().delayed == 1);
    gate.open();
    later.flush().unwrap();
    assert_eq!(seen.next(), "later");
}

#[test]
fn functions_by_name_share_a_queue() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "named");
    let (note, seen) = runs();
    let other = note.clone();
    let _serving = queue
        .serve()
        .function("a", move |item| {
            note.text(format!("a {}", text(item)));
            Ok(())
        })
        .function("b", move |item| {
            other.text(format!("b {}", text(item)));
            Ok(())
        })
        .start()
        .unwrap();
    let _ = queue.queue("a", "1").unwrap();
    let _ = queue.queue("b", "2").unwrap();
    let mut ran = [seen.next(), seen.next()];
    ran.sort();
    assert_eq!(ran, ["a 1", "b 2"]);
}

/// Which is not for want of a connection, and does not pass by itself.
#[test]
fn a_broker_without_room_says_so() {
    let server = broker_or_skip!(Server::configured("max_file_store: 1MB", ""));
    let broker = server.connect();
    let queue = queue(&broker, "no-room");
    let begun = Instant::now();
    let error = loop {
        match queue.queue("f", vec![0; 200_000]) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(error.to_string().contains("max_file_store"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}
