//! A function that is run by a workqueue while the caller waits.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use cmwq_core::WorkItem;

use crate::api::closure::JoinError;
use crate::api::refused::Refused;
use crate::api::workqueue::Workqueue;
use crate::engine::item::run_here::Ran;
use crate::engine::threads::current;
use crate::engine::tools::own_event::OwnEvent;
use crate::engine::tools::watchdog::WaitFor;
use crate::engine::wq::Wq;
use crate::os::must_return::while_stack_is_shared;
use crate::os::park::Event;
use crate::record::symbol::closures;

/// On the caller's stack, until it has run.
#[repr(C)]
struct Call<F, T> {
    item: WorkItem,
    /// Whose it is: the run's until `done` is set, or until it has returned on the caller's thread.
    body: UnsafeCell<Body<F, T>>,
    done: &'static Event,
}

enum Body<F, T> {
    Func(F),
    Running,
    Returned(T),
    Panicked(Box<dyn Any + Send>),
}

unsafe extern "C" fn call<F: FnOnce() -> T, T>(item: *mut WorkItem) {
    closures::tell!(call::<F, T>, F);
    let this = item.cast::<Call<F, T>>();
    // SAFETY: the item was queued through the pointer to the whole call, which is there until
    // `done` is set.
    let (body, done) = unsafe { ((*this).body.get(), (*this).done) };
    // SAFETY: the run's.
    let func = unsafe { body.replace(Body::Running) };
    let Body::Func(func) = func else { unreachable!("an item of one use ran twice") };
    let end = match catch_unwind(AssertUnwindSafe(func)) {
        Ok(value) => Body::Returned(value),
        Err(payload) => Body::Panicked(payload),
    };
    // SAFETY: the run's still, and nothing is there.
    unsafe { body.write(end) };
    // The last that happens to it here: the caller may go on, and its stack with it.
    done.set();
}

impl Workqueue {
    /// Runs a function as an item of this queue, and waits for it: as
    /// `queue(func).join()`, but it may borrow, and costs no wake-up where it need not.
    ///
    /// If no other item waits in the pool and [`max_active`](crate::Builder::max_active) has room,
    /// the calling thread runs it itself, on a managed queue (the default kind) of normal priority
    /// that is neither [`cpu_intensive`](crate::Builder::cpu_intensive) nor
    /// [`mem_reclaim`](crate::Builder::mem_reclaim). That takes some hundred nanoseconds, where
    /// handing it to a worker and back takes microseconds. Otherwise, on other kinds of queues, and
    /// in work functions, it is queued, and the caller sleeps until it has run.
    ///
    /// Flushes, drains, limits, freezing, counters and traces include it either way. What differs
    /// where it runs here: it has the thread's own locals, priority and CPUs, it is no worker's
    /// item, so no other one starts in its place while it blocks, its CPU time is not counted as
    /// the queue's, and tools do not list it among what workers run.
    ///
    /// It blocks without a time limit, as [`join`](crate::JoinHandle::join) does: behind all that
    /// waits on the queue, and while that is [frozen](crate::freeze). Where a backlog may be long,
    /// or an answer is due, [`try_queue`](Self::try_queue) and
    /// [`join_timeout`](crate::JoinHandle::join_timeout) have limits;
    /// [`max_queued`](crate::Builder::max_queued) is none for this: it goes beyond. An item of a
    /// queue that runs one at a time, an [ordered](crate::Builder::ordered) one, must not run
    /// something on that queue, nor one of those that use up its `max_active`: each would wait for
    /// the other. That is a deadlock, which the [watchdog](crate::watchdog) names where items wait
    /// behind it.
    ///
    /// KERNEL: none.
    ///
    /// # Errors
    /// The function has panicked, or the queue is being drained, closed or shut down and [refuses
    /// it](JoinError::is_refused): it is dropped then.
    ///
    /// # Panics
    /// Where [`queue`](Self::queue) does.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::builder("db").max_active(8).build()?;
    /// let words = ["to", "be"];
    /// assert_eq!(wq.run(|| words.concat()).unwrap(), "tobe"); // at most 8 at once, whoever calls
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    pub fn run<F, T>(&self, func: F) -> Result<T, JoinError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        match self.handle().account() {
            None => self.run_call(func),
            Some(account) => {
                let ticket = account.enter();
                self.run_call(move || ticket.run(func))
            }
        }
    }

    fn run_call<F, T>(&self, func: F) -> Result<T, JoinError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // A forked child's queue may have to be made, and panics if that cannot be: not where the
        // caller must not unwind.
        let wq: &Wq = self.handle();
        let done = OwnEvent::take();
        let body = UnsafeCell::new(Body::Func(func));
        let this = Call { item: WorkItem::new(call::<F, T>), body, done: done.event() };
        let wait = || {
            // SAFETY: it stays on this stack until it has run, which is waited for here: nothing
            // unwinds from here. From here on it is touched by this pointer alone.
            let ran = unsafe { wq.run_or_queue(NonNull::from(&this).cast()) };
            if ran == Ran::Later && !done.is_set() {
                let what = WaitFor::Item((&raw const this).addr());
                current::waiting_for(what, || done.wait(None));
            }
            ran
        };
        if let Ran::Refused(why) = while_stack_is_shared("Workqueue::run", wait) {
            return Err(JoinError::refused(Refused::of(why)));
        }
        match this.body.into_inner() {
            Body::Returned(value) => Ok(value),
            Body::Panicked(payload) => Err(JoinError::panicked(payload)),
            Body::Func(_) | Body::Running => unreachable!("an item has ended without an end"),
        }
    }
}
