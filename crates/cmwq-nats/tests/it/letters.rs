//! Dead letters that cannot be stored, or not at once.

use std::time::Duration;

use cmwq_nats::{Broker, Failure, Item, Server as Machine};
use serde_json::json;

use crate::support::{Note, Outsider, Server, broker_or_skip, eventually, queue, runs};

/// An operator may limit how many letters there are. The broker then refuses the next one, and the
/// item is all that there is.
#[test]
fn an_item_whose_letter_has_no_room_stays() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "no-room");
    server.configure("cmwq-dead_no-room", "max_msgs", json!(1));
    let (note, seen) = runs();
    let serving = failing(queue.serve(), note).retry_after(Duration::from_millis(1));
    let serving = serving.start().unwrap();
    queue.queue("f", "first").unwrap().flush().unwrap();
    let _ = queue.queue("f", "second").unwrap();
    eventually("its letter is tried again", || serving.stats().taken_again >= 6);
    assert_eq!(serving.stats().dead, 1);
    let [letter] = <[_; 1]>::try_from(queue.dead_letters(10).unwrap()).unwrap();
    assert_eq!(letter.payload(), b"first");
    letter.remove().unwrap();
    queue.flush().unwrap();
    let [letter] = <[_; 1]>::try_from(queue.dead_letters(10).unwrap()).unwrap();
    assert_eq!((letter.payload(), letter.error()), (&b"second"[..], "no disk"));
    assert_eq!(serving.stats().dead, 2);
    // The machine knows why it failed, and need not run it once more.
    assert_eq!(seen.rest(), ["first", "second"]);
}

/// Queues that were made by older programs.
#[test]
fn letters_of_an_older_queue_stay_from_when_it_is_opened() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let _ = queue(&broker, "older");
    server.configure("cmwq-dead_older", "discard", json!("old"));
    let _ = queue(&broker, "older");
    let info = server.api("STREAM.INFO.cmwq-dead_older", &json!({}));
    assert_eq!(info["config"]["discard"], "new");
}

/// The broker may take long to store a letter, and does not take the machine for dead meanwhile.
#[test]
fn a_machine_that_gives_up_is_alive_meanwhile() {
    let server = broker_or_skip!();
    let broker = server.connect();
    // If the whole process stands still for a second, it is rightly taken for dead.
    assert!((0..4).any(|round| is_left_alone(&server, &broker, round)), "in each of 4 rounds");
}

fn is_left_alone(server: &Server, broker: &Broker, round: u32) -> bool {
    let name = format!("alive-{round}");
    let open = || broker.queue(&name).dead_after(Duration::from_secs(1)).open().unwrap();
    let queue = open();
    let other = Outsider::new(server);
    // By this one it is known when a second has passed: its machine died.
    let _ = queue.queue("f", "orphan").unwrap();
    let orphan = other.take(&name);
    server.api(&format!("STREAM.DELETE.cmwq-dead_{name}"), &json!({}));
    let (note, seen) = runs();
    let serving =
        failing(queue.serve(), note).on_failure(move |_, _, _| other.say(&orphan, "+WPI"));
    let _serving = serving.start().unwrap();
    let _ = queue.queue("f", "fails").unwrap();
    let ran = [seen.next(), seen.next()];
    // There is a place for letters again, and they are stored.
    let _ = open();
    queue.flush().unwrap();
    ran == ["fails", "orphan"] && seen.rest().is_empty() && queue.backlog().unwrap().dead == 2
}

/// On it each item fails at once, for the last time.
fn failing(machine: Machine, note: Note) -> Machine {
    let function = move |item: &Item| -> Result<(), Failure> {
        note.item(item);
        Err("no disk".into())
    };
    machine.function("f", function).attempts(1)
}
