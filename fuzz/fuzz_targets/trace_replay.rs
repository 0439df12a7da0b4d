//! See `cmwq_cli::fuzzing::trace_replay`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmwq_cli::fuzzing::trace_replay::run(data));
