//! Functions that the program wants called when a thread that runs its functions begins and ends:
//! to register the thread with a garbage collector, a tracer, or a library that counts threads.

use std::fmt;

use crate::engine::threads::invoke;
use crate::os::panic::guarded;
use crate::os::sync::OnceLock;

pub(crate) type Hook = Box<dyn Fn(&WorkerThread) + Send + Sync>;

/// A thread that runs work functions: a worker, a rescuer, or the BH context of a CPU.
#[derive(Debug)]
pub struct WorkerThread {
    name: String,
}

impl WorkerThread {
    /// The thread's name at its begin, such as `kworker/0:1`. The name that tools show changes with
    /// the queue that it serves.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// See the module header.
#[derive(Default)]
pub(crate) struct ThreadHooks {
    pub(crate) start: Option<Hook>,
    pub(crate) stop: Option<Hook>,
}

impl fmt::Debug for ThreadHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, stop } = self;
        f.debug_struct("ThreadHooks")
            .field("start", &start.is_some())
            .field("stop", &stop.is_some())
            .finish()
    }
}

/// Set once, before the first thread; a forked child has the same.
static HOOKS: OnceLock<ThreadHooks> = OnceLock::new();

/// Sets the hooks. `false`: they were set before.
pub(crate) fn set(hooks: ThreadHooks) -> bool {
    HOOKS.set(hooks).is_ok()
}

/// The calling thread begins to run functions, until the result is dropped, on the same thread.
#[must_use]
pub(crate) fn begin(name: impl FnOnce() -> String) -> Option<Begun> {
    let hooks = HOOKS.get()?;
    let thread = WorkerThread { name: name() };
    if let Some(start) = &hooks.start {
        call(start, &thread);
    }
    Some(Begun { hooks, thread })
}

pub(crate) struct Begun {
    hooks: &'static ThreadHooks,
    thread: WorkerThread,
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(stop) = &self.hooks.stop {
            call(stop, &self.thread);
        }
    }
}

fn call(hook: &Hook, thread: &WorkerThread) {
    invoke::foreign(|| "a hook of a thread".to_owned(), || guarded(|| hook(thread)));
}
