//! Unit tests by topic. `support` has the fixture; `model` compares random histories with a naive
//! pool.
//!
//! Random tests run with fixed seeds and with the one in `CMWQ_SEED`, if it is set; each prints its
//! seed before it starts, so a failure says how to replay it.

mod active;
mod barrier;
mod cancel;
mod concurrency;
mod cull;
mod events;
mod flush;
mod guest;
mod inbox;
mod life;
mod list;
mod model;
mod node;
mod policy;
mod reentrance;
mod self_free;
mod support;
mod threads;
mod wheel;
mod word;
