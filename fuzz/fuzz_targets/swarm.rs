//! See `cmwq_sim::swarm::run_bytes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cmwq_sim::swarm::run_bytes(data);
});
