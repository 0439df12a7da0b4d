//! Making a queue at the broker, and changing what it is told of it.
//!
//! The broker takes a whole description: whoever changes one setting first looks, and then writes
//! the others as he has seen them. A consumer that is made a second time is changed. So that
//! programs which do so at once lose nothing of what the others said, each takes a lock first,
//! unless all is as it is to be: a message on a subject that has room for one. Who holds it for
//! long has died.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{NO_CONSUMER, NO_STREAM, Question, Stored};
use crate::error::{Error, ErrorKind};
use crate::names::{AGAIN, Address, MACHINES, Place, TIMERS};
use crate::queue::{SharedQueue, UNLIMITED, nanos};

/// How many machines may wait for an item at the same time.
const MOST_WAITING: u64 = 4096;
/// When a machine is taken for dead that has not been heard of.
const DEAD_AFTER: Duration = Duration::from_secs(30);
/// The least and the most for those that it moves: one that lives may not say so for so long, and
/// to move one twice does no harm.
const MOVES: (Duration, Duration) = (Duration::from_secs(1), DEAD_AFTER);
/// Who has the lock for so long has died.
pub(crate) const LONGEST_LOCK: Duration = Duration::from_secs(10);
/// Between two tries to get it.
const PAUSE: Duration = Duration::from_millis(5);
/// From this version on a broker that refuses what is new takes nothing old away. Before, it takes
/// the oldest messages when it is told a lower limit, or starts with more than it may have; and for
/// a new one that it has reckoned smaller than it is, where there is a limit of bytes.
const KEEPS_OLD: [u64; 3] = [2, 10, 6];

/// What is said of a queue, in the broker's words. What is not said stays as it is.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Of all streams.
    pub(crate) streams: Value,
    /// Of that of the items.
    pub(crate) items: Value,
    /// Of the consumer of the items.
    pub(crate) machines: Value,
    /// Of those of delayed items, and of held-up ones.
    pub(crate) timers: Value,
}

impl Default for Settings {
    fn default() -> Self {
        let none = || json!({});
        Self { streams: none(), items: none(), machines: none(), timers: none() }
    }
}

/// What may be done where something is not as it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    Look,
    Make,
    Change,
}

impl SharedQueue {
    /// Makes the queue, unless it is there, and changes what is to be otherwise.
    pub(crate) fn make(&self, settings: &Settings) -> Result<(), Error> {
        if self.settle(settings, May::Look)? {
            return Ok(());
        }
        // The lock is in this one. Two may make it at once: then it is changed afterwards.
        self.settle_stream(Place::Later, settings, May::Make)?;
        let _lock = Lock::take(self)?;
        while !self.settle(settings, May::Change)? {}
        Ok(())
    }

    /// Changes the consumer of items.
    pub(crate) fn change_machines(&self, wanted: &Value) -> Result<(), Error> {
        if !self.settle_consumer(Place::Run, MACHINES, wanted, May::Look)? {
            let _lock = Lock::take(self)?;
            self.settle_consumer(Place::Run, MACHINES, wanted, May::Change)?;
        }
        Ok(())
    }

    /// Whether all is as it is to be, now.
    fn settle(&self, settings: &Settings, may: May) -> Result<bool, Error> {
        let Settings { machines, timers, .. } = settings;
        // There was one consumer for both.
        let only = |place| merged(timers, &json!({ "filter_subject": self.names.subjects(place) }));
        Ok(self.settle_stream(Place::Run, settings, may)?
            && self.settle_stream(Place::Later, settings, may)?
            && self.settle_stream(Place::Dead, settings, may)?
            && self.settle_consumer(Place::Run, MACHINES, machines, may)?
            && self.settle_consumer(Place::Later, TIMERS, &only(Place::Later), may)?
            && self.settle_consumer(Place::Later, AGAIN, &only(Place::Again), may)?)
    }

    fn settle_stream(&self, place: Place, settings: &Settings, may: May) -> Result<bool, Error> {
        let wanted = &wanted_of(place, settings);
        let (what, stream) = (self.opening(), self.names.stream(place));
        let known = self.api(&what, &format!("STREAM.INFO.{stream}"), &Value::Null)?;
        let (verb, config, asked) = match known {
            Ok(info) => {
                let config = merged(&info["config"], wanted);
                self.refuse_loss(&stream, &info["config"], &config)?;
                if config == info["config"] {
                    return Ok(true);
                }
                if may != May::Change {
                    return Ok(false);
                }
                ("UPDATE", config, wanted.clone())
            }
            Err(no) if no.code == NO_STREAM => {
                if may == May::Look {
                    return Ok(false);
                }
                let config = merged(&self.new_stream(place), wanted);
                ("CREATE", config.clone(), config)
            }
            Err(no) => return Err(no.to_error(&what)),
        };
        match self.api(&what, &format!("STREAM.{verb}.{stream}"), &config)? {
            Ok(answer) => self.check(&format!("stream {stream}"), &asked, &answer).map(|()| true),
            // Somebody else may have made it since the look.
            Err(_) if verb == "CREATE" && self.has_stream(&stream)? => Ok(false),
            Err(no) => Err(no.to_error(&what)),
        }
    }

    /// Fails where the broker would take the oldest messages of a stream away to keep to limits.
    /// Also where there are not too many now: there may be when the broker is told.
    fn refuse_loss(&self, stream: &str, known: &Value, config: &Value) -> Result<(), Error> {
        let limit = |of: &Value, what| of[what].as_u64().filter(|limit| *limit > 0);
        let most = |of| limit(of, "max_msgs").unwrap_or(u64::MAX);
        let (is_lower, has_bytes) =
            (most(config) < most(known), limit(config, "max_bytes").is_some());
        let version = self.broker.inner.client.server_info().version;
        if !(is_lower || has_bytes) || keeps_old(&version) {
            return Ok(());
        }
        let what = self.opening();
        let text = if is_lower {
            format!(
                "could not {what} with a lower max_queued: nats-server {version} takes the oldest \
                 items away when it is told one. Have it updated, to 2.10.6 at least; or open the \
                 queue without max_queued, or destroy it when nothing is in it, and make it anew"
            )
        } else {
            format!(
                "could not {what}: stream {stream} has max_bytes, and nats-server {version} takes \
                 the oldest messages away to keep to that. Have it updated, to 2.10.6 at least, or \
                 have max_bytes removed"
            )
        };
        Err(Error::new(ErrorKind::Refused, text))
    }

    fn has_stream(&self, stream: &str) -> Result<bool, Error> {
        let path = format!("STREAM.INFO.{stream}");
        Ok(self.api(&self.opening(), &path, &Value::Null)?.is_ok())
    }

    fn new_stream(&self, place: Place) -> Value {
        let names = &self.names;
        let subjects = match place {
            Place::Later => vec![names.subjects(Place::Later), names.subjects(Place::Again)],
            place => vec![names.subjects(place)],
        };
        let all = json!({
            "name": names.stream(place),
            "subjects": subjects,
            "storage": "file",
            "num_replicas": 1,
        });
        let of_place = match place {
            // What was given up is kept until somebody has looked at it.
            Place::Dead => json!({ "retention": "limits", "allow_direct": true }),
            _ => json!({ "retention": "workqueue", "max_msgs_per_subject": 1 }),
        };
        merged(&all, &of_place)
    }

    fn settle_consumer(
        &self,
        place: Place,
        name: &'static str,
        wanted: &Value,
        may: May,
    ) -> Result<bool, Error> {
        let (what, stream) = (self.opening(), self.names.stream(place));
        let known = self.api(&what, &format!("CONSUMER.INFO.{stream}.{name}"), &Value::Null)?;
        let (config, asked) = match &known {
            Ok(info) => {
                let config = merged(&info["config"], wanted);
                if config == info["config"] {
                    return Ok(true);
                }
                (config, wanted.clone())
            }
            Err(no) if no.code == NO_CONSUMER => {
                let config = merged(&new_consumer(name), wanted);
                (config.clone(), config)
            }
            Err(no) => return Err(no.to_error(&what)),
        };
        if may != May::Change {
            return Ok(false);
        }
        // A broker whose consumer gets another filter skips messages that nobody has had. One that
        // is made anew delivers all of them, again those that somebody has: which does no harm to
        // those that are only moved.
        if let Ok(info) = known
            && info["config"]["filter_subject"] != config["filter_subject"]
        {
            let path = format!("CONSUMER.DELETE.{stream}.{name}");
            self.api(&what, &path, &Value::Null)?.map_err(|no| no.to_error(&what))?;
        }
        let path = format!("CONSUMER.DURABLE.CREATE.{stream}.{name}");
        let made = self.api(&what, &path, &json!({ "stream_name": stream, "config": config }))?;
        let answer = made.map_err(|no| no.to_error(&what))?;
        self.check(&format!("consumer '{name}' of stream {stream}"), &asked, &answer)?;
        Ok(true)
    }

    /// Fails where a broker did not do what it was asked: words that it does not know it ignores,
    /// as those before 2.9.1 do `discard_new_per_subject`, with which an item that is queued once
    /// more takes the place of the one that waits or runs.
    fn check(&self, of: &str, asked: &Value, answer: &Value) -> Result<(), Error> {
        let Some(word) = ignored(asked, &answer["config"]) else { return Ok(()) };
        let version = self.broker.inner.client.server_info().version;
        let text = format!(
            "could not {}: nats-server {version} ignores '{word}', as it was told of {of}: NATS \
             2.9.1 or later is needed",
            self.opening()
        );
        Err(Error::new(ErrorKind::Refused, text))
    }

    fn opening(&self) -> String {
        format!("open queue '{}'", self.name())
    }
}

/// What is said of the stream of a place, whether it is there or not.
fn wanted_of(place: Place, settings: &Settings) -> Value {
    let Settings { streams, items, .. } = settings;
    match place {
        // Those of an older queue would go, for the newest, where an operator limits how many.
        Place::Dead => merged(streams, &json!({ "discard": "new" })),
        // So would items, and those of a key for the next one.
        _ => {
            let streams = if place == Place::Run { &merged(streams, items) } else { streams };
            merged(streams, &json!({ "discard": "new", "discard_new_per_subject": true }))
        }
    }
}

/// A word of what was asked that is not so.
fn ignored<'a>(asked: &'a Value, config: &Value) -> Option<&'a str> {
    let mut asked = asked.as_object().into_iter().flatten();
    asked.find(|(word, value)| config[word.as_str()] != **value).map(|(word, _)| word.as_str())
}

fn new_consumer(name: &str) -> Value {
    json!({
        "durable_name": name,
        "deliver_policy": "all",
        "replay_policy": "instant",
        "ack_policy": "explicit",
        "ack_wait": nanos(DEAD_AFTER),
        // Who gives an item up is the machine, which then says why.
        "max_deliver": UNLIMITED,
        "max_ack_pending": UNLIMITED,
        "max_waiting": MOST_WAITING,
    })
}

/// Whether a broker of this version does.
fn keeps_old(version: &str) -> bool {
    version.split(['.', '-']).map_while(|number| number.parse::<u64>().ok()).ge(KEEPS_OLD)
}

/// When a machine is taken for dead that has a delayed item, by when it is with others.
pub(crate) fn moves_for(dead_after: Duration) -> Duration {
    dead_after.clamp(MOVES.0, MOVES.1)
}

/// `config` with the words of `wanted`.
fn merged(config: &Value, wanted: &Value) -> Value {
    let mut config = config.clone();
    for (name, value) in wanted.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
    config
}

/// See the module.
struct Lock<'a> {
    queue: &'a SharedQueue,
    number: u64,
}

impl<'a> Lock<'a> {
    fn take(queue: &'a SharedQueue) -> Result<Self, Error> {
        let (what, address) = (queue.opening(), Address::lock());
        let subject = queue.names.subject(Place::Later, &address);
        let (mut holder, mut since) = (None, Instant::now());
        loop {
            let message = Question::message(subject.clone(), &queue.call_id(), &[]);
            let stored = queue.store(message)?;
            let now = queue.find(Place::Later, &address)?;
            match (stored, now) {
                (Stored::Here, Some(number)) => return Ok(Self { queue, number }),
                (Stored::Full | Stored::NoRoom, _) => {
                    return Err(queue.no_room_later(&what));
                }
                _ => {}
            }
            if now != holder {
                (holder, since) = (now, Instant::now());
            }
            match holder {
                Some(number) if since.elapsed() >= LONGEST_LOCK => {
                    queue.remove_number(Place::Later, number)?;
                }
                Some(_) => cmwq::blocking(|| thread::sleep(PAUSE)),
                None => {}
            }
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // If it stays, it is taken for one of somebody who has died.
        let _ = self.queue.remove_number(Place::Later, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broker_ignores_is_noticed() {
        let asked = json!({ "max_msgs_per_subject": 1, "discard_new_per_subject": true });
        let answer = json!({ "max_msgs_per_subject": 1, "discard": "new" });
        assert_eq!(ignored(&asked, &answer), Some("discard_new_per_subject"));
        assert!(ignored(&asked, &Value::Null).is_some());
        assert_eq!(ignored(&asked, &merged(&answer, &asked)), None);
        assert_eq!(ignored(&json!({}), &answer), None);
    }

    #[test]
    fn brokers_that_keep_old_messages_are_told_by_their_version() {
        for version in ["2.10.6", "2.10.27", "2.11.0-preview.2", "2.15.3", "3.0.0"] {
            assert!(keeps_old(version), "{version}");
        }
        for version in ["2.9.10", "2.10.5", "2.10.0-beta.1", "1.4.1", "2.10", "", "unknown"] {
            assert!(!keeps_old(version), "{version}");
        }
    }
}
