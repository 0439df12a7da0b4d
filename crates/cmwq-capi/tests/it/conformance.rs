//! The traces of a real kernel, if they are at hand: `CMWQ_CONFORMANCE` names a folder with
//! `kref_fuzz.c` and the files `home` and `strict` with what the kernel printed for seeds 1 to
//! `CMWQ_CONFORMANCE_SEEDS` (3 if that is not said). Needs two CPUs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{not_tested, program, run};

const SOURCES: [&str; 4] = ["sentinel", "perf", "tick", "inline"];

fn fuzz(dir: &Path, is_told: bool) -> Option<PathBuf> {
    let mut flags = vec![
        "-w",
        "-DKREF_USER",
        "-D_GNU_SOURCE",
        "-DFZ_CPU(n)=((n)-1)",
        "-DCUR_CPU()=(sched_getcpu()+1)",
    ];
    if is_told {
        flags.extend(["-includecmwq.h", "-DKREF_BLOCK_ENTER()=cmwq_blocking_begin()"]);
        flags.push("-DKREF_BLOCK_EXIT()=cmwq_blocking_end()");
    }
    let name = if is_told { "fuzz_told" } else { "fuzz" };
    program(name, &dir.join("kref_fuzz.c"), &flags)
}

/// The lines by their step; the last steps of a seed are a race that the script itself loses or
/// wins.
fn steps(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().map(|line| line.strip_prefix("KREF-F ").unwrap_or(line));
    lines
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, what)| !what.starts_with("end"))
        .collect()
}

fn check(dir: &Path, kind: &str, is_strict: bool) {
    let seeds: u32 = std::env::var("CMWQ_CONFORMANCE_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or(3);
    let linux = std::fs::read_to_string(dir.join(kind)).expect("what the kernel printed");
    let linux = steps(&linux);
    for source in SOURCES {
        let Some(fuzz) = fuzz(dir, source == "inline") else { return };
        let strict = u32::from(is_strict).to_string();
        for seed in 1..=seeds {
            let mut command = Command::new(&fuzz);
            command.args([&seed.to_string(), "1", "100", &strict, "30"]).env("CMWQ_DETECT", source);
            let output = run(&mut command);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let ours = steps(&text);
            for step in 0..100 {
                let step = format!("s{seed}.{step}");
                let step = step.as_str();
                assert_eq!(ours.get(step), linux.get(step), "{kind} {source} {step}");
            }
        }
    }
}

#[test]
fn the_same_as_in_linux() {
    let Some(dir) = std::env::var_os("CMWQ_CONFORMANCE").map(PathBuf::from) else {
        return not_tested("the kernel's traces are not at hand (CMWQ_CONFORMANCE)");
    };
    check(&dir, "home", false);
    check(&dir, "strict", true);
}
