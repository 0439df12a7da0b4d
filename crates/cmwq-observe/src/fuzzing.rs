//! What fuzzers do with what this crate reads; see `fuzzing` in the library.

pub mod control_client;
pub mod mapping;

#[cfg(test)]
#[path = "../../cmwq/src/fuzzing/cases.rs"]
mod cases;
