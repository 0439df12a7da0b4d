//! `fork`: the child begins anew, and the parent's items stay the parent's.
//!
//! A child has a copy of everything but none of the threads. So it reads nothing of the inherited
//! runtime but what never changes, and its first use of the library makes a fresh one:
//!
//! - A [generation] counts the forks between the first process and this one. A queue's handle
//!   compares it with the queue's generation, and makes a new queue if they differ
//!   ([`Handle`](crate::engine::handle::Handle)).
//! - Ids of pools go on where the parent's ended, so an item whose word names an earlier pool, or
//!   none, is as the parent left it, and does not run here, however far it was. Who queues it here
//!   [claims](crate::engine::runtime::claiming) it.
//! - A timer has the tag of the wheel that it was armed on, which is the generation.
//! - The [control](crate::observe::control) socket stays the parent's: the child closes its copies.
//! - The locks of this crate that are not part of a runtime are held during the fork, so that none
//!   is locked in the child by a thread that does not exist there.
//! - Locks of Rust's library, those of [threads](sense::thread) and of standard error, cannot be
//!   held, and are not used.
//!
//! Why: docs/decisions/child-and-mapping.md

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use super::global;
use crate::engine::bare_timers;
use crate::engine::current;
use crate::engine::handle;
use crate::engine::observers;
use crate::engine::own_event;
use crate::engine::params::early;
use crate::engine::readers;
use crate::engine::reclaim;
use crate::engine::thread;
use crate::os::generation;
use crate::os::loaded;
use crate::os::notice;
use crate::os::panic;
use crate::os::park::{Event, Parker};
use crate::os::recycled;
use crate::os::sense;
use crate::os::sync::{AtomicBool, Ordering, PlainGuard};
use crate::os::thread_group;
use crate::record;

/// Everything that is locked during a fork.
struct Held {
    _making: PlainGuard<'static, ()>,
    _successors: PlainGuard<'static, ()>,
    _handler: panic::HandlerGuard,
    _notices: notice::TextsGuard,
    _parkers: recycled::Guard<Parker>,
    _events: recycled::Guard<Event>,
    observers: Box<dyn observers::Held>,
    flusher: record::trace::FlusherGuard,
    rings: record::trace::RingsGuard,
    early: early::EarlyGuard,
    readers: readers::ReadersGuard,
}

std::thread_local! {
    /// Without a destructor: it is there, too, for a thread that forks at its end.
    static HELD: RefCell<ManuallyDrop<Option<Held>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Makes forks noticed from now on. To be called before the first of those locks is taken.
///
/// Without a lock of its own, which a child might inherit: two threads may come here at the same
/// time, and the functions below are called twice for each fork then.
pub(crate) fn watch() {
    static IS_WATCHING: AtomicBool = AtomicBool::new(false);
    // ORDERING (here and below): no pairing: who misses it watches once more.
    if IS_WATCHING.load(Ordering::Relaxed) {
        return;
    }
    loaded::stay();
    // SAFETY: the functions live as long as the process: this library is not unloaded.
    unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
    IS_WATCHING.store(true, Ordering::Relaxed);
}

/// Whether this thread has prepared a fork.
fn is_prepared() -> bool {
    HELD.with_borrow(|held| held.is_some())
}

extern "C" fn prepare() {
    if is_prepared() {
        return;
    }
    let held = Held {
        _making: global::lock_making(),
        _successors: handle::lock_successors(),
        _handler: panic::lock_handler(),
        _notices: notice::lock_texts(),
        _parkers: thread::PARKERS.lock(),
        _events: own_event::EVENTS.lock(),
        observers: crate::OBSERVERS.hold(),
        flusher: record::trace::lock_flusher(),
        rings: record::trace::lock_rings(),
        early: early::lock_early(),
        readers: readers::lock_readers(),
    };
    HELD.with_borrow_mut(|place| **place = Some(held));
}

extern "C" fn in_parent() {
    HELD.with_borrow_mut(|held| drop(held.take()));
}

extern "C" fn in_child() {
    if !is_prepared() {
        return;
    }
    generation::begin();
    sense::thread::begin_anew();
    record::leave_mapping_behind();
    global::leave_behind();
    HELD.with_borrow_mut(|held| {
        if let Some(held) = &mut **held {
            record::trace::leave_behind(&mut held.rings, &mut held.flusher);
            held.observers.leave_behind();
            readers::leave_behind(&mut held.readers);
            held.early.is_frozen = false;
        }
    });
    // The forking thread may have been a worker; its copy in the child is none.
    current::leave();
    current::leave_bh();
    current::leave_here();
    bare_timers::leave_own();
    reclaim::leave_rescuer();
    thread_group::leave_aboard();
    crate::OBSERVERS.in_child();
    in_parent();
}
