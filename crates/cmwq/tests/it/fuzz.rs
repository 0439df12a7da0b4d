//! The fuzzer's target `api`: sequences of operations on queues and items, played on the library
//! and compared with the model of the tests (`reference`). `fuzz/Cargo.toml` names this file.
//! Without the fuzzer it plays what was found before, or the file that `CMWQ_CASE` names.
#![cfg_attr(fuzzing, no_main)]
#![expect(dead_code, reason = "the tests use more of what is shared")]

mod reference {
    pub(crate) mod model;
    pub(crate) mod rig;
    pub(crate) mod sequence;

    use std::sync::Once;
    use std::time::Duration;

    use crate::support::wait::PATIENCE;
    use model::Op;
    use sequence::{LENGTH, allowed, any};

    /// # Panics
    /// If the library does anything else than the model says.
    pub(crate) fn run(data: &[u8]) {
        static CONFIGURED: Once = Once::new();
        CONFIGURED.call_once(|| {
            // An item that computes for long is meant to.
            cmwq::Config::builder().cpu_intensive_thresh(Duration::ZERO).install().unwrap();
        });
        rig::Rig::new(PATIENCE).play(&of_bytes(data));
    }

    /// Five bytes choose an operation.
    fn of_bytes(data: &[u8]) -> Vec<Op> {
        let of_five = |bytes: &[u8]| {
            let mut bytes = bytes.iter();
            any(|n| usize::from(bytes.next().copied().unwrap_or(0)) % n)
        };
        allowed(data.chunks(5).map(of_five)).take(LENGTH).collect()
    }
}

mod support {
    pub(crate) mod load;
    pub(crate) mod procfs;
    pub(crate) mod sanitizer;
    pub(crate) mod sys;
    pub(crate) mod wait;

    pub(crate) use wait::{Gate, joined};
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| reference::run(data));

#[cfg(not(fuzzing))]
#[test]
#[expect(clippy::print_stderr, reason = "the case is needed to play it again")]
fn what_was_found_does_what_the_model_says() {
    use std::path::PathBuf;
    use std::{env, fs};

    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/api");
    let cases = match env::var_os("CMWQ_CASE") {
        Some(case) => vec![PathBuf::from(case)],
        None => fs::read_dir(seeds).unwrap().map(|entry| entry.unwrap().path()).collect(),
    };
    assert!(!cases.is_empty(), "no seeds in {seeds}");
    for case in cases {
        eprintln!("CMWQ_CASE={}", case.display());
        reference::run(&fs::read(case).unwrap());
    }
}
