//! A program that takes items as machines do, and says of them what it is told to.

use async_nats::{Client, Subject};
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

    pub(crate) fn say(&self, of: &Subject, word: &'static str) {
        self.runtime.block_on(async {
            self.client.publish(of.clone(), word.into()).await.unwrap();
            self.client.flush().await.unwrap();
        });
    }
}
