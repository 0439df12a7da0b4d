//! Items with a delay: each machine that serves a queue also moves those whose time has come.
//!
//! The broker keeps them in a stream of their own, where they take none of the places of
//! `max_active`. A machine that takes one looks when it is due. If that is later, it tells the
//! broker to deliver it at that time, to any machine. If it is now, it puts the item into the queue
//! and acknowledges it here. If the machine dies in between, the next one puts it again, which the
//! broker knows for a repetition.
//!
//! An item that was queued again while it waited or ran has no delay, and a place to go that is
//! taken: it is tried again until the place is free.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::Client;
use tokio::sync::watch;

use crate::api::{ITEM_ID, MESSAGE_ID, Question, Stored, store};
use crate::item::Item;
use crate::machine::{nak, say};
use crate::names::{Names, Place};
use crate::pulls::Pulls;

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

/// What to tell the broker of the delayed item, if anything.
async fn move_when_due(client: &Client, names: &Names, item: &Item) -> Option<String> {
    let remaining = item.is_due_in(SystemTime::now());
    if !remaining.is_zero() {
        return Some(nak(remaining.min(LONGEST)));
    }
    let subject = names.subject(Place::Run, item.address());
    // Not the item's: the stream may have seen the item before it was given up, and would take it
    // for the same message. It stays the same when this one is delivered again.
    let call = format!("{}.{}", item.id(), item.sequence());
    let (mut message, limit) = (Question::moved(subject, item.payload()), client.max_payload());
    message.add(ITEM_ID, item.id(), limit);
    message.add(MESSAGE_ID, &call, limit);
    match store(client, message, PATIENCE).await {
        Ok(Stored::Here) => Some("+ACK".to_owned()),
        Ok(Stored::Occupied | Stored::Full) => {
            let doublings = u32::try_from(item.attempt().min(8)).unwrap_or(8);
            Some(nak((TAKEN.0 * 2_u32.pow(doublings)).min(TAKEN.1)))
        }
        // The broker will deliver it again.
        Err(_) => None,
    }
}
