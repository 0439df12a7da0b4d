//! See `cmwq_observe::fuzzing::mapping`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmwq_observe::fuzzing::mapping::run(data));
