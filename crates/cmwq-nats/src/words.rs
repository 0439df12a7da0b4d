//! What the broker is told of messages that it has delivered, and when.
//!
//! A "-NAK" with a delay sets the only timer that a consumer has at the broker to 10 ms from then,
//! whatever it was set to. By that timer alone the broker finds whose time has come: of delays, and
//! of machines that have died. So while such words come more often than every 10 ms, from whichever
//! machines, it finds nobody. A "-NAK" without one does not touch the timer. So what is to come
//! soon is kept here, and then given back without a delay; what is to come later is asked for in
//! bursts, with pauses in between.
//!
//! Words need no answer, and a login that may not say them is told nothing: its items would run
//! again and again. So once in a while the word that an item is done is a question, which the
//! broker answers.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use async_nats::client::{Request, RequestErrorKind};
use async_nats::connection::State;
use async_nats::{Client, Subject};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::broker::connected;
use crate::error::{Error, ErrorKind};
use crate::lock::lock;
use crate::pulls::closes;

/// So often a word is a question.
const QUESTIONS: Duration = Duration::from_secs(1);
/// How long the broker may take to answer it.
const TRY: Duration = Duration::from_secs(2);
/// So many questions without an answer, one after another, are trouble.
const LOST: u32 = 2;
/// The broker holds a message back for no longer than this; then one looks again.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Bursts of words in the time that a message is kept here.
const BURSTS: u32 = 5;

/// Not to be delivered again.
pub(crate) fn done() -> String {
    "+ACK".to_owned()
}

/// To be delivered again, at once.
pub(crate) fn again() -> String {
    "-NAK".to_owned()
}

/// Not before `delay` has passed.
fn not_before(delay: Duration) -> String {
    format!(r#"-NAK {{"delay":{}}}"#, delay.min(LONGEST).as_nanos())
}

/// The machine that has it is alive.
pub(crate) fn alive() -> String {
    "+WPI".to_owned()
}

/// If that is lost, the message comes again.
pub(crate) async fn say(client: &Client, reply: Subject, word: String) {
    let _ = client.publish(reply, word.into()).await;
}

/// As [`say`], where there is a connection. Else the client would keep it, and say it with the next
/// one, when it may be of a delivery to another machine.
pub(crate) async fn say_now(client: &Client, reply: Subject, word: String) {
    if client.connection_state() == State::Connected {
        say(client, reply, word).await;
    }
}

/// A message that was delivered here, and that the broker has not been told of yet.
pub(crate) struct Delivery {
    pub(crate) client: Client,
    /// Where it is told.
    pub(crate) reply: Subject,
    /// How long until the broker takes this machine for dead.
    pub(crate) silence: Duration,
    pub(crate) closing: watch::Receiver<bool>,
}

impl Delivery {
    /// Gives it back when `delay` has passed; on closing at once, with what is left of that.
    /// `alive` ends with it.
    pub(crate) async fn give_back_after<T>(mut self, delay: Duration, alive: T) {
        let begun = Instant::now();
        self.pause(delay).await;
        let left = delay.saturating_sub(begun.elapsed());
        let word = if left.is_zero() { again() } else { not_before(left) };
        // Later, it would be of a delivery to another machine.
        let is_ours = timeout(self.silence / 2, connected(&self.client)).await == Ok(true);
        drop(alive);
        if is_ours {
            self.say(word).await;
        }
    }

    /// Has it delivered again in good time: `kept` before `delay` has passed. Told in bursts.
    pub(crate) async fn ask_for_later(mut self, delay: Duration, kept: Duration) {
        let begun = Instant::now();
        // At the same time on all machines.
        let burst = (kept / BURSTS).as_nanos().max(1);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let left = burst - now.as_nanos() % burst;
        self.pause(Duration::from_nanos(u64::try_from(left).unwrap_or(0))).await;
        let left = delay.saturating_sub(begun.elapsed()).saturating_sub(kept);
        self.say(not_before(left)).await;
    }

    /// Waits, and says all the while that the machine is alive. `false`: it was closed.
    pub(crate) async fn keep(&mut self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            self.pause(left.min(self.silence / 3)).await;
            if *self.closing.borrow() {
                return false;
            }
            self.say(alive()).await;
            if Instant::now() >= end {
                return true;
            }
        }
    }

    pub(crate) async fn say(&self, word: String) {
        say_now(&self.client, self.reply.clone(), word).await;
    }

    /// Until that has passed, or the machine is closed.
    async fn pause(&mut self, pause: Duration) {
        let _ = timeout(pause, closes(&mut self.closing)).await;
    }
}

/// Words of one machine about items.
pub(crate) struct Words {
    client: Client,
    state: Mutex<Asked>,
    /// For who is told of trouble.
    has_news: Arc<Notify>,
}

/// Questions.
#[derive(Default)]
struct Asked {
    /// One is on its way.
    is_asking: bool,
    last: Option<Instant>,
    /// Those without an answer since the last answer.
    lost: u32,
    /// The subject of the last one of those.
    subject: String,
}

impl Words {
    pub(crate) fn new(client: Client, has_news: Arc<Notify>) -> Self {
        Self { client, state: Mutex::default(), has_news }
    }

    /// Says that an item is done; now and then as a question.
    pub(crate) async fn done(&self, reply: Subject) {
        if !self.is_time_to_ask() {
            return say(&self.client, reply, done()).await;
        }
        if self.ask(&reply, done()).await == Some(false) {
            // Not once more that it is done: the queue may have been destroyed and opened again,
            // and another item have its number.
            let _ = self.ask(&reply, alive()).await;
        }
        self.state().is_asking = false;
    }

    /// Whether the broker hears a word, as it answers. `None`: the connection was lost.
    pub(crate) async fn ask(&self, reply: &Subject, word: String) -> Option<bool> {
        let request = Request::new().payload(word.into()).timeout(None);
        let answer = timeout(TRY, self.client.send_request(reply.clone(), request)).await;
        let is_heard = match answer {
            Ok(Ok(_)) => true,
            // There is no such consumer any more, as others say.
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => true,
            Ok(Err(_)) => return None,
            Err(_) if self.client.connection_state() != State::Connected => return None,
            Err(_) => false,
        };
        let mut state = self.state();
        state.last = Some(Instant::now());
        if is_heard {
            state.lost = 0;
        } else {
            state.lost = state.lost.saturating_add(1);
            reply.as_str().clone_into(&mut state.subject);
            self.has_news.notify_one();
        }
        Some(is_heard)
    }

    fn is_time_to_ask(&self) -> bool {
        let mut state = self.state();
        let is_time = state.lost > 0 || state.last.is_none_or(|last| last.elapsed() >= QUESTIONS);
        let asks = is_time && !state.is_asking;
        state.is_asking |= asks;
        asks
    }

    /// Why words come to nothing. One may be lost with a connection: that is none.
    pub(crate) fn trouble(&self) -> Option<Error> {
        let state = self.state();
        (state.lost >= LOST).then(|| {
            let text = format!(
                "the broker does not hear that items are done, and gives them to machines again \
                 and again: it does not answer. Look whether this login may publish to \
                 $JS.ACK.>, such as {}",
                state.subject
            );
            Error::new(ErrorKind::Unreachable, text)
        })
    }

    fn state(&self) -> MutexGuard<'_, Asked> {
        lock(&self.state)
    }
}
