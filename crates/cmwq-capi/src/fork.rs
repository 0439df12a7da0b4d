//! `fork`: this crate's locks are held meanwhile, so that none is locked in the child by a thread
//! that does not exist there.
//!
//! They are innermost: memory is freed under locks of the `cmwq` crate, and a program may tell of
//! what is freed ([`debug`](crate::debug)). So that crate takes them behind its own, and gives them
//! back before.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cmwq::CpuSet;
use cmwq::raw::{self, Innermost};

use crate::alloc::{DESTROYED, Destroyed};
use crate::attrs::REQUESTED;
use crate::debug::{OBJECTS, Objects};
use crate::devres::{DEVICES, Devices};
use crate::observing::{TOLD, Told};

/// A lock that no child finds locked.
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// `None`: the calling thread is in the middle of a fork, and has the lock already.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, T>> {
        watch();
        (!is_prepared()).then(|| self.hold())
    }

    fn hold(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything that is locked during a fork, outermost first.
struct Held {
    _devices: MutexGuard<'static, Devices>,
    _destroyed: MutexGuard<'static, Destroyed>,
    _objects: MutexGuard<'static, Objects>,
    _told: MutexGuard<'static, Told>,
    _requested: MutexGuard<'static, Option<CpuSet>>,
}

std::thread_local! {
    /// Without a destructor: it is there, too, for a thread that forks at its end.
    static HELD: RefCell<ManuallyDrop<Option<Held>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Called when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static WATCH: extern "C" fn() = watch;

extern "C" fn watch() {
    static LOCKS: Innermost = Innermost { hold, give_back };
    raw::hold_during_forks(&LOCKS);
}

/// Whether this thread has prepared a fork.
fn is_prepared() -> bool {
    HELD.with_borrow(|held| held.is_some())
}

fn hold() {
    let held = Held {
        _devices: DEVICES.hold(),
        _destroyed: DESTROYED.hold(),
        _objects: OBJECTS.hold(),
        _told: TOLD.hold(),
        _requested: REQUESTED.hold(),
    };
    HELD.with_borrow_mut(|place| **place = Some(held));
}

fn give_back() {
    HELD.with_borrow_mut(|held| drop(held.take()));
}
