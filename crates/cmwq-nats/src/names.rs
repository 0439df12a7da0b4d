//! What the broker calls things: streams, consumers, subjects.
//!
//! | stream | subjects | holds |
//! |---|---|---|
//! | `cmwq-run_QUEUE` | `cmwq.run.QUEUE.FUNCTION.ID` | items that wait or run; consumer `machines` |
//! | `cmwq-later_QUEUE` | `cmwq.later.QUEUE.…`, `cmwq.again.QUEUE.…` | items that are delayed, and those that were queued again while they ran, or are due and held up; consumers `timers` and `again`, one for each of the two subjects |
//! | `cmwq-dead_QUEUE` | `cmwq.dead.QUEUE.…` | items that were given up |
//!
//! An ID is `u-` and something unique, or `k-` and the key that the program gave. A subject holds
//! one message at most, so an item with a key is pending once. What is due and held up is on
//! `cmwq.again.QUEUE.due.UNIQUE.FUNCTION.ID`, where there is room for any number.
//!
//! `cmwq.later.QUEUE.FUNCTION.c-N` is no item: it says that the one with the number N was cancelled
//! while a machine had it. Nor is `cmwq.later.QUEUE.settings.lock`.

use std::fmt::Write as _;

use crate::error::Error;

/// The consumer of items, which all machines share.
pub(crate) const MACHINES: &str = "machines";
/// The consumer of delayed items.
pub(crate) const TIMERS: &str = "timers";
/// The consumer of those that are held up.
pub(crate) const AGAIN: &str = "again";
/// Longest name of a queue or function, and longest key, in bytes.
const LONGEST: usize = 128;

/// Where a message is, or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Ready to run.
    Run,
    /// Delayed.
    Later,
    /// Queued while it ran, or waited. Who starts it takes this away.
    Again,
    /// To run, once more if it waits or runs already, as soon as there is a place for it.
    Due,
    /// Given up.
    Dead,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Later => "later",
            Self::Again | Self::Due => "again",
            Self::Dead => "dead",
        }
    }
}

/// Which item: the last two tokens of its subjects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) function: String,
    pub(crate) id: String,
}

impl Address {
    /// Of an item without a key.
    pub(crate) fn unique(function: &str, id: &str) -> Result<Self, Error> {
        check("function", function)?;
        Ok(Self { function: function.to_owned(), id: format!("u-{id}") })
    }

    /// Of the item with this key.
    pub(crate) fn keyed(function: &str, key: &str) -> Result<Self, Error> {
        check("function", function)?;
        if key.is_empty() || key.len() > LONGEST {
            return Err(Error::invalid(format!(
                "the key '{key}' has {} bytes: give it 1 to {LONGEST}",
                key.len()
            )));
        }
        let mut id = "k-".to_owned();
        for byte in key.bytes() {
            if is_plain(byte) {
                id.push(char::from(byte));
            } else {
                let _ = write!(id, "%{byte:02x}");
            }
        }
        Ok(Self { function: function.to_owned(), id })
    }

    /// Of what says that an item with this function and number was cancelled.
    pub(crate) fn cancelled(function: &str, sequence: u64) -> Self {
        Self { function: function.to_owned(), id: format!("c-{sequence}") }
    }

    /// The number of the item that was cancelled, if it is of a message that says so.
    pub(crate) fn of_cancelled(&self) -> Option<u64> {
        self.id.strip_prefix("c-")?.parse().ok()
    }

    /// Of the lock of those who change settings: no item's, whose ids have a letter and a dash.
    pub(crate) fn lock() -> Self {
        Self { function: "settings".to_owned(), id: "lock".to_owned() }
    }

    pub(crate) fn is_lock(&self) -> bool {
        *self == Self::lock()
    }

    /// From a subject of any of the places.
    pub(crate) fn of_subject(subject: &str) -> Option<Self> {
        let mut tokens = subject.rsplitn(3, '.');
        let (id, function) = (tokens.next()?, tokens.next()?);
        Some(Self { function: function.to_owned(), id: id.to_owned() })
    }

    /// It may be queued while it is pending, so it has a key.
    pub(crate) fn is_keyed(&self) -> bool {
        self.id.starts_with("k-")
    }
}

/// The names of one queue.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) queue: String,
}

impl Names {
    pub(crate) fn new(queue: &str) -> Result<Self, Error> {
        check("queue", queue)?;
        Ok(Self { queue: queue.to_owned() })
    }

    /// The stream that holds the messages of a place.
    pub(crate) fn stream(&self, place: Place) -> String {
        let stream = match place {
            Place::Run => "run",
            Place::Later | Place::Again | Place::Due => "later",
            Place::Dead => "dead",
        };
        format!("cmwq-{stream}_{}", self.queue)
    }

    /// All subjects of a place.
    pub(crate) fn subjects(&self, place: Place) -> String {
        format!("cmwq.{}.{}.>", place.name(), self.queue)
    }

    /// The subject of an item in a place; of [`Place::Due`], a pattern of [all](Self::due).
    pub(crate) fn subject(&self, place: Place, address: &Address) -> String {
        if place == Place::Due {
            return self.due(address, "*");
        }
        format!("cmwq.{}.{}.{}.{}", place.name(), self.queue, address.function, address.id)
    }

    /// A subject of an item in [`Place::Due`].
    pub(crate) fn due(&self, address: &Address, unique: &str) -> String {
        let Address { function, id } = address;
        format!("cmwq.{}.{}.due.{unique}.{function}.{id}", Place::Due.name(), self.queue)
    }

    /// Whether it is that of a delayed item, whose delay may not have passed.
    pub(crate) fn is_later(&self, subject: &str) -> bool {
        subject.starts_with(self.subjects(Place::Later).trim_end_matches('>'))
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Of queues and functions.
fn check(what: &str, name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > LONGEST || !name.bytes().all(is_plain) {
        return Err(Error::invalid(format!(
            "'{}' cannot be the name of a {what}: use 1 to {LONGEST} of the characters a-z, A-Z, \
             0-9, '-' and '_'",
            name.escape_debug()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_any_bytes_become_one_token_each_and_differ() {
        let keys = ["a", "a.b", "a b", "a*", "a>", "ä", "a%2eb", "a\n"];
        let ids: Vec<String> =
            keys.iter().map(|key| Address::keyed("f", key).unwrap().id).collect();
        for (i, id) in ids.iter().enumerate() {
            assert!(!id.contains(['.', ' ', '*', '>', '\n']), "{id}");
            assert!(id.is_ascii(), "{id}");
            assert!(!ids[..i].contains(id), "{id} twice");
        }
        assert_eq!(ids[1], "k-a%2eb");
    }

    #[test]
    fn names_that_subjects_cannot_have_are_refused_with_a_hint() {
        for name in ["", "a.b", "a b", "*", ">", "\r\nPUB", &"x".repeat(129)] {
            let error = Names::new(name).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("a-z"), "{error}");
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
            assert!(Address::unique(name, "1").is_err());
        }
        assert!(Address::keyed("f", "").is_err());
        assert!(Address::keyed("f", &"x".repeat(129)).is_err());
    }

    #[test]
    fn an_address_comes_back_from_its_subject() {
        let names = Names::new("thumbs").unwrap();
        let address = Address::keyed("resize", "cat.png").unwrap();
        for place in [Place::Run, Place::Later, Place::Again, Place::Due, Place::Dead] {
            let subject = names.subject(place, &address);
            assert_eq!(Address::of_subject(&subject), Some(address.clone()));
            assert!(subject.starts_with(names.subjects(place).trim_end_matches('>')));
            assert_eq!(names.is_later(&subject), place == Place::Later);
        }
        assert_eq!(Address::of_subject(&names.due(&address, "7")), Some(address.clone()));
        let cancelled = Address::cancelled("resize", 7);
        assert_eq!((cancelled.of_cancelled(), address.of_cancelled()), (Some(7), None));
        assert!(address.is_keyed());
        assert!(!Address::unique("resize", "1").unwrap().is_keyed());
    }
}
