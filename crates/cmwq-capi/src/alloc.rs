//! Making, changing and destroying queues.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_uint};
use std::mem;
use std::ptr::{self, NonNull};

use cmwq::raw::{self, Borrowed};
use cmwq::{Builder, ErrorKind, Workqueue};

use crate::fork::Lock;
use crate::handle::{Queue, workqueue_struct};
use crate::once::{self, Once};
use crate::queueing::c_functions;
use crate::{cpu, face, system};

const BH: c_uint = 1 << 0;
pub(crate) const UNBOUND: c_uint = 1 << 1;
const FREEZABLE: c_uint = 1 << 2;
const MEM_RECLAIM: c_uint = 1 << 3;
const HIGHPRI: c_uint = 1 << 4;
const CPU_INTENSIVE: c_uint = 1 << 5;
const SYSFS: c_uint = 1 << 6;
const POWER_EFFICIENT: c_uint = 1 << 7;
const PERCPU: c_uint = 1 << 8;
pub(crate) const ORDERED: c_uint = 1 << 17;
const LEGACY: c_uint = 1 << 18;
pub(crate) const MANAGED: c_uint = 1 << 24;

/// What a flag does to a queue that is being described.
type Set = fn(Builder) -> Builder;

/// LIMIT: so many destroyed queues are remembered, a few hundred bytes each, so that queueing on
/// one is refused and said instead of being undefined.
const REMEMBERED: usize = 64;
pub(crate) static DESTROYED: Lock<Destroyed> =
    Lock::new(Destroyed { ending: Vec::new(), remembered: VecDeque::new() });

/// Queues that C must not destroy again, by the addresses by which it knows them: no other queue
/// has one meanwhile.
pub(crate) struct Destroyed {
    /// Those that threads are about to take down, which may take as long as their items do.
    ending: Vec<usize>,
    remembered: VecDeque<Remains>,
}

/// What is left of a queue.
struct Remains {
    address: usize,
    wq: Workqueue,
}

impl Destroyed {
    /// The queue, if it was destroyed before, or is just being.
    fn find(&self, address: usize) -> Option<Workqueue> {
        if self.ending.contains(&address) {
            let raw = NonNull::new(ptr::with_exposed_provenance_mut(address))?;
            // SAFETY: who ends it has its handle, and gives it up under the lock that we hold.
            let wq = unsafe { Borrowed::new(raw) };
            return Some((*wq).clone());
        }
        let found = self.remembered.iter().find(|remains| remains.address == address);
        found.map(|remains| remains.wq.clone())
    }

    /// A queue that was taken down; what is forgotten for it.
    fn remember(&mut self, remains: Remains) -> Option<Remains> {
        self.ending.retain(|&ending| ending != remains.address);
        self.remembered.push_back(remains);
        if self.remembered.len() > REMEMBERED { self.remembered.pop_front() } else { None }
    }
}

/// Says once of each queue, by its name, what is wrong with its flags. KERNEL: `WARN_ONCE`.
fn say_once(said: &Once, name: &str, text: impl FnOnce() -> String) {
    if said.is_first(once::named(name)) {
        raw::say(text());
    }
}

/// KERNEL: `alloc_workqueue`'s reading of its flags — same: per-CPU is assumed where nothing is
/// said, and gives way to unbound where both are. Both give way to managed.
fn describe(name: &str, flags: c_uint, max_active: u32) -> Builder {
    static NEITHER: Once = Once::new();
    static BOTH: Once = Once::new();
    static MANAGED_TOO: Once = Once::new();
    let mut builder = Workqueue::builder(name).max_active(max_active);
    let is_other = flags & (UNBOUND | ORDERED | MANAGED | BH) != 0;
    match (flags & PERCPU != 0, is_other) {
        (false, false) => say_once(&NEITHER, name, || {
            format!("workqueue '{name}' has neither WQ_PERCPU nor WQ_UNBOUND; WQ_PERCPU assumed")
        }),
        (true, true) if flags & UNBOUND != 0 => say_once(&BOTH, name, || {
            format!("workqueue '{name}' has both WQ_PERCPU and WQ_UNBOUND; WQ_PERCPU dropped")
        }),
        _ => {}
    }
    if flags & ORDERED == 0 && flags & MANAGED != 0 && flags & (PERCPU | UNBOUND) != 0 {
        let other = if flags & UNBOUND != 0 { "WQ_UNBOUND" } else { "WQ_PERCPU" };
        say_once(&MANAGED_TOO, name, || {
            format!("workqueue '{name}' has both CMWQ_MANAGED and {other}; {other} dropped")
        });
    }
    builder = match flags {
        f if f & ORDERED != 0 => builder.ordered(),
        f if f & MANAGED != 0 => builder.managed(),
        f if f & UNBOUND != 0 => builder.unbound(),
        f if f & POWER_EFFICIENT != 0 => builder.power_efficient(),
        _ => builder.percpu(),
    };
    let set: [(c_uint, Set); 7] = [
        (BH, Builder::bh),
        (FREEZABLE, Builder::freezable),
        (MEM_RECLAIM, Builder::mem_reclaim),
        (HIGHPRI, Builder::highpri),
        (CPU_INTENSIVE, Builder::cpu_intensive),
        (SYSFS, Builder::sysfs),
        (LEGACY, Builder::legacy),
    ];
    set.iter().filter(|(flag, _)| flags & flag != 0).fold(builder, |builder, (_, set)| set(builder))
}

/// The limit as C has it, which may be negative.
fn limit(name: &str, max_active: c_int) -> u32 {
    u32::try_from(max_active).unwrap_or_else(|_| {
        raw::say(format!(
            "max_active {max_active} of workqueue '{name}' is out of range, 1 taken (1 to 2048)"
        ));
        1
    })
}

/// Makes a queue. An error: why it was not made, as a number, which is said, too.
pub(crate) fn make(
    name: &str,
    flags: c_uint,
    max_active: c_int,
) -> Result<*mut workqueue_struct, c_int> {
    let name = if name.is_empty() { "unnamed" } else { name };
    match describe(name, flags, limit(name, max_active)).build() {
        Ok(wq) => Ok(raw::into_raw(wq).as_ptr().cast()),
        Err(error) => {
            raw::say(format!("workqueue '{name}' (flags {flags:#x}) was not made: {error}"));
            Err(match error.kind() {
                ErrorKind::ThreadCreation => -libc::ENOMEM,
                ErrorKind::Unavailable => -libc::ESHUTDOWN,
                _ => -libc::EINVAL,
            })
        }
    }
}

/// Notes that a queue is about to be taken down; or the queue, if somebody has noted that before.
fn begin_end(wq: *mut workqueue_struct) -> Option<Workqueue> {
    let address = wq.expose_provenance();
    let mut destroyed = DESTROYED.lock()?;
    let before = destroyed.find(address);
    if before.is_none() {
        destroyed.ending.push(address);
    }
    before
}

/// Has `destroy` take a queue down for the function `here`, and remembers what it leaves.
///
/// # Safety
/// `wq` must be null, or a queue that was not destroyed, or is one of those destroyed last.
pub(crate) unsafe fn end(
    here: &str,
    wq: *mut workqueue_struct,
    destroy: impl FnOnce(NonNull<()>) -> Workqueue,
) {
    if system::is_system(wq) {
        return raw::say("a system workqueue is destroyed: it stays".to_owned());
    }
    let Some(raw) = NonNull::new(wq) else { return face::say_null(here, "workqueue") };
    if let Some(wq) = begin_end(wq) {
        // Done, it would take back a handle that is somebody else's, and show much later. A child
        // that has no queue in the place of its parent's makes none to be told its name.
        let name = if raw::is_ready(&wq) { wq.name() } else { "?" };
        return raw::say(format!("workqueue '{name}' is destroyed twice: nothing is done"));
    }
    let address = wq.addr();
    let wq = destroy(raw.cast());
    // One that a handler of a fork destroys stays.
    let Some(mut destroyed) = DESTROYED.lock() else { return mem::forget(wq) };
    let oldest = destroyed.remember(Remains { address, wq });
    drop(destroyed);
    drop(oldest);
}

c_functions! {
    /// Makes a queue, or returns null and says why not. Use `alloc_workqueue`, which takes a
    /// format.
    fn cmwq_alloc_workqueue(
        name: *const c_char, flags: c_uint, max_active: c_int
    ) -> *mut workqueue_struct {
        // SAFETY: passed on to the caller: it is a string.
        let Some(name) = (unsafe { face::string(HERE, name) }) else { return ptr::null_mut() };
        make(&name, flags, max_active).unwrap_or(ptr::null_mut())
    }

    /// Drains a queue and takes it down. Timers of delayed items must be cancelled before.
    fn destroy_workqueue(wq: *mut workqueue_struct) {
        // SAFETY: passed on to the caller.
        unsafe { end(HERE, wq, |raw| raw::destroy(raw)) }
    }

    /// Changes how many items may be in execution at once.
    fn workqueue_set_max_active(wq: *mut workqueue_struct, max_active: c_int) {
        // SAFETY: passed on to the caller.
        let Some(wq) = (unsafe { Queue::of(HERE, wq) }) else { return };
        if let Err(error) = wq.set_max_active(limit(wq.name(), max_active)) {
            raw::say(error.to_string());
        }
    }

    /// Changes how many items each NUMA node may have in execution whatever its part of the limit.
    fn workqueue_set_min_active(wq: *mut workqueue_struct, min_active: c_int) {
        // SAFETY: passed on to the caller.
        let Some(wq) = (unsafe { Queue::of(HERE, wq) }) else { return };
        if let Err(error) = wq.set_min_active(u32::try_from(min_active).unwrap_or(0)) {
            raw::say(error.to_string());
        }
    }

    /// Whether items for a CPU wait behind the limit.
    fn workqueue_congested(cpu: c_int, wq: *mut workqueue_struct) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { Queue::of(HERE, wq) }
            .is_some_and(|wq| wq.is_congested(cpu::wanted(cpu)))
    }
}
