//! See `cmwq::fuzzing::mapping`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmwq::fuzzing::mapping::run(data));
