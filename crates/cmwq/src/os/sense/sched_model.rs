//! What a thread of a model asks for itself: nothing of the system, since all of them are one
//! thread to it.
//!
//! A thread is on any of the CPUs it was confined to, on another one each time it looks. One that
//! goes to a CPU that is [kept busy](busy::keep_busy) gets there when that ends.

use std::cell::RefCell;
use std::io;

use crate::os::sync;
use crate::os::topo::CpuSet;

sync::thread_local! {
    static ALLOWED: RefCell<Option<CpuSet>> = const { RefCell::new(None) };
}

/// The CPUs of a model.
const NR_CPUS: usize = 2;

/// No thread of a model is known to the kernel.
pub(crate) fn gettid() -> libc::pid_t {
    0
}

pub(crate) fn stack() -> std::ops::Range<u64> {
    0..0
}

pub(crate) fn current_cpu() -> Option<u32> {
    let allowed: Vec<u32> = ALLOWED.with(|allowed| {
        allowed
            .borrow()
            .as_ref()
            .map_or((0..NR_CPUS as u32).collect(), |cpus| cpus.iter().collect())
    });
    Some(allowed[sync::choose(allowed.len())])
}

/// A thread of a model never waits, as far as it can tell.
pub(crate) fn current_sleeps() -> u64 {
    0
}

pub(crate) fn enter_idle_class() -> io::Result<()> {
    Ok(())
}

pub(crate) fn pin_current(cpus: &CpuSet) -> io::Result<()> {
    ALLOWED.with(|allowed| *allowed.borrow_mut() = Some(cpus.clone()));
    #[cfg(all(test, cmwq_shuttle))]
    busy::wait_for(cpus);
    Ok(())
}

/// A CPU that something more urgent than all threads of the model keeps busy.
#[cfg(all(test, cmwq_shuttle))]
pub(crate) mod busy {
    use std::cell::RefCell;

    use crate::os::sync::{Arc, Futex, Ordering};
    use crate::os::topo::CpuSet;

    std::thread_local! {
        /// Of this execution: all its threads are one thread of the system.
        static BUSY: RefCell<Option<Arc<Busy>>> = const { RefCell::new(None) };
    }

    #[derive(Debug)]
    struct Busy {
        cpus: CpuSet,
        has_ended: Futex,
    }

    /// Keeps `cpu` busy until it is dropped.
    #[derive(Debug)]
    pub(crate) struct KeptBusy(Arc<Busy>);

    pub(crate) fn keep_busy(cpu: u32) -> KeptBusy {
        let busy = Arc::new(Busy { cpus: CpuSet::single(cpu), has_ended: Futex::new(0) });
        BUSY.replace(Some(Arc::clone(&busy)));
        KeptBusy(busy)
    }

    impl Drop for KeptBusy {
        fn drop(&mut self) {
            BUSY.take();
            // ORDERING (here and below): no pairing: shuttle knows one order.
            self.0.has_ended.word.store(1, Ordering::Relaxed);
            self.0.has_ended.wake(u32::MAX);
        }
    }

    /// The calling thread may run on these CPUs alone.
    pub(super) fn wait_for(cpus: &CpuSet) {
        let Some(busy) = BUSY.with_borrow(Clone::clone) else { return };
        while cpus.is_subset(&busy.cpus) && busy.has_ended.word.load(Ordering::Relaxed) == 0 {
            busy.has_ended.wait(0, None);
        }
    }
}

/// Nobody is refused a CPU.
pub(crate) fn is_absent(_error: &io::Error) -> bool {
    false
}

/// All threads of a model are one to the kernel, so none can be confined by its number.
pub(crate) fn pin(_tid: libc::pid_t, _cpus: &CpuSet) -> io::Result<()> {
    Ok(())
}

pub(crate) fn set_nice_current(_nice: i32) -> io::Result<()> {
    Ok(())
}

pub(crate) fn fitting_name(name: &str) -> &str {
    name
}

pub(crate) fn timer_slack_ns() -> u32 {
    0
}

pub(crate) fn set_timer_slack_ns(_slack_ns: u32) {}
