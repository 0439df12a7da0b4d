//! A program that takes items as machines do, and says of them what it is told to.

use async_nats::{Client, Subject, Subscriber};
use futures_util::StreamExt as _;
use tokio::runtime::{Builder, Runtime};

use super::Server;

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
        let (client, inbox) = (&self.client, self.client.new_inbox());
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.cmwq-run_{queue}.machines");
        self.runtime.block_on(async {
            let mut messages = client.subscribe(inbox.clone()).await.unwrap();
            client.publish_with_reply(next, inbox, "".into()).await.unwrap();
            messages.next().await.unwrap().reply.expect("a message")
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

    /// Waits for so many messages.
    pub(crate) fn hear(&self, mut messages: Subscriber, many: usize) {
        self.runtime.block_on(async {
            for _ in 0..many {
                messages.next().await.unwrap();
            }
            // It needs the runtime for its end.
            drop(messages);
        });
    }

    pub(crate) fn say(&self, of: &Subject, word: &'static str) {
        self.runtime.block_on(async {
            self.client.publish(of.clone(), word.into()).await.unwrap();
            self.client.flush().await.unwrap();
        });
    }
}
