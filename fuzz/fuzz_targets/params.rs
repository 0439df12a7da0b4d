//! See `cmwq::fuzzing::params`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmwq::fuzzing::params::run(data));
