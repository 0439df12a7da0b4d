//! What `call_rcu` calls and `kfree_rcu` frees when the grace period is over: a BH item does, in
//! the order in which the grace periods ended.
//!
//! The thread that ends the grace period does not call them: it may be in `call_rcu` itself, and
//! hold a lock that the function takes. After a shutdown it does, since there is no other thread;
//! while the item still runs, it leaves them to the item: one is called after another.
//!
//! Lock: callbacks, innermost.

use std::mem;
use std::ptr::NonNull;

use cmwq_core::WorkItem;

use crate::engine::item::flush::{self, Purpose};
use crate::engine::process::Process;
use crate::engine::process::sections;
use crate::engine::queue::handle::Handle;
use crate::engine::runtime::Runtime;
use crate::engine::threads::invoke;
use crate::engine::wq::Queueing;
use crate::os::backoff::Backoff;
use crate::os::must_return::must_return;
use crate::os::sense;
use crate::os::sync::{Mutex, lock};
use crate::record::symbol;

/// Something to be done, once.
pub(crate) enum Callback {
    /// Calls the function with its argument.
    Call(unsafe extern "C-unwind" fn(NonNull<()>), NonNull<()>),
    /// Gives memory to `free`.
    Free(NonNull<()>),
}

// SAFETY: whoever gives it promises that it may be done by any thread.
unsafe impl Send for Callback {}

impl Callback {
    pub(crate) fn run(self) {
        match self {
            Self::Call(func, argument) => {
                let who = || format!("function {} of call_rcu", symbol::name_of(func as usize));
                let is_inside = sections::depth() > 0;
                // SAFETY: whoever gave it promises that it may be called so.
                must_return(who, || unsafe { func(argument) });
                if !is_inside {
                    sections::end_left_open(who);
                }
            }
            // SAFETY: whoever gave it promises that it is memory of `malloc`, and nobody's.
            Self::Free(memory) => unsafe { libc::free(memory.as_ptr().cast()) },
        }
    }
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct Callbacks {
    item: WorkItem,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Callback>,
    /// The thread that is doing what waited.
    at_it: Option<libc::pid_t>,
    /// The library was shut down: others than the item do what waits.
    is_shut: bool,
    /// Somebody else came meanwhile, and left to him what waits.
    is_left_to_him: bool,
}

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Call(..) => "Call",
            Self::Free(_) => "Free",
        })
    }
}

impl Callbacks {
    pub(crate) fn new() -> Self {
        Self { item: WorkItem::new(run), state: Mutex::default() }
    }

    /// Has something done by an item of `wq`, or does it where that takes none. Nobody drains `wq`:
    /// what it refuses has come behind a shutdown.
    pub(crate) fn add(&self, wq: &Handle, callback: Callback) {
        lock(&self.state).waiting.push(callback);
        // SAFETY: it lives as long as the runtime, which is as long as the process.
        let queueing = unsafe { wq.queue_item(None, NonNull::from(&self.item)) };
        if matches!(queueing, Queueing::Refused(_)) {
            // Nobody else comes: the library was shut down.
            lock(&self.state).is_shut = true;
            self.run();
        }
    }

    /// Waits until all that was added before has been done.
    pub(crate) fn flush(&self, runtime: &'static Runtime) {
        let _ = flush::flush_item(runtime, &self.item, Purpose::Flush);
        // After a shutdown another thread may be doing it, which has been left what was added here.
        let mut backoff = Backoff::new();
        while self.is_done_by_another() {
            backoff.pause();
        }
    }

    fn is_done_by_another(&self) -> bool {
        let state = lock(&self.state);
        let me = sense::sched::gettid();
        state.is_shut && state.at_it.is_some_and(|tid| tid != me)
    }

    /// Does what waits. What comes meanwhile is done by the item's next run, unless it was left.
    fn run(&self) {
        let process = invoke::Process::now();
        let mut state = lock(&self.state);
        if state.at_it.is_some() {
            state.is_left_to_him = true;
            return;
        }
        loop {
            let waiting = mem::take(&mut state.waiting);
            state.at_it = Some(sense::sched::gettid());
            drop(state);
            for callback in waiting {
                callback.run();
                // The rest is the parent's, in a child that it has forked.
                if !process.is_still() {
                    return;
                }
            }
            state = lock(&self.state);
            state.at_it = None;
            if !mem::take(&mut state.is_left_to_him) {
                return;
            }
        }
    }
}

/// The item's function.
unsafe extern "C" fn run(_item: *mut WorkItem) {
    if let Some(process) = Process::existing() {
        process.callbacks.run();
    }
}
