//! The driver under model checkers. `loom` has its single protocols, and every ordering; `shuttle`
//! the whole.

#[cfg(loom)]
mod loom;
#[cfg(shuttle)]
mod shuttle;
// The models have no signals and no stacks, but this protocol.
#[cfg(loom)]
#[path = "observe/stacks/request.rs"]
mod stack_request;

#[cfg(loom)]
use stack_request::Request as StackRequest;
