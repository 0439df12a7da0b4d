//! Asking the broker for one message, and getting it or not.
//!
//! All requests of a machine for one queue are answered to subjects below one inbox, and one task
//! hands the answers to whoever waits: there is one request at a time. Where nothing was there in
//! time, the broker says so to the subject that the request named; a message comes with the subject
//! that it was stored under. So they are told apart by the subject, and not by a status in the
//! headers, which a program that stores a message writes as it likes; and it is not known which
//! request drew a message. That matters only where a request outlived the one who sent it: a
//! message for which nobody waits goes back to the broker at once, so that another machine gets it.
//! Without that it would lie until the broker takes us for dead.

use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_nats::client::SubscribeError;
use async_nats::connection::State;
use async_nats::{Client, Message, StatusCode, Subscriber};
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::broker::connected;
use crate::error::{Error, ErrorKind};
use crate::lock::lock;
use crate::words::{again, say_now};

/// How much longer than the broker we wait for its word that there was nothing.
const GRACE: Duration = Duration::from_secs(1);
/// After an answer that is neither a message nor "nothing": the broker starts, or has no such
/// queue. Or where nothing can be asked.
const AFTER_TROUBLE: Duration = Duration::from_millis(200);

/// Whose messages, and how long one request for one waits at the broker.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) stream: String,
    pub(crate) consumer: &'static str,
    pub(crate) waits: Duration,
}

/// See the module.
pub(crate) struct Pulls {
    client: Client,
    source: Source,
    inbox: String,
    next: AtomicU64,
    waiter: Arc<Mutex<Option<Waiter>>>,
    ending: Mutex<Option<Ending>>,
    failures: Mutex<Failures>,
    /// For who is told of failures.
    has_news: Arc<Notify>,
}

/// Requests that came to nothing since the last one that was answered well.
#[derive(Default)]
struct Failures {
    in_a_row: u32,
    last: String,
}

/// How the task is told, by dropping `end`, that nobody asks any more.
struct Ending {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Who waits for the answer to a request.
struct Waiter {
    request: String,
    sender: oneshot::Sender<Answer>,
}

/// What comes for a request.
enum Answer {
    Item(Message),
    /// The broker's word that there is none, or why.
    Word(Message),
}

impl Pulls {
    /// Within a runtime.
    pub(crate) async fn new(
        client: Client,
        source: Source,
        has_news: Arc<Notify>,
    ) -> Result<Self, SubscribeError> {
        let inbox = client.new_inbox();
        let answers = client.subscribe(format!("{inbox}.*")).await?;
        let (end, has_ended) = oneshot::channel();
        let waiter = Arc::default();
        let of = Inbox { name: inbox.clone(), answers };
        let task = hand_out(of, client.clone(), Arc::clone(&waiter), has_ended);
        let ending = Mutex::new(Some(Ending { end, task: tokio::spawn(task) }));
        let (next, failures) = (AtomicU64::new(0), Mutex::default());
        Ok(Self { client, source, inbox, next, waiter, ending, failures, has_news })
    }

    /// The next message, or `None`: there was none in time, or `closing` became true. With trouble
    /// it takes a moment to say `None`, so the caller may just ask again. One caller at a time.
    pub(crate) async fn fetch(&self, closing: &mut watch::Receiver<bool>) -> Option<Message> {
        if self.client.connection_state() != State::Connected {
            // A look finds why.
            self.has_news.notify_one();
        }
        let Source { stream, consumer, waits } = &self.source;
        let is_connected = tokio::select! {
            is_connected = timeout(*waits, connected(&self.client)) => is_connected,
            () = closes(closing) => return None,
        };
        match is_connected {
            Ok(true) => {}
            Ok(false) => return self.rest(closing, "there is no connection").await,
            // Whoever asks may have to end.
            Err(_) => return None,
        }
        let request = format!("{}.{}", self.inbox, self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, mut receiver) = oneshot::channel();
        *lock(&self.waiter) = Some(Waiter { request: request.clone(), sender });
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        let expires = u64::try_from(waits.as_nanos()).unwrap_or(u64::MAX);
        let words = json!({ "batch": 1, "expires": expires }).to_string();
        if let Err(error) = self.client.publish_with_reply(subject, request, words.into()).await {
            *lock(&self.waiter) = None;
            return self.rest(closing, &error.to_string()).await;
        }
        let answer = tokio::select! {
            answer = timeout(*waits + GRACE, &mut receiver) => answer.ok().and_then(Result::ok),
            () = closes(closing) => None,
        };
        let Some(answer) = answer else {
            *lock(&self.waiter) = None;
            // It may have come in this moment.
            receiver.close();
            if let Ok(Answer::Item(late)) = receiver.try_recv() {
                give_back(&self.client, &late).await;
            } else if !*closing.borrow() {
                self.fails("no answer came");
            }
            return None;
        };
        let word = match answer {
            Answer::Item(item) => {
                self.is_answered();
                return Some(item);
            }
            Answer::Word(word) => word,
        };
        match word.status {
            // Nothing was there in time.
            Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => {
                self.is_answered();
                None
            }
            Some(StatusCode::NO_RESPONDERS) => self.rest(closing, "nobody answers there").await,
            _ => self.rest(closing, word.description.as_deref().unwrap_or("an odd answer")).await,
        }
    }

    /// Takes a moment after trouble, since whoever asks again does so at once.
    async fn rest(&self, closing: &mut watch::Receiver<bool>, why: &str) -> Option<Message> {
        self.fails(why);
        tokio::select! {
            () = sleep(AFTER_TROUBLE) => {}
            () = closes(closing) => {}
        }
        None
    }

    fn fails(&self, why: &str) {
        let mut failures = self.failures();
        failures.in_a_row = failures.in_a_row.saturating_add(1);
        why.clone_into(&mut failures.last);
        drop(failures);
        self.has_news.notify_one();
    }

    fn is_answered(&self) {
        *self.failures() = Failures::default();
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        lock(&self.failures)
    }

    /// The last request was answered well.
    pub(crate) fn is_well(&self) -> bool {
        self.failures().in_a_row == 0
    }

    /// Why requests come to nothing. One may be lost with a connection: that is none.
    pub(crate) fn trouble(&self) -> Option<Error> {
        let failures = self.failures();
        (failures.in_a_row > 1).then(|| {
            let Source { stream, consumer, .. } = &self.source;
            let text = format!(
                "requests for messages of consumer '{consumer}' of stream '{stream}' come to \
                 nothing: {}. Look whether this login may publish to \
                 $JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}",
                failures.last
            );
            Error::new(ErrorKind::Unreachable, text)
        })
    }

    /// Where the broker tells of the consumer.
    pub(crate) fn info_path(&self) -> String {
        format!("CONSUMER.INFO.{}.{}", self.source.stream, self.source.consumer)
    }
}

impl Pulls {
    /// Takes back the request that may still wait at the broker. What comes until the broker knows
    /// goes back to it, if the client still hands it out: that may forget the subject sooner, where
    /// it has something else to send. A message that is on its way just then comes again when the
    /// broker takes this machine for dead. To wait for the word on the request, with the subject
    /// kept, would take as long as that lasts.
    pub(crate) async fn end(&self) {
        let ending = lock(&self.ending).take();
        if let Some(Ending { end, task }) = ending {
            drop(end);
            let _ = task.await;
        }
    }
}

/// Until it becomes true.
pub(crate) async fn closes(closing: &mut watch::Receiver<bool>) {
    if closing.wait_for(|is_closing| *is_closing).await.is_err() {
        // Nobody can close it any more.
        pending::<()>().await;
    }
}

/// Gives each answer to the one who waits for it, until `end`, and back what comes before the
/// broker has noticed.
async fn hand_out(
    mut inbox: Inbox,
    client: Client,
    waiter: Arc<Mutex<Option<Waiter>>>,
    mut end: oneshot::Receiver<()>,
) {
    let mut has_ended = false;
    loop {
        let answer = tokio::select! {
            answer = inbox.next() => answer,
            _ = &mut end, if !has_ended => {
                has_ended = true;
                if inbox.answers.drain().await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(answer) = answer else { return };
        let is_wanted = |waiter: &mut Waiter| match &answer {
            Answer::Item(_) => true,
            Answer::Word(word) => *waiter.request == *word.subject,
        };
        let wanted = lock(&waiter).take_if(is_wanted);
        let unwanted = match wanted {
            Some(waiter) => waiter.sender.send(answer).err(),
            None => Some(answer),
        };
        if let Some(Answer::Item(message)) = unwanted {
            give_back(&client, &message).await;
        }
    }
}

/// Where the answers come.
struct Inbox {
    name: String,
    answers: Subscriber,
}

impl Inbox {
    async fn next(&mut self) -> Option<Answer> {
        let message = self.answers.next().await?;
        let is_word = message.subject.starts_with(&*self.name);
        Some(if is_word { Answer::Word(message) } else { Answer::Item(message) })
    }
}

/// Lets another machine have a message.
pub(crate) async fn give_back(client: &Client, message: &Message) {
    if let Some(reply) = &message.reply {
        say_now(client, reply.clone(), again()).await;
    }
}

impl fmt::Debug for Pulls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulls")
            .field("source", &self.source)
            .field("is_waiting", &lock(&self.waiter).is_some())
            .finish_non_exhaustive()
    }
}
