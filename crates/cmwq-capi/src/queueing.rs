//! Queueing. Safe to call from any thread; none of these waits for anything to run.

use std::ffi::{c_int, c_uint, c_ulong, c_void};

use cmwq::raw::{self, Any, RawDelayed, WorkItem};

use crate::cpu;
use crate::debug::{is_item, is_ordinary, may_be_queued};
use crate::delay::{HZ, delay};
use crate::face::is_there;
use crate::handle::{Queue, workqueue_struct};
use crate::item::{delayed, pointer, work};
use crate::system;

/// Functions of the library's interface. Each is two: one of Rust's, which others here call, and
/// the exported one, a [`Face`](crate::face::Face) around it. So nothing inside refers to an
/// exported name, which a program may have given to a function of its own.
macro_rules! c_functions {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// Pointers must lead to queues that exist and to items that are initialised. An item
            /// stays where it is until its function is entered.
            #[inline(always)]
            pub(crate) unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
                /// The function's name, for what it has to say.
                #[allow(dead_code, reason = "some have nothing to say")]
                const HERE: &str = stringify!($name);
                $body
            }

            const _: () = {
                use self::$name as inner;

                #[unsafe(no_mangle)]
                unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
                    let face = $crate::face::Face(stringify!($name));
                    // SAFETY: passed on to the caller.
                    let answer = unsafe { inner($($arg),*) };
                    std::mem::forget(face);
                    answer
                }
            };
        )*
    };
}
pub(crate) use c_functions;

/// What queueing begins with: the queue, or else the answer.
///
/// # Safety
/// As for the functions here.
#[inline]
pub(crate) unsafe fn begin(
    here: &str,
    wq: *mut workqueue_struct,
    item: *mut WorkItem,
) -> Result<Queue, bool> {
    if !is_there(here, item, "work item") {
        return Err(false);
    }
    // SAFETY: the caller's promise.
    unsafe {
        // As in the kernel, who queues what cannot be queued is told that it was.
        if !may_be_queued(here, item) {
            return Err(true);
        }
        let queue = Queue::of(here, wq).ok_or(false)?;
        system::record_use(wq, work(item));
        Ok(queue)
    }
}

/// The queue, where there is nothing to say, to make or to look up, as nearly always: a queue of
/// the program's own, and an item that is not linked.
///
/// # Safety
/// As for the functions here.
#[inline(always)]
unsafe fn ordinary(wq: *mut workqueue_struct, item: *mut WorkItem) -> Option<Queue> {
    // SAFETY: the caller's promise.
    unsafe { if is_ordinary(item) { Queue::of_own(wq) } else { None } }
}

/// # Safety
/// As for the functions here.
#[inline(always)]
unsafe fn queue_on(
    here: &str,
    wq: *mut workqueue_struct,
    cpu: Option<u32>,
    item: *mut WorkItem,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match ordinary(wq, item) {
            Some(queue) => raw::queue(&queue, cpu, pointer(item)),
            None => look_and_queue(here, wq, cpu, item),
        }
    }
}

/// # Safety
/// As for the functions here.
#[inline(never)]
unsafe fn look_and_queue(
    here: &str,
    wq: *mut workqueue_struct,
    cpu: Option<u32>,
    item: *mut WorkItem,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match begin(here, wq, item) {
            Ok(queue) => raw::queue(&queue, cpu, pointer(item)),
            Err(answer) => answer,
        }
    }
}

c_functions! {
    /// Queues an item for a CPU: `true`, this call queued it; `false`, it was pending or is
    /// disabled.
    fn queue_work_on(cpu: c_int, wq: *mut workqueue_struct, item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { queue_on(HERE, wq, cpu::wanted(cpu), item) }
    }

    /// As `queue_work_on`, from the CPU that calls.
    fn queue_work(wq: *mut workqueue_struct, item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { queue_on(HERE, wq, None, item) }
    }

    /// As `queue_work_on`, for a CPU of a NUMA node.
    fn queue_work_node(node: c_int, wq: *mut workqueue_struct, item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
            match begin(HERE, wq, item) {
                Ok(queue) => raw::queue_node(&queue, u32::try_from(node).ok(), pointer(item)),
                Err(answer) => answer,
            }
        }
    }

    /// Queues an item when `ticks` of `hz` a second have passed.
    fn cmwq_queue_delayed_work_on(
        cpu: c_int, wq: *mut workqueue_struct, item: *mut RawDelayed, ticks: c_ulong, hz: c_uint
    ) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
            match begin(HERE, wq, item.cast()) {
                Ok(queue) => {
 raw::queue_delayed(&queue, cpu::wanted(cpu), pointer(item), delay(ticks, hz))
 }
                Err(answer) => answer,
            }
        }
    }

    /// Times an item anew when `ticks` of `hz` a second have passed: `true`, it was pending.
    fn cmwq_mod_delayed_work_on(
        cpu: c_int, wq: *mut workqueue_struct, item: *mut RawDelayed, ticks: c_ulong, hz: c_uint
    ) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
            match begin(HERE, wq, item.cast()) {
                Ok(queue) => {
 raw::mod_delayed(&queue, cpu::wanted(cpu), pointer(item), delay(ticks, hz))
 }
                Err(answer) => answer,
            }
        }
    }

    /// `cmwq_queue_delayed_work_on` for programs whose `HZ` is 250.
    fn queue_delayed_work_on(
        cpu: c_int, wq: *mut workqueue_struct, item: *mut RawDelayed, ticks: c_ulong
    ) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { cmwq_queue_delayed_work_on(cpu, wq, item, ticks, HZ) }
    }

    /// `cmwq_mod_delayed_work_on` for programs whose `HZ` is 250.
    fn mod_delayed_work_on(
        cpu: c_int, wq: *mut workqueue_struct, item: *mut RawDelayed, ticks: c_ulong
    ) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { cmwq_mod_delayed_work_on(cpu, wq, item, ticks, HZ) }
    }

    /// Lets an item's timer expire now, if it is armed. Takes the address of the item's timer.
    fn delayed_work_timer_fn(timer: *mut c_void) {
        if !is_there(HERE, timer, "work item") {
            return;
        }
        let item = timer.wrapping_byte_sub(RawDelayed::TIMER_OFFSET).cast::<RawDelayed>();
        // SAFETY: passed on to the caller: the timer is an item's.
        unsafe { raw::expire(pointer(item)) };
    }

    /// Enables an item and queues it if that made it ready to be queued: `true`, it is. Does
    /// nothing without a queue.
    fn enable_and_queue_work(wq: *mut workqueue_struct, item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
            let is_complete = is_item(HERE, item, "enabled") && Queue::of(HERE, wq).is_some();
            let is_enabled = is_complete && raw::enable(Any::Work(work(item)));
            if is_enabled {
                queue_on(HERE, wq, None, item);
            }
            is_enabled
        }
    }

    /// Cancels an item without waiting: `true`, it was pending.
    fn cancel_work(item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { is_item(HERE, item, "cancelled") && raw::cancel(Any::Work(work(item))) }
    }

    /// As `cancel_work`, and its timer.
    fn cancel_delayed_work(item: *mut RawDelayed) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
 is_item(HERE, item.cast(), "cancelled")
 && raw::cancel(Any::Delayed(delayed(item)))
 }
    }

    /// As `cancel_work`, and refuses to be queued until it is enabled.
    fn disable_work(item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { is_item(HERE, item, "disabled") && raw::disable(Any::Work(work(item))) }
    }

    /// As `disable_work`, and its timer.
    fn disable_delayed_work(item: *mut RawDelayed) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
 is_item(HERE, item.cast(), "disabled")
 && raw::disable(Any::Delayed(delayed(item)))
 }
    }

    /// Takes one disabling back: `true`, the item can be queued again.
    fn enable_work(item: *mut WorkItem) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { is_item(HERE, item, "enabled") && raw::enable(Any::Work(work(item))) }
    }

    /// As `enable_work`.
    fn enable_delayed_work(item: *mut RawDelayed) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
 is_item(HERE, item.cast(), "enabled")
 && raw::enable(Any::Delayed(delayed(item)))
 }
    }
}
