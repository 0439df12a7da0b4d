//! Cases for `cargo test`: seeds, changed here and there by a generator that a number repeats.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

/// What numbers and words in texts are replaced by.
const STRANGE: [&str; 20] = [
    "0",
    "1",
    "-1",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "1e309",
    "nan",
    "max",
    "..",
    "/",
    ",",
    "-",
    ":",
    "0-65535:1/1",
    "\u{feff}",
    "\t",
    "\\n",
];

/// Numbers without end, from one.
struct Rng(u64);

impl Rng {
    /// Below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// The files of `fuzz/seeds/TARGET`, or of another folder. None where this crate has been unpacked
/// from an archive, which has no seeds.
#[expect(clippy::print_stderr, reason = "what is not tested must be known")]
pub(super) fn seeds(folder: &str) -> Vec<Vec<u8>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = here.join(folder);
    if !folder.exists() && !here.join("../../fuzz").exists() {
        eprintln!("not tested: {} is in the repository only", folder.display());
        return Vec::new();
    }
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Calls `body` with all seeds and so many cases made of them. A failure names its case.
pub(super) fn run(seeds: &[Vec<u8>], cases: usize, body: fn(&[u8])) {
    if seeds.is_empty() {
        return;
    }
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("CMWQ_SEED").unwrap_or(1);
    let cases = number("CMWQ_FUZZ_CASES").map_or(cases, |cases| cases as usize);
    seeds.iter().for_each(|seed| check(seed, 0, body));
    for seed in (first..).take(cases) {
        check(&case(seeds, seed), seed, body);
    }
}

#[expect(clippy::print_stderr, reason = "what fails must be known")]
fn check(case: &[u8], seed: u64, body: fn(&[u8])) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(case))) {
        let shown = String::from_utf8_lossy(case);
        eprintln!("CMWQ_SEED={seed} CMWQ_FUZZ_CASES=1 repeats it; the case is\n{shown:?}");
        resume_unwind(payload);
    }
}

fn case(seeds: &[Vec<u8>], seed: u64) -> Vec<u8> {
    // Seeds that follow each other are to have nothing in common.
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut case = seeds[rng.below(seeds.len())].clone();
    for _ in 0..=rng.below(6) {
        change(&mut case, seeds, &mut rng);
    }
    case
}

fn change(case: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.below(case.len() + 1);
    let end = (at + rng.below(12)).min(case.len());
    match rng.below(7) {
        0 if at < case.len() => case[at] ^= 1 << rng.below(8),
        1 => drop(case.drain(at..end)),
        2 => {
            let part = case[at..end].to_vec();
            case.splice(at..at, part);
        }
        3 => case.truncate(at),
        4 => {
            let other = &seeds[rng.below(seeds.len())];
            let from = rng.below(other.len() + 1);
            case.splice(at..end, other[from..].iter().copied());
        }
        5 => case.insert(at, rng.below(256) as u8),
        _ => {
            let (from, to) = word(case, at);
            case.splice(from..to, STRANGE[rng.below(STRANGE.len())].bytes());
        }
    }
}

/// Where the word or number at `at` begins and ends.
fn word(case: &[u8], at: usize) -> (usize, usize) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
    let from = case[..at].iter().rposition(|byte| !is_word(byte)).map_or(0, |index| index + 1);
    let to = case[at..].iter().position(|byte| !is_word(byte)).map_or(case.len(), |len| at + len);
    (from, to)
}
