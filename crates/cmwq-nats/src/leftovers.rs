//! Messages of items that are done, which the broker still has.
//!
//! A broker takes a message away when its item is done. Before 2.10 NATS writes that down only
//! later: if it is killed meanwhile, the message is there again, while the consumer knows that it
//! was acknowledged. So nobody gets it, and nobody takes it away: its key would be taken for
//! pending for ever, and it would have a place of `max_queued`.
//!
//! Each machine takes such messages away: when it begins to serve, and whenever the connection was
//! made again. What lies above an item that is not done stays until that is done.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Client;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::api::{self, Question};
use crate::names::{AGAIN, MACHINES, Names, Place, TIMERS};
use crate::queue::{bounds, number};

/// Between two looks whether the connection was made again.
const LOOKS: Duration = Duration::from_secs(1);
/// Between two tries, at most.
const LONGEST: Duration = Duration::from_secs(32);

/// What may be left in a stream.
struct Left {
    stream: String,
    subjects: String,
    consumer: &'static str,
    /// The last message that was delivered before the connection was made. `None`: not asked yet.
    last: Option<u64>,
}

/// Takes away what is left of a queue, until `closing` becomes true.
pub(crate) async fn take_away(
    client: Client,
    names: Arc<Names>,
    mut closing: watch::Receiver<bool>,
) {
    let (mut connections, mut left) = (0, Vec::new());
    let (mut pause, mut next) = (LOOKS, Instant::now());
    loop {
        let now = client.statistics().connects.load(Ordering::Relaxed);
        if now != connections {
            connections = now;
            left = [(Place::Run, MACHINES), (Place::Later, TIMERS), (Place::Again, AGAIN)]
                .map(|(place, consumer)| Left {
                    stream: names.stream(place),
                    subjects: names.subjects(place),
                    consumer,
                    last: None,
                })
                .into();
            (pause, next) = (LOOKS, Instant::now());
        }
        if !left.is_empty() && Instant::now() >= next {
            let mut rest = Vec::new();
            for mut of in left {
                if !of.take_away(&client).await.unwrap_or(false) {
                    rest.push(of);
                }
            }
            left = rest;
            (pause, next) = ((2 * pause).min(LONGEST), Instant::now() + pause);
        }
        tokio::select! {
            () = sleep(LOOKS) => {}
            _ = closing.wait_for(|is_closing| *is_closing) => return,
        }
    }
}

impl Left {
    /// Whether nothing is left any more. `None`: the broker did not say so.
    async fn take_away(&mut self, client: &Client) -> Option<bool> {
        let (stream, consumer) = (&self.stream, self.consumer);
        let info = ask(client, &format!("CONSUMER.INFO.{stream}.{consumer}"), &Value::Null).await?;
        let done = done_until(&info);
        let last = *self.last.get_or_insert(number(&info["delivered"]["stream_seq"]));
        let info = ask(client, &format!("STREAM.INFO.{stream}"), &Value::Null).await?;
        if has_leftovers(done, bounds(&info)) {
            let purged = json!({ "filter": self.subjects, "seq": done + 1 });
            ask(client, &format!("STREAM.PURGE.{stream}"), &purged).await?;
        }
        Some(done >= last)
    }
}

async fn ask(client: &Client, path: &str, request: &Value) -> Option<Value> {
    let question = Question::api(path, request);
    api::ask(client, "look for what is left", question, Duration::ZERO).await.ok()?.ok()
}

/// All messages up to this one are acknowledged, or were taken away, as a consumer tells.
pub(crate) fn done_until(consumer: &Value) -> u64 {
    number(&consumer["ack_floor"]["stream_seq"])
}

/// Whether the stream has messages that are done. Of one that has lost its last messages, as when a
/// machine fails, nothing is known: it gives their numbers to others.
fn has_leftovers(done: u64, (first, last): (u64, u64)) -> bool {
    first <= done && done <= last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_are_done_are_left() {
        assert!(has_leftovers(3, (3, 9)));
        assert!(has_leftovers(9, (1, 9)));
        assert!(!has_leftovers(2, (3, 9)));
        assert!(!has_leftovers(0, (1, 1)));
        // Of five messages none is there.
        assert!(!has_leftovers(5, (6, 5)));
    }

    /// The messages 7 to 9 were done and are lost; there may be others with these numbers now.
    #[test]
    fn of_a_stream_that_has_lost_messages_nothing_is_taken() {
        assert!(!has_leftovers(9, (1, 6)));
    }

    #[test]
    fn what_the_broker_says_is_read() {
        let consumer = json!({ "ack_floor": { "consumer_seq": 8, "stream_seq": 5 } });
        assert_eq!(done_until(&consumer), 5);
        let stream = json!({ "state": { "messages": 2, "first_seq": 4, "last_seq": 6 } });
        assert_eq!(bounds(&stream), (4, 6));
        let empty = json!({ "state": { "messages": 0, "first_seq": 7, "last_seq": 6 } });
        assert_eq!(bounds(&empty), (7, 6));
    }
}
