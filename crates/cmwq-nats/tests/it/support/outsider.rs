//! A program that takes items as machines do, and says of them what it is told to.

use std::time::Duration;

use async_nats::{Client, HeaderMap, Message, Subject, Subscriber};
use futures_util::StreamExt as _;
use tokio::runtime::{Builder, Runtime};

use super::{PATIENCE, Server};

/// In time, so that a test that waits for what does not come fails.
async fn next_of(messages: &mut Subscriber) -> Message {
    let next = tokio::time::timeout(PATIENCE, messages.next()).await;
    next.expect("a message in time").expect("a message before the end")
}

pub(crate) struct Outsider {
    runtime: Runtime,
    client: Client,
}

impl Outsider {
    pub(crate) fn new(server: &Server) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async_nats::connect(server.address())).unwrap();
        Self { runtime, client }
    }

    /// Takes the next item of a queue. Where to say what has become of it.
    pub(crate) fn take(&self, queue: &str) -> Subject {
        self.take_from(&format!("cmwq-run_{queue}.machines"))
    }

    /// Takes the next message of a stream's consumer.
    pub(crate) fn take_from(&self, consumer: &str) -> Subject {
        let (client, inbox) = (&self.client, self.client.new_inbox());
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{consumer}");
        self.runtime.block_on(async {
            let mut messages = client.subscribe(inbox.clone()).await.unwrap();
            client.publish_with_reply(next, inbox, "".into()).await.unwrap();
            next_of(&mut messages).await.reply.expect("a message")
        })
    }

    /// Hears from now on what anybody publishes there.
    pub(crate) fn listen(&self, subject: &str) -> Subscriber {
        self.runtime.block_on(async {
            let messages = self.client.subscribe(subject.to_owned()).await.unwrap();
            // An answer says that the broker has read what was sent before.
            self.client.request("$JS.API.INFO", "".into()).await.unwrap();
            messages
        })
    }

    /// Waits for so many messages. What they say.
    pub(crate) fn hear(&self, messages: Subscriber, many: usize) -> Vec<String> {
        self.hear_while(messages, |heard| heard.len() < many)
    }

    /// Waits for a message that says this. What all up to that say.
    pub(crate) fn hear_until(&self, messages: Subscriber, last: &str) -> Vec<String> {
        self.hear_while(messages, |heard| heard.last().is_none_or(|word| word != last))
    }

    fn hear_while(
        &self,
        mut messages: Subscriber,
        goes_on: impl Fn(&[String]) -> bool,
    ) -> Vec<String> {
        self.runtime.block_on(async {
            let mut heard = Vec::new();
            while goes_on(&heard) {
                let message = next_of(&mut messages).await;
                heard.push(String::from_utf8_lossy(&message.payload).into_owned());
            }
            // It needs the runtime for its end.
            drop(messages);
            heard
        })
    }

    /// Waits for a message. Where its answer goes.
    pub(crate) fn hear_one(&self, messages: Subscriber) -> Subject {
        self.hear_question(messages).1
    }

    /// Waits for a message. What it says, and where its answer goes.
    pub(crate) fn hear_question(&self, mut messages: Subscriber) -> (String, Subject) {
        self.runtime.block_on(async {
            let question = next_of(&mut messages).await;
            drop(messages);
            let asked = String::from_utf8_lossy(&question.payload).into_owned();
            (asked, question.reply.expect("a question"))
        })
    }

    /// Publishes to many subjects, faster than one who waits for each answer.
    pub(crate) fn publish(&self, subjects: impl Iterator<Item = String>) {
        self.publish_later(subjects, Duration::ZERO);
    }

    /// Items with a delay.
    pub(crate) fn publish_later(&self, subjects: impl Iterator<Item = String>, delay: Duration) {
        self.runtime.block_on(async {
            for subject in subjects {
                let mut headers = HeaderMap::new();
                headers.insert("Cmwq-Delay", delay.as_millis().to_string());
                self.client.publish_with_headers(subject, headers, "".into()).await.unwrap();
            }
            self.client.request("$JS.API.INFO", "".into()).await.unwrap();
        });
    }

    pub(crate) fn say(&self, of: &Subject, word: &str) {
        self.runtime.block_on(async {
            self.client.publish(of.clone(), word.to_owned().into()).await.unwrap();
            self.client.flush().await.unwrap();
        });
    }
}
