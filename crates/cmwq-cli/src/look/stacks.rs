//! The stacks of another process's threads.
//!
//! A thread is seized and stopped for as long as it takes to read its registers and walk its stack,
//! a millisecond or two, and then let go; one that was stopped before stays stopped. A system call
//! that waits goes on afterwards, as it does after a stop by a signal.
//!
//! A thread that cannot be interrupted stops later, and its tracer cannot let it go before. But the
//! end of a tracer lets go of all that it traces: each thread is looked at by one that then ends.

use std::cell::Cell;
use std::io::IoSliceMut;
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use framehop::{CacheNative, UnwindRegsNative, Unwinder as _, UnwinderNative};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::symbols::{Place, Symbols};
use super::unwinding;

/// LIMIT: deeper stacks are cut off.
const MOST_FRAMES: usize = 256;
/// LIMIT: the same with all functions that were inlined.
const MOST_PLACES: usize = 1024;
/// A thread that does not stop in this time waits for something that cannot be interrupted.
const PATIENCE: Duration = Duration::from_millis(500);
/// LIMIT: all threads of a process together are waited for so long.
const PATIENCE_WITH_ALL: Duration = Duration::from_secs(10);

/// See the module header.
pub(crate) struct Stacks {
    pid: Pid,
    pub(crate) symbols: Symbols,
    unwinder: UnwinderNative<Vec<u8>, framehop::MayAllocateDuringUnwind>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
    /// How long threads may still be waited for.
    patience: Duration,
}

impl Stacks {
    pub(crate) fn of(number: u32) -> Self {
        let pid = Pid::from_raw(number as i32);
        let read = |range: Range<u64>| {
            let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
            read_memory(pid, range.start, &mut bytes).then_some(bytes)
        };
        let symbols = Symbols::of_process(number);
        let modules = unwinding::modules(number, symbols.maps(), read);
        let mut unwinder = UnwinderNative::<Vec<u8>, framehop::MayAllocateDuringUnwind>::new();
        modules.into_iter().for_each(|module| unwinder.add_module(module));
        let (cache, patience) = (CacheNative::<_>::new(), PATIENCE_WITH_ALL);
        Self { pid, symbols, unwinder, cache, patience }
    }

    /// The stack of one thread, the innermost function first.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn of_thread(&mut self, tid: u32) -> Result<Vec<Place>, String> {
        // The number is what the process says.
        let task = PathBuf::from(format!("/proc/{}/task/{tid}", self.pid));
        let is_its_own = || match task.exists() {
            true => Ok(()),
            false => Err("it is no thread of the process".to_owned()),
        };
        is_its_own()?;
        let (pid, tid) = (self.pid, Pid::from_raw(tid as i32));
        let Self { unwinder, cache, patience, .. } = self;
        let look = || -> Result<Vec<(u64, bool)>, String> {
            let begin = Instant::now();
            let seized = Seized::new(tid, PATIENCE.min(*patience));
            *patience = patience.saturating_sub(begin.elapsed());
            let _seized = seized?;
            // The number may have been given to another one before it was stopped.
            is_its_own()?;
            let (ip, unwind) = registers(tid).map_err(|errno| format!("its registers: {errno}"))?;
            let mut addresses = Vec::new();
            let pages = Pages { pid, last: Cell::new((u64::MAX, [0; PAGE])) };
            let mut read_stack = |at| pages.word(at).ok_or(());
            let mut frames = unwinder.iter_frames(ip, unwind, cache, &mut read_stack);
            while let Ok(Some(frame)) = frames.next() {
                addresses.push((frame.address(), frame.is_return_address()));
                if addresses.len() == MOST_FRAMES {
                    break;
                }
            }
            Ok(addresses)
        };
        let addresses = on_a_thread_that_ends(look)?;
        let places =
            addresses.into_iter().flat_map(|(at, is_return)| self.symbols.places(at, is_return));
        Ok(places.take(MOST_PLACES).collect())
    }
}

fn on_a_thread_that_ends<T: Send>(
    look: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    thread::scope(|scope| {
        let tracer = thread::Builder::new().name("tracer".into()).spawn_scoped(scope, look);
        let tracer = tracer.map_err(|error| format!("cannot start a thread: {error}"))?;
        // Joined by itself: the scope does not wait until it has ended.
        tracer.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// A thread that is stopped by us, until this is dropped.
struct Seized {
    tid: Pid,
    /// What has stopped it was a signal, which it has not got yet.
    signal: Option<i32>,
}

impl Seized {
    fn new(tid: Pid, patience: Duration) -> Result<Self, String> {
        ptrace::seize(tid, Options::empty()).map_err(refusal)?;
        Self::stopped(tid, patience)
    }

    /// One that is traced already.
    fn stopped(tid: Pid, patience: Duration) -> Result<Self, String> {
        ptrace::interrupt(tid).map_err(refusal)?;
        let end = Instant::now() + patience;
        let thread = rustix::process::Pid::from_raw(tid.as_raw()).ok_or("it has no number")?;
        // Without waiting: a thread in an uninterruptible sleep does not stop. And without taking
        // the news, with which a signal would be taken.
        let how = WaitIdOptions::EXITED
            | WaitIdOptions::STOPPED
            | WaitIdOptions::NOHANG
            | WaitIdOptions::NOWAIT;
        loop {
            let status = match waitid(WaitId::Pid(thread), how) {
                Err(rustix::io::Errno::INTR) => continue,
                status => status.map_err(|errno| errno.to_string())?,
            };
            match status {
                Some(status) => {
                    let stop = status.trapping_signal().ok_or("it has ended")?;
                    // Above the signal is which event of ptrace it is, if it is one.
                    let signal = (stop >> 8 == 0).then_some(stop);
                    return Ok(Self { tid, signal });
                }
                None if Instant::now() < end => sleep(Duration::from_micros(200)),
                None => {
                    return Err(
                        "it does not stop: it waits for something that cannot be interrupted"
                            .to_owned(),
                    );
                }
            }
        }
    }
}

impl Drop for Seized {
    fn drop(&mut self) {
        let signal = self.signal.map(Signal::try_from).transpose();
        // A real-time signal cannot be handed over here. The tracer's end does it.
        let Ok(signal) = signal else { return };
        // It may have been killed.
        let _ = ptrace::detach(self.tid, signal);
    }
}

fn refusal(errno: Errno) -> String {
    match errno {
        Errno::EPERM => {
            let yama =
                std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
            match yama.trim() {
                "" | "0" => "the kernel does not let you trace it (another tracer, its \
                             capabilities, or a seccomp \
                             filter)"
                    .to_owned(),
                scope => format!(
                    "the kernel does not let you trace it: kernel.yama.ptrace_scope is {scope}; \
                     root may, if it is not 3"
                ),
            }
        }
        Errno::ESRCH => "it has ended".to_owned(),
        errno => errno.desc().to_owned(),
    }
}

/// Where it is, and the registers that unwinding begins with.
#[cfg(target_arch = "x86_64")]
fn registers(tid: Pid) -> nix::Result<(u64, UnwindRegsNative)> {
    let regs = ptrace::getregs(tid)?;
    Ok((regs.rip, UnwindRegsNative::new(regs.rip, regs.rsp, regs.rbp)))
}

#[cfg(target_arch = "aarch64")]
fn registers(tid: Pid) -> nix::Result<(u64, UnwindRegsNative)> {
    let regs = ptrace::getregs(tid)?;
    Ok((regs.pc, UnwindRegsNative::new(regs.regs[30], regs.sp, regs.regs[29])))
}

const PAGE: usize = 4096;

/// The process's memory, a page at a time.
struct Pages {
    pid: Pid,
    last: Cell<(u64, [u8; PAGE])>,
}

impl Pages {
    fn word(&self, at: u64) -> Option<u64> {
        let page = at & !(PAGE as u64 - 1);
        let (mut known, mut bytes) = self.last.get();
        if known != page {
            if !read_memory(self.pid, page, &mut bytes) {
                return None;
            }
            known = page;
            self.last.set((known, bytes));
        }
        let begin = (at - page) as usize;
        let word = bytes.get(begin..begin + 8)?;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    }
}

/// Fills `bytes` from there.
fn read_memory(pid: Pid, at: u64, bytes: &mut [u8]) -> bool {
    let (len, Ok(base)) = (bytes.len(), usize::try_from(at)) else { return false };
    let remote = [RemoteIoVec { base, len }];
    process_vm_readv(pid, &mut [IoSliceMut::new(bytes)], &remote) == Ok(len)
}

#[cfg(test)]
mod tests;
