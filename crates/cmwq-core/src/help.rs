//! Managed pods help each other: which pods, and when it is not worth it.
//!
//! Each pod of a managed queue has its own pool, so that items start on its CPUs and its lock stays
//! there. What makes the pods together one work-conserving system is a [`Board`]: sets of pods that
//! have a CPU to spare, or a backlog. A pool with a backlog asks others for help; a worker that
//! runs out of work looks for a backlog before it sleeps, and runs items there as a guest.
//!
//! What is decided here costs the same however many pods there are: a search reads the words of
//! its own cache, then a summary, then one word that the summary names.
//!
//! - [`layout`]: where each pod's bit is, so that pods of a cache, and then of a node, are together
//! - [`board`]: the sets, and what a pod publishes of itself
//! - [`choose`]: which pods to help, to ask, to watch; where a queuer's item goes instead
//! - [`short_items`]: which items are too short
//! - [`habit`]: which callers compute
//! - [`queuer`]: whose items may leave their CPU, or be run by who waits for them
//!
//! Why: docs/decisions/managed-pool-per-cpu.md

pub mod board;
pub mod choose;
pub mod habit;
pub mod layout;
pub mod queuer;
pub mod short_items;

pub use board::{Board, Facts, Set, may_saturate};
pub use choose::{
    Ask, Asking, Instead, WATCHED, any, any_helper, ask_until_one_comes, asks, collects,
    instead_of, may_be_helped, others_wait, to_ask, to_visit, to_watch, wants_help,
};
pub use habit::Habit;
pub use layout::{Layout, Whereabouts};
pub use queuer::{Plain, Queuer};
pub use short_items::{Length, Progress, Visit, may_begin_next};
