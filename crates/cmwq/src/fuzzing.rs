//! What fuzzers do with what this crate reads: one module for each target of `fuzz/`,
//! with one function that takes any bytes and checks whatever can be said of the outcome.
//!
//! The same functions run in `cargo test`, with cases that are made of the seeds in `fuzz/seeds`:
//! [`cases`]. `CMWQ_SEED` and `CMWQ_FUZZ_CASES` say which and how many.

#[cfg(test)]
mod cases;
pub mod control_session;
pub mod cpu_sets;
pub mod params;
pub mod system_files;
pub mod trace_file;
