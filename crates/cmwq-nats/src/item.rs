//! What a machine's function gets.

use std::fmt;
use std::time::{Duration, SystemTime};

use async_nats::Message;

use crate::api::{ITEM_ID, MESSAGE_ID};
use crate::names::Address;

/// The header with a delay, in milliseconds from when the broker took the message.
pub(crate) const DELAY: &str = "Cmwq-Delay";

/// The header with the number of the timer that this item with a key comes of, among those that are
/// delayed.
pub(crate) const TIMER: &str = "Cmwq-Timer";

/// An item that this machine has taken.
///
/// **An item is run AT LEAST ONCE, and may be run again**: when a machine dies, when it is cut off
/// for longer than [`dead_after`](crate::QueueBuilder::dead_after), or when its word that the item
/// is done is lost. Two machines may even run it at the same time. [`id`](Self::id) is the same
/// each time: keep it with the result, and do nothing when it is there already.
#[derive(Clone)]
pub struct Item {
    message: Message,
    address: Address,
    id: String,
    sequence: u64,
    attempt: u64,
    pub(crate) published: SystemTime,
    /// How many more wait at the broker.
    pub(crate) behind: u64,
}

impl Item {
    /// `None`: a message that no machine of ours can have sent.
    pub(crate) fn of(message: Message) -> Option<Self> {
        let address = Address::of_subject(&message.subject)?;
        let reply = message.reply.as_deref()?;
        let (sequence, attempt, published, behind) = told(reply)?;
        let headers = message.headers.as_ref();
        let given = headers.and_then(|all| all.get(ITEM_ID).or_else(|| all.get(MESSAGE_ID)));
        let id =
            given.map_or_else(|| format!("{}.{sequence}", message.subject), ToString::to_string);
        Some(Self { message, address, id, sequence, attempt, published, behind })
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

    /// The idempotency key: another one for each call that queued an item, and the same each time
    /// that the item is run. With [`queue_once`](crate::SharedQueue::queue_once) it is also another
    /// one for each time that the same key is queued anew.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its number in the queue; later items have higher ones.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// 1 at the first delivery to a machine, 2 at the second, … A machine that was closed or lost
    /// its connection in that moment may have given it back without running it.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    pub(crate) fn subject(&self) -> &str {
        &self.message.subject
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The number of its timer, if it has a key and comes of one.
    pub(crate) fn timer(&self) -> Option<u64> {
        let headers = self.message.headers.as_ref();
        headers.and_then(|all| all.get(TIMER)).and_then(|number| number.as_str().parse().ok())
    }

    /// Where to say what has become of it.
    pub(crate) fn reply(&self) -> async_nats::Subject {
        self.message.reply.clone().expect("`of` has looked")
    }

    /// How long until it may run.
    pub(crate) fn is_due_in(&self, now: SystemTime) -> Duration {
        let headers = self.message.headers.as_ref();
        let delay = headers.and_then(|all| all.get(DELAY)).and_then(|ms| ms.as_str().parse().ok());
        let Some(due) = self.published.checked_add(Duration::from_millis(delay.unwrap_or(0)))
        else {
            return Duration::MAX;
        };
        due.duration_since(now).unwrap_or_default()
    }
}

/// Its number, how often it was delivered, when it was stored, and how many wait behind it: the
/// broker writes it into the subject for replies.
fn told(reply: &str) -> Option<(u64, u64, SystemTime, u64)> {
    let tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
    let at = match tokens.len() {
        // Stream and consumer come first.
        7 => 2,
        // Newer brokers put a domain and an account before them, and something random behind.
        9.. => 4,
        _ => return None,
    };
    let number = |i: usize| tokens.get(at + i)?.parse::<u64>().ok();
    let published = SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(number(3)?))?;
    Some((number(1)?, number(0)?, published, number(4)?))
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("function", &self.address.function)
            .field("id", &self.id)
            .field("sequence", &self.sequence)
            .field("attempt", &self.attempt)
            .field("bytes", &self.message.payload.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ADR-15 of NATS: 9 tokens; or a domain and an account before the stream, and something random
    /// behind, so 11, 12, or more.
    #[test]
    fn what_brokers_tell_is_read_in_all_their_ways() {
        let told_to = |text: &str| {
            told(text).map(|(sequence, attempt, published, behind)| {
                let published = published.duration_since(SystemTime::UNIX_EPOCH).unwrap();
                (sequence, attempt, published.as_nanos(), behind)
            })
        };
        let expected = Some((1234, 2, 1_650_000_000_000_000_007, 56));
        let numbers = "2.1234.99.1650000000000000007.56";
        for subject in [
            format!("$JS.ACK.cmwq-run_q.machines.{numbers}"),
            format!("$JS.ACK._.hash.cmwq-run_q.machines.{numbers}"),
            format!("$JS.ACK.hub.hash.cmwq-run_q.machines.{numbers}.random"),
            format!("$JS.ACK.hub.hash.cmwq-run_q.machines.{numbers}.random.more"),
        ] {
            assert_eq!(told_to(&subject), expected, "{subject}");
        }
        for subject in [
            "",
            "_INBOX.1.2.3.4.5.6.7.8",
            "$JS.ACK.cmwq-run_q.machines.2.1234.99.1650000000000000007",
            "$JS.ACK.hub.cmwq-run_q.machines.2.1234.99.1650000000000000007.56",
            "$JS.ACK.cmwq-run_q.machines.two.1234.99.1650000000000000007.56",
        ] {
            assert_eq!(told_to(subject), None, "{subject}");
        }
    }
}
