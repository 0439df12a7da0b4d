//! Who is blocked, and who computes: evidence about threads. What it means is decided by
//! `cmwq-core`.

pub(crate) mod hog;
pub(crate) mod method;
pub(crate) mod processes;
pub(crate) mod sentinel;
pub(crate) mod ticking;
