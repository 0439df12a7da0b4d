//! One item that was queued: taking it back, waiting for it.

use std::fmt;

use crate::error::Error;
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
    /// A machine has taken it, or did so in this moment. It may be running, and is not stopped. No
    /// machine will start it again.
    Started,
    /// It was not there: done, given up, or cancelled before.
    NotThere,
}

impl Ticket {
    pub(crate) fn new(queue: SharedQueue, address: Address, was_pending: bool) -> Self {
        Self { queue, address, was_pending }
    }

    /// The item was pending when this ticket was asked for, so nothing was added: always `false`
    /// without a key.
    #[must_use]
    pub fn was_pending(&self) -> bool {
        self.was_pending
    }

    /// Takes the item back. Blocks for the broker, not for a machine that runs the item.
    ///
    /// A delayed item whose delay is just over may be on its way into the queue; it may then run
    /// although this said [`BeforeStart`](Cancelled::BeforeStart).
    ///
    /// # Errors
    /// [`Unreachable`](crate::ErrorKind::Unreachable), [`Refused`](crate::ErrorKind::Refused).
    #[doc(alias = "cancel_work")]
    pub fn cancel(&self) -> Result<Cancelled, Error> {
        let (queue, address) = (&self.queue, &self.address);
        let mut found = queue.remove(Place::Later, address)?.is_some();
        found |= queue.remove(Place::Again, address)?.is_some();
        let Some(sequence) = queue.remove(Place::Run, address)? else {
            return Ok(if found { Cancelled::BeforeStart } else { Cancelled::NotThere });
        };
        // Nobody can have taken it since: so if nobody had got as far as it, nobody has it.
        let what = format!("take an item back from queue '{}'", queue.name());
        let reached = number(&queue.consumer(&what)?["delivered"]["stream_seq"]);
        Ok(if reached < sequence { Cancelled::BeforeStart } else { Cancelled::Started })
    }

    /// Waits until the item is done: acknowledged, given up or cancelled. Of a delayed one, until
    /// its delay is over and it is done. An item with a key that others queue all the time may
    /// never be.
    ///
    /// # Errors
    /// [`Unreachable`](crate::ErrorKind::Unreachable), [`Refused`](crate::ErrorKind::Refused).
    #[doc(alias = "flush_work")]
    pub fn flush(&self) -> Result<(), Error> {
        // In this order, in which it goes from one place to the next.
        until(|| {
            for place in [Place::Later, Place::Again, Place::Run] {
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
