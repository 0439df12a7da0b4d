//! The process and its runtime: made at first use, and left behind in a forked child.

use super::{Process, fork, starting};
use crate::engine::pool::Pool;
use crate::engine::runtime::{Machine, Runtime};
use crate::engine::threads::invoke;
use crate::engine::tools::params::Params;
use crate::engine::tools::params::early::lock_early;
use crate::engine::tools::table::Table;
use crate::os::error::Error;
use crate::os::generation;
use crate::os::published::Lasting;
use crate::os::sync::{PlainGuard, PlainMutex, lock_plain};
use crate::record::{self, Inspect};

/// Empty until the first use, in a child again until the first use there.
static GLOBAL: Lasting<Process> = Lasting::nothing();
/// In a child, the parent's process: the ids of pools begin where its ended.
static INHERITED: Lasting<Process> = Lasting::nothing();
static MAKING: PlainMutex<()> = PlainMutex::new(());

/// See `fork`.
pub(crate) fn lock_making() -> PlainGuard<'static, ()> {
    lock_plain(&MAKING)
}

/// The process is a child now, and the parent's runtime is not its own.
pub(crate) fn leave_behind() {
    if let Some(inherited) = GLOBAL.get() {
        INHERITED.set(inherited);
        GLOBAL.clear();
    }
}

/// The id with which the pools of a new runtime begin.
///
/// # Errors
/// If there are too few left, after some million generations of children that had pools.
fn first_pool() -> Result<u32, Error> {
    // Only a number is read of an inherited runtime. A child leaves one id out: `claiming`.
    let end = INHERITED.get().map_or(0, |process| process.runtime.end_of_pools());
    let first = end + u32::from(generation::is_child());
    if !Table::<Pool>::has_ids(first) {
        return Err(Error::unavailable(
            "the processes from which this one was forked, one from the other, have used up the \
             ids of worker pools: a program that is started anew has all of them",
        ));
    }
    Ok(first)
}

impl Process {
    /// This process, if it has a runtime.
    pub(crate) fn existing() -> Option<&'static Self> {
        GLOBAL.get()
    }
}

impl Runtime {
    /// The process's runtime, made on first use.
    ///
    /// # Errors
    /// If its service thread cannot be created; the next call tries again. If there are no ids left
    /// for its pools.
    #[inline]
    pub(crate) fn global() -> Result<&'static Self, Error> {
        GLOBAL.get().map_or_else(Self::make, |process| Ok(process.runtime))
    }

    /// The process's runtime, if it has one.
    pub(crate) fn existing() -> Option<&'static Self> {
        GLOBAL.get().map(|process| process.runtime)
    }

    /// One mapping for the process, also if making the runtime fails and is tried again. Under
    /// `MAKING`.
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
        fork::watch();
        let making = lock_making();
        if let Some(process) = GLOBAL.get() {
            return Ok(process.runtime);
        }
        invoke::prepare();
        record::trace::open();
        let first_pool = first_pool()?;
        let params = Params::from_env();
        let machine = Machine::read(&params);
        let inspect = Self::inspect_once(params.inspect);
        let runtime = starting::start(params, machine, first_pool, inspect)
            .map_err(|error| Error::thread("cannot create the service thread", error))?;
        let early = lock_early();
        runtime.set_frozen(early.is_frozen);
        GLOBAL.set(Box::leak(Process::around(runtime)));
        drop(early);
        drop(making);
        crate::OBSERVERS.began(runtime);
        Ok(runtime)
    }
}
