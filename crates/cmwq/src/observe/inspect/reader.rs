//! Reading the mapping of a process, this one or another.
//!
//! A mapping may be of another version, cut short, torn (its process was stopped in the middle of a
//! change), or not ours at all though it has the name. Nothing in it is trusted: every place is
//! checked against the length of what was mapped, every number is only a number, and what makes no
//! sense is an error or left out, never a panic.
//!
//! *Reading order*: `open` (finding it), [`words`] (bounds), `snapshot` (copying and decoding),
//! `view` (what a reader is given).

mod open;
mod snapshot;
mod view;
mod words;

#[cfg(test)]
mod tests;

pub use open::{OpenError, Target};
pub use snapshot::ReadError;
pub use view::{
    Activity, Decision, Link, MissingRecords, Node, Pod, Pool, Queue, Snapshot, Worker,
};
#[cfg(any(test, fuzzing))]
pub(crate) use {snapshot::snapshot, words::Words};
