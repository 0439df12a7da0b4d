//! Looks at processes that use [`cmwq`], from outside or from within.
//!
//! - [`inspect`]: the state of another process's queues, pools and workers, read from memory that
//!   it shows; nothing in it has to run for that.
//! - [`control`]: asks a process for the attributes of its queues, and changes them.
//! - [`diagnose`]: what this machine offers the library, and what is less than it could be.
//!
//! ```
//! let wq = cmwq::Workqueue::new("shown")?;
//! wq.queue(|| ()).join().unwrap();
//! let me = cmwq_observe::inspect::Target::open(std::process::id())?;
//! assert!(me.snapshot()?.queues.iter().any(|queue| queue.name == "shown"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a process writes for readers, and the socket that it serves, are the library's; both sides
//! agree by a hidden module of it, so this crate asks for exactly its own version of `cmwq`.
//!
//! Why: docs/decisions/readers-are-a-crate.md

pub mod control;
pub mod doctor;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod inspect;

pub use doctor::{Diagnosis, diagnose};
