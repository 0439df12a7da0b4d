//! Three brokers that are one, of which one dies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq_nats::Broker;
use futures_util::StreamExt as _;

use crate::support::{Gate, Outsider, Server, broker_or_skip, eventually, holding, runs, text};

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

/// A cluster keeps the id of a message that it has refused, and would take the next try for a
/// repetition of one that it has.
#[test]
fn a_cluster_loses_nothing_that_it_refused_at_first() {
    let servers = broker_or_skip!(Server::cluster());
    let addresses = servers.each_ref().map(Server::address).join(",");
    let broker = Broker::builder(&addresses).patience(Duration::from_secs(60)).connect().unwrap();
    let open = |name: &str, most| broker.queue(name).replicas(3).max_queued(most).open();
    eventually("the cluster keeps a queue", || open("taken", 0).is_ok());
    for (name, most, keys) in [("taken", 0, &["k", "l"][..]), ("full", 1, &["k"])] {
        let queue = open(name, most).unwrap();
        let (note, seen) = runs();
        let gate = Gate::default();
        let serving = holding(queue.serve(), note, &gate).start().unwrap();
        for key in keys {
            let _ = queue.queue_once("f", key, "1").unwrap();
            assert_eq!(seen.next(), "1");
        }
        // There is an item of the key of the one; and of the other's, or no room.
        assert!(queue.queue_once("f", "k", "2").unwrap().was_pending());
        let timer = Duration::from_millis(1);
        let delayed = queue.queue_once_delayed("f", "l", "3", timer).unwrap();
        let looks = Outsider::new(&servers[0]);
        let heard = looks.listen(&format!("$JS.API.STREAM.INFO.cmwq-run_{name}"));
        // A machine looks whether there is a place for either.
        looks.hear(heard, 10);
        gate.open();
        delayed.flush().unwrap();
        queue.flush().unwrap();
        let mut ran = seen.rest();
        ran.sort();
        assert_eq!(ran, ["2", "3"], "{name}");
        serving.close();
    }
}

/// The answers of a cluster to what it has refused, of all versions: by one that stands in for it.
#[test]
fn who_is_not_told_what_became_of_a_message_goes_on_asking() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("stands-in").open().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _within = runtime.enter();
    let (client, mut messages) = runtime.block_on(async {
        let client = async_nats::connect(server.address()).await.unwrap();
        let path = "$JS.API.STREAM.DELETE.cmwq-run_stands-in";
        client.request(path, "".into()).await.unwrap();
        let messages = client.subscribe("cmwq.run.stands-in.>").await.unwrap();
        client.flush().await.unwrap();
        (client, messages)
    });
    let queueing = std::thread::spawn(move || queue.queue("f", "x").map(drop));
    let mut tries: Vec<(String, String)> = Vec::new();
    let silences = [
        r#"{"stream":"cmwq-run_stands-in","seq":0,"duplicate":true}"#,
        r#"{"error":{"code":409,"err_code":10158,"description":"in process"}}"#,
    ];
    runtime.block_on(async {
        while let Some(message) = messages.next().await {
            let headers = message.headers.unwrap();
            let header = |name| headers.get(name).map(ToString::to_string).unwrap_or_default();
            tries.push((header("Nats-Msg-Id"), header("Cmwq-Id")));
            // The first id was refused; so was the second, and the answer to it got lost.
            let is_told = tries.last().is_some_and(|(id, _)| id.ends_with("~2"));
            let answer = if is_told { r#"{"seq":7}"# } else { silences[tries.len() % 2] };
            client.publish(message.reply.unwrap(), answer.into()).await.unwrap();
            if is_told || queueing.is_finished() {
                break;
            }
        }
        client.flush().await.unwrap();
    });
    queueing.join().unwrap().unwrap();
    tries.dedup();
    let id = tries[0].0.clone();
    let again = |number| (format!("{id}~{number}"), id.clone());
    assert_eq!(tries, [(id.clone(), String::new()), again(1), again(2)]);
}
