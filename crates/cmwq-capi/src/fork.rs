//! `fork`: this crate's locks are held meanwhile, so that none is locked in the child by a thread
//! that does not exist there.
//!
//! They are innermost: memory is freed under locks of the `cmwq` crate, and a program may tell of
//! what is freed ([`debug`](crate::debug)). So a fork takes them behind those of that crate, and
//! gives them back before: handlers that prepare a fork are called in the reverse order of their
//! registration, and ours are registered when the library is loaded.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::alloc::{DESTROYED, Destroyed};
use crate::debug::{OBJECTS, Objects};
use crate::devres::{DEVICES, Devices};

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
    static IS_WATCHING: AtomicBool = AtomicBool::new(false);
    // ORDERING (here and below): no pairing: a switch.
    if !IS_WATCHING.load(Ordering::Relaxed) && !IS_WATCHING.swap(true, Ordering::Relaxed) {
        // SAFETY: the functions are there as long as the library, whose handlers the system forgets
        // with it.
        unsafe { libc::pthread_atfork(Some(prepare), Some(give_back), Some(give_back)) };
    }
}

/// Whether this thread has prepared a fork.
fn is_prepared() -> bool {
    HELD.with_borrow(|held| held.is_some())
}

extern "C" fn prepare() {
    let held =
        Held { _devices: DEVICES.hold(), _destroyed: DESTROYED.hold(), _objects: OBJECTS.hold() };
    HELD.with_borrow_mut(|place| **place = Some(held));
}

extern "C" fn give_back() {
    HELD.with_borrow_mut(|held| drop(held.take()));
}
