//! Items with a delay: each machine that serves a queue also moves those whose time has come.
//!
//! The broker keeps them in a stream of their own, where they take none of the places of
//! `max_active`. A machine that takes one looks when it is due. If that is now, it puts the item
//! into the queue and acknowledges it here. If the machine dies in between, the next one puts it
//! again, which the broker knows for a repetition. If it is soon, the machine has it delivered
//! again when the time has come; if it is later, it tells the broker to deliver it shortly before
//! it is due, to any machine. See [`words`].
//!
//! Until it is acknowledged here, a timer looks as if it were pending, and its item may run
//! already: who has died, or is slow, says nothing. So an item with a key has its timer's number,
//! and the machine that starts it takes that timer away before it calls the function.
//!
//! An item whose place is taken when it is due, by one of its key or because the queue is full, is
//! put where those are that are due: its timer is pending no more, and a flush waits for it. There,
//! as one that was queued again while it waited or ran, it has no delay, and a machine that has
//! taken it looks now and then until the place is free. These have a consumer of their own: however
//! many wait, delays end in time. Nor are they delivered while they wait: the broker gives what it
//! delivers again to machines before what is new.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use async_nats::Client;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::api::{self, ITEM_ID, MESSAGE_ID, NO_MESSAGE, No, Question, Stored, store};
use crate::item::{Item, TIMER};
use crate::names::{Names, Place};
use crate::pulls::Pulls;
use crate::queue::number;
use crate::settings::{LONGEST_LOCK, moves_for};
use crate::words::{Delivery, again, done};

/// How long one request for a delayed item waits at the broker.
pub(crate) const WAITS: Duration = Duration::from_secs(5);
/// How long a place may be taken before one looks again: at first, and at most, if few wait.
const TAKEN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Between two looks for places, of all items that this machine looks for.
const LOOKS: Duration = Duration::from_millis(5);
/// So long before it is due an item is with the machine that moves it, or half as long as the
/// broker takes to miss that machine.
const SOON: Duration = Duration::from_secs(5);
/// How long the broker may take to store an item, before another machine tries it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Moves items of a queue whose time has come.
#[derive(Clone)]
pub(crate) struct Timers {
    pub(crate) client: Client,
    pub(crate) names: Arc<Names>,
    /// As it is of items that run.
    pub(crate) dead_after: watch::Receiver<Duration>,
    pub(crate) closing: watch::Receiver<bool>,
    /// How many wait for a place.
    pub(crate) waiting: Arc<AtomicU32>,
    /// For who looks what has changed of the queue.
    pub(crate) has_news: Arc<Notify>,
}

/// What is to become of a message.
enum Next {
    /// It has been moved, or means nothing any more.
    Done,
    /// It is looked at again when that has passed.
    Later(Duration),
    /// When that has come.
    When(Change),
}

/// What the broker tells nobody.
enum Change {
    /// There is a place for an item with this subject.
    Place(String),
    /// The item with this number is done.
    Ends(u64),
}

impl Timers {
    /// Moves what comes of one consumer, until `closing` becomes true.
    pub(crate) async fn serve(mut self, pulls: Arc<Pulls>) {
        let mut kept = JoinSet::new();
        while !*self.closing.borrow() {
            let message = pulls.fetch(&mut self.closing).await;
            while kept.try_join_next().is_some() {}
            let Some(item) = message.and_then(Item::of) else { continue };
            self.has_news.notify_one();
            let (client, closing) = (self.client.clone(), self.closing.clone());
            let (reply, silence) = (item.reply(), self.silence());
            let delivery = Delivery { client, reply, silence, closing };
            let soon = (silence / 2).min(SOON);
            match self.look(&item).await {
                Some(Next::Done) => delivery.say(done()).await,
                Some(Next::Later(delay)) if delay <= soon => {
                    kept.spawn(delivery.give_back_after(delay, ()));
                }
                Some(Next::Later(delay)) => {
                    kept.spawn(delivery.ask_for_later(delay, soon));
                }
                Some(Next::When(change)) => {
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    kept.spawn(self.clone().wait(change, delivery, item.attempt()));
                }
                // The broker will deliver it again.
                None => {}
            }
        }
        while kept.join_next().await.is_some() {}
    }

    /// How long until the broker takes this machine for dead.
    fn silence(&self) -> Duration {
        moves_for(*self.dead_after.borrow())
    }

    /// `None`: the broker does not say.
    async fn look(&self, item: &Item) -> Option<Next> {
        let names = &self.names;
        if let Some(sequence) = item.address().of_cancelled() {
            let has_ended = self.has_ended(sequence).await?;
            return Some(if has_ended { Next::Done } else { Next::When(Change::Ends(sequence)) });
        }
        let now = SystemTime::now();
        if item.address().is_lock() {
            // Whoever has it takes it away, unless he has died. Not by this machine's clock alone.
            let age = now.duration_since(item.published).unwrap_or_default();
            let age = if item.attempt() == 1 { Duration::ZERO } else { age };
            let left = LONGEST_LOCK.saturating_sub(age);
            return Some(if left.is_zero() { Next::Done } else { Next::Later(left) });
        }
        let remaining = item.is_due_in(now);
        if !remaining.is_zero() {
            return Some(Next::Later(remaining));
        }
        let subject = names.subject(Place::Run, item.address());
        let is_later = names.is_later(item.subject());
        // What was refused once is likely to be again, and a cluster answers that more slowly.
        if !is_later && !self.has_place(&subject).await? {
            return Some(Next::When(Change::Place(subject)));
        }
        match self.store(item, subject.clone()).await? {
            Stored::Here => return Some(Next::Done),
            Stored::Occupied | Stored::Full | Stored::NoRoom if !is_later => {
                return Some(Next::When(Change::Place(subject)));
            }
            Stored::Occupied | Stored::Full | Stored::NoRoom => {}
        }
        let due = names.due(item.address(), &item.sequence().to_string());
        Some(match self.store(item, due).await? {
            // If it is there, this was done before.
            Stored::Here | Stored::Occupied => Next::Done,
            Stored::Full | Stored::NoRoom => Next::When(Change::Place(subject)),
        })
    }

    /// Puts the item's message into another place.
    async fn store(&self, item: &Item, subject: String) -> Option<Stored> {
        store(&self.client, self.moved(item, subject), PATIENCE).await.ok()
    }

    /// The item's message, for another place.
    fn moved(&self, item: &Item, subject: String) -> Question {
        // Not the item's: the stream may have seen the item before it was given up, and would take
        // it for the same message. It stays the same when this one is delivered again.
        let call = format!("{}.{}", item.id(), item.sequence());
        let limit = self.client.max_payload();
        let mut message = Question::moved(subject, item.payload());
        message.add(ITEM_ID, item.id(), limit);
        message.add(MESSAGE_ID, &call, limit);
        if item.address().is_keyed() {
            let is_later = self.names.is_later(item.subject());
            let timer = if is_later { Some(item.sequence()) } else { item.timer() };
            if let Some(timer) = timer {
                message.add(TIMER, &timer.to_string(), limit);
            }
        }
        message
    }

    /// Looks now and then whether it has come, and says all the while that this machine is alive.
    async fn wait(self, change: Change, mut delivery: Delivery, attempt: u64) {
        let mut doublings = u32::try_from(attempt).unwrap_or(u32::MAX);
        let word = loop {
            let few = (TAKEN.0 * 2_u32.pow(doublings.min(8))).min(TAKEN.1);
            let pause = few.max(LOOKS * self.waiting.load(Ordering::Relaxed));
            delivery.silence = self.silence();
            if !delivery.keep(pause).await {
                break again();
            }
            match &change {
                Change::Place(subject) if self.has_place(subject).await == Some(true) => {
                    break again();
                }
                Change::Ends(sequence) if self.has_ended(*sequence).await == Some(true) => {
                    break done();
                }
                Change::Place(_) | Change::Ends(_) => doublings = doublings.saturating_add(1),
            }
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        delivery.say(word).await;
    }

    async fn has_ended(&self, sequence: u64) -> Option<bool> {
        self.is_gone(&json!({ "seq": sequence })).await
    }

    /// Whether the queue has room for an item with this subject. `None`: the broker does not say.
    async fn has_place(&self, subject: &str) -> Option<bool> {
        let path = format!("STREAM.INFO.{}", self.names.stream(Place::Run));
        let info = self.ask(&path, &Value::Null).await?.ok()?;
        let most = info["config"]["max_msgs"].as_u64();
        let is_full = most.is_some_and(|most| number(&info["state"]["messages"]) >= most);
        Some(!is_full && self.is_gone(&json!({ "last_by_subj": subject })).await?)
    }

    /// Whether the queue has no such message. `None`: the broker does not say so.
    async fn is_gone(&self, which: &Value) -> Option<bool> {
        let path = format!("STREAM.MSG.GET.{}", self.names.stream(Place::Run));
        match self.ask(&path, which).await? {
            Ok(_) => Some(false),
            Err(no) => (no.code == NO_MESSAGE).then_some(true),
        }
    }

    async fn ask(&self, path: &str, request: &Value) -> Option<Result<Value, No>> {
        let question = Question::api(path, request);
        api::ask(&self.client, "look at a queue", question, Duration::ZERO).await.ok()
    }
}
