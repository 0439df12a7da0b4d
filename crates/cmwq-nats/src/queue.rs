//! The queue as programs see it: opening it, and putting items into it.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::api::{self, ITEM_ID, MESSAGE_ID, NO_MESSAGE, NO_STREAM, Question, Stored};
use crate::broker::Broker;
use crate::dead::{DeadLetter, Verdict};
use crate::error::{Error, ErrorKind};
use crate::inside;
use crate::item::DELAY;
use crate::leftovers;
use crate::names::{Address, MACHINES, Names, Place};
use crate::serve::Server;
use crate::settings::{Settings, moves_for};
use crate::ticket::Ticket;

/// Without limits.
pub(crate) const UNLIMITED: i64 = -1;
/// How often somebody looks whether what he waits for is done: at first, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

/// The longest time that the broker is told.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A description of a shared queue; see [`Broker::queue`].
///
/// What is said of limits is the queue's, not the program's: it holds for all machines, and stays
/// until another one says something else. What is not said stays as it is.
#[must_use = "a builder opens a queue only when `open` is called"]
#[derive(Clone, Debug)]
pub struct QueueBuilder {
    broker: Broker,
    name: String,
    max_active: Option<i64>,
    max_queued: Option<i64>,
    dead_after: Option<Duration>,
    replicas: Option<u8>,
}

/// A queue that machines share. The broker keeps its items; machines that [serve](Self::serve) it
/// run them.
///
/// Clones are the same queue. Dropping it leaves the items where they are.
#[derive(Clone)]
pub struct SharedQueue {
    pub(crate) broker: Broker,
    pub(crate) names: Arc<Names>,
}

/// What is where; see [`SharedQueue::backlog`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// Items that no machine has taken yet.
    pub waiting: u64,
    /// Items that a machine has taken: they run, wait for their next attempt, or were on a machine
    /// that has died and not yet been missed.
    pub taken: u64,
    /// Items with a delay, those that were queued again while they ran, and those that are due and
    /// have no place in the queue yet. For up to a second, also what was said of items that were
    /// cancelled as they ran.
    pub delayed: u64,
    /// Items that were given up.
    pub dead: u64,
    /// Machines that wait for an item.
    pub idle_machines: u64,
}

impl QueueBuilder {
    pub(crate) fn new(broker: Broker, name: &str) -> Self {
        let name = name.to_owned();
        let (max_active, max_queued, dead_after, replicas) = (None, None, None, None);
        Self { broker, name, max_active, max_queued, dead_after, replicas }
    }

    /// At most so many items are in execution at once, on all machines together. 0: no limit, which
    /// is what a new queue has: each machine's pool decides. An item that waits for its next
    /// attempt counts.
    ///
    /// KERNEL: `max_active` is per CPU or node there; here it is of all machines.
    pub fn max_active(mut self, items: u32) -> Self {
        self.max_active = Some(if items == 0 { UNLIMITED } else { i64::from(items) });
        self
    }

    /// One item at a time, on whichever machine, in the order in which they were queued. One that
    /// fails is tried again before the next one starts. As `max_active(1)`.
    pub fn ordered(self) -> Self {
        self.max_active(1)
    }

    /// Refuses items with [`Full`](ErrorKind::Full) while so many wait or run. 0: no limit, which
    /// is what a new queue has. With a lower limit than before, those that are there stay.
    ///
    /// A NATS broker before 2.10.6 would take the oldest away for that. So there it is set by who
    /// makes the queue, and may be raised; [`open`](Self::open) fails with
    /// [`Refused`](ErrorKind::Refused) where it would become lower. Say it in each program that
    /// opens the queue: whichever is the first makes it. **One before 2.10 that is killed may take
    /// the oldest away as it starts again**, since messages of items that are done come back then.
    pub fn max_queued(mut self, items: u32) -> Self {
        self.max_queued = Some(if items == 0 { UNLIMITED } else { i64::from(items) });
        self
    }

    /// A machine that was not heard of for so long is taken for dead, and its items go to others.
    /// From 100 ms; 30 s is what a new queue has. Machines say three times as often that they are
    /// alive, for each item that runs, however long it takes. What is cut off for longer runs its
    /// item at the same time as the one who got it next.
    ///
    /// Delayed items that a dead machine was about to queue go to others after that time, too, but
    /// after a second at least, and 30 s at most. [`Duration::MAX`] is a century.
    ///
    /// Machines follow a change within a second. Items that run when it becomes shorter may be
    /// taken for those of a dead machine, unless that has said in the new time that it is alive.
    pub fn dead_after(mut self, silence: Duration) -> Self {
        self.dead_after = Some(silence);
        self
    }

    /// Servers of a cluster that keep the queue, 1 to 5. A new queue has one.
    pub fn replicas(mut self, servers: u8) -> Self {
        self.replicas = Some(servers);
        self
    }

    /// Makes the queue at the broker, unless it is there, and gives it the settings that were made.
    /// Blocks for the broker.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput): the name, or a setting.
    /// [`Refused`](ErrorKind::Refused): the broker has no room, or no such number of servers; or it
    /// is too old, or would take items away, as one before NATS 2.10.6 does for a lower
    /// [`max_queued`](Self::max_queued) and where an operator limits bytes.
    /// [`Full`](ErrorKind::Full): an operator's limits leave no room in the stream
    /// `cmwq-later_QUEUE` for the lock of who changes settings.
    /// [`Unreachable`](ErrorKind::Unreachable).
    pub fn open(self) -> Result<SharedQueue, Error> {
        let names = Arc::new(Names::new(&self.name)?);
        if self.dead_after.is_some_and(|silence| silence < Duration::from_millis(100)) {
            return Err(Error::invalid("dead_after is less than 100 ms: give the machines more"));
        }
        let mut settings = Settings::default();
        if let Some(replicas) = self.replicas {
            settings.streams["num_replicas"] = replicas.into();
        }
        if let Some(limit) = self.max_queued {
            settings.items["max_msgs"] = limit.into();
        }
        if let Some(limit) = self.max_active {
            settings.machines["max_ack_pending"] = limit.into();
        }
        if let Some(silence) = self.dead_after {
            settings.machines["ack_wait"] = nanos(silence);
            settings.timers["ack_wait"] = nanos(moves_for(silence));
        }
        let queue = SharedQueue { broker: self.broker, names };
        queue.make(&settings)?;
        Ok(queue)
    }
}

/// Rounded up; at most what a reader takes.
fn millis(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The broker adds to what it is told: of what it cannot reckon with, and of [`Duration::MAX`], a
/// century is left.
pub(crate) fn nanos(duration: Duration) -> Value {
    let nanos = duration.min(CENTURY).as_nanos();
    u64::try_from(nanos).expect("a century is less").into()
}

impl SharedQueue {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.names.queue
    }

    /// Queues an item: some machine will call `function` with `payload`. Returns when the broker
    /// has stored it.
    ///
    /// **It is run AT LEAST ONCE**: see [`Item`](crate::Item).
    ///
    /// Items start in the order in which they were queued, but for those that are tried again.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput): the function's name, or more bytes than the
    /// broker takes (NATS's `max_payload`) less some 300 for what is said of an item that fails.
    /// [`Full`](ErrorKind::Full). [`Unreachable`](ErrorKind::Unreachable): the item may have been
    /// queued, unless the message says that nothing was sent. [`Refused`](ErrorKind::Refused).
    #[doc(alias = "queue_work")]
    pub fn queue(&self, function: &str, payload: impl AsRef<[u8]>) -> Result<Ticket, Error> {
        let call = self.call_id();
        let address = Address::unique(function, &call)?;
        self.put(Place::Run, address, &call, payload.as_ref(), Duration::ZERO)
    }

    /// Queues the item with this key, unless it is pending: then
    /// [`was_pending`](Ticket::was_pending) of the ticket says so, and the payload is the one that
    /// it was queued with. Queued while it runs, it runs again when it has finished. Either way, a
    /// run begins after this call.
    ///
    /// Machines do not run the same key at the same time, as long as none is taken for dead that is
    /// not. Keys are of the function; 1 to 128 bytes, any.
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    pub fn queue_once(
        &self,
        function: &str,
        key: &str,
        payload: impl AsRef<[u8]>,
    ) -> Result<Ticket, Error> {
        let call = self.call_id();
        let (address, payload) = (Address::keyed(function, key)?, payload.as_ref());
        let ticket = match self.put(Place::Run, address.clone(), &call, payload, Duration::ZERO) {
            // Brokers differ in what they say of a queue that is full with an item of this key.
            Err(error)
                if error.kind() == ErrorKind::Full
                    && self.find(Place::Run, &address)?.is_some() =>
            {
                Ticket::new(self.clone(), address.clone(), true)
            }
            ticket => ticket?,
        };
        if !ticket.was_pending() {
            return Ok(ticket);
        }
        // It waits or runs; nobody but the machine that starts it can tell. A second message says
        // that it is to run once more, and the machine that starts it takes that one away.
        let _ = self.put(Place::Again, address, &call, payload, Duration::ZERO)?;
        Ok(ticket)
    }

    /// Queues an item when `delay` has passed since the broker took it, to the millisecond; usually
    /// within some milliseconds after. It does so while a machine serves the queue, so with none,
    /// it is late. Machines go by their clocks: where these differ, delays do. The longest delay is
    /// 2^64 - 1 ms: [`Duration::MAX`] means that, some 580 million years.
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    #[doc(alias = "queue_delayed_work")]
    pub fn queue_delayed(
        &self,
        function: &str,
        payload: impl AsRef<[u8]>,
        delay: Duration,
    ) -> Result<Ticket, Error> {
        let call = self.call_id();
        let address = Address::unique(function, &call)?;
        self.put(Place::Later, address, &call, payload.as_ref(), delay)
    }

    /// [`queue_once`](Self::queue_once) with a delay. `was_pending` means that a timer of this key
    /// was pending, whose delay stays. When the delay is over, so that the timer is pending no
    /// more, and the item waits or runs, it runs once more after that.
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    pub fn queue_once_delayed(
        &self,
        function: &str,
        key: &str,
        payload: impl AsRef<[u8]>,
        delay: Duration,
    ) -> Result<Ticket, Error> {
        let address = Address::keyed(function, key)?;
        self.put(Place::Later, address, &self.call_id(), payload.as_ref(), delay)
    }

    /// The item with this key, to cancel it or to wait for it.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput): the function's name, or the key.
    pub fn ticket(&self, function: &str, key: &str) -> Result<Ticket, Error> {
        Ok(Ticket::new(self.clone(), Address::keyed(function, key)?, true))
    }

    /// Waits until everything that was queued before this call is done: acknowledged, given up or
    /// cancelled; of what was cancelled as it ran, until it has ended. Not for what is queued
    /// meanwhile, so it returns under continuous load, and not for delays that have not passed: one
    /// has when a machine has found that it has, within milliseconds. Nor for what a broker has
    /// lost as its machine failed. With no machine it waits for one to come.
    ///
    /// One of the queue's own functions must not call this: it would wait for its own item. That is
    /// an error if it is done on the function's thread, by the connection that the machine has;
    /// elsewhere it waits for ever.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput): the caller is one of the queue's functions.
    /// [`Unreachable`](ErrorKind::Unreachable), [`Refused`](ErrorKind::Refused).
    #[doc(alias = "flush_workqueue")]
    pub fn flush(&self) -> Result<(), Error> {
        self.flush_until(None).map(drop)
    }

    /// As [`flush`](Self::flush), and waits at most so long; where the broker does not answer,
    /// until [`patience`](crate::BrokerBuilder::patience) ends. `false`: something is not done yet.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn flush_timeout(&self, limit: Duration) -> Result<bool, Error> {
        self.flush_until(Instant::now().checked_add(limit))
    }

    fn flush_until(&self, deadline: Option<Instant>) -> Result<bool, Error> {
        let what = format!("flush queue '{}'", self.name());
        inside::refuse_own(&what, self, |_| true)?;
        // What was queued again, or is due and held up, becomes an item, with a higher number; then
        // the items.
        let again = self.names.subjects(Place::Again);
        let first_again = json!({ "seq": 1, "next_by_subj": again });
        let last = self.state(Place::Later, &what)?.1;
        let no_older = || Ok(self.search(Place::Again, &first_again)?.is_none_or(|one| one > last));
        if !until(deadline, no_older)? {
            return Ok(false);
        }
        let last = self.state(Place::Run, &what)?.1;
        until(deadline, || {
            let (first, now) = self.state(Place::Run, &what)?;
            // A broker that has lost its last messages gives their numbers to others.
            let last = last.min(now);
            // A broker that was killed may have messages of items that are done.
            Ok(first > last || leftovers::done_until(&self.consumer(&what)?) >= last)
        })
    }

    /// How many items are where, now.
    ///
    /// # Errors
    /// [`Unreachable`](ErrorKind::Unreachable), [`Refused`](ErrorKind::Refused).
    pub fn backlog(&self) -> Result<Backlog, Error> {
        let what = format!("look at queue '{}'", self.name());
        let messages = |place| -> Result<u64, Error> {
            let path = format!("STREAM.INFO.{}", self.names.stream(place));
            let info = self.api(&what, &path, &Value::Null)?;
            Ok(number(&info.map_err(|no| no.to_error(&what))?["state"]["messages"]))
        };
        let machines = self.consumer(&what)?;
        Ok(Backlog {
            waiting: number(&machines["num_pending"]),
            taken: number(&machines["num_ack_pending"]),
            delayed: messages(Place::Later)?,
            dead: messages(Place::Dead)?,
            idle_machines: number(&machines["num_waiting"]),
        })
    }

    /// Items that were given up, the oldest first, at most `most` of them. They stay until they are
    /// [queued again](DeadLetter::queue_again) or [removed](DeadLetter::remove).
    ///
    /// # Errors
    /// [`Unreachable`](ErrorKind::Unreachable).
    pub fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, Error> {
        DeadLetter::of(self, most)
    }

    /// Changes [`max_active`](QueueBuilder::max_active), for all machines. 0: no limit.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full): as of [`open`](QueueBuilder::open).
    /// [`Unreachable`](ErrorKind::Unreachable), [`Refused`](ErrorKind::Refused).
    #[doc(alias = "workqueue_set_max_active")]
    pub fn set_max_active(&self, items: u32) -> Result<(), Error> {
        let limit = if items == 0 { UNLIMITED } else { i64::from(items) };
        self.change_machines(&json!({ "max_ack_pending": limit }))
    }

    /// Describes how this machine serves the queue.
    pub fn serve(&self) -> Server {
        Server::new(self.clone())
    }

    /// Removes the queue from the broker with all of its items, also those that were given up.
    /// Machines that serve it wait until somebody opens it again; their
    /// [`trouble`](crate::Serving::trouble) says so.
    ///
    /// Let functions that run end before the queue is opened again under its name, and the pauses
    /// of what has failed, a minute at most: the numbers of items begin anew then, and what a
    /// machine says at the end of a run or a pause of the old queue is taken for a word about the
    /// new item that has its number, if a machine has taken that. It would be lost if it then
    /// failed, or be run once more.
    ///
    /// # Errors
    /// [`Unreachable`](ErrorKind::Unreachable), [`Refused`](ErrorKind::Refused).
    pub fn destroy(self) -> Result<(), Error> {
        let what = format!("remove queue '{}'", self.name());
        for place in [Place::Run, Place::Later, Place::Dead] {
            let path = format!("STREAM.DELETE.{}", self.names.stream(place));
            match self.api(&what, &path, &Value::Null)? {
                Err(no) if no.code != NO_STREAM => return Err(no.to_error(&what)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Something that no other call of any machine has. A forked child draws the same random
    /// numbers as its parent, and the children of one parent as each other.
    pub(crate) fn call_id(&self) -> String {
        let inbox = self.broker.inner.client.new_inbox();
        let random = inbox.rsplit('.').next().unwrap_or(&inbox);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        format!("{random}-{:x}-{:x}", std::process::id(), now.as_nanos())
    }

    fn put(
        &self,
        place: Place,
        address: Address,
        call: &str,
        payload: &[u8],
        delay: Duration,
    ) -> Result<Ticket, Error> {
        self.check_size(payload.len(), call)?;
        let mut message = Question::message(self.names.subject(place, &address), call, payload);
        if !delay.is_zero() {
            message.headers.insert(DELAY, millis(delay).to_string().as_str());
        }
        self.put_message(place, address, message)
    }

    /// Refuses what could not become a dead letter later. That has more headers than any other
    /// message of the item.
    fn check_size(&self, bytes: usize, id: &str) -> Result<(), Error> {
        let limit = self.broker.inner.client.max_payload();
        let most = limit.saturating_sub(Verdict::room(id));
        if bytes <= most {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "could not queue {bytes} bytes on queue '{}': the broker takes {limit}, so an item may \
             have at most {most} beside what is said of it if it fails; queue a name of where they \
             are, or raise the broker's max_payload",
            self.name()
        )))
    }

    /// Queues an item, by another call, under the id that it had: behind one of its key, if there
    /// is one.
    pub(crate) fn put_again(
        &self,
        address: Address,
        id: &str,
        payload: &[u8],
    ) -> Result<(), Error> {
        let due = (Place::Due, self.names.due(&address, &self.call_id()));
        let run = (Place::Run, self.names.subject(Place::Run, &address));
        for (place, subject) in [run, due] {
            let mut message = Question::moved(subject, payload);
            let limit = self.broker.inner.client.max_payload();
            if !id.is_empty() {
                message.add(ITEM_ID, id, limit);
            }
            message.add(MESSAGE_ID, &self.call_id(), limit);
            if !self.put_message(place, address.clone(), message)?.was_pending() {
                break;
            }
        }
        Ok(())
    }

    /// See [`api::store`].
    pub(crate) fn store(&self, message: Question) -> Result<Stored, Error> {
        let (client, patience) = (self.broker.inner.client.clone(), self.broker.inner.patience);
        self.broker.wait(async move { api::store(&client, message, patience).await })?
    }

    fn put_message(
        &self,
        place: Place,
        address: Address,
        message: Question,
    ) -> Result<Ticket, Error> {
        match self.store(message)? {
            Stored::Here => Ok(Ticket::new(self.clone(), address, false)),
            Stored::Occupied => Ok(Ticket::new(self.clone(), address, true)),
            Stored::Full if place != Place::Run => {
                Err(self.no_room_later(&format!("store a message of queue '{}'", self.name())))
            }
            Stored::Full => Err(Error::new(
                ErrorKind::Full,
                format!(
                    "queue '{}' has as many items as max_queued allows: wait, as by `flush`, or \
                     let more machines serve it",
                    self.name()
                ),
            )),
            Stored::NoRoom => Err(Error::new(
                ErrorKind::Full,
                format!(
                    "queue '{}' has as many bytes as an operator allows (max_bytes of a stream \
                     cmwq-…_{0}), or the broker has no room for more (max_file_store, or the \
                     disk): wait, as by `flush`, let more machines serve it, or have that raised",
                    self.name()
                ),
            )),
        }
    }

    /// `max_queued` is not of that stream: its limits are an operator's.
    pub(crate) fn no_room_later(&self, what: &str) -> Error {
        let stream = self.names.stream(Place::Later);
        let text = format!(
            "could not {what}: stream {stream} has as many messages, or bytes, as it may: have its \
             limits raised"
        );
        Error::new(ErrorKind::Full, text)
    }

    pub(crate) fn api(
        &self,
        what: &str,
        path: &str,
        request: &Value,
    ) -> Result<Result<Value, api::No>, Error> {
        self.broker.ask(what, Question::api(path, request))
    }

    /// What the broker tells of the consumer of items.
    pub(crate) fn consumer(&self, what: &str) -> Result<Value, Error> {
        let path = format!("CONSUMER.INFO.{}.{MACHINES}", self.names.stream(Place::Run));
        self.api(what, &path, &Value::Null)?.map_err(|no| no.to_error(what))
    }

    /// The number of an item's message in a place, if there is one.
    pub(crate) fn find(&self, place: Place, address: &Address) -> Result<Option<u64>, Error> {
        let subject = self.names.subject(place, address);
        self.search(place, &json!({ "last_by_subj": subject }))
    }

    /// Takes an item's message away from a place. Its number, if there was one.
    pub(crate) fn remove(&self, place: Place, address: &Address) -> Result<Option<u64>, Error> {
        let Some(sequence) = self.find(place, address)? else { return Ok(None) };
        Ok(self.remove_number(place, sequence)?.then_some(sequence))
    }

    /// As [`remove`](Self::remove), if its message is the one with this number. A broker that has
    /// lost its last messages may have given that to another item.
    pub(crate) fn remove_same(
        &self,
        place: Place,
        address: &Address,
        sequence: u64,
    ) -> Result<(), Error> {
        if self.find(place, address)? == Some(sequence) {
            self.remove_number(place, sequence)?;
        }
        Ok(())
    }

    /// Takes a message away from a place. `false`: it has just gone by itself.
    pub(crate) fn remove_number(&self, place: Place, sequence: u64) -> Result<bool, Error> {
        let what = format!("take an item back from queue '{}'", self.name());
        let path = format!("STREAM.MSG.DELETE.{}", self.names.stream(place));
        // Letters are overwritten: they may have lain there for long.
        let request = json!({ "seq": sequence, "no_erase": place != Place::Dead });
        match self.api(&what, &path, &request)? {
            Ok(_) => Ok(true),
            Err(_) if self.search(place, &json!({ "seq": sequence }))?.is_none() => Ok(false),
            Err(no) => Err(no.to_error(&what)),
        }
    }

    /// Says of an item that a machine has that it was cancelled.
    pub(crate) fn say_cancelled(&self, function: &str, sequence: u64) -> Result<(), Error> {
        let address = Address::cancelled(function, sequence);
        // If it is there, somebody else has said so.
        let _ = self.put(Place::Later, address, &self.call_id(), &[], Duration::ZERO)?;
        Ok(())
    }

    /// Whether somebody has said so.
    pub(crate) fn is_cancelled(&self, function: &str, sequence: u64) -> Result<bool, Error> {
        let address = Address::cancelled(function, sequence);
        Ok(self.find(Place::Later, &address)?.is_some())
    }

    fn search(&self, place: Place, request: &Value) -> Result<Option<u64>, Error> {
        let what = format!("look for an item of queue '{}'", self.name());
        let path = format!("STREAM.MSG.GET.{}", self.names.stream(place));
        match self.api(&what, &path, request)? {
            Ok(found) => Ok(Some(number(&found["message"]["seq"]))),
            Err(no) if no.code == NO_MESSAGE => Ok(None),
            Err(no) => Err(no.to_error(&what)),
        }
    }

    /// What a stream has: see [`bounds`].
    fn state(&self, place: Place, what: &str) -> Result<(u64, u64), Error> {
        let path = format!("STREAM.INFO.{}", self.names.stream(place));
        let info = self.api(what, &path, &Value::Null)?.map_err(|no| no.to_error(what))?;
        Ok(bounds(&info))
    }
}

/// The numbers of a stream's first message and of its last, by what the broker tells of it; the
/// first is one more than the last if there is none.
pub(crate) fn bounds(stream: &Value) -> (u64, u64) {
    let (state, last) = (&stream["state"], number(&stream["state"]["last_seq"]));
    let is_empty = number(&state["messages"]) == 0;
    (if is_empty { last + 1 } else { number(&state["first_seq"]) }, last)
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Looks until something is so, less and less often: the broker tells nobody that an item is done.
/// `false`: it was not when the time was up.
pub(crate) fn until(
    deadline: Option<Instant>,
    mut is_so: impl FnMut() -> Result<bool, Error>,
) -> Result<bool, Error> {
    let begun = Instant::now();
    while !is_so()? {
        let now = Instant::now();
        let left = deadline.map_or(LOOKS.1, |deadline| deadline.saturating_duration_since(now));
        if left.is_zero() {
            return Ok(false);
        }
        let pause = ((now - begun) / 4).clamp(LOOKS.0, LOOKS.1).min(left);
        cmwq::blocking(|| thread::sleep(pause));
    }
    Ok(true)
}

impl fmt::Debug for SharedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedQueue")
            .field("name", &self.names.queue)
            .field("broker", &self.broker)
            .finish()
    }
}
