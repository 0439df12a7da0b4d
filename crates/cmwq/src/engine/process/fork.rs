//! `fork`: the child begins anew, and the parent's items stay the parent's.
//!
//! A child has a copy of everything but none of the threads. So it reads nothing of the inherited
//! runtime but what never changes, and its first use of the library makes a fresh one:
//!
//! - A [generation] counts the forks between the first process and this one. A queue's handle
//!   compares it with the queue's generation, and makes a new queue if they differ
//!   ([`Handle`](crate::engine::queue::handle::Handle)).
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
//! A program may have handlers of its own that use the library. Those that prepare a fork are
//! called in the reverse order of their registration, the others in its order. So ours are
//! registered when the program is loaded: what `main` registers is called before we lock anything,
//! and after we have given it back and the child is one.
//!
//! Why: docs/decisions/child-and-mapping.md

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use super::global;
use crate::engine::process::bare_timers;
use crate::engine::process::observers;
use crate::engine::process::readers;
use crate::engine::queue::handle;
use crate::engine::threads::current;
use crate::engine::threads::invoke;
use crate::engine::tools::own_event;
use crate::engine::tools::params::early;
use crate::engine::tools::reclaim;
use crate::engine::tools::thread;
use crate::os::generation;
use crate::os::loaded;
use crate::os::notice;
use crate::os::panic;
use crate::os::park::{Event, Parker};
use crate::os::published::Lasting;
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

/// Locks of a library that is made of this one, which are held during a fork, too. They are
/// innermost: taken last, and given back first.
#[derive(Debug)]
pub struct Innermost {
    /// Takes them. Called by a thread that forks.
    pub hold: fn(),
    /// Gives them back, in the parent and in the child, if that thread has them.
    pub give_back: fn(),
}

static INNERMOST: Lasting<Innermost> = Lasting::nothing();

/// Has these locks held during forks. To be called before the first of them is taken.
pub fn hold_during_forks(locks: &'static Innermost) {
    if INNERMOST.get().is_none() {
        INNERMOST.set(locks);
        register();
    }
}

/// The handlers are registered.
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
/// There is something that a child has to leave behind, or will be soon.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Called when the program is loaded, or the shared object that this is a part of. A linker that
/// takes something of this file takes this; where nobody calls it, the first use does.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = register;

/// Without a lock of its own, which a child might inherit: two threads may come here at the same
/// time, and the functions below are called twice for each fork then. If the library is unloaded
/// before its first use, the system forgets them.
extern "C" fn register() {
    // ORDERING (here and below): no pairing: who misses it registers once more.
    if IS_REGISTERED.load(Ordering::Relaxed) {
        return;
    }
    // An allocator may have handlers of its own, which it registers when it is first used. They are
    // to be called between ours and the fork: ours allocate, and so does who has our locks.
    drop(std::hint::black_box(Box::new(0_u8)));
    // SAFETY: the functions are there as long as this library.
    unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
    IS_REGISTERED.store(true, Ordering::Relaxed);
}

/// The library is used from now on, and forks are noticed. To be called before the first of those
/// locks is taken: a child of a process that has used nothing is left as it is.
pub(crate) fn watch() {
    if IS_USED.load(Ordering::Relaxed) {
        return;
    }
    loaded::stay();
    register();
    IS_USED.store(true, Ordering::Relaxed);
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
    if let Some(innermost) = INNERMOST.get() {
        (innermost.hold)();
    }
}

extern "C" fn in_parent() {
    give_back_innermost();
    give_back();
}

extern "C" fn in_child() {
    give_back_innermost();
    // There is one thread, and nobody has come further than `watch` without having been there.
    if is_prepared() && IS_USED.load(Ordering::Relaxed) {
        begin_anew();
    }
    give_back();
}

fn give_back_innermost() {
    if let Some(innermost) = INNERMOST.get() {
        (innermost.give_back)();
    }
}

fn give_back() {
    HELD.with_borrow_mut(|held| drop(held.take()));
}

/// In a child: leaves behind what is its parent's.
fn begin_anew() {
    generation::begin();
    invoke::check_after_functions();
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
}
