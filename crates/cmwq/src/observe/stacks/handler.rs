//! The signal: choosing one, taking it, sending it, and what is done where it arrives.
//!
//! What the handler does is async-signal-safe: it reads two atomics, its own thread's number, the
//! registers that it was given and the stack above them, and stores to memory that is there. It
//! keeps `errno`, and runs on the alternative stack where the thread has one.

use crate::os::sync::plain::AtomicI32;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::asm;
use std::ops::Range;
use std::ptr;

use super::request::{Answer, Request};
use crate::os::published::Lasting;
use crate::os::sense::signal;
use crate::os::sync::Ordering;

/// LIMIT: so much of a stack is copied: 64 KiB.
const MOST_WORDS: usize = 64 * 1024 / 8;

/// Made by the watchdog's thread alone. No cell, which a child that is forked while it is being set
/// would find half-way.
static REQUEST: Lasting<Request> = Lasting::nothing();
/// The signal that was taken; 0: none.
static TAKEN: AtomicI32 = AtomicI32::new(0);

/// Makes sure that a signal is ours: the `wanted` one, or the first real-time signal from the
/// middle of their range on that the program has not given a handler.
pub(super) fn install(wanted: Option<i32>) -> Result<i32, String> {
    if registers(ptr::null()).is_none() {
        return Err("stacks are not supported on this architecture".to_owned());
    }
    if REQUEST.get().is_none() {
        REQUEST.set(Box::leak(Box::new(Request::new(MOST_WORDS))));
    }
    // ORDERING (here and below): no pairing: for the watchdog's thread alone.
    let taken = TAKEN.load(Ordering::Relaxed);
    if taken != 0 && signal::is_taken_by(taken, on_signal) {
        return Ok(taken);
    }
    let signal = match wanted {
        Some(signal) if signal::is_free(signal) => signal,
        Some(signal) => {
            return Err(format!("signal {signal} is not free (watchdog_signal=N for another one)"));
        }
        None => find_free().ok_or("all real-time signals are taken (watchdog_signal=N)")?,
    };
    signal::take(signal, on_signal).map_err(|error| format!("signal {signal}: {error}"))?;
    TAKEN.store(signal, Ordering::Relaxed);
    Ok(signal)
}

/// Libraries that need signals take the first ones or the last.
fn find_free() -> Option<i32> {
    let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
    let middle = first + (last - first) / 2;
    (middle..=last).chain(first..middle).find(|signal| signal::is_free(*signal))
}

/// Asks a thread of this process.
pub(super) fn ask(signal: i32, tid: libc::pid_t, stack: Range<u64>) -> Result<(), String> {
    let request = REQUEST.get().ok_or("nothing was prepared")?;
    if !request.ask(tid.unsigned_abs(), stack) {
        return Err("a thread that was asked before has not finished its answer".to_owned());
    }
    // SAFETY: a system call that takes numbers only. The signal has a handler; should it have lost
    // it just now, the program has given it another one.
    let rc = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) };
    if rc != 0 {
        request.withdraw();
        return Err(format!("signal {signal} cannot be sent: {}", std::io::Error::last_os_error()));
    }
    Ok(())
}

pub(super) fn has_answered() -> bool {
    REQUEST.get().is_some_and(Request::has_answered)
}

/// Gives up. An error: the thread is in the midst of its answer.
pub(super) fn withdraw() -> Result<(), String> {
    let is_withdrawn = REQUEST.get().is_some_and(Request::withdraw);
    is_withdrawn.then_some(()).ok_or_else(|| "the thread has not finished its answer".to_owned())
}

/// What was answered. To be called after [`has_answered`] only.
pub(super) fn with_answer<T>(then: impl FnOnce(&Answer) -> T) -> T {
    then(REQUEST.get().expect("asked before").read())
}

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    signal::keeping_errno(|| answer(context.cast()));
}

fn answer(context: *const libc::ucontext_t) {
    let Some(request) = REQUEST.get() else { return };
    let me = crate::os::sense::sched::gettid().unsigned_abs();
    let Some(stack) = request.claim(me) else { return };
    let registers = registers(context).unwrap_or_default();
    let sp = registers[1] & !7;
    // On another stack than its own nothing is known of where that ends.
    let end = if stack.contains(&sp) { stack.end } else { sp };
    // SAFETY: from the stack pointer to its end, the stack of this thread is mapped.
    let read = |at: u64| unsafe { word(at) };
    request.answer(registers, (sp..end).step_by(8).map(read));
}

/// A word of this thread's stack, by an instruction that AddressSanitizer does not see: it takes
/// what lies between two variables for an error, and would end the process.
///
/// # Safety
/// It must be mapped.
#[cfg(target_arch = "x86_64")]
unsafe fn word(at: u64) -> u64 {
    let word;
    // SAFETY: a load, of what the caller says is mapped.
    unsafe {
        asm!("mov {}, [{}]", out(reg) word, in(reg) at, options(nostack, readonly));
    }
    word
}

/// As above.
#[cfg(target_arch = "aarch64")]
unsafe fn word(at: u64) -> u64 {
    let word;
    // SAFETY: a load, of what the caller says is mapped.
    unsafe {
        asm!("ldr {}, [{}]", out(reg) word, in(reg) at, options(nostack, readonly));
    }
    word
}

/// Not reached: nobody is asked there.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn word(at: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { (at as *const u64).read_volatile() }
}

/// Program counter, stack pointer, frame pointer, link register where there is one. `None`: this
/// architecture is not known. All 0 without a context.
#[cfg(target_arch = "x86_64")]
fn registers(context: *const libc::ucontext_t) -> Option<[u64; 4]> {
    // SAFETY: null, or what the handler was given.
    let Some(context) = (unsafe { context.as_ref() }) else { return Some([0; 4]) };
    let at = |n: i32| context.uc_mcontext.gregs[n as usize].cast_unsigned();
    Some([at(libc::REG_RIP), at(libc::REG_RSP), at(libc::REG_RBP), 0])
}

#[cfg(target_arch = "aarch64")]
fn registers(context: *const libc::ucontext_t) -> Option<[u64; 4]> {
    // SAFETY: null, or what the handler was given.
    let Some(context) = (unsafe { context.as_ref() }) else { return Some([0; 4]) };
    let at = &context.uc_mcontext;
    Some([at.pc, at.sp, at.regs[29], at.regs[30]])
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn registers(_: *const libc::ucontext_t) -> Option<[u64; 4]> {
    None
}

/// The process is a child now: whoever was asked is not here.
pub(super) fn forget() {
    if let Some(request) = REQUEST.get() {
        request.reset();
    }
}
