//! See `cmwq::fuzzing::system_files`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmwq::fuzzing::system_files::run(data));
