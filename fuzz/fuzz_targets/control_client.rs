//! See `cmwq_observe::fuzzing::control_client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmwq_observe::fuzzing::control_client::run(data));
