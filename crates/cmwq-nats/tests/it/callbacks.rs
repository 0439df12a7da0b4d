//! What the NATS client calls, on the connection's thread.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use cmwq_nats::{Broker, ConnectOptions, ErrorKind, Serving, SharedQueue};

use crate::support::{broker_or_skip, queue};

/// It would wait for the thread that it is on, and all that has this connection with it.
#[test]
fn a_call_from_a_callback_is_told_that_it_would_wait_for_itself() {
    let mut server = broker_or_skip!();
    let place = Arc::new(OnceLock::<SharedQueue>::new());
    let (sender, told) = channel();
    let options = ConnectOptions::new().event_callback({
        let place = Arc::clone(&place);
        move |_| {
            if let Some(queue) = place.get() {
                let _ = sender.send(queue.backlog().map_err(|error| error.kind()));
            }
            async {}
        }
    });
    let broker = Broker::builder(&server.address()).options(options).connect().unwrap();
    let _ = place.set(queue(&broker, "called"));
    server.kill();
    server.run();
    let told = told.recv_timeout(Duration::from_secs(100)).expect("it hangs");
    assert_eq!(told, Err(ErrorKind::InvalidInput));
}

/// Its puller needs the thread that the callback is on.
#[test]
fn a_machine_that_a_callback_closes_does_not_wait() {
    let mut server = broker_or_skip!();
    let place = Arc::new(Mutex::new(None::<Serving>));
    let (sender, has_closed) = channel();
    let options = ConnectOptions::new().event_callback({
        let place = Arc::clone(&place);
        move |_| {
            let serving = place.lock().unwrap().take();
            if let Some(serving) = serving {
                serving.close();
                let _ = sender.send(());
            }
            async {}
        }
    });
    let broker = Broker::builder(&server.address()).options(options).connect().unwrap();
    let serving = queue(&broker, "closed").serve().function("f", |_| Ok(())).start().unwrap();
    *place.lock().unwrap() = Some(serving);
    server.kill();
    server.run();
    has_closed.recv_timeout(Duration::from_secs(100)).expect("it hangs");
}

/// As one that looks up a name, where the server that is asked does not answer.
#[test]
fn the_last_handle_waits_for_nothing_that_the_client_has_begun() {
    let server = broker_or_skip!();
    let (sender, begun) = channel();
    let options = ConnectOptions::new().event_callback(move |_| {
        let sender = sender.clone();
        tokio::task::spawn_blocking(move || {
            let _ = sender.send(());
            thread::sleep(Duration::from_secs(30));
        });
        async {}
    });
    let broker = Broker::builder(&server.address()).options(options).connect().unwrap();
    begun.recv_timeout(Duration::from_secs(100)).expect("it is connected");
    let before = Instant::now();
    drop(broker);
    assert!(before.elapsed() < Duration::from_secs(15), "{:?}", before.elapsed());
}
