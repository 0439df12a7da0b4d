//! Items that were given up.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use crate::api::{self, ITEM_ID, MESSAGE_ID, Question};
use crate::error::Error;
use crate::item::Item;
use crate::lock::lock;
use crate::names::{Address, Place};
use crate::queue::SharedQueue;
use async_nats::Message;

/// The header that says why.
const ERROR: &str = "Cmwq-Error";
/// The header with the number of deliveries.
const ATTEMPTS: &str = "Cmwq-Attempts";
/// Characters of a reason.
const LONGEST_ERROR: usize = 1000;
/// Bytes of one that have room in the letter of any item that was queued by a [`SharedQueue`].
const SHORTEST_ERROR: usize = 100;
/// So many reasons are kept for letters that could not be stored.
const MOST_REASONS: usize = 1024;
/// Where the broker says which number and subject a message had.
const SEQUENCE: &str = "Nats-Sequence";
const SUBJECT: &str = "Nats-Subject";

/// What a letter says.
pub(crate) struct Verdict<'a> {
    pub(crate) id: &'a str,
    pub(crate) sequence: u64,
    pub(crate) attempt: u64,
    pub(crate) reason: &'a str,
}

impl Verdict<'_> {
    /// The letter, which says what the broker has room for beside the payload.
    pub(crate) fn letter(&self, subject: String, payload: &[u8], limit: usize) -> Question {
        let mut letter = Question::moved(subject, payload);
        letter.add(ITEM_ID, self.id, limit);
        // The same item may have been given up before, and queued again.
        letter.add(MESSAGE_ID, &format!("{}.{}", self.id, self.sequence), limit);
        letter.add(ATTEMPTS, &self.attempt.to_string(), limit);
        if let Some(room) = letter.room(ERROR, limit) {
            letter.add(ERROR, beginning(&one_line(self.reason), room), limit);
        }
        letter
    }

    /// How much room a letter takes beside its payload.
    pub(crate) fn room(id: &str) -> usize {
        let reason = &*"x".repeat(SHORTEST_ERROR);
        let verdict = Verdict { id, sequence: u64::MAX, attempt: u64::MAX, reason };
        verdict.letter(String::new(), &[], usize::MAX).size()
    }
}

/// Why items have failed for the last time here whose letters could not be stored: they come again,
/// perhaps to this machine, which then need not run them once more. If it forgets a reason, the
/// item runs again.
#[derive(Debug, Default)]
pub(crate) struct LastReasons(Mutex<HashMap<(String, u64), String>>);

impl LastReasons {
    pub(crate) fn keep(&self, item: &Item, reason: &str) {
        let mut reasons = self.reasons();
        // Another machine may get the item, and nobody asks for the reason here.
        if reasons.len() >= MOST_REASONS {
            reasons.clear();
        }
        reasons.insert((item.id().to_owned(), item.sequence()), reason.to_owned());
    }

    pub(crate) fn take(&self, item: &Item) -> Option<String> {
        self.reasons().remove(&(item.id().to_owned(), item.sequence()))
    }

    fn reasons(&self) -> MutexGuard<'_, HashMap<(String, u64), String>> {
        lock(&self.0)
    }
}

/// What fits into a header.
fn one_line(text: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(LONGEST_ERROR).collect()
}

/// As much of a text as has so many bytes.
fn beginning(text: &str, most: usize) -> &str {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    &text[..ends.take_while(|end| *end <= most).last().unwrap_or(0)]
}

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
            let Some(message) = next?? else { break };
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

    /// As [`Item::id`](crate::Item::id). This and what follows is empty, or 0, of an item that
    /// another program has queued and that left no room for a word.
    #[must_use]
    pub fn id(&self) -> &str {
        header(&self.message, ITEM_ID)
    }

    /// Why it was given up, in one line: the beginning, if it is long or the item large.
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
    /// letter. If it fails in between, there are both. If an item of its key waits or runs, it
    /// comes after that.
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
    /// [`Unreachable`](crate::ErrorKind::Unreachable). [`Refused`](crate::ErrorKind::Refused): an
    /// operator forbids it.
    pub fn remove(self) -> Result<(), Error> {
        // If it is not there, somebody else has removed it.
        self.queue.remove_number(Place::Dead, self.sequence).map(drop)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_says_what_there_is_room_for() {
        let reason = "why\n".to_owned() + &"ä".repeat(2000);
        let verdict = Verdict { id: "id", sequence: 7, attempt: 5, reason: &reason };
        let letter = |limit| verdict.letter("s".to_owned(), b"payload", limit);
        let of = |letter: &Question, name| letter.headers.get(name).map(ToString::to_string);
        let whole = letter(usize::MAX);
        assert_eq!(of(&whole, ERROR), Some("why ".to_owned() + &"ä".repeat(996)));
        assert_eq!(of(&whole, ATTEMPTS).as_deref(), Some("5"));
        assert_eq!(of(&whole, MESSAGE_ID).as_deref(), Some("id.7"));
        for limit in 0..whole.size() {
            let letter = letter(limit);
            assert_eq!(letter.payload, b"payload");
            assert!(letter.size() <= limit.max("payload".len()), "{limit}: {letter:?}");
        }
        assert!(letter(0).headers.is_empty());
    }

    #[test]
    fn the_room_of_a_letter_is_enough_for_it() {
        let (id, payload) = ("id", [0; 10]);
        let reason = "x".repeat(SHORTEST_ERROR) + "and more";
        let verdict = Verdict { id, sequence: u64::MAX, attempt: u64::MAX, reason: &reason };
        let letter = verdict.letter("s".to_owned(), &payload, payload.len() + Verdict::room(id));
        assert_eq!(letter.headers.len(), 4);
        assert_eq!(letter.headers.get(ERROR).map(|e| e.as_str().len()), Some(SHORTEST_ERROR));
    }
}
