//! The driver under model checkers. `loom` has its single protocols, and every ordering; `shuttle`
//! the whole.

#[cfg(loom)]
mod loom;
#[cfg(shuttle)]
mod shuttle;
