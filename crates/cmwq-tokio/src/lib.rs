//! tokio's `spawn_blocking` on concurrency-managed workqueues.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod carry;
mod context;
mod handle;
mod join_error;
mod refused;
mod spawner;
mod task;

pub use cmwq;

pub use carry::carry;
pub use cmwq::Refused;
pub use handle::{AbortHandle, AbortOnDropHandle, JoinHandle};
pub use refused::TrySpawnError;
pub use spawner::{Permit, Spawner, block_in_place, spawn_blocking, spawner};
