//! The driver under model checkers. `loom` has its single protocols, and every ordering; `shuttle`
//! the whole.

#[cfg(cmwq_loom)]
mod loom;
#[cfg(cmwq_shuttle)]
mod shuttle;
// The models have no signals and no stacks, but this protocol.
#[cfg(cmwq_loom)]
#[path = "observe/stacks/request.rs"]
mod stack_request;

#[cfg(cmwq_loom)]
use stack_request::Request as StackRequest;
