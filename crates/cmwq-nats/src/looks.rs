//! What a machine looks at once in a while: how many items wait at the broker, what has changed of
//! the queue, and whether the broker still has it.
//!
//! Each message that comes tells how many wait. A look is taken while none comes, because something
//! runs or the limit is reached, and when one comes after a rest. So an idle machine takes none;
//! but for one that requests of items come to nothing, until the broker answers well again.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use std::{iter, mem};

use async_nats::Client;
use cmwq::OutsideBacklog;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use crate::api::{self, Question};
use crate::error::Error;
use crate::lock::lock;
use crate::pulls::Pulls;
use crate::queue::number;
use crate::words::Words;

/// Between two looks.
const LOOKS: Duration = Duration::from_secs(1);

/// Why a machine gets no items, as of the last look.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Option<Error>>);

impl Trouble {
    pub(crate) fn get(&self) -> Option<Error> {
        lock(&self.0).clone()
    }

    fn set(&self, trouble: Option<Error>) {
        *lock(&self.0) = trouble;
    }
}

/// See the module.
pub(crate) struct Looks {
    pub(crate) client: Client,
    /// Completes "could not …".
    pub(crate) what: String,
    /// Requests of items.
    pub(crate) items: Arc<Pulls>,
    /// Requests of delayed ones, and of held-up ones.
    pub(crate) due: [Arc<Pulls>; 2],
    /// How many items wait, as `cmwq top` shows it with the workqueue.
    pub(crate) outside: Weak<OutsideBacklog>,
    pub(crate) dead_after: Arc<watch::Sender<Duration>>,
    /// A message has come, or a request came to nothing.
    pub(crate) has_news: Arc<Notify>,
    pub(crate) trouble: Arc<Trouble>,
    pub(crate) words: Arc<Words>,
}

impl Looks {
    /// Looks until `closing` becomes true.
    pub(crate) async fn take(self, mut closing: watch::Receiver<bool>) {
        let mut is_busy = true;
        loop {
            let next = async {
                sleep(LOOKS).await;
                if !is_busy {
                    self.has_news.notified().await;
                }
            };
            tokio::select! {
                () = next => {}
                _ = closing.wait_for(|is_closing| *is_closing) => return,
            }
            let seen = self.look().await;
            // After trouble another one is taken.
            is_busy = !matches!(seen, Ok(false));
            self.trouble.set(seen.err());
        }
    }

    /// Whether items wait or run.
    async fn look(&self) -> Result<bool, Error> {
        let info = self.ask(&self.items).await?;
        let (waiting, taken) = (number(&info["num_pending"]), number(&info["num_ack_pending"]));
        if let Some(outside) = self.outside.upgrade() {
            outside.set(waiting);
        }
        let now = dead_after(&info);
        self.dead_after.send_if_modified(|known| mem::replace(known, now) != now);
        let all = || iter::once(&self.items).chain(&self.due);
        for pulls in all() {
            if let Some(trouble) = pulls.trouble() {
                // The broker may say what is wrong.
                self.ask(pulls).await?;
                return Err(trouble);
            }
        }
        if let Some(trouble) = self.words.trouble() {
            return Err(trouble);
        }
        Ok(waiting + taken > 0 || !all().all(|pulls| pulls.is_well()))
    }

    async fn ask(&self, pulls: &Pulls) -> Result<Value, Error> {
        let question = Question::api(&pulls.info_path(), &Value::Null);
        let answer = api::ask(&self.client, &self.what, question, Duration::ZERO).await?;
        answer.map_err(|no| no.to_error(&self.what))
    }
}

/// How long until the broker takes a silent machine for dead, as it tells of the consumer.
pub(crate) fn dead_after(consumer: &Value) -> Duration {
    Duration::from_nanos(number(&consumer["config"]["ack_wait"]))
}
