//! One item that was queued: taking it back, waiting for it.

use std::fmt;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::inside;
use crate::names::{Address, Place};
use crate::queue::{SharedQueue, number, until};

/// An item that was queued. Dropping it changes nothing.
#[derive(Clone)]
#[must_use = "to do nothing with it, say `let _ =`"]
pub struct Ticket {
    queue: SharedQueue,
    address: Address,
    was_pending: bool,
}

/// What [`Ticket::cancel`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It waited, or was delayed. No machine has run it, and none will.
    BeforeStart,
    /// A machine has taken it, or did so in this moment. It may be running, and is not stopped, or
    /// wait for its next attempt. No machine will start it again, unless the broker does not answer
    /// the question whether it may.
    Started,
    /// It was not there: done, given up, or cancelled before its start.
    NotThere,
}

impl Ticket {
    pub(crate) fn new(queue: SharedQueue, address: Address, was_pending: bool) -> Self {
        // Of an item without a key the broker may know that it is there, but not any more that this
        // is a repetition.
        let was_pending = was_pending && address.is_keyed();
        Self { queue, address, was_pending }
    }

    /// The item was pending when this ticket was asked for, so nothing was added: always `false`
    /// without a key.
    #[must_use]
    pub fn was_pending(&self) -> bool {
        self.was_pending
    }

    /// Takes the item back. Blocks for the broker, not for a machine that runs the item: for that,
    /// [`flush`](Self::flush) after it.
    ///
    /// One that has started stays in the queue until its run has ended, so its key does not run
    /// beside it, and keeps its place of `max_active` and `max_queued`. It then is neither tried
    /// again nor given up. If it waits for its next attempt, it goes when that is due.
    ///
    /// A delayed item whose delay is just over may be on its way into the queue; it may then run
    /// although this said [`BeforeStart`](Cancelled::BeforeStart). One that a machine takes in the
    /// very moment between a look at the broker and the next one loses its places, though it runs.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full): it has started, and an operator's limits leave no room in
    /// the stream `cmwq-later_QUEUE` to say so. [`Unreachable`](crate::ErrorKind::Unreachable),
    /// [`Refused`](crate::ErrorKind::Refused).
    #[doc(alias = "cancel_work")]
    pub fn cancel(&self) -> Result<Cancelled, Error> {
        let (queue, address) = (&self.queue, &self.address);
        let mut found = false;
        for place in [Place::Later, Place::Again, Place::Due] {
            // A key may have several that are due, and one of them go by itself meanwhile.
            while let Some(sequence) = queue.find(place, address)? {
                found |= queue.remove_number(place, sequence)?;
            }
        }
        let not_started = if found { Cancelled::BeforeStart } else { Cancelled::NotThere };
        let Some(sequence) = queue.find(Place::Run, address)? else { return Ok(not_started) };
        if !self.has_reached(sequence)? {
            if !queue.remove_number(Place::Run, sequence)? {
                // Whoever has taken it away knows what it was.
                return Ok(not_started);
            }
            // Nobody can have taken it since: so if nobody had got as far as it, nobody has it.
            let has_reached = self.has_reached(sequence)?;
            return Ok(if has_reached { Cancelled::Started } else { Cancelled::BeforeStart });
        }
        queue.say_cancelled(&address.function, sequence)?;
        Ok(Cancelled::Started)
    }

    /// Whether machines have got as far as the item with this number.
    fn has_reached(&self, sequence: u64) -> Result<bool, Error> {
        let what = format!("take an item back from queue '{}'", self.queue.name());
        let consumer = self.queue.consumer(&what)?;
        Ok(number(&consumer["delivered"]["stream_seq"]) >= sequence)
    }

    /// Waits until the item is done: acknowledged, given up or cancelled; of one that was cancelled
    /// as it ran, until it has ended. Of a delayed one, until its delay is over and it is done. An
    /// item with a key that others queue all the time may never be.
    ///
    /// A function must not wait for its own item, which is an error as for
    /// [`SharedQueue::flush`](crate::SharedQueue::flush). Nor must one wait for an item that cannot
    /// start before it has returned: of its own queue, if that is
    /// [`ordered`](crate::QueueBuilder::ordered), or if as many functions wait so as
    /// [`max_active`](crate::QueueBuilder::max_active) allows; or, where no other machine serves
    /// it, of one that is served on an ordered local workqueue, or one without another place. That
    /// is not noticed.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput): the caller runs this very item.
    /// [`Unreachable`](crate::ErrorKind::Unreachable), [`Refused`](crate::ErrorKind::Refused).
    #[doc(alias = "flush_work")]
    pub fn flush(&self) -> Result<(), Error> {
        self.flush_until(None).map(drop)
    }

    /// As [`flush`](Self::flush), and waits at most so long; where the broker does not answer,
    /// until [`patience`](crate::BrokerBuilder::patience) ends. `false`: it is not done yet.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn flush_timeout(&self, limit: Duration) -> Result<bool, Error> {
        self.flush_until(Instant::now().checked_add(limit))
    }

    fn flush_until(&self, deadline: Option<Instant>) -> Result<bool, Error> {
        let what = format!("wait for an item of queue '{}'", self.queue.name());
        inside::refuse_own(&what, &self.queue, |address| *address == self.address)?;
        // In this order, in which it goes from one place to the next.
        until(deadline, || {
            for place in [Place::Later, Place::Again, Place::Due, Place::Run] {
                if self.queue.find(place, &self.address)?.is_some() {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("queue", &self.queue.name())
            .field("function", &self.address.function)
            .field("id", &self.address.id)
            .field("was_pending", &self.was_pending)
            .finish()
    }
}
