//! The pure scheduling core of cmwq: Linux's concurrency-managed workqueues as a value.
//!
//! Four principles hold everywhere in this crate:
//!
//! 1. **It decides and never acts.** Events go in (`enqueue`, `next`, `finish`, `worker_blocked`,
//!    …), small `#[must_use]` outcomes come out ([`Kick`], [`Next`], [`Effects`]). It reads no
//!    clock, spawns no thread, wakes nobody, logs nothing.
//! 2. **One struct per lock domain.** [`PoolState`] is what the kernel's pool lock protects,
//!    [`FlushState`] what `wq->mutex` protects for flushing. A driver wraps each in a lock, calls
//!    one method, drops the lock, then acts. The one exception is [`NodeLimit`], which pools of a
//!    node share without each other's locks: it counts by atomics, and who has to wait for a slot
//!    queues up under a lock that the driver supplies.
//! 3. **No allocation on the item path.** Work items are intrusive ([`WorkItem`]); a pool's tables
//!    grow only when a worker or a pool–workqueue pair is created.
//! 4. **An item is never touched after its function has been entered.** The function may free it;
//!    what is needed later is copied into the worker's record first.
//!
//! A kernel reader finds the usual names: `worklist`, `nr_running`, `nr_active`, `max_active`, pwq,
//! flush colours, barriers, `need_more_worker`. [`policy`] holds the five predicates on one screen.
//!
//! Reading order: [`word`] → [`work`] → [`policy`] → [`pool`] → `worker` → `pwq` → [`flush`].
//!
//! Why: docs/decisions/rules-in-the-core.md
#![no_std]
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("cmwq runs on 64-bit Linux only: a work item's word is 64 bits, pointers included");

extern crate alloc;
#[cfg(any(test, cmwq_loom))]
extern crate std;

mod backoff;
mod barrier;
mod batch;
mod bh;
mod cancel;
mod closed;
pub mod consts;
mod counts;
pub mod delayed;
pub mod detect;
pub mod flush;
pub mod help;
mod ids;
mod inbox;
pub mod jobserver;
pub mod limit;
pub mod list;
mod periodic;
pub mod place;
pub mod policy;
pub mod pool;
mod pwq;
mod pwqs;
mod slab;
mod sync;
pub mod watchdog;
pub mod word;
pub mod work;
mod worker;

#[cfg(all(test, cmwq_loom))]
mod models;
#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests;

pub use backoff::Backoff;
pub use barrier::{FlushTarget, Passed};
pub use batch::{BATCH_MAX, Batch};
pub use bh::{BH_VISIT_ITEMS, BH_VISIT_NS, BhNext, BhRound, BhVisit};
pub use cancel::Grab;
pub use closed::{Closed, drain_is_long};
pub use counts::PwqCounts;
pub use delayed::{FIRE_BATCH, TICK_NS, Timer, Wheel};
pub use flush::{Colors, FlushState, Start};
pub use ids::{Nanos, PoolId, PwqId, PwqRef, WorkerId, WqKey};
pub use inbox::{Inbox, Transit};
pub use limit::{Limits, NodeLimit, NodeLimits, NodeMemory, NodeSlots, Sharing};
pub use periodic::{MissedTicks, Ticks};
pub use pool::{
    Activation, BusyWorker, Create, Creator, Effects, Enqueued, Finding, Footprint, Found, Hog,
    Kick, Lend, LockFor, MaydayTimer, Offered, PoolConfig, PoolReport, PoolState, PwqReport,
    Reading, Rescue, RescueVisit, Retry, Touched, Waited, Waiting, WaitingItems,
};
pub use pool::{LIMIT_RETRY_NS, may_add_worker, yield_for};
#[cfg(feature = "explore")]
pub use pool::{Rule, value};
pub use pwq::{PwqConfig, PwqLoad, PwqStats, PwqWaiting};
pub use pwqs::{EmptyCheck, Pwqs, Stays};
pub use sync::ORDERING_SITES;
pub use watchdog::{Looked, PanicPolicy, WATCHDOG_THRESH_NS, Watchdog};
pub use word::WorkWord;
pub use work::{WorkFn, WorkItem};
pub use worker::{Claim, Next, WorkerView};
