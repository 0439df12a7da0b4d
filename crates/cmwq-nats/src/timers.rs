//! Items with a delay: each machine that serves a queue also moves those whose time has come.
//!
//! The broker keeps them in a stream of their own, where they take none of the places of
//! `max_active`. A machine that takes one looks when it is due. If that is later, it tells the
//! broker to deliver it at that time, to any machine. If it is now, it puts the item into the queue
//! and acknowledges it here. If the machine dies in between, the next one puts it again, which the
//! broker knows for a repetition.
//!
//! An item whose place is taken when it is due, by one of its key or because the queue is full, is
//! put where those are that are due: its timer is pending no more, and a flush waits for it. There,
//! as one that was queued again while it waited or ran, it has no delay, and is tried again until
//! the place is free.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::api::{self, ITEM_ID, MESSAGE_ID, NO_MESSAGE, No, Question, Stored, store};
use crate::item::Item;
use crate::machine::{done, nak, say};
use crate::names::{Names, Place};
use crate::pulls::Pulls;
use crate::queue::number;
use crate::settings::LONGEST_LOCK;

/// How long one request for a delayed item waits at the broker.
pub(crate) const WAITS: Duration = Duration::from_secs(5);
/// How long a place may be taken before one looks again: at first, and at most.
const TAKEN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// The broker holds a message back for no longer than this; then one looks again.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// How long the broker may take to store an item, before another machine tries it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Moves items of a queue whose time has come, until `closing` becomes true.
pub(crate) async fn serve(
    client: Client,
    pulls: Arc<Pulls>,
    names: Arc<Names>,
    mut closing: watch::Receiver<bool>,
) {
    while !*closing.borrow() {
        let message = pulls.fetch(&mut closing).await;
        if let Some(item) = message.and_then(Item::of) {
            let word = move_when_due(&client, &names, &item).await;
            if let Some(word) = word {
                say(client.clone(), item.reply(), word).await;
            }
        }
    }
}

/// What to tell the broker of the delayed item, if anything: else it will deliver it again.
async fn move_when_due(client: &Client, names: &Names, item: &Item) -> Option<String> {
    if let Some(sequence) = item.address().of_cancelled() {
        let has_ended = is_gone(client, names, &json!({ "seq": sequence })).await?;
        return Some(if has_ended { done() } else { look_later(item) });
    }
    if item.address().is_lock() {
        // Whoever has it takes it away, unless he has died.
        return Some(if item.attempt() == 1 { nak(LONGEST_LOCK) } else { done() });
    }
    let remaining = item.is_due_in(SystemTime::now());
    if !remaining.is_zero() {
        return Some(nak(remaining.min(LONGEST)));
    }
    let subject = names.subject(Place::Run, item.address());
    let is_later = names.is_later(item.subject());
    // What was refused once is likely to be again, and a cluster answers that more slowly.
    if !is_later && !has_place(client, names, &subject).await? {
        return Some(look_later(item));
    }
    match store(client, moved(client, item, subject), PATIENCE).await.ok()? {
        Stored::Here => return Some(done()),
        Stored::Occupied | Stored::Full | Stored::NoRoom if !is_later => {
            return Some(look_later(item));
        }
        Stored::Occupied | Stored::Full | Stored::NoRoom => {}
    }
    let due = names.due(item.address(), &item.sequence().to_string());
    Some(match store(client, moved(client, item, due), PATIENCE).await.ok()? {
        // If it is there, this was done before.
        Stored::Here | Stored::Occupied => done(),
        Stored::Full | Stored::NoRoom => look_later(item),
    })
}

/// The item's message, for another place.
fn moved(client: &Client, item: &Item, subject: String) -> Question {
    // Not the item's: the stream may have seen the item before it was given up, and would take it
    // for the same message. It stays the same when this one is delivered again.
    let call = format!("{}.{}", item.id(), item.sequence());
    let (mut message, limit) = (Question::moved(subject, item.payload()), client.max_payload());
    message.add(ITEM_ID, item.id(), limit);
    message.add(MESSAGE_ID, &call, limit);
    message
}

fn look_later(item: &Item) -> String {
    let doublings = u32::try_from(item.attempt().min(8)).unwrap_or(8);
    nak((TAKEN.0 * 2_u32.pow(doublings)).min(TAKEN.1))
}

/// Whether the queue has room for an item with this subject. `None`: the broker does not say so.
async fn has_place(client: &Client, names: &Names, subject: &str) -> Option<bool> {
    let path = format!("STREAM.INFO.{}", names.stream(Place::Run));
    let info = ask(client, &path, &Value::Null).await?.ok()?;
    let most = info["config"]["max_msgs"].as_u64();
    let is_full = most.is_some_and(|most| number(&info["state"]["messages"]) >= most);
    Some(!is_full && is_gone(client, names, &json!({ "last_by_subj": subject })).await?)
}

/// Whether the queue has no such message. `None`: the broker does not say so.
async fn is_gone(client: &Client, names: &Names, which: &Value) -> Option<bool> {
    let path = format!("STREAM.MSG.GET.{}", names.stream(Place::Run));
    match ask(client, &path, which).await? {
        Ok(_) => Some(false),
        Err(no) => (no.code == NO_MESSAGE).then_some(true),
    }
}

async fn ask(client: &Client, path: &str, request: &Value) -> Option<Result<Value, No>> {
    let question = Question::api(path, request);
    api::ask(client, "look at a queue", question, Duration::ZERO).await.ok()
}
