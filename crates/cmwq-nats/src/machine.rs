//! How a machine takes items: by items of its own.
//!
//! A *puller* is an item of the local workqueue. When the pool starts it, the pool would start
//! another item now: so it asks the broker for one message, and waits. While it waits, it is
//! blocked as by any other call, and the pool runs other things. With the message in its hand it
//! first queues the next puller, which the pool starts when it has a worker to spare: at once on
//! another CPU that idles, or when this one blocks or is done. Then it calls the function.
//!
//! So there is one puller that waits, in the worklist while the machine is busy and at the broker
//! while it is not, and no message lies on a machine that does not run it. Nobody says how many
//! messages to fetch ahead, or how many to run at once.
//!
//! A puller waits [`WAITS`] at most. Then another one goes through the worklist: if the machine has
//! got other work meanwhile, its next message comes after that. None does when the workqueue was
//! closed, which waits for the last one.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cmwq::{OutsideBacklog, Workqueue};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::api::Stored;
use crate::broker::{ENDED, connected, has_ended};
use crate::dead::{LastReasons, Verdict};
use crate::error::{Error, ErrorKind};
use crate::inside;
use crate::item::Item;
use crate::leftovers;
use crate::lock::lock;
use crate::looks::{self, Looks, Trouble};
use crate::names::{AGAIN, MACHINES, Place, TIMERS};
use crate::pulls::{Pulls, Source, give_back};
use crate::queue::SharedQueue;
use crate::serve::{Function, OnFailure};
use crate::timers::{self, Timers};
use crate::words::{Delivery, Words, alive, say};

/// How long a puller waits for a message: so long may a message still come to a machine that has
/// become busy with other things, and so often an idle machine asks.
const WAITS: Duration = Duration::from_secs(1);
/// So soon a run says for the first time that the machine is alive: `dead_after` may have become
/// shorter since the last look. By the second time there has been another one.
const FIRST_BEAT: Duration = Duration::from_millis(300);
/// How long the broker may take to confirm that it sends nothing more.
const ENDS: Duration = Duration::from_secs(2);
/// Deliveries without a word beyond the attempts before an item is given up unrun: the broker
/// counts alike those to machines that died of it and those to machines that gave it back, and the
/// latter are no fault of the item.
const SPARE: u64 = 3;
/// The reason then.
const SILENCE: &str = "no machine said what became of it: those that had it died, were cut off, \
                       were not heard by the broker, or gave it back as they closed; or its \
                       letter could not be stored, and who knew why it failed has gone";
/// The longest delay before another attempt.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// How the queue is served here.
pub(crate) struct Plan {
    pub(crate) queue: SharedQueue,
    pub(crate) workqueue: Workqueue,
    pub(crate) functions: HashMap<String, Function>,
    pub(crate) attempts: u32,
    pub(crate) retry_after: Duration,
    pub(crate) on_failure: Option<OnFailure>,
}

/// See [`ServingStats`](crate::ServingStats).
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) taken: AtomicU64,
    pub(crate) taken_again: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) dead: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// A machine that serves a queue.
pub(crate) struct Machine {
    plan: Plan,
    pulls: Arc<Pulls>,
    /// How long until the broker takes a silent machine for dead: as of the last look, since any
    /// machine may change it.
    dead_after: Arc<watch::Sender<Duration>>,
    closing: watch::Sender<bool>,
    /// The workqueue takes no more pullers.
    is_refused: AtomicBool,
    /// The last one, which need not begin any more when the machine is closed.
    last_puller: Mutex<Option<cmwq::JoinHandle<()>>>,
    /// Pullers in the worklist, waiting, or running a function.
    pullers: Mutex<usize>,
    has_ended: Condvar,
    /// How many items wait at the broker, as the workqueue shows it.
    outside: Arc<OutsideBacklog>,
    /// A message has come, or a request came to nothing.
    has_news: Arc<Notify>,
    trouble: Arc<Trouble>,
    words: Arc<Words>,
    /// What moves delayed items.
    helpers: Mutex<Vec<JoinHandle<()>>>,
    last_reasons: LastReasons,
    counts: Counts,
}

impl Machine {
    pub(crate) fn start(plan: Plan) -> Result<Arc<Self>, Error> {
        let queue = plan.queue.clone();
        let info = queue.consumer(&format!("serve queue '{}'", queue.name()))?;
        let dead_after = Arc::new(watch::Sender::new(looks::dead_after(&info)));
        let has_news = Arc::new(Notify::new());
        let source =
            |place, consumer, waits| Source { stream: queue.names.stream(place), consumer, waits };
        let pulls = queue.broker.pulls(source(Place::Run, MACHINES, WAITS), &has_news)?;
        let due = [TIMERS, AGAIN].map(|consumer| {
            queue.broker.pulls(source(Place::Later, consumer, timers::WAITS), &has_news)
        });
        let [later, again] = due;
        let due = [later?, again?];
        let words = Arc::new(Words::new(queue.broker.inner.client.clone(), has_news.clone()));
        let machine = Arc::new(Self {
            pulls,
            outside: Arc::new(plan.workqueue.outside_backlog()),
            plan,
            dead_after,
            closing: watch::Sender::new(false),
            is_refused: AtomicBool::new(false),
            last_puller: Mutex::default(),
            pullers: Mutex::new(0),
            has_ended: Condvar::new(),
            has_news,
            trouble: Arc::default(),
            words,
            helpers: Mutex::default(),
            last_reasons: LastReasons::default(),
            counts: Counts::default(),
        });
        machine.send_helpers(due);
        machine.send_puller();
        if machine.is_refused.load(Ordering::Relaxed) {
            machine.close(None);
            let name = machine.workqueue().name();
            let text = format!("the workqueue '{name}' takes no items: it is closed");
            return Err(Error::new(ErrorKind::Local, text));
        }
        Ok(machine)
    }

    /// What moves delayed items, takes away what is left of others, and looks.
    fn send_helpers(&self, due: [Arc<Pulls>; 2]) {
        let queue = &self.plan.queue;
        let inner = &queue.broker.inner;
        let timers = Timers {
            client: inner.client.clone(),
            names: queue.names.clone(),
            dead_after: self.dead_after.subscribe(),
            closing: self.closing.subscribe(),
            waiting: Arc::new(AtomicU32::new(0)),
            has_news: self.has_news.clone(),
        };
        let timers = due.each_ref().map(|due| {
            let (timers, due) = (timers.clone(), due.clone());
            // Nobody is to miss what it has, when the connection goes.
            inner.handle.spawn(async move {
                timers.serve(due.clone()).await;
                due.end().await;
            })
        });
        lock(&self.helpers).extend(timers);
        inner.handle.spawn(leftovers::take_away(
            inner.client.clone(),
            queue.names.clone(),
            self.closing.subscribe(),
        ));
        let looks = Looks {
            client: inner.client.clone(),
            what: format!("look at queue '{}'", queue.name()),
            items: self.pulls.clone(),
            due,
            outside: Arc::downgrade(&self.outside),
            dead_after: self.dead_after.clone(),
            has_news: self.has_news.clone(),
            trouble: self.trouble.clone(),
            words: self.words.clone(),
        };
        inner.handle.spawn(looks.take(self.closing.subscribe()));
    }

    pub(crate) fn workqueue(&self) -> &Workqueue {
        &self.plan.workqueue
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.check_process().is_ok()
            && !self.is_refused.load(Ordering::Relaxed)
            && !self.is_closing()
            && !has_ended(&self.plan.queue.broker.inner.client)
    }

    /// Fails in a forked child, where it serves nothing.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.plan.queue.broker.inner.check_process()
    }

    /// See [`Serving::trouble`](crate::Serving::trouble).
    pub(crate) fn trouble(&self) -> Option<Error> {
        if let Err(error) = self.check_process() {
            return Some(error);
        }
        if has_ended(&self.plan.queue.broker.inner.client) {
            return Some(Error::new(ErrorKind::Unreachable, ENDED));
        }
        self.trouble.get()
    }

    fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Whether no puller is to follow. What an item of a workqueue queues there is let in also when
    /// that is closed, or the library shut down: so this is where they end then.
    fn is_over(&self) -> bool {
        if self.is_closing() {
            return true;
        }
        let is_closed = self.workqueue().is_closed();
        if is_closed {
            self.is_refused.store(true, Ordering::Relaxed);
        }
        is_closed
    }

    /// See [`Serving::close`](crate::Serving::close) and
    /// [`close_timeout`](crate::Serving::close_timeout). Whether all has ended.
    pub(crate) fn close(&self, limit: Option<Duration>) -> bool {
        if self.check_process().is_err() {
            // Its items are the parent's.
            return true;
        }
        self.closing.send_replace(true);
        self.cancel_puller();
        // One of its functions would wait for its own end, and a callback of the client for the
        // thread that it is on. What the broker still sends goes back to it, and the last puller
        // takes the machine along.
        let is_callback = self.plan.queue.broker.inner.is_on_thread();
        let has_ended = !is_callback && !inside::is_inside(self) && self.end(limit);
        self.outside.set(0);
        has_ended
    }

    /// Waits until all has ended, for `limit` at most.
    fn end(&self, limit: Option<Duration>) -> bool {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if !cmwq::blocking(|| self.wait_for_pullers(left)) {
            return false;
        }
        let (pulls, patience) = (self.pulls.clone(), left().map_or(ENDS, |left| left.min(ENDS)));
        let helpers = mem::take(&mut *lock(&self.helpers));
        let ends = async move {
            let ends = async {
                pulls.end().await;
                for helper in helpers {
                    let _ = helper.await;
                }
            };
            timeout(patience, ends).await
        };
        let _ = self.plan.queue.broker.wait(ends);
        true
    }

    /// Until there are none, or no time is `left`.
    fn wait_for_pullers(&self, left: impl Fn() -> Option<Duration>) -> bool {
        let mut pullers = self.pullers();
        while *pullers > 0 {
            pullers = match left() {
                Some(Duration::ZERO) => return false,
                Some(left) => {
                    let waited = self.has_ended.wait_timeout(pullers, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.has_ended.wait(pullers).unwrap_or_else(PoisonError::into_inner),
            };
        }
        true
    }

    /// Calls one of the program's functions for an item. Its panic, as a text: what it panicked
    /// with, and may panic as it is dropped, goes no further.
    fn enter<T>(&self, item: &Item, function: impl FnOnce() -> T) -> Result<T, String> {
        let caught = || {
            catch_unwind(AssertUnwindSafe(function)).map_err(|panic| {
                let text = panic_text(&*panic).to_owned();
                if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
                    mem::forget(again);
                }
                text
            })
        };
        inside::call(self, &self.plan.queue, item, caught)
    }

    fn pullers(&self) -> MutexGuard<'_, usize> {
        lock(&self.pullers)
    }

    fn send_puller(self: &Arc<Self>) {
        *self.pullers() += 1;
        let puller = Puller { machine: self.clone(), has_run: false };
        let mut last = lock(&self.last_puller);
        // Under the lock, since it may have queued the next one by the time that this returns.
        let before = last.replace(self.plan.workqueue.queue(move || puller.run()));
        drop(last);
        drop(before);
        // Whoever closes it in this moment may have looked before.
        if self.is_closing() {
            self.cancel_puller();
        }
    }

    /// It may have its turn only behind items of others.
    fn cancel_puller(&self) {
        let last = lock(&self.last_puller).take();
        drop(last.and_then(cmwq::JoinHandle::cancel));
    }

    /// Waits for a message.
    fn fetch(&self) -> Option<Item> {
        let inner = &self.plan.queue.broker.inner;
        let (pulls, client) = (self.pulls.clone(), inner.client.clone());
        let mut closing = self.closing.subscribe();
        let fetched = self.plan.queue.broker.wait(async move {
            let message = pulls.fetch(&mut closing).await?;
            if *closing.borrow() {
                give_back(&client, &message).await;
                return None;
            }
            Item::of(message)
        });
        fetched.ok().flatten()
    }

    fn take(&self, item: &Item) {
        count(&self.counts.taken);
        self.outside.set(item.behind);
        self.has_news.notify_one();
        // From here on: the broker may be slow to answer.
        let beat = self.beat(item);
        if item.attempt() > 1 {
            count(&self.counts.taken_again);
            let reason = self.last_reasons.take(item);
            // If the broker does not say, it runs once more than it need.
            if self.is_cancelled(item).unwrap_or(false) {
                return self.done(item, beat);
            }
            if let Some(reason) = reason {
                return self.give_up(item, beat, &reason);
            }
        }
        if item.attempt() > u64::from(self.plan.attempts) + SPARE {
            // Or they have said it, and the broker does not hear it: it would not hear that there
            // is a letter, and there would be more and more.
            if !self.is_heard(item) {
                return;
            }
            self.tell_failure(item, SILENCE, true);
            return self.give_up(item, beat, SILENCE);
        }
        let result = self.call(item);
        // If the broker does not say, the next one who gets it asks.
        let is_cancelled = result.is_err() && self.is_cancelled(item).unwrap_or(false);
        let is_last = item.attempt() >= u64::from(self.plan.attempts) && !is_cancelled;
        if let Err(reason) = &result {
            self.tell_failure(item, reason, is_last);
        }
        match result {
            Ok(()) => {
                count(&self.counts.completed);
                self.done(item, beat);
            }
            Err(reason) => {
                count(&self.counts.failed);
                if is_cancelled {
                    self.done(item, beat);
                } else if is_last {
                    self.give_up(item, beat, &reason);
                } else {
                    self.retry(item, beat);
                }
            }
        }
    }

    fn is_cancelled(&self, item: &Item) -> Result<bool, Error> {
        self.plan.queue.is_cancelled(item.function(), item.sequence())
    }

    /// Calls the function. Its failure, or its panic, as a text.
    fn call(&self, item: &Item) -> Result<(), String> {
        let Some(function) = self.plan.functions.get(item.function()) else {
            return Err(format!("this machine has no function '{}'", item.function()));
        };
        if item.address().is_keyed() {
            // This run is the one that whoever queued the item again until now is to have. If that
            // message stays, the item runs once more.
            let removed = self.plan.queue.remove(Place::Again, item.address());
            // Its timer is there until whoever has moved it is heard. Another one of its key stays.
            // A broker that has not answered is not waited for once more.
            if let (Ok(_), Some(timer)) = (removed, item.timer()) {
                let _ = self.plan.queue.remove_same(Place::Later, item.address(), timer);
            }
        }
        // The failure is the program's, too: its text, and its end.
        let result = self.enter(item, || function(item).map_err(|failure| failure.to_string()));
        result.unwrap_or_else(|panic| Err(format!("it panicked: {panic}")))
    }

    /// See [`Server::on_failure`](crate::Server::on_failure).
    fn tell_failure(&self, item: &Item, reason: &str, is_given_up: bool) {
        if let Some(told) = &self.plan.on_failure {
            // If it panics, the panic hook has said so; the item goes its way.
            let _ = self.enter(item, || told(item, reason, is_given_up));
        }
    }

    /// Tells the broker, while the function runs, that this machine is alive.
    fn beat(&self, item: &Item) -> Beat {
        let inner = &self.plan.queue.broker.inner;
        let (client, reply) = (inner.client.clone(), item.reply());
        let mut dead_after = self.dead_after.subscribe();
        Beat(inner.handle.spawn(async move {
            let mut longest = FIRST_BEAT;
            loop {
                let pause = (*dead_after.borrow_and_update() / 3).min(longest);
                // When it changes, the next word may be due already.
                if let Ok(Err(_machine_has_gone)) = timeout(pause, dead_after.changed()).await {
                    return;
                }
                // Else the client would keep it, and say it with the next connection, of a run that
                // may be over by then.
                if !connected(&client).await {
                    return;
                }
                say(&client, reply.clone(), alive()).await;
                longest = Duration::MAX;
            }
        }))
    }

    /// Tells the broker that an item is done. If that is lost, it comes again.
    fn done(&self, item: &Item, beat: Beat) {
        // It is the last word.
        drop(beat);
        let (words, reply) = (self.words.clone(), item.reply());
        self.plan.queue.broker.inner.handle.spawn(async move { words.done(reply).await });
    }

    /// Whether the broker hears what is said of an item.
    fn is_heard(&self, item: &Item) -> bool {
        let (words, reply) = (self.words.clone(), item.reply());
        let heard = self.plan.queue.broker.wait(async move { words.ask(&reply, alive()).await });
        heard.ok().flatten().unwrap_or(false)
    }

    /// The item waits here, and the broker is told all the while that the machine is alive.
    fn retry(&self, item: &Item, beat: Beat) {
        let doublings = u32::try_from(item.attempt().saturating_sub(1)).unwrap_or(u32::MAX);
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let delay = self.plan.retry_after.saturating_mul(factor).min(LONGEST_RETRY);
        let inner = &self.plan.queue.broker.inner;
        let (client, reply) = (inner.client.clone(), item.reply());
        let (silence, closing) = (*self.dead_after.borrow(), self.closing.subscribe());
        let delivery = Delivery { client, reply, silence, closing };
        inner.handle.spawn(delivery.give_back_after(delay, beat));
    }

    /// Moves an item to the dead letters. If that cannot be done, it comes again. The broker may
    /// take long, and is told all the while that the machine is alive: else it would have another
    /// one run the item.
    fn give_up(&self, item: &Item, beat: Beat, reason: &str) {
        let queue = &self.plan.queue;
        let subject = queue.names.subject(Place::Dead, item.address());
        let most = queue.broker.inner.client.max_payload();
        let (id, sequence, attempt) = (item.id(), item.sequence(), item.attempt());
        let verdict = Verdict { id, sequence, attempt, reason };
        match queue.store(verdict.letter(subject, item.payload(), most)) {
            Ok(Stored::Here) => {
                count(&self.counts.dead);
                self.done(item, beat);
            }
            // What has this subject may be the letter of another item with the key.
            Ok(Stored::Occupied | Stored::Full | Stored::NoRoom) | Err(_) => {
                self.last_reasons.keep(item, reason);
                self.retry(item, beat);
            }
        }
    }
}

/// What says that the machine is alive: as long as the run lasts, however that ends.
struct Beat(JoinHandle<()>);

impl Drop for Beat {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// See the module.
struct Puller {
    machine: Arc<Machine>,
    has_run: bool,
}

impl Puller {
    fn run(mut self) {
        self.has_run = true;
        let machine = &self.machine;
        if machine.is_over() {
            return;
        }
        let item = machine.fetch();
        if !machine.is_over() {
            machine.send_puller();
        }
        if let Some(item) = item {
            machine.take(&item);
        }
    }
}

impl Drop for Puller {
    fn drop(&mut self) {
        if !self.has_run && !self.machine.is_closing() {
            self.machine.is_refused.store(true, Ordering::Relaxed);
        }
        *self.machine.pullers() -= 1;
        self.machine.has_ended.notify_all();
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("pulls", &self.pulls)
            .field("pullers", &self.pullers())
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}
