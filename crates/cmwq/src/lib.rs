//! The Linux kernel's concurrency-managed workqueues, for any Linux process: a thread pool nobody
//! has to size.
//!
//! Queue functions; shared worker pools run them. The pools keep *just enough* workers runnable:
//! one per CPU, and the moment the last running one **blocks** (a lock, a file, a sleep, a page
//! fault; nobody has to say so), the next item starts on another worker. No CPU idles while work
//! waits, no pool is oversubscribed, nothing deadlocks because "the pool" is asleep.
//!
//! ```
//! let wq = cmwq::Workqueue::new("hello")?;
//! let handles: Vec<_> = (0..100)
//!     .map(|i| wq.queue(move || {
//!         std::thread::sleep(std::time::Duration::from_millis(1)); // blocks: others run meanwhile
//!         i * 2
//!     }))
//!     .collect();
//! let sum: i32 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
//! assert_eq!(sum, 9900);
//! # Ok::<(), cmwq::Error>(())
//! ```
//!
//! - [`Workqueue`]: closures with a [`JoinHandle`], reusable [`Work`] and [`DelayedWork`],
//!   [`scope`](Workqueue::scope) for closures that borrow, [`flush`](Workqueue::flush).
//! - [`system`]: the queues every process has.
//! - [`blocking`]: to say that one is about to block, where that is known.
//! - [`Detect`]: how blocking is noticed; [`diagnose`] tells what this machine offers.
//!
//! # What it does to a process
//!
//! Threads are created as items need them and leave when they have been idle for 300 s; a process
//! whose queues are idle has no wake-ups. Worker threads have all of the creating thread's signal
//! mask. A panic in a function never takes a worker or another item with it. Settings come from the
//! environment: `CMWQ_PARAMS` and `CMWQ_DETECT`, and `CMWQ_QUIET=1` silences the notices about what
//! is degraded. After `fork`, use it in the parent only.

mod clock;
mod closure;
mod countdown;
mod crew;
mod current;
mod delayed;
mod detect;
pub mod doctor;
mod error;
mod limit;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod notice;
mod panic;
mod params;
mod park;
mod plan;
mod pods;
mod pool;
mod published;
mod runtime;
mod scope;
mod sense;
mod sentinel;
mod service;
mod sync;
pub mod system;
mod table;
mod thread;
mod ticking;
mod title;
mod topo;
mod verify;
mod work;
mod worker;
mod workqueue;
mod wq;

pub use closure::{JoinError, JoinHandle};
pub use current::blocking;
pub use detect::Detect;
pub use doctor::{Diagnosis, diagnose};
pub use error::{Error, ErrorKind};
pub use notice::notices;
pub use panic::set_panic_handler;
pub use scope::{Scope, ScopedJoinHandle};
pub use topo::{AffinityScope, CpuSet, ParseCpuSetError, ParseScopeError};
pub use work::{DelayedWork, Work, WorkId, current_work};
pub use workqueue::{Builder, Workqueue};
