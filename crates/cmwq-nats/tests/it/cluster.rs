//! Three brokers that are one, of which one dies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq_nats::Broker;

use crate::support::{Server, broker_or_skip, eventually, text};

/// One of three is killed while items run. Those that are queued while it is away run meanwhile,
/// and of all that was accepted nothing is lost. Whether the one that is killed leads, and who is
/// connected to it, is theirs to choose, and differs from run to run.
#[test]
fn a_cluster_goes_on_without_one_of_its_brokers() {
    const SOME: usize = 50;
    let mut servers = broker_or_skip!(Server::cluster());
    let addresses = servers.each_ref().map(Server::address).join(",");
    let connect =
        || Broker::builder(&addresses).patience(Duration::from_secs(60)).connect().unwrap();
    let brokers = [(); 3].map(|()| connect());
    // They choose first who leads.
    let open = |broker: &Broker| {
        let queue = broker.queue("kept").dead_after(Duration::from_secs(1)).replicas(3);
        queue.open().ok()
    };
    eventually("the cluster keeps a queue", || open(&brokers[0]).is_some());
    let queue = open(&brokers[0]).unwrap();
    let ran = Arc::new(Mutex::new(HashMap::<String, u32>::new()));
    let machines = [&brokers[1], &brokers[2]].map(|broker| {
        let ran = ran.clone();
        let serving = broker.queue("kept").open().unwrap().serve().attempts(100);
        let serving = serving.function("f", move |item| {
            *ran.lock().unwrap().entry(text(item)).or_default() += 1;
            Ok(())
        });
        serving.start().unwrap()
    });
    let nr_ran = || ran.lock().unwrap().len();
    let mut queued = 0;
    let mut queue_one = || {
        let _ = queue.queue("f", queued.to_string()).unwrap();
        queued += 1;
        queued
    };
    eventually("some have run", || {
        queue_one();
        nr_ran() >= SOME
    });
    servers[0].kill();
    let all = (0..SOME).map(|_| queue_one()).last().unwrap();
    eventually("the others go on", || nr_ran() == all);
    servers[0].run();
    queue.flush().unwrap();
    let ran = ran.lock().unwrap();
    assert_eq!(ran.len(), all);
    let runs: u32 = ran.values().sum();
    eprintln!("{all} items, {} runs too many", runs - all as u32);
    assert_eq!(queue.backlog().unwrap().dead, 0);
    drop(machines);
}
