//! Asking the broker, over its restarts, and putting messages where it keeps them.
//!
//! JetStream's interface is JSON in requests and answers; the few words of it that are needed are
//! written and read here and by the callers.

use std::fmt;
use std::time::Duration;

use async_nats::client::{Request, RequestErrorKind};
use async_nats::{Client, HeaderMap, Message, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use crate::broker::connected;
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
    insist(client, what, question, patience, |answer| read(&answer.payload)).await
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
async fn insist<T>(
    client: &Client,
    what: &str,
    question: Question,
    patience: Duration,
    read: impl Fn(Message) -> Result<T, String>,
) -> Result<T, Error> {
    // `None`: never, as with `Duration::MAX`.
    let deadline = Instant::now().checked_add(patience);
    loop {
        let request = Request::new().payload(question.payload.clone().into()).timeout(Some(TRY));
        let request = match question.headers.is_empty() {
            true => request,
            false => request.headers(question.headers.clone()),
        };
        let trouble = match client.send_request(question.subject.clone(), request).await {
            Ok(answer) => match read(answer) {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            },
            Err(error) if error.kind() == RequestErrorKind::MaxPayloadExceeded => {
                let text = format!(
                    "could not {what}: {} bytes are more than the broker takes ({}): queue a name \
                     of where they are, or raise its max_payload",
                    question.size(),
                    client.max_payload()
                );
                return Err(Error::invalid(text));
            }
            Err(error) => error.to_string(),
        };
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::new(
                ErrorKind::Unreachable,
                format!(
                    "could not {what} for {patience:?}: {trouble}; it may have been done all the \
                     same. Look whether nats-server runs, with -js, still has its streams, and \
                     lets this login use them"
                ),
            ));
        }
        sleep(PAUSE).await;
        match deadline {
            Some(deadline) => _ = timeout_at(deadline, connected(client)).await,
            None => connected(client).await,
        }
    }
}

/// An answer, a no, or what else came.
fn read(payload: &[u8]) -> Result<Result<Value, No>, String> {
    let answer: Value = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    let Some(error) = answer.get("error") else { return Ok(Ok(answer)) };
    let text = error["description"].as_str().unwrap_or("no reason given").to_owned();
    if error["code"] == UNAVAILABLE && !text.contains("maximum messages") {
        return Err(text);
    }
    Ok(Err(No { code: error["err_code"].as_u64().unwrap_or(0), text }))
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
}

/// Stores a message; see [`ask`].
pub(crate) async fn store(
    client: &Client,
    message: Question,
    patience: Duration,
) -> Result<Stored, Error> {
    let what = format!("queue '{}'", message.subject);
    match ask(client, &what, message, patience).await? {
        Ok(_) => Ok(Stored::Here),
        // Both have the number 10077, "the message could not be stored": only the text tells.
        Err(no) if no.text.contains("per subject") => Ok(Stored::Occupied),
        Err(no) if no.text.contains("maximum messages") => Ok(Stored::Full),
        Err(no) => Err(no.to_error(&what)),
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
    fn what_passes_is_asked_again_and_what_stays_is_a_no() {
        assert_eq!(read(br#"{"seq":7}"#).unwrap().unwrap()["seq"], 7);
        let no =
            read(br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#);
        assert_eq!(no.unwrap().unwrap_err().code, NO_STREAM);
        let full =
            br#"{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}"#;
        assert!(read(full).unwrap().is_err());
        let starts = br#"{"error":{"code":503,"err_code":10008,"description":"unavailable"}}"#;
        assert_eq!(read(starts), Err("unavailable".to_owned()));
        assert!(read(b"").is_err());
    }
}
