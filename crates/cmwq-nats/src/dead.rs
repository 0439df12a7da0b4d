//! Items that were given up.

use std::fmt;

use async_nats::Message;
use serde_json::json;

use crate::api::{self, ITEM_ID};
use crate::error::Error;
use crate::names::{Address, Place};
use crate::queue::SharedQueue;

/// The header that says why.
pub(crate) const ERROR: &str = "Cmwq-Error";
/// The header with the number of deliveries.
pub(crate) const ATTEMPTS: &str = "Cmwq-Attempts";
/// Where the broker says which number and subject a message had.
const SEQUENCE: &str = "Nats-Sequence";
const SUBJECT: &str = "Nats-Subject";

/// An item that was given up, as it lies at the broker; see [`SharedQueue::dead_letters`].
/// Dropping it leaves it there.
#[derive(Clone)]
pub struct DeadLetter {
    queue: SharedQueue,
    address: Address,
    message: Message,
    sequence: u64,
}

impl DeadLetter {
    pub(crate) fn of(queue: &SharedQueue, most: usize) -> Result<Vec<Self>, Error> {
        let mut letters = Vec::new();
        let mut from = 1;
        while letters.len() < most {
            let inner = &queue.broker.inner;
            let (client, patience) = (inner.client.clone(), inner.patience);
            let (what, stream) = (what(queue), queue.names.stream(Place::Dead));
            let next = queue.broker.wait(async move {
                api::message_from(&client, &what, (&stream, from), patience).await
            });
            let Some(message) = next? else { break };
            let Some(sequence) = header(&message, SEQUENCE).parse().ok() else { break };
            if let Some(address) = Address::of_subject(header(&message, SUBJECT)) {
                letters.push(Self { queue: queue.clone(), address, message, sequence });
            }
            from = sequence + 1;
        }
        Ok(letters)
    }

    /// The function that it was queued for.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.address.function
    }

    /// What was queued with it.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.message.payload
    }

    /// As [`Item::id`](crate::Item::id).
    #[must_use]
    pub fn id(&self) -> &str {
        header(&self.message, ITEM_ID)
    }

    /// Why it was given up, in one line.
    #[must_use]
    pub fn error(&self) -> &str {
        header(&self.message, ERROR)
    }

    /// How often it had been delivered to a machine.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        header(&self.message, ATTEMPTS).parse().unwrap_or(0)
    }

    /// Queues the item again, with all of its attempts and the id that it had, and removes the
    /// letter. If it fails in between, there are both.
    ///
    /// # Errors
    /// As [`SharedQueue::queue`].
    pub fn queue_again(self) -> Result<(), Error> {
        self.queue.put_again(self.address.clone(), self.id(), self.payload())?;
        self.remove()
    }

    /// Drops the item for good.
    ///
    /// # Errors
    /// [`Unreachable`](crate::ErrorKind::Unreachable).
    pub fn remove(self) -> Result<(), Error> {
        let path = format!("STREAM.MSG.DELETE.{}", self.queue.names.stream(Place::Dead));
        // A no means that somebody else has removed it.
        let request = json!({ "seq": self.sequence });
        self.queue.api(&what(&self.queue), &path, &request).map(drop)
    }
}

fn what(queue: &SharedQueue) -> String {
    format!("look at the dead letters of queue '{}'", queue.name())
}

fn header<'a>(message: &'a Message, name: &str) -> &'a str {
    message.headers.as_ref().and_then(|all| all.get(name)).map_or("", |value| value.as_str())
}

impl fmt::Debug for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetter")
            .field("function", &self.function())
            .field("id", &self.id())
            .field("error", &self.error())
            .field("attempts", &self.attempts())
            .field("bytes", &self.payload().len())
            .finish_non_exhaustive()
    }
}
