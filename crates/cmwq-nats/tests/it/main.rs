//! A queue that machines share, with a real broker: `nats-server`, which each test starts for
//! itself on a free port. Where it is not installed, the tests say so and pass.

#![allow(clippy::print_stderr, reason = "what was skipped, and counts that are no conditions")]

mod backlog;
mod callbacks;
mod cancelling;
mod chaos;
mod closing;
mod cluster;
mod flushing;
mod foreign;
mod forking;
mod giving_up;
mod keys;
mod large;
mod letters;
mod limits;
mod pauses;
mod restarting;
mod settings;
mod support;
mod taking;
mod timing;
mod trouble;
