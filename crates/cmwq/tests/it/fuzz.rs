//! The fuzzer's target `api`: sequences of operations on queues and items, played on the library
//! and compared with the model of the tests. No part of the tests: `fuzz/Cargo.toml` names this
//! file.
#![no_main]
#![expect(dead_code, reason = "the tests use more of what is shared")]

mod reference {
    pub(crate) mod model;
    pub(crate) mod rig;
    pub(crate) mod sequence;

    use std::sync::Once;
    use std::time::Duration;

    use crate::support::wait::PATIENCE;

    /// # Panics
    /// If the library does anything else than the model says.
    pub(crate) fn run(data: &[u8]) {
        static CONFIGURED: Once = Once::new();
        CONFIGURED.call_once(|| {
            // An item that computes for long is meant to.
            cmwq::Config::builder().cpu_intensive_thresh(Duration::ZERO).install().unwrap();
        });
        rig::Rig::new(PATIENCE).play(&sequence::of_bytes(data));
    }
}

mod support {
    pub(crate) mod load;
    pub(crate) mod procfs;
    pub(crate) mod sys;
    pub(crate) mod wait;

    pub(crate) use wait::{Gate, joined};
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| reference::run(data));
