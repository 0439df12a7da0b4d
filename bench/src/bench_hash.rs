//! A directory hash from a cold cache: files are read and hashed, one item for each. One of the
//! loads for which [`sizes`](crate::bench_sizes) looks for the best pool size.
//!
//! Before each run the kernel is asked to forget the files' contents, which needs no privilege.
//! Whether it did shows afterwards: it counts what it has fetched from the device for this process.
//! Where the files lie in memory (tmpfs) there is no device, and nothing becomes cold.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{Advice, fadvise, syncfs};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::bench_sizes::Makespan;
use crate::external::build_folder;
use crate::gate::Gate;
use crate::job::{Bench, Job};
use crate::peers::{self, Peer};
use crate::sys;

/// Files have 2^9 bytes to 2^18, 512 B to 256 KiB, each exponent as often as any other.
const EXPONENTS: std::ops::Range<f64> = 9.0..18.0;

/// The seed of sizes and contents: the tree is the same everywhere.
const SEED: u64 = 1;

/// In each folder.
const FILES_PER_FOLDER: usize = 100;

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    pub(crate) makespan: Makespan,
    /// The part of the files that came from the device, each time; `None` where the kernel does not
    /// count.
    pub(crate) cold: Option<f64>,
}

/// The job: hash this many files, which are made if this is the first time.
pub(crate) fn job(cpus: usize, files: usize) -> Result<Job> {
    let folder = build_folder("tree")?.join(files.to_string());
    if !folder.exists() {
        let new = folder.with_extension(format!("new-{}", std::process::id()));
        make(&new, files).with_context(|| format!("making files in {}", new.display()))?;
        // What has its final name is complete; somebody else may have been first.
        if fs::rename(&new, &folder).is_err() {
            fs::remove_dir_all(&new)?;
        }
    }
    let folder = folder.to_str().context("a folder whose name is no text")?.to_owned();
    Ok(Job { folder, ..Job::new(Bench::Hash, cpus, files) })
}

fn make(folder: &Path, files: usize) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(SEED);
    for number in 0..files {
        let folder = folder.join((number / FILES_PER_FOLDER).to_string());
        fs::create_dir_all(&folder)?;
        let exponent = EXPONENTS.start + rng.f64() * (EXPONENTS.end - EXPONENTS.start);
        let mut bytes = vec![0; exponent.exp2() as usize];
        rng.fill(&mut bytes);
        File::create(folder.join(number.to_string()))?.write_all(&bytes)?;
    }
    // Only what was written out can be forgotten.
    syncfs(File::open(folder)?)?;
    Ok(())
}

/// Runs one round in this process.
pub(crate) fn measure<P: Peer>(job: &Job) -> Result<Sample> {
    let files = files_below(Path::new(&job.folder))?;
    ensure!(files.len() == job.count, "{} files in {}", files.len(), job.folder);
    let peer: &'static P = Box::leak(Box::new(P::start(job)?));
    peers::warm_up(peer, job.cpus);
    let mut bytes = 0;
    let fetched_before = sys::fetched_bytes();
    let makespan = Makespan::of(job, || {
        let forgotten = forget(&files)?;
        bytes += forgotten;
        once(files.clone(), peer, forgotten)
    })?;
    let fetched = fetched_before.zip(sys::fetched_bytes());
    let cold = fetched.map(|(before, after)| after.saturating_sub(before) as f64 / bytes as f64);
    Ok(Sample { makespan, cold })
}

/// Has the kernel forget the files' contents; how many bytes they are.
fn forget(files: &[PathBuf]) -> Result<u64> {
    let mut bytes = 0;
    for path in files {
        let file = File::open(path)?;
        bytes += file.metadata()?.len();
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(bytes)
}

/// How long it takes to hash the files, which have so many bytes.
fn once<P: Peer>(files: Vec<PathBuf>, peer: &'static P, bytes: u64) -> Result<f64> {
    let gate = Gate::leaked(files.len());
    let hashed = Arc::new(AtomicU64::new(0));
    let start_ns = sys::now_ns();
    for path in files {
        let hashed = Arc::clone(&hashed);
        peer.spawn_anywhere(move || {
            let mut sha = Sha256::new();
            let mut len = 0;
            P::block(|| len = hash(&path, &mut sha).unwrap_or_default());
            std::hint::black_box(sha.finalize());
            // ORDERING: no pairing of its own: ordered by the gate.
            hashed.fetch_add(len, Ordering::Relaxed);
            gate.done();
        });
    }
    gate.wait();
    let makespan_ns = (sys::now_ns() - start_ns) as f64;
    // ORDERING: as above.
    let hashed = hashed.load(Ordering::Relaxed);
    ensure!(hashed == bytes, "{hashed} bytes of {bytes} were hashed");
    Ok(makespan_ns)
}

/// Reads a file to its end; how long it is.
fn hash(path: &Path, sha: &mut Sha256) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut buffer = [0; 32 << 10];
    let mut len = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(len);
        }
        len += read as u64;
        sha.update(&buffer[..read]);
    }
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let into = if entry.file_type()?.is_dir() { &mut folders } else { &mut files };
            into.push(entry.path());
        }
    }
    // Folders tell in any order; every system gets the same.
    files.sort_unstable();
    Ok(files)
}

/// What to say if the cache was not cold in one of the rounds, of which this part came from the
/// device.
pub(crate) fn complaint(cold: impl Iterator<Item = Option<f64>>) -> Option<String> {
    /// What the device read ahead for others, or kept in pages shared with folders.
    const COLD_ENOUGH: f64 = 0.9;
    let mut least = f64::INFINITY;
    for part in cold {
        match part {
            Some(part) => least = least.min(part),
            None => return Some("whether the cache was cold is not known here".to_owned()),
        }
    }
    (least < COLD_ENOUGH).then(|| {
        format!(
            "THE CACHE WAS NOT COLD: in one round only {:.0} % came from the device (in memory \
             file systems \
             nothing does)",
            100.0 * least
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_tree_each_time_and_all_of_it_is_hashed() {
        let folder = std::env::temp_dir().join(format!("cmwq-tree-{}", std::process::id()));
        let len = |part: &str| {
            let folder = folder.join(part);
            make(&folder, 150).unwrap();
            let files = files_below(&folder).unwrap();
            assert_eq!(files.len(), 150);
            files.iter().map(|path| hash(path, &mut Sha256::new()).unwrap()).collect::<Vec<_>>()
        };
        let (one, other) = (len("one"), len("other"));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(one, other);
        assert!(one.iter().all(|len| (512..=256 << 10).contains(len)), "{one:?}");
    }

    #[test]
    fn a_warm_cache_is_said() {
        assert_eq!(complaint([Some(1.0), Some(1.1)].into_iter()), None);
        assert!(complaint([Some(1.0), Some(0.25)].into_iter()).unwrap().contains("25 %"));
        assert!(complaint([Some(1.0), None].into_iter()).unwrap().contains("not known"));
    }
}
