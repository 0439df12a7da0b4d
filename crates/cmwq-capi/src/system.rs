//! The system's queues, exported as pointers that are valid before anything has run: they lead to
//! places in a table, and the queue itself is made on its first use.

use std::sync::OnceLock;

use cmwq::raw::system;
use cmwq::raw::{self, WorkItem};
use cmwq::{Builder, Error, Workqueue};

use crate::handle::workqueue_struct;
use crate::item::func;
use crate::once::Once;

/// A pointer that C may read at any time.
#[repr(transparent)]
pub struct SystemQueue(*const Place);

// SAFETY: it is never written, and leads to an address, not to data.
unsafe impl Sync for SystemQueue {}

/// Its address is the queue; C must not find two at one.
struct Place {
    _byte: u8,
}

const NR_QUEUES: usize = 12;
static PLACES: [Place; NR_QUEUES] = [const { Place { _byte: 0 } }; NR_QUEUES];

macro_rules! system_queues {
    ($($(#[$doc:meta])* $index:literal $name:ident => $queue:expr;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub static $name: SystemQueue = SystemQueue(&PLACES[$index]);
        )*

        fn by_index(index: usize) -> Result<&'static Workqueue, Error> {
            match index {
                $($index => $queue,)*
                _ => unreachable!("no such system queue"),
            }
        }
    };
}

const DEPRECATED: usize = 0;
const DEPRECATED_UNBOUND: usize = 4;

system_queues! {
    /// Deprecated: use `system_percpu_wq`.
    0 system_wq => raw::get_or_build(&PERCPU, "events", Builder::percpu);
    /// Short items that want to stay on their CPU.
    1 system_percpu_wq => system::percpu();
    /// Served by workers of nice −20.
    2 system_highpri_wq => system::highpri();
    /// Items that may take long.
    3 system_long_wq => system::long();
    /// Deprecated: use `system_dfl_wq`.
    4 system_unbound_wq => {
        raw::get_or_build(&UNBOUND, "events_unbound", |b| b.unbound().max_active(2048))
    };
    /// Items that start at once, anywhere.
    5 system_dfl_wq => system::unbound();
    /// The same, for items that may take long.
    6 system_dfl_long_wq => system::unbound_long();
    /// Stops while the process is frozen.
    7 system_freezable_wq => system::freezable();
    /// Per-CPU unless `power_efficient` is on.
    8 system_power_efficient_wq => system::power_efficient();
    /// Both.
    9 system_freezable_power_efficient_wq => system::freezable_power_efficient();
    /// Items that must not block.
    10 system_bh_wq => system::bh();
    /// Before those of `system_bh_wq`.
    11 system_bh_highpri_wq => system::bh_highpri();
}

// Queues of their own with other ones' names, as the kernel has them.
static PERCPU: OnceLock<Workqueue> = OnceLock::new();
static UNBOUND: OnceLock<Workqueue> = OnceLock::new();

fn index(wq: *const workqueue_struct) -> usize {
    wq.addr().wrapping_sub(PLACES.as_ptr().addr())
}

#[inline]
pub(crate) fn is_system(wq: *const workqueue_struct) -> bool {
    index(wq) < NR_QUEUES
}

/// `system_percpu_wq`, where `schedule_work` queues.
pub(crate) fn percpu() -> *mut workqueue_struct {
    // Not by the exported name, which a program may have given to something else.
    (&raw const PLACES[1]).cast_mut().cast()
}

/// A queue for which [`is_system`] is true. An error: no thread can be had for its first use.
pub(crate) fn queue(wq: *const workqueue_struct) -> Result<&'static Workqueue, Error> {
    by_index(index(wq))
}

/// Something is queued on `wq`: said once of each function if it should be another queue. KERNEL:
/// the notice about `__WQ_DEPRECATED` — same, but that there it is said once altogether.
#[inline]
pub(crate) fn record_use(wq: *const workqueue_struct, item: &WorkItem) {
    let index = index(wq);
    if index == DEPRECATED || index == DEPRECATED_UNBOUND {
        say_deprecated(index == DEPRECATED, func(item));
    }
}

#[cold]
fn say_deprecated(is_percpu: bool, func: usize) {
    static SAID: [Once; 2] = [Once::new(), Once::new()];
    if !SAID[usize::from(is_percpu)].is_first(func) {
        return;
    }
    let (this, other) = match is_percpu {
        true => ("system_wq", "system_percpu_wq"),
        false => ("system_unbound_wq", "system_dfl_wq"),
    };
    let func = raw::function_name(func);
    raw::say(format!("{func} is queued on {this}, a deprecated system workqueue; use {other}"));
}
