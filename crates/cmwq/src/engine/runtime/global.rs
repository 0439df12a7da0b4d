//! The runtime of the process.

use std::ptr;

use super::{Machine, Runtime};
use crate::engine::fork;
use crate::engine::invoke;
use crate::engine::params::Params;
use crate::os::error::Error;
use crate::os::generation;
use crate::os::loaded;
use crate::os::sync::{AtomicPtr, Ordering, PlainGuard, PlainMutex, acquire, lock_plain, release};
use crate::record::{self, Inspect};

/// Null until it is first used, and in a child until it is used there.
static GLOBAL: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());
/// What a child has inherited: to begin where that ended.
static INHERITED: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());
static MAKING: PlainMutex<()> = PlainMutex::new(());

/// See `fork`.
pub(crate) fn lock_making() -> PlainGuard<'static, ()> {
    lock_plain(&MAKING)
}

/// The process is a child now, and its parent's runtime not its own.
pub(crate) fn leave_behind() {
    // ORDERING: no pairing: a child has one thread.
    let inherited = GLOBAL.swap(ptr::null_mut(), Ordering::Relaxed);
    if !inherited.is_null() {
        INHERITED.store(inherited, Ordering::Relaxed);
    }
}

impl Runtime {
    /// The process's runtime, made on first use.
    ///
    /// # Errors
    /// If its service thread cannot be created; the next call tries again.
    #[inline]
    pub(crate) fn global() -> Result<&'static Self, Error> {
        // ORDERING: Acquire pairs with the Release in `make`.
        let runtime = GLOBAL.load(acquire("global"));
        // SAFETY: null or a runtime, which lives for ever.
        match unsafe { runtime.as_ref() } {
            Some(runtime) => Ok(runtime),
            None => Self::make(),
        }
    }

    /// The process's runtime, if it has one.
    pub(crate) fn existing() -> Option<&'static Self> {
        // ORDERING: as in `global`.
        let runtime = GLOBAL.load(acquire("global"));
        // SAFETY: as there.
        unsafe { runtime.as_ref() }
    }

    /// One mapping for the process, however often making the runtime fails. Under `MAKING`.
    fn inspect_once(is_wanted: bool) -> Inspect {
        static MADE: PlainMutex<Option<(u32, Inspect)>> = PlainMutex::new(None);
        if !is_wanted {
            return Inspect::off();
        }
        let mut made = lock_plain(&MADE);
        let generation = generation::current();
        match *made {
            Some((of, inspect)) if of == generation => inspect,
            _ => made.insert((generation, Inspect::new())).1,
        }
    }

    #[cold]
    fn make() -> Result<&'static Self, Error> {
        let making = lock_making();
        // ORDERING: no pairing: written under this lock.
        let runtime = GLOBAL.load(Ordering::Relaxed);
        // SAFETY: as above.
        if let Some(runtime) = unsafe { runtime.as_ref() } {
            return Ok(runtime);
        }
        fork::watch();
        invoke::prepare();
        loaded::stay();
        record::trace::open();
        // ORDERING: no pairing: written while there is one thread.
        let inherited = INHERITED.load(Ordering::Relaxed);
        // SAFETY: null or a runtime; of one that was inherited only a number is read.
        let first_pool = unsafe { inherited.as_ref() }.map_or(0, Self::end_of_pools);
        let params = Params::from_env();
        let machine = Machine::read(&params);
        let inspect = Self::inspect_once(params.inspect);
        let runtime = Self::start(params, machine, first_pool, inspect)
            .map_err(|error| Error::thread("cannot create the service thread", error))?;
        // ORDERING: Release pairs with the Acquire in `global`.
        GLOBAL.store(ptr::from_ref(runtime).cast_mut(), release("global"));
        drop(making);
        crate::OBSERVERS.began(runtime);
        Ok(runtime)
    }
}
