//! See `cmwq::fuzzing::control_client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmwq::fuzzing::control_client::run(data));
