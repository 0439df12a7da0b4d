//! Dead letters that cannot be stored, or not at once.

use std::time::Duration;

use cmwq_nats::Failure;
use serde_json::json;

use crate::support::{broker_or_skip, eventually, queue};

/// An operator may limit how many letters there are. The broker then refuses the next one, and the
/// item is all that there is.
#[test]
fn an_item_whose_letter_has_no_room_stays() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "no-room");
    server.configure("cmwq-dead_no-room", "discard", json!("new"));
    server.configure("cmwq-dead_no-room", "max_msgs", json!(1));
    let serving = queue.serve().function("f", |_| -> Result<(), Failure> { Err("no disk".into()) });
    let serving = serving.attempts(1).retry_after(Duration::from_millis(1)).start().unwrap();
    queue.queue("f", "first").unwrap().flush().unwrap();
    let _ = queue.queue("f", "second").unwrap();
    eventually("its letter is tried again", || serving.stats().taken_again >= 6);
    assert_eq!(serving.stats().dead, 1);
    let [letter] = <[_; 1]>::try_from(queue.dead_letters(10).unwrap()).unwrap();
    assert_eq!(letter.payload(), b"first");
    letter.remove().unwrap();
    queue.flush().unwrap();
    let [letter] = <[_; 1]>::try_from(queue.dead_letters(10).unwrap()).unwrap();
    assert_eq!(letter.payload(), b"second");
    assert_eq!(serving.stats().dead, 2);
}
