//! `struct workqueue_attrs`: where and how the workers of a queue run.

use std::ffi::{c_int, c_uint, c_ulong};
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cmwq::raw;
use cmwq::{AffinityScope, Attrs, CpuSet, Error, ErrorKind, Sched};

use crate::face;
use crate::fork::Lock;
use crate::handle::{Queue, workqueue_struct};
use crate::queueing::c_functions;

const BITS: usize = c_ulong::BITS as usize;
/// As many CPUs as `CMWQ_NR_CPUS` says.
const WORDS: usize = raw::CPU_UNBOUND as usize / BITS;

/// `struct cpumask`.
#[repr(C)]
#[derive(Debug)]
pub struct CpuMask {
    bits: [c_ulong; WORDS],
}

/// `struct workqueue_attrs`. The masks are the object's own.
#[repr(C)]
#[derive(Debug)]
pub struct workqueue_attrs {
    nice: c_int,
    cpumask: *mut CpuMask,
    __pod_cpumask: *mut CpuMask,
    affn_strict: bool,
    affn_scope: c_uint,
    ordered: bool,
    cmwq_policy: u8,
    cmwq_rt_priority: u8,
}

// As in the header, which asserts the same.
const _: () = {
    assert!(size_of::<workqueue_attrs>() == 40 && size_of::<CpuMask>() == 1024);
    assert!(offset_of!(workqueue_attrs, nice) == 0);
    assert!(offset_of!(workqueue_attrs, cpumask) == 8);
    assert!(offset_of!(workqueue_attrs, __pod_cpumask) == 16);
    assert!(offset_of!(workqueue_attrs, affn_strict) == 24);
    assert!(offset_of!(workqueue_attrs, affn_scope) == 28);
    assert!(offset_of!(workqueue_attrs, ordered) == 32);
    assert!(offset_of!(workqueue_attrs, cmwq_policy) == 33);
    assert!(offset_of!(workqueue_attrs, cmwq_rt_priority) == 34);
};

c_functions! {
    /// Fresh attributes: nice 0, all CPUs, the default scope, not strict.
    fn alloc_workqueue_attrs() -> *mut workqueue_attrs {
        let usable = raw::usable_cpus();
        let mask = || Box::into_raw(Box::new(CpuMask::of(usable.iter().copied())));
        Box::into_raw(Box::new(workqueue_attrs {
            nice: 0,
            cpumask: mask(),
            __pod_cpumask: mask(),
            affn_strict: false,
            affn_scope: 0,
            ordered: false,
            cmwq_policy: 0,
            cmwq_rt_priority: 0,
        }))
    }
}

impl workqueue_attrs {
    /// # Errors
    /// Why they make no sense.
    ///
    /// # Safety
    /// The mask must be the one the object was made with.
    unsafe fn read(&self) -> Result<Attrs, String> {
        // SAFETY: the caller's promise.
        let mask = unsafe { self.cpumask.as_ref() }.ok_or("attributes without a cpumask")?;
        let scope = match self.affn_scope {
            0 => None,
            scope => Some(
                *AffinityScope::ALL
                    .get(scope as usize - 1)
                    .ok_or_else(|| format!("affn_scope {scope} is none"))?,
            ),
        };
        let sched = match (c_int::from(self.cmwq_policy), self.cmwq_rt_priority) {
            (libc::SCHED_OTHER, 0) => Sched::Normal,
            (libc::SCHED_FIFO, priority) => Sched::Fifo(priority),
            (libc::SCHED_RR, priority) => Sched::RoundRobin(priority),
            (policy, priority) => {
                return Err(format!(
                    "cmwq_policy {policy} with cmwq_rt_priority {priority} is none"
                ));
            }
        };
        let attrs = Attrs::new().nice(self.nice).sched(sched);
        let attrs = attrs.affinity_scope(scope).affinity_strict(self.affn_strict);
        // All that there are now stand for those that come later, too. So does an empty mask.
        // KERNEL: `wqattrs_actualize_cpumask`, of the empty one — same.
        let is_open = mask.bits.iter().all(|&word| word == 0)
            || raw::usable_cpus().into_iter().all(|cpu| cpu >= raw::CPU_UNBOUND || mask.has(cpu));
        Ok(if is_open { attrs } else { attrs.cpumask(mask.to_set()) })
    }
}

impl CpuMask {
    fn of(cpus: impl IntoIterator<Item = u32>) -> Self {
        let mut bits = [0; WORDS];
        for cpu in cpus.into_iter().map(|cpu| cpu as usize).filter(|&cpu| cpu < WORDS * BITS) {
            bits[cpu / BITS] |= 1 << (cpu % BITS);
        }
        Self { bits }
    }

    fn to_set(&self) -> CpuSet {
        (0..raw::CPU_UNBOUND).filter(|&cpu| self.has(cpu)).collect()
    }

    fn has(&self, cpu: u32) -> bool {
        let (word, bit) = (cpu as usize / BITS, cpu as usize % BITS);
        self.bits[word] >> bit & 1 != 0
    }
}

/// The CPUs of unbound queues before housekeeping took some away.
pub(crate) static REQUESTED: Lock<Option<CpuSet>> = Lock::new(None);

fn requested() -> Result<CpuSet, Error> {
    if let Some(requested) = REQUESTED.lock().and_then(|requested| requested.clone()) {
        return Ok(requested);
    }
    // Not under the lock, which is innermost. Whoever changes the mask has noted it before.
    let now = cmwq::unbound_cpumask()?;
    let Some(mut requested) = REQUESTED.lock() else { return Ok(now) };
    Ok(requested.get_or_insert(now).clone())
}

/// Unbound queues use those of the requested CPUs that are wanted; all, if that are none.
fn confine(here: &str, is_wanted: impl Fn(u32) -> bool) -> c_int {
    let requested = match requested() {
        Ok(requested) => requested,
        Err(error) => return face::refuse(here, &error),
    };
    let wanted: CpuSet = requested.iter().filter(|&cpu| is_wanted(cpu)).collect();
    let cpus = if wanted.is_empty() { &requested } else { &wanted };
    match cmwq::set_unbound_cpumask(cpus) {
        Ok(()) => 0,
        Err(error) => {
            raw::say(error.to_string());
            -libc::EINVAL
        }
    }
}

/// The CPUs that the process could use when somebody asked last: at one place for ever, as the
/// kernel's sets are, which programs keep the addresses of.
static USABLE: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

c_functions! {
    /// The CPUs that the process may use now. Who has asked before finds them in the same place.
    fn cmwq_usable_cpus() -> *const CpuMask {
        let now = CpuMask::of(raw::usable_cpus());
        for (word, bits) in USABLE.iter().zip(now.bits) {
            // ORDERING: no pairing: each word is a set by itself, as in the kernel; where nothing
            // has changed nothing is written, so that readers keep their caches.
            if word.load(Ordering::Relaxed) != bits {
                word.store(bits, Ordering::Relaxed);
            }
        }
        USABLE.as_ptr().cast()
    }
}

c_functions! {
    /// Frees attributes; null is nothing to free.
    fn free_workqueue_attrs(attrs: *mut workqueue_attrs) {
        if attrs.is_null() {
            return;
        }
        // SAFETY: passed on to the caller: made by `alloc_workqueue_attrs`, with these masks.
        unsafe {
            let attrs = Box::from_raw(attrs);
            for mask in [attrs.cpumask, attrs.__pod_cpumask] {
                if !mask.is_null() {
                    drop(Box::from_raw(mask));
                }
            }
        }
    }

    /// Lets a queue's attributes be written by its name: 0, or `-EEXIST` if they can, or those of
    /// another queue of that name.
    fn workqueue_sysfs_register(wq: *mut workqueue_struct) -> c_int {
        // SAFETY: passed on to the caller.
        let wq = match unsafe { Queue::find(HERE, wq) } {
            Ok(wq) => wq,
            Err(none) => return none.errno(),
        };
        match wq.sysfs().register() {
            Ok(()) => 0,
            Err(_) => -libc::EEXIST,
        }
    }

    /// Of the CPUs that unbound queues were to use when this was called first, they use those in
    /// `hk` from now on; all of them if that leaves none: 0, `-EINVAL`, or `-ENOMEM`.
    fn workqueue_unbound_housekeeping_update(hk: *const CpuMask) -> c_int {
        // SAFETY: passed on to the caller.
        unsafe { hk.as_ref() }.map_or(-libc::EINVAL, |hk| confine(HERE, |cpu| hk.has(cpu)))
    }

    /// As `workqueue_unbound_housekeeping_update`, by the CPUs that they are not to use.
    fn workqueue_unbound_exclude_cpumask(exclude: *const CpuMask) -> c_int {
        // SAFETY: passed on to the caller.
        unsafe { exclude.as_ref() }.map_or(-libc::EINVAL, |not| confine(HERE, |cpu| !not.has(cpu)))
    }

    /// Changes where and how a queue's workers run: 0, `-EINVAL`, `-EPERM`, `-ENODEV` or `-ENOMEM`.
    fn apply_workqueue_attrs(wq: *mut workqueue_struct, attrs: *const workqueue_attrs) -> c_int {
        // SAFETY: passed on to the caller.
        let (wq, attrs) =
            unsafe { (Queue::find(HERE, wq), attrs.as_ref().map(|attrs| attrs.read())) };
        let wq = match wq {
            Ok(wq) => wq,
            Err(none) => return none.errno(),
        };
        let attrs = match attrs {
            Some(Ok(attrs)) => attrs,
            Some(Err(why)) => {
                face::say_refused(HERE, why);
                return -libc::EINVAL;
            }
            None => {
                face::say_null(HERE, "set of attributes");
                return -libc::EINVAL;
            }
        };
        let Err(error) = wq.apply_attrs(&attrs) else { return 0 };
        if error.kind() == ErrorKind::PermissionDenied {
            // Whoever goes on without asks for each of his queues.
            static SAID: AtomicBool = AtomicBool::new(false);
            // ORDERING: no pairing: it only limits how often a message is printed.
            if !SAID.swap(true, Ordering::Relaxed) {
                raw::say(error.to_string());
            }
            return -libc::EPERM;
        }
        raw::say(error.to_string());
        match error.kind() {
            ErrorKind::ThreadCreation => -libc::ENOMEM,
            // As of a queue that is not there: it was destroyed, or the library shut down.
            ErrorKind::Unavailable => -libc::ENODEV,
            _ => -libc::EINVAL,
        }
    }
}
