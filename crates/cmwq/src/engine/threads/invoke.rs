//! Calling a work function, which has to return, in the process in which it was called, and outside
//! of sections of `rcu_read_lock`.
//!
//! A function in C or C++ can do otherwise: it ends its thread (`pthread_exit`, or `pthread_cancel`
//! of itself), or it lets an exception out. The worker cannot survive that: ending the thread
//! unwinds the caller's frames, too, which Rust does not permit, and nothing catches the exception.
//! So the process ends, with one line that names the function.
//!
//! Where the C library ends a thread without unwinding (musl; functions compiled without unwind
//! tables), the frames are left as they are, and only the destructors of the thread's own data
//! notice: [`watch_thread`].
//!
//! A function that forks has a copy in the child, where no worker is that it could return to: the
//! locks and the items that its caller goes on with are the parent's. So the child ends, unless the
//! function ends it or executes another program.
//!
//! Why: docs/decisions/known-by-another-function.md

use std::ptr;

use cmwq_core::{Claim, WorkFn, WorkItem};

use crate::engine::pool::Pool;
use crate::engine::process::sections;
use crate::engine::runtime::Runtime;
use crate::engine::threads::current;
use crate::os::generation;
use crate::os::must_return::must_return;
use crate::os::notice;
use crate::os::sync::plain::{AtomicBool, AtomicPtr, Ordering};
use crate::record::symbol;
use crate::record::trace;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use at_exit::{prepare, watch_thread};

/// As [`cmwq_core::WorkFn`], by an ABI that admits that it may not return.
pub(crate) type Escaping = unsafe extern "C-unwind" fn(*mut WorkItem);

/// Which process a function was called in by a thread of ours, which must be there when it returns.
pub(crate) struct Process(u32);

impl Process {
    #[inline(always)]
    pub(crate) fn now() -> Self {
        Self(generation::current())
    }

    #[inline(always)]
    pub(crate) fn is_still(&self) -> bool {
        self.0 == generation::current()
    }
}

/// There is something to be looked at behind work functions.
///
/// Not the models' atomics: nobody forks there, and there are no sections.
static CHECKS: AtomicBool = AtomicBool::new(false);

/// From now on work functions are looked at when they have returned: this process is a child, or
/// the calling thread has a section that a function may leave open.
pub(crate) fn check_after_functions() {
    // ORDERING (here and below): no pairing: a thread finds what it has stored itself, or the
    // parent of its process.
    if !CHECKS.load(Ordering::Relaxed) {
        CHECKS.store(true, Ordering::Relaxed);
    }
}

/// Behind the call of a work function by a thread of ours that serves this runtime, which runs the
/// item until then. PERF: one load for both.
#[inline(always)]
pub(crate) fn after_function(runtime: &'static Runtime) {
    if CHECKS.load(Ordering::Relaxed) {
        check_closely(runtime);
    }
}

/// Nothing of the claim is asked, which costs every call to keep it.
#[cold]
#[inline(never)]
fn check_closely(runtime: &'static Runtime) {
    if runtime.generation != generation::current() {
        returned_in_child("a work function");
    }
    sections::end_left_open(|| {
        current::running().map_or_else(
            || "a work function".to_owned(),
            |(queue, func)| format!("function {} of workqueue '{queue}'", symbol::name_of(func)),
        )
    });
}

/// Calls the function of an item that was claimed from this pool, between the trace events of a run
/// if runs are traced.
///
/// # Safety
/// The claim must be the caller's, and is used up.
#[inline]
pub(crate) unsafe fn call(pool: &'static Pool, claim: &Claim) {
    let call = || {
        let who = || {
            let queue = pool.runtime.wq_name(claim.wq).unwrap_or_default();
            format!("function {} of workqueue '{queue}'", symbol::name_of(claim.func as usize))
        };
        // SAFETY: the caller's promise; a claimed item is there until its function is entered.
        must_return(who, || unsafe {
            let func = match (*claim.item).way() {
                0 => claim.func,
                way => func_of(way),
            };
            may_escape(func)(claim.item);
        });
    };
    if trace::wants_turns() {
        trace::run(pool, claim, call);
    } else {
        call();
        trace::has_run(pool, claim);
    }
}

/// By [`Way`], the functions that are called for items known by another function.
///
/// Not the models' atomics: every writer stores the same value.
static WAYS: [AtomicPtr<()>; 3] = [const { AtomicPtr::new(ptr::null_mut()) }; 3];

/// How an item is called that is known by another function.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Way {
    /// A C function with an argument.
    Call = 1,
    /// The same, with a timer.
    DelayedCall = 2,
    /// A C function with an argument and an index.
    IndexedCall = 3,
}

/// The item is known by `func`, and called by its own function.
///
/// # Safety
/// All items of one way must have the same function; and the item must not be queued.
pub(crate) unsafe fn know_as(item: &mut WorkItem, func: WorkFn, way: Way) {
    // ORDERING: no pairing: the caller of an item has received it by a lock or an inbox, and this
    // store with it.
    WAYS[way as usize - 1].store((item.func() as *const ()).cast_mut(), Ordering::Relaxed);
    item.know_as(func, way as u8);
}

#[cold]
fn func_of(way: u8) -> WorkFn {
    // ORDERING: no pairing: as above.
    let func = WAYS[usize::from(way) - 1].load(Ordering::Relaxed);
    // SAFETY: there is an item of this way, so `know_as` has stored the function.
    unsafe { std::mem::transmute::<*mut (), WorkFn>(func) }
}

/// The function, for a caller that is prepared for unwinding.
#[inline(always)]
pub(crate) fn may_escape(func: WorkFn) -> Escaping {
    // SAFETY: the two types differ only in whether the caller is prepared for unwinding.
    unsafe { std::mem::transmute(func) }
}

/// Calls a user's function that is no work function, by a thread of ours: it must return in the
/// process in which it was called, and sections that it has left open end. `who` names it.
pub(crate) fn foreign(who: impl Fn() -> String, func: impl FnOnce()) {
    let process = Process::now();
    must_return(&who, func);
    if !process.is_still() {
        returned_in_child(&who());
    }
    sections::end_left_open(who);
}

#[cold]
fn returned_in_child(who: &str) -> ! {
    notice::last_word(&format!(
        "{who} returned in a child that it had forked, where no worker is; the child ends (it \
         should execute a program, or call _exit)"
    ));
    std::process::abort()
}

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod at_exit {
    use crate::os::sync::OnceLock;
    use std::ffi::c_void;
    use std::ptr;

    use crate::engine::threads::current;
    use crate::os::must_return::did_not_return;

    /// Its destructor runs when a thread ends, but not when the process does; those of Rust's
    /// thread-locals run at `exit`, too.
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();

    fn make_key() -> Option<libc::pthread_key_t> {
        let mut key = 0;
        // SAFETY: `key` is writable; the function lives as long as the process, as the library
        // does.
        let rc = unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) };
        (rc == 0).then_some(key)
    }

    unsafe extern "C" fn ended(_: *mut c_void) {
        // A thread that has left its loop is no worker any more.
        if current::is_worker_or_bh() {
            did_not_return("a work function");
        }
    }

    /// To be called before the first of our threads begins: a child that is forked while the key is
    /// being made would wait for it for ever.
    pub(crate) fn prepare() {
        KEY.get_or_init(make_key);
    }

    /// Makes the end of the calling thread inside of a work function noticed, unless there are no
    /// keys left. Called once by each of our threads.
    pub(crate) fn watch_thread() {
        if let Some(key) = *KEY.get_or_init(make_key) {
            // SAFETY: a valid key, and a value that is never read, but must not be null.
            unsafe { libc::pthread_setspecific(key, ptr::dangling()) };
        }
    }
}

/// The model's threads do not end.
#[cfg(any(cmwq_loom, cmwq_shuttle))]
pub(crate) fn watch_thread() {}
