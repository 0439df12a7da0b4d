//! See `cmwq::fuzzing::cpu_sets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmwq::fuzzing::cpu_sets::run(data));
