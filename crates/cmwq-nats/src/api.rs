//! Asking the broker, over its restarts, and putting messages where it keeps them.
//!
//! JetStream's interface is JSON in requests and answers; the few words of it that are needed are
//! written and read here and by the callers.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_nats::client::{Request, RequestError, RequestErrorKind};
use async_nats::{Client, HeaderMap, Message, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use crate::broker::{ENDED, connected};
use crate::error::{Error, ErrorKind};

/// How long one try may take before it is repeated.
const TRY: Duration = Duration::from_secs(2);
/// Between tries that fail at once.
const PAUSE: Duration = Duration::from_millis(100);
/// `JetStream system temporarily unavailable`, `no quorum` and the like have this status, and pass.
const UNAVAILABLE: u64 = 503;
/// The header by which the broker knows a repetition, for two minutes.
pub(crate) const MESSAGE_ID: &str = "Nats-Msg-Id";

/// The header with an item's id, where the broker knows the message by another one.
pub(crate) const ITEM_ID: &str = "Cmwq-Id";

/// What the broker says when it says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct No {
    pub(crate) code: u64,
    pub(crate) text: String,
}

/// Its number for "no such stream".
pub(crate) const NO_STREAM: u64 = 10059;
/// Its number for "no such consumer".
pub(crate) const NO_CONSUMER: u64 = 10014;
/// Its number for "a message with this id is in process".
const IN_PROCESS: u64 = 10158;
/// How often one asks again what became of that, [`PAUSE`] apart: it takes some milliseconds.
const UNKNOWN_TRIES: u32 = 10;
/// Its number for "insufficient resources": it has no room for a message, or too much to do.
const NO_RESOURCES: u64 = 10023;
/// How often one asks again, [`PAUSE`] apart, since the latter passes.
const NO_RESOURCES_TRIES: u32 = 20;
/// Its number for "no such message".
pub(crate) const NO_MESSAGE: u64 = 10037;

impl fmt::Display for No {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (number {})", self.text, self.code)
    }
}

impl No {
    /// As an error of ours.
    pub(crate) fn to_error(&self, what: &str) -> Error {
        Error::new(ErrorKind::Refused, format!("the broker would not {what}: {self}"))
    }
}

/// Bytes of the headers' first line and their end.
const AROUND_HEADERS: usize = "NATS/1.0\r\n\r\n".len();
/// Bytes of a header beside its name and value.
const AROUND_HEADER: usize = ": \r\n".len();

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) subject: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Vec<u8>,
}

impl Question {
    /// To JetStream's interface.
    pub(crate) fn api(subject: &str, request: &Value) -> Self {
        let payload = if request.is_null() { Vec::new() } else { request.to_string().into() };
        Self { subject: format!("$JS.API.{subject}"), headers: HeaderMap::new(), payload }
    }

    /// A message to be stored. A repetition has the same `id`.
    pub(crate) fn message(subject: String, id: &str, payload: &[u8]) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(MESSAGE_ID, id);
        Self { subject, headers, payload: payload.to_vec() }
    }

    /// What another message had, for another place. Other programs queue items that are as large as
    /// the broker takes: what is to be said of them is [added](Self::add) as far as there is room.
    pub(crate) fn moved(subject: String, payload: &[u8]) -> Self {
        Self { subject, headers: HeaderMap::new(), payload: payload.to_vec() }
    }

    /// Adds a header, unless the message is larger than `limit` with it.
    pub(crate) fn add(&mut self, name: &'static str, value: &str, limit: usize) {
        if self.room(name, limit).is_some_and(|room| value.len() <= room) {
            self.headers.insert(name, value);
        }
    }

    /// The same message under another id, if it has one: under its own with 0.
    fn with_id_number(&self, number: u32, limit: usize) -> Self {
        let mut message = self.clone();
        let Some(id) = self.headers.get(MESSAGE_ID).filter(|_| number > 0) else { return message };
        let all = self.headers.iter();
        let all = all.flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
        let others = all.filter(|(name, _)| AsRef::<str>::as_ref(*name) != MESSAGE_ID);
        message.headers = others.map(|(name, value)| (name.clone(), value.clone())).collect();
        if self.headers.get(ITEM_ID).is_none() {
            message.add(ITEM_ID, id.as_str(), limit);
        }
        message.add(MESSAGE_ID, &format!("{}~{number}", id.as_str()), limit);
        message
    }

    /// How long the value of another header may be.
    pub(crate) fn room(&self, name: &str, limit: usize) -> Option<usize> {
        let around = if self.headers.is_empty() { AROUND_HEADERS } else { 0 };
        limit.checked_sub(self.size() + around + name.len() + AROUND_HEADER)
    }

    /// Its bytes, as the broker counts them.
    pub(crate) fn size(&self) -> usize {
        let headers = self.headers.iter().flat_map(|(name, values)| {
            let name: &str = name.as_ref();
            values.iter().map(|value| name.len() + value.as_str().len() + AROUND_HEADER)
        });
        let around = if self.headers.is_empty() { 0 } else { AROUND_HEADERS };
        around + headers.sum::<usize>() + self.payload.len()
    }
}

/// Asks until the broker has answered, for as long as `patience`. `what` completes "could not …".
pub(crate) async fn ask(
    client: &Client,
    what: &str,
    question: Question,
    patience: Duration,
) -> Result<Result<Value, No>, Error> {
    insist(client, what, question, patience, |answer| read(&answer.payload).map_err(|no| no.text))
        .await
}

/// The first message of a stream from a number on, if there is one: the message itself, with what
/// the broker adds to its headers. See [`ask`].
pub(crate) async fn message_from(
    client: &Client,
    what: &str,
    (stream, sequence): (&str, u64),
    patience: Duration,
) -> Result<Option<Message>, Error> {
    let request = json!({ "seq": sequence, "next_by_subj": ">" });
    let question = Question::api(&format!("DIRECT.GET.{stream}"), &request);
    insist(client, what, question, patience, |answer| match answer.status {
        None => Ok(Some(answer)),
        Some(StatusCode::NOT_FOUND) => Ok(None),
        Some(other) => Err(other.to_string()),
    })
    .await
}

/// `read` makes an answer, or says why it is none.
///
/// Nothing is sent without a connection, nor when `patience` is over: the client would keep it, and
/// send it as soon as there is a connection again, when the caller may have been told long ago that
/// it failed. The first try may take [`TRY`], whatever is left of `patience`.
async fn insist<T>(
    client: &Client,
    what: &str,
    question: Question,
    patience: Duration,
    read: impl Fn(Message) -> Result<T, String>,
) -> Result<T, Error> {
    // `None`: never, as with `Duration::MAX`.
    let deadline = Instant::now().checked_add(patience);
    // What came of the last try. `None`: nothing was sent.
    let mut tried = None;
    loop {
        let is_connected = match deadline {
            Some(deadline) => timeout_at(deadline, connected(client)).await.ok(),
            None => Some(connected(client).await),
        };
        match is_connected {
            Some(true) => {}
            Some(false) => return Err(over(what, tried)),
            None => return Err(in_vain(what, patience, tried)),
        }
        let end = Instant::now() + TRY;
        let end = deadline.filter(|_| tried.is_some()).map_or(end, |deadline| end.min(deadline));
        let trouble = match timeout_at(end, send(client, &question)).await {
            Ok(Ok(answer)) => match read(answer) {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            },
            Ok(Err(error)) if error.kind() == RequestErrorKind::MaxPayloadExceeded => {
                let text = format!(
                    "could not {what}: {} bytes are more than the broker takes ({}): queue a name \
                     of where they are, or raise its max_payload",
                    question.size(),
                    client.max_payload()
                );
                return Err(Error::invalid(text));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer came".to_owned(),
        };
        tried = Some(trouble);
        sleep(PAUSE).await;
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(in_vain(what, patience, tried));
        }
    }
}

/// One try, which has no limit of time: the client's own would not count how long a full channel to
/// the connection is waited for.
async fn send(client: &Client, question: &Question) -> Result<Message, RequestError> {
    let request = Request::new().payload(question.payload.clone().into()).timeout(None);
    let request = match question.headers.is_empty() {
        true => request,
        false => request.headers(question.headers.clone()),
    };
    client.send_request(question.subject.clone(), request).await
}

/// Why nothing can come of it.
fn over(what: &str, tried: Option<String>) -> Error {
    let was_sent = tried.is_some();
    let sent = if was_sent { "it may have been done all the same" } else { "nothing was sent" };
    Error::new(ErrorKind::Unreachable, format!("could not {what}, and {sent}: {ENDED}"))
}

/// Why nothing came of it for so long.
fn in_vain(what: &str, patience: Duration, tried: Option<String>) -> Error {
    let why = match tried {
        Some(trouble) => format!("{trouble}; it may have been done all the same"),
        None => "there is no connection to the broker, and nothing was sent".to_owned(),
    };
    let long = if patience.is_zero() { String::new() } else { format!(" for {patience:?}") };
    let text = format!(
        "could not {what}{long}: {why}. Look whether nats-server runs, with -js, still has its \
         streams, and lets this login use them"
    );
    Error::new(ErrorKind::Unreachable, text)
}

/// An answer, a no, or what else came, which may pass.
fn read(payload: &[u8]) -> Result<Result<Value, No>, No> {
    let answer: Value =
        serde_json::from_slice(payload).map_err(|error| No { code: 0, text: error.to_string() })?;
    let Some(error) = answer.get("error") else { return Ok(Ok(answer)) };
    let text = error["description"].as_str().unwrap_or("no reason given").to_owned();
    let is_over = error["code"] != UNAVAILABLE || limit_in(&text).is_some();
    let no = No { code: error["err_code"].as_u64().unwrap_or(0), text };
    if is_over { Ok(Err(no)) } else { Err(no) }
}

/// Which limit a refused message would exceed. All have the number 10077, "the message could not be
/// stored": only the text tells.
fn limit_in(text: &str) -> Option<Stored> {
    [
        ("per subject", Stored::Occupied),
        ("maximum messages", Stored::Full),
        ("maximum bytes", Stored::NoRoom),
    ]
    .into_iter()
    .find_map(|(words, limit)| text.contains(words).then_some(limit))
}

/// What has become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It is there, now or since an earlier try.
    Here,
    /// There is another one with its subject.
    Occupied,
    /// The stream has as many messages as it may have.
    Full,
    /// The stream has as many bytes as an operator allows, or the broker.
    NoRoom,
}

/// Stores a message; see [`ask`].
///
/// A cluster knows the id of a message before it has stored it, and also if it then does not: a
/// repetition is answered without saying which. If that lasts, the message was refused, and gets
/// another id: always the same ones in the same order, so that another machine which tries the
/// message again is told of one that was stored under any of them.
pub(crate) async fn store(
    client: &Client,
    message: Question,
    patience: Duration,
) -> Result<Stored, Error> {
    let what = format!("queue '{}'", message.subject);
    let mut number = 0;
    let answer = loop {
        let question = message.with_id_number(number, client.max_payload());
        let (tries, no_resources) = (AtomicU32::new(0), AtomicU32::new(0));
        let read = |answer: Message| match read(&answer.payload) {
            Err(No { code: NO_RESOURCES, text })
                if no_resources.fetch_add(1, Ordering::Relaxed) >= NO_RESOURCES_TRIES =>
            {
                Ok(Some(Err(No { code: NO_RESOURCES, text })))
            }
            Err(No { text, .. }) => Err(text),
            Ok(answer) if !is_unknown(&answer) => Ok(Some(answer)),
            _ if tries.fetch_add(1, Ordering::Relaxed) >= UNKNOWN_TRIES => Ok(None),
            _ => Err("the broker does not say whether it has stored the message".to_owned()),
        };
        if let Some(answer) = insist(client, &what, question, patience, read).await? {
            break answer;
        }
        number += 1;
    };
    match answer {
        Ok(_) => Ok(Stored::Here),
        Err(no) if no.code == NO_RESOURCES => Ok(Stored::NoRoom),
        Err(no) => limit_in(&no.text).ok_or_else(|| no.to_error(&what)),
    }
}

/// Whether it says of a repetition neither that the message is there nor that it is not.
fn is_unknown(answer: &Result<Value, No>) -> bool {
    match answer {
        Ok(answer) => answer["duplicate"] == true && answer["seq"] == 0,
        Err(no) => no.code == IN_PROCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the client counts, which refuses what is larger.
    #[test]
    fn headers_are_added_while_there_is_room() {
        let payload = [0; 100];
        let mut message = Question::moved("a".to_owned(), &payload);
        assert_eq!(message.size(), 100);
        assert_eq!(message.room("Name", 119), None);
        message.add("Name", "value", 124);
        assert!(message.headers.is_empty());
        message.add("Name", "value", 125);
        // NATS/1.0, Name: value, and an empty line.
        assert_eq!(message.size(), 100 + 10 + 13 + 2);
        assert_eq!(message.room("Other", 140), Some(6));
        message.add("Other", "longer", 140);
        assert_eq!(message.size(), 140);
    }

    #[test]
    fn another_id_leaves_the_item_the_one_that_it_had() {
        let of = |message: &Question, name| message.headers.get(name).map(ToString::to_string);
        let message = Question::message("a".to_owned(), "call", b"payload");
        let same = message.with_id_number(0, 1000);
        assert_eq!((of(&same, MESSAGE_ID), of(&same, ITEM_ID)), (Some("call".to_owned()), None));
        let mut with_more = message.clone();
        with_more.headers.insert("Other", "value");
        let second = with_more.with_id_number(2, 1000);
        assert_eq!(of(&second, MESSAGE_ID).as_deref(), Some("call~2"));
        assert_eq!(of(&second, ITEM_ID).as_deref(), Some("call"));
        assert_eq!(of(&second, "Other").as_deref(), Some("value"));
        assert_eq!((&*second.subject, &*second.payload), ("a", &b"payload"[..]));
        // What has no id gets none, and no id what has no room for one.
        assert!(Question::moved("a".to_owned(), b"").with_id_number(1, 1000).headers.is_empty());
        assert!(message.with_id_number(1, 7).headers.is_empty());
    }

    #[test]
    fn a_repetition_may_be_answered_without_an_answer() {
        let is_unknown = |answer: &str| is_unknown(&read(answer.as_bytes()).unwrap());
        assert!(is_unknown(r#"{"stream":"s","seq":0,"duplicate":true}"#));
        assert!(is_unknown(
            r#"{"error":{"code":409,"err_code":10158,"description":"in process"}}"#
        ));
        assert!(!is_unknown(r#"{"stream":"s","seq":7,"duplicate":true}"#));
        assert!(!is_unknown(r#"{"stream":"s","seq":7}"#));
        assert!(!is_unknown(
            r#"{"error":{"code":503,"err_code":10077,"description":"maximum messages"}}"#
        ));
    }

    #[test]
    fn what_passes_is_asked_again_and_what_stays_is_a_no() {
        assert_eq!(read(br#"{"seq":7}"#).unwrap().unwrap()["seq"], 7);
        let no =
            read(br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#);
        assert_eq!(no.unwrap().unwrap_err().code, NO_STREAM);
        let full = |what| {
            let text = format!("maximum {what} exceeded");
            json!({ "error": { "code": 503, "err_code": 10077, "description": text } }).to_string()
        };
        for (what, limit) in [
            ("messages", Stored::Full),
            ("messages per subject", Stored::Occupied),
            ("bytes", Stored::NoRoom),
        ] {
            let no = read(full(what).as_bytes()).unwrap().unwrap_err();
            assert_eq!(limit_in(&no.text), Some(limit), "{what}");
        }
        let starts = br#"{"error":{"code":503,"err_code":10008,"description":"unavailable"}}"#;
        assert_eq!(read(starts).unwrap_err().text, "unavailable");
        assert!(read(b"").is_err());
    }
}
