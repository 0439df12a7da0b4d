//! What fuzzers do with what this crate reads; see `fuzzing` in the library.

pub mod control_client;
pub mod mapping;

// The library's, by a link: an archive has a file of its own.
#[cfg(test)]
mod cases;
