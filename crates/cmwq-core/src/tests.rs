//! Unit tests by topic. `support` has the fixture; `model` compares random histories with a naive
//! pool.
//!
//! Random tests run with fixed seeds and with the one in `CMWQ_SEED`, if it is set; each prints its
//! seed before it starts, so a failure says how to replay it.

mod activations;
mod active;
mod barrier;
mod batch;
mod bh;
mod cancel;
mod circles;
mod closing;
mod concurrency;
mod cull;
mod events;
mod evidence;
mod flush;
mod footprint;
mod for_others;
mod guest;
mod headcount;
mod help;
mod hog;
mod hog_watch;
mod inbox;
mod jobserver;
mod judge;
mod life;
mod list;
mod look;
mod model;
mod node;
mod offer;
mod pauses;
mod periodic;
mod place;
mod policy;
mod processes;
mod pwqs;
mod reading;
mod reentrance;
mod replace;
mod rescue;
mod self_free;
mod stats;
mod support;
mod suspects;
mod threads;
mod tick;
mod together;
mod unbinding;
mod waiting;
mod watchdog;
mod wheel;
mod wheel_many;
mod word;
