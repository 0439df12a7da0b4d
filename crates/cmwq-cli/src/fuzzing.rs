//! What fuzzers do with what this command reads beyond the library; see `fuzzing` in the library.

pub mod scenario;
pub mod trace_replay;

#[cfg(test)]
#[path = "../../cmwq/src/fuzzing/cases.rs"]
mod cases;
