//! A machine that serves a queue, as programs see it.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use cmwq::Workqueue;
use cmwq::sysfs::{Attribute, Mode};

use crate::error::{Error, ErrorKind};
use crate::item::Item;
use crate::machine::{Counts, Machine, Plan};
use crate::names::Address;
use crate::queue::SharedQueue;

/// Why a function did not do its work: whatever `?` makes of an error, and texts.
pub type Failure = Box<dyn StdError + Send + Sync>;

/// What is called for an item.
pub(crate) type Function = Box<dyn Fn(&Item) -> Result<(), Failure> + Send + Sync>;

/// What is called for a failure.
pub(crate) type OnFailure = Box<dyn Fn(&Item, &str, bool) + Send + Sync>;

/// How often an item is tried.
const ATTEMPTS: u32 = 5;
/// How long it waits before the second time.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A description of how this machine serves a queue; see [`SharedQueue::serve`].
#[must_use = "a machine serves a queue only when `start` is called"]
pub struct Server {
    queue: SharedQueue,
    workqueue: Option<Workqueue>,
    functions: HashMap<String, Function>,
    attempts: u32,
    retry_after: Duration,
    on_failure: Option<OnFailure>,
    wrong: Option<Error>,
}

/// A machine that serves a queue. Dropping it is [`close`](Self::close), and blocks as long.
#[must_use = "a machine serves the queue until this is dropped"]
pub struct Serving {
    machine: Arc<Machine>,
    /// It was closed.
    is_over: bool,
}

/// What a machine has done since it began; see [`Serving::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServingStats {
    /// Items that were taken.
    pub taken: u64,
    /// Of those, items that had been delivered before: to a machine that died, or whose function
    /// failed. The runs of the former may have been the second ones.
    pub taken_again: u64,
    /// Runs that ended well.
    pub completed: u64,
    /// Runs that ended with an error or a panic.
    pub failed: u64,
    /// Items that were given up.
    pub dead: u64,
}

impl Server {
    pub(crate) fn new(queue: SharedQueue) -> Self {
        let (attempts, retry_after) = (ATTEMPTS, RETRY_AFTER);
        let functions = HashMap::new();
        let (on_failure, wrong) = (None, None);
        Self { queue, workqueue: None, functions, attempts, retry_after, on_failure, wrong }
    }

    /// The workqueue on whose pool the items run: the next one is taken when that pool would start
    /// another item. Several shared queues, and a program's own items, may use one workqueue.
    /// Without this, it is a managed workqueue with the shared queue's name.
    ///
    /// While the machine serves, there is always an item in that workqueue, so to drain it waits
    /// for [`close`](Serving::close). When the workqueue is closed, or the library shut down, the
    /// machine [serves](Serving::is_serving) no more: who waits for that waits for what runs, and
    /// two seconds at most for a message.
    ///
    /// An idle machine has a place there for up to a second at a time, in which it waits for a
    /// message: what else is queued on an [ordered](cmwq::Builder::ordered) workqueue waits so
    /// long, and so it does on one of which all other places of
    /// [`max_active`](cmwq::Builder::max_active) are taken.
    ///
    /// Of a [per-CPU](cmwq::Builder::percpu) workqueue only the CPU is used on which this machine
    /// is started. A [BH](cmwq::Builder::bh) workqueue cannot be used: its items must not block.
    pub fn on(mut self, workqueue: &Workqueue) -> Self {
        self.workqueue = Some(workqueue.clone());
        self
    }

    /// What is called for the items that were queued for `name`. It may block in any way: the pool
    /// notices and takes another item. `Ok`: the item is done. An error or a panic: it is tried
    /// again, or given up.
    ///
    /// **It is called AT LEAST ONCE for each item**: see [`Item`].
    ///
    /// A function that never returns keeps its item for as long as the process lives: `cmwq dump
    /// --stuck` shows it, and [the watchdog](cmwq::watchdog).
    pub fn function(
        mut self,
        name: &str,
        function: impl Fn(&Item) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Self {
        if let Err(error) = Address::unique(name, "") {
            self.wrong.get_or_insert(error);
        }
        self.functions.insert(name.to_owned(), Box::new(function));
        self
    }

    /// After how many deliveries an item is given up, that is, moved to the dead-letter subject
    /// `cmwq.dead.QUEUE.FUNCTION.ID` with the reason in the header `Cmwq-Error`: at least 1, and 5
    /// unless said otherwise. An item that fails is given up with the delivery of this number, or a
    /// later one.
    ///
    /// Deliveries to machines that died count, so an item that kills its process is given up, too.
    /// So do those to machines that gave the item back without running it, since they were closed
    /// or cut off in that moment. These cannot be told from the others, so an item of which no
    /// machine says anything has three deliveries more.
    ///
    /// An item for which this machine has no function counts as failed: start new machines before
    /// programs that queue for new functions.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// How long an item waits before its second attempt; twice as long before each further one, up
    /// to a minute. 500 ms unless said otherwise.
    ///
    /// It waits on this machine, and then goes to whichever is free. If the machine is closed
    /// meanwhile, what is left of the time goes with the item; if it dies, the item comes after
    /// [`dead_after`](crate::QueueBuilder::dead_after).
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = delay;
        self
    }

    /// What is called with the reason when an attempt on this machine has failed, to log or count
    /// it: with the item, the error or panic as a text, and whether this was the last attempt, so
    /// that the item becomes a dead letter now. Else it is tried again, unless it was cancelled. It
    /// is called on the thread of the function, before the broker is told; what it panics with goes
    /// to the panic hook.
    ///
    /// Attempts of machines that died are known by nobody, but for the last: of an item of which no
    /// machine has said anything, it is told when it is given up.
    pub fn on_failure(mut self, told: impl Fn(&Item, &str, bool) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Box::new(told));
        self
    }

    /// Begins to take items, and goes on when the broker was away. Waits for one answer of the
    /// broker.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput): the name of a function, or none was given; or a
    /// BH workqueue. [`Local`](ErrorKind::Local): the workqueue could not be made, or is closed.
    /// [`Unreachable`](ErrorKind::Unreachable): the broker does not answer.
    /// [`Refused`](ErrorKind::Refused): somebody has removed the queue since it was opened.
    pub fn start(self) -> Result<Serving, Error> {
        let Self { queue, workqueue, functions, attempts, retry_after, on_failure, wrong } = self;
        if let Some(error) = wrong {
            return Err(error);
        }
        if functions.is_empty() {
            return Err(Error::invalid(format!(
                "nobody can serve queue '{}' without a function: call `function` before `start`",
                queue.name()
            )));
        }
        let workqueue = match workqueue {
            Some(workqueue) if is_bh(&workqueue) => {
                return Err(Error::invalid(format!(
                    "queue '{}' cannot be served on workqueue '{}': the items of a BH workqueue \
                     must not block, and a machine waits for messages there; give `on` one of \
                     another kind",
                    queue.name(),
                    workqueue.name()
                )));
            }
            Some(workqueue) => workqueue,
            None => local_workqueue(queue.name())?,
        };
        let plan = Plan { queue, workqueue, functions, attempts, retry_after, on_failure };
        Ok(Serving { machine: Machine::start(plan)?, is_over: false })
    }
}

/// Of the per-CPU workqueues only BH ones have a limit that cannot be changed.
fn is_bh(workqueue: &Workqueue) -> bool {
    let attributes = workqueue.sysfs();
    attributes.show(Attribute::PerCpu).is_ok_and(|is_percpu| is_percpu == "1")
        && attributes.mode(Attribute::MaxActive) == Some(Mode::ReadOnly)
}

/// Names of workqueues are shorter than those of shared queues.
fn local_workqueue(name: &str) -> Result<Workqueue, Error> {
    let name = &name[..name.len().min(31)];
    Workqueue::new(name).map_err(|error| {
        let text = format!("the workqueue '{name}' could not be made on this machine: {error}");
        Error::new(ErrorKind::Local, text)
    })
}

impl Serving {
    /// Takes no more items, and waits until those that run have finished: without a limit of time,
    /// so for as long as a function takes. An item that comes in this moment goes back to the
    /// broker; one that it has sent just before it knows that this machine ends may go to another
    /// one only after [`dead_after`](crate::QueueBuilder::dead_after), as if this one had died.
    ///
    /// Called by one of the queue's own functions on this machine it does not wait, since that
    /// would be for the caller: those that run finish by themselves; nor in a callback of the NATS
    /// client, whose thread those that run need. A function must not wait for
    /// another thread that closes the machine, nor an item of the workqueue close it where there is
    /// no place for another item.
    pub fn close(self) {}

    /// As [`close`](Self::close), and waits at most so long. `false`: items still run. They finish
    /// by themselves, and the broker is told of them, as long as the process lives; it then gives
    /// those that had not finished to other machines, after
    /// [`dead_after`](crate::QueueBuilder::dead_after).
    pub fn close_timeout(mut self, limit: Duration) -> bool {
        self.is_over = true;
        self.machine.close(Some(limit))
    }

    /// The workqueue on whose pool the items run.
    #[must_use]
    pub fn workqueue(&self) -> &Workqueue {
        self.machine.workqueue()
    }

    /// What this machine has done so far.
    #[must_use]
    pub fn stats(&self) -> ServingStats {
        let Counts { taken, taken_again, completed, failed, dead } = self.machine.counts();
        let read = crate::machine::read;
        ServingStats {
            taken: read(taken),
            taken_again: read(taken_again),
            completed: read(completed),
            failed: read(failed),
            dead: read(dead),
        }
    }

    /// It still takes items. `false`: its workqueue takes none, since that was closed, or the
    /// library shut down; or the connection has ended for good, as [`trouble`](Self::trouble) says
    /// then. A machine that waits for the broker to come back serves.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.machine.is_serving()
    }

    /// Why this machine gets no items, as of a look in the last second or so: the broker does not
    /// answer; it says no, since somebody has removed the queue; or it does not answer requests of
    /// items, or the word that one is done, for which this login may lack the permission. The
    /// latter is looked for as items end: they are run again and again then. `None`: nothing is
    /// wrong. Does not block.
    ///
    /// The machine goes on asking, so this is over when the broker answers well again; but for a
    /// connection that has ended for good, after which [`is_serving`](Self::is_serving) is false.
    #[must_use]
    pub fn trouble(&self) -> Option<Error> {
        self.machine.trouble()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if !self.is_over {
            self.machine.close(None);
        }
        // As a `Broker` is kept there.
        if self.machine.check_process().is_err() {
            mem::forget(Arc::clone(&self.machine));
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut functions: Vec<_> = self.functions.keys().collect();
        functions.sort();
        f.debug_struct("Server")
            .field("queue", &self.queue.name())
            .field("workqueue", &self.workqueue.as_ref().map(Workqueue::name))
            .field("functions", &functions)
            .field("attempts", &self.attempts)
            .field("retry_after", &self.retry_after)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving")
            .field("workqueue", &self.workqueue().name())
            .field("is_serving", &self.is_serving())
            .field("stats", &self.stats())
            .finish()
    }
}
