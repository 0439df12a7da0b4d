//! What fuzzers do with what this command reads beyond the library; see `fuzzing` in the library.

pub mod scenario;
pub mod trace_replay;

// The library's, by a link: an archive has a file of its own.
#[cfg(test)]
mod cases;
