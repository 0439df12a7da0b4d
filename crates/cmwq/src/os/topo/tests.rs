//! Tests of the parsers on recorded machines, and of the few functions that ask the real one.

mod cpuset;
pub(crate) mod fixture;
mod quota;
mod scope;
mod task_limit;
mod topology;
