//! See `cmwq::fuzzing::control_session`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmwq::fuzzing::control_session::run(data));
