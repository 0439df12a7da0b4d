//! Integration tests of the runtime, on real threads.
//!
//! One process has one runtime, so tests that need another environment (detection source,
//! parameters, user, limits, fewer CPUs) are *scenes*: this binary executes itself to play one; see
//! [`support::scene`].
//!
//! Nothing here sleeps to let things settle: a test waits for a condition, with a generous time
//! limit that fails with a message. Sleeps are what items do, as their subject.

mod closures;
mod degrade;
mod delayed;
mod drops;
mod flush;
mod heart;
mod idle;
mod kinds;
mod limits;
mod names;
mod nesting;
mod nproc;
mod panics;
mod pods;
mod scopes;
mod stress;
mod support;
mod work;
