//! Functions with an argument, for programs that know nothing of the kernel's items.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;
use std::time::Duration;

use cmwq::raw::{self, Func, IndexedFunc, system};
use cmwq::{JoinHandle, Workqueue};

use crate::alloc::{self, MANAGED, ORDERED, UNBOUND};
use crate::face;
use crate::handle::{self, NoQueue, Queue, workqueue_struct};
use crate::queueing::c_functions;
use crate::waiting::__flush_workqueue;

/// `struct cmwq_job`.
#[derive(Debug)]
pub struct Job(JoinHandle<()>);

/// LIMIT: so many calls are queued ahead if the program does not say: enough for any machine.
const AHEAD: usize = 1024;

/// A queue from C, or the one that all share.
enum Given {
    Own(Queue),
    Shared(&'static Workqueue),
}

impl std::ops::Deref for Given {
    type Target = Workqueue;

    fn deref(&self) -> &Workqueue {
        match self {
            Self::Own(wq) => wq,
            Self::Shared(wq) => wq,
        }
    }
}

/// The queue for the function `here`, or its answer.
///
/// # Safety
/// `wq` must be null, or a queue that was not destroyed.
unsafe fn queue(here: &str, wq: *mut workqueue_struct) -> Result<Given, c_int> {
    let given = if wq.is_null() {
        let ready = system::managed().and_then(|wq| raw::make_ready(wq).map(|()| wq));
        ready.map(Given::Shared).map_err(|error| handle::cannot_be_made(here, &error))
    } else {
        // SAFETY: passed on to the caller.
        unsafe { Queue::find(here, wq) }.map(Given::Own)
    };
    given.map_err(|none| match none {
        // As of a queue that was made before.
        NoQueue::Shut => -libc::ESHUTDOWN,
        _ => none.errno(),
    })
}

/// Queues a call; the answer if it cannot be.
///
/// # Safety
/// As for `queue`, and the function must be fit to be called with the argument, by any thread.
unsafe fn start(
    here: &str,
    wq: *mut workqueue_struct,
    func: Option<Func>,
    arg: *mut c_void,
    delay_ms: c_ulong,
) -> Result<Job, c_int> {
    let Some(func) = func else {
        face::say_null(here, "function");
        return Err(-libc::EINVAL);
    };
    // SAFETY: passed on to the caller.
    let wq = unsafe { queue(here, wq) }?;
    // SAFETY: passed on to the caller.
    let started = unsafe {
        match delay_ms {
            0 => raw::queue_call(&wq, func, arg),
            _ => raw::queue_call_delayed(&wq, func, arg, Duration::from_millis(delay_ms)),
        }
    };
    started.map(Job).ok_or(-libc::ESHUTDOWN)
}

/// As C has it: 0, or what is wrong.
fn errno<T>(result: Result<T, c_int>) -> c_int {
    result.err().unwrap_or(0)
}

/// As C has it where there is no room for a number: null, and the number in `errno`.
fn or_null<T>(result: Result<*mut T, c_int>) -> *mut T {
    result.unwrap_or_else(|answer| {
        // SAFETY: the calling thread's own.
        unsafe { *libc::__errno_location() = -answer };
        ptr::null_mut()
    })
}

fn pointer(started: Result<Job, c_int>) -> *mut Job {
    or_null(started.map(|job| Box::into_raw(Box::new(job))))
}

/// A queue for the function `here`, or null.
///
/// # Safety
/// `name` must be null or a string.
unsafe fn create(
    here: &str,
    name: *const c_char,
    flags: c_uint,
    max_active: c_int,
) -> *mut workqueue_struct {
    if !face::is_there(here, name, "name") {
        return or_null(Err(-libc::EINVAL));
    }
    // SAFETY: passed on to the caller; it is not null.
    let name = unsafe { face::string(here, name) }.unwrap_or_default();
    or_null(alloc::make(&name, flags, max_active))
}

/// Whether the function `here` is called by the job's own function, which would wait for itself.
/// That is said; the job is to be let go of, since nobody else will.
fn waits_for_itself(here: &str, job: &Job) -> bool {
    let is_itself = raw::is_inside_of(&job.0);
    if is_itself {
        let func = raw::function_name(raw::current_func());
        raw::say(format!(
            "{here}: a job is waited for from inside its own function ({func}), which would wait \
             for itself for ever; the job is let go of, and the call returns without waiting"
        ));
    }
    is_itself
}

/// What became of a job.
fn outcome<E>(joined: Result<(), E>) -> c_int {
    joined.map_or(-libc::ECANCELED, |()| 0)
}

/// The job that a function is given, which is then nobody's. `None`: a null, which is said.
///
/// # Safety
/// `job` must be null, or a job that was not given to such a function.
unsafe fn take(here: &str, job: *mut Job) -> Option<Job> {
    // SAFETY: not null, and the caller's promise.
    face::is_there(here, job, "job").then(|| unsafe { *Box::from_raw(job) })
}

/// Queues a call for each index below `count`, and waits for all that were queued.
fn for_each(count: usize, ahead: usize, queue: impl Fn(usize) -> Option<JoinHandle<()>>) -> c_int {
    let ahead = if ahead == 0 { AHEAD } else { ahead };
    let mut queued: VecDeque<JoinHandle<()>> = VecDeque::new();
    let mut answer = 0;
    for index in 0..count {
        if queued.len() >= ahead {
            answer = wait(queued.pop_front(), answer);
        }
        if answer != 0 {
            break;
        }
        match queue(index) {
            Some(handle) => queued.push_back(handle),
            None => {
                answer = -libc::ESHUTDOWN;
                break;
            }
        }
    }
    while let Some(handle) = queued.pop_front() {
        answer = wait(Some(handle), answer);
    }
    answer
}

fn wait(handle: Option<JoinHandle<()>>, answer: c_int) -> c_int {
    match handle.map(JoinHandle::join) {
        Some(Err(_)) if answer == 0 => -libc::ESHUTDOWN,
        _ => answer,
    }
}

c_functions! {
    /// A managed queue, or null, which is said.
    fn cmwq_create(name: *const c_char) -> *mut workqueue_struct {
        // SAFETY: passed on to the caller.
        unsafe { create(HERE, name, MANAGED, 0) }
    }

    /// As `cmwq_create`, with at most `max_active` items at once.
    fn cmwq_create_limited(name: *const c_char, max_active: c_int) -> *mut workqueue_struct {
        // SAFETY: passed on to the caller.
        unsafe { create(HERE, name, MANAGED, max_active) }
    }

    /// A queue that does one item at a time, in order; or null, which is said.
    fn cmwq_create_ordered(name: *const c_char) -> *mut workqueue_struct {
        // SAFETY: passed on to the caller.
        unsafe { create(HERE, name, UNBOUND | ORDERED, 1) }
    }

    /// Waits for all items and ends the queue, behind the delays that are not over.
    fn cmwq_destroy(wq: *mut workqueue_struct) {
        // SAFETY: passed on to the caller.
        unsafe { alloc::end(HERE, wq, |raw| raw::destroy_behind_timers(raw)) }
    }

    /// Waits for what was queued before.
    fn cmwq_flush(wq: *mut workqueue_struct) {
        if !face::is_there(HERE, wq, "workqueue") {
            return;
        }
        // SAFETY: passed on to the caller.
        unsafe { __flush_workqueue(wq) }
    }

    /// Has `func(arg)` called: 0, `-EINVAL`, `-ENOMEM` or `-ESHUTDOWN`.
    fn cmwq_queue(wq: *mut workqueue_struct, func: Option<Func>, arg: *mut c_void) -> c_int {
        // SAFETY: passed on to the caller.
        errno(unsafe { start(HERE, wq, func, arg, 0) })
    }

    /// As `cmwq_queue`, when `delay_ms` have passed.
    fn cmwq_queue_delayed(
        wq: *mut workqueue_struct, func: Option<Func>, arg: *mut c_void, delay_ms: c_ulong
    ) -> c_int {
        // SAFETY: passed on to the caller.
        errno(unsafe { start(HERE, wq, func, arg, delay_ms) })
    }

    /// As `cmwq_queue`, with a job to wait for; null for an error.
    fn cmwq_start(
        wq: *mut workqueue_struct, func: Option<Func>, arg: *mut c_void
    ) -> *mut Job {
        // SAFETY: passed on to the caller.
        pointer(unsafe { start(HERE, wq, func, arg, 0) })
    }

    /// As `cmwq_start`, when `delay_ms` have passed.
    fn cmwq_start_delayed(
        wq: *mut workqueue_struct, func: Option<Func>, arg: *mut c_void, delay_ms: c_ulong
    ) -> *mut Job {
        // SAFETY: passed on to the caller.
        pointer(unsafe { start(HERE, wq, func, arg, delay_ms) })
    }

    /// Waits for a job and lets go of it: 0, or `-ECANCELED`: its queue went before; or `-EDEADLK`:
    /// it is the job itself that waits.
    fn cmwq_job_wait(job: *mut Job) -> c_int {
        // SAFETY: passed on to the caller.
        let Some(job) = (unsafe { take(HERE, job) }) else { return -libc::EINVAL };
        if waits_for_itself(HERE, &job) {
            return -libc::EDEADLK;
        }
        outcome(job.0.join())
    }

    /// As `cmwq_job_wait`, for so long; `-ETIMEDOUT`: it is not done, and the job is still the
    /// caller's.
    fn cmwq_job_wait_for(job: *mut Job, timeout_ms: c_ulong) -> c_int {
        if !face::is_there(HERE, job, "job") {
            return -libc::EINVAL;
        }
        // SAFETY: not null, and passed on to the caller.
        let mut place = unsafe { Box::from_raw(job) };
        // A look is no wait.
        if timeout_ms > 0 && waits_for_itself(HERE, &place) {
            return -libc::EDEADLK;
        }
        let Job(handle) = *place;
        match handle.join_timeout(Duration::from_millis(timeout_ms)) {
            Ok(joined) => outcome(joined),
            Err(handle) => {
                *place = Job(handle);
                // The caller has its address.
                let _ = Box::into_raw(place);
                -libc::ETIMEDOUT
            }
        }
    }

    /// Takes a job back: 0; or `-EALREADY`, when its function has returned; or `-EDEADLK`: it is
    /// the job itself that asks.
    fn cmwq_job_cancel(job: *mut Job) -> c_int {
        // SAFETY: passed on to the caller.
        let Some(job) = (unsafe { take(HERE, job) }) else { return -libc::EINVAL };
        if waits_for_itself(HERE, &job) {
            return -libc::EDEADLK;
        }
        match job.0.cancel_sync() {
            None | Some(Err(_)) => 0,
            Some(Ok(())) => -libc::EALREADY,
        }
    }

    /// Lets go of a job, whose function is called all the same.
    fn cmwq_job_forget(job: *mut Job) {
        // SAFETY: passed on to the caller.
        drop(unsafe { take(HERE, job) });
    }

    /// Whether a job's function has returned.
    fn cmwq_job_is_done(job: *const Job) -> bool {
        // SAFETY: not null, and passed on to the caller.
        face::is_there(HERE, job, "job")
            && unsafe { &*job }.0.is_finished()
    }

    /// What the calling item starts from now on has all CPUs.
    fn cmwq_leave_cpu() {
        cmwq::leave_cpu();
    }

    /// Has `func(arg, index)` called for each index below `count`, and waits for all: 0, or as
    /// `cmwq_queue`.
    fn cmwq_for_each(
        wq: *mut workqueue_struct,
        count: usize,
        ahead: usize,
        func: Option<IndexedFunc>,
        arg: *mut c_void
    ) -> c_int {
        let Some(func) = func else {
            face::say_null(HERE, "function");
            return -libc::EINVAL;
        };
        // SAFETY: passed on to the caller.
        let wq = match unsafe { queue(HERE, wq) } {
            Ok(wq) => wq,
            Err(answer) => return answer,
        };
        // SAFETY: C says that the function may be called so.
        for_each(count, ahead, |index| unsafe { raw::queue_indexed_call(&wq, func, arg, index) })
    }
}
