//! See `cmwq_cli::fuzzing::scenario`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmwq_cli::fuzzing::scenario::run(data));
