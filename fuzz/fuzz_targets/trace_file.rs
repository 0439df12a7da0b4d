//! See `cmwq::fuzzing::trace_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmwq::fuzzing::trace_file::run(data));
