//! What the kernel's documentation measures affinity scopes by, in user space: issuers keep blocks
//! in flight, workers encrypt and decrypt them, and each issuer verifies what it gets back.
//!
//! A block goes round like this: its issuer fills it and takes its SHA-512 digest; a worker
//! encrypts it (AES-256-XTS, sectors of 512 bytes, as dm-crypt does); it comes back and is sent off
//! at once to be decrypted; its issuer compares the digest and fills it anew.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use aes::Aes256;
use aes::cipher::{Array, KeyInit as _};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha512};
use xts_mode::{Xts128, get_tweak_default};

use crate::job::{Bench, Job};
use crate::peers::{self, Peer};
use crate::report::{Column, Ratio, Row, Section, Side, Unit, row_of};
use crate::rounds::{Cell, Outcome, Session, each_round};
use crate::stats::Spread;
use crate::sys;
use crate::systems::System;

const RUNS: usize = 5;
const LENGTH_MS: u64 = 2_000;
const LENGTH_QUICK_MS: u64 = 500;
/// Blocks that each issuer has in flight.
const DEPTH: usize = 64;
const BLOCK: usize = 32 << 10;
const SECTOR: usize = 512;

/// The documented 24 threads had 24, 8 and 4 issuers.
const SHARES: [usize; 3] = [1, 3, 6];

/// How much of the bandwidth a managed queue may lose: noise.
const GOAL: f64 = 1.01;

const NOTES: [&str; 3] = [
    "bandwidth: of blocks that were decrypted and verified, MiB/s; as many were encrypted",
    "CPU: of all CPUs, workers and issuers, in per cent",
    "x system: bandwidth, beside that of an unbound queue of scope system; where all CPUs share a \
     cache, the scopes are the same",
];

/// Options of `crypt`.
#[derive(Args, Debug, Default)]
pub(crate) struct CryptOptions {
    /// Numbers of issuers, separated by commas [default: one per CPU, per 3 and per 6 CPUs].
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) issuers: Vec<u16>,
    /// Blocks that each issuer has in flight [default: 64].
    #[arg(long)]
    pub(crate) depth: Option<NonZeroUsize>,
    /// How long each measurement takes, in milliseconds [default: 2000, with --quick 500].
    #[arg(long)]
    pub(crate) length_ms: Option<u64>,
}

/// One round of one system.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    mib_per_s: f64,
    cpu_percent: f64,
}

/// A block on its way.
#[derive(Debug)]
struct Block {
    sector: u128,
    data: Vec<u8>,
    digest: [u8; 64],
    is_encrypted: bool,
}

type Cipher = Xts128<Aes256>;

/// Of any key: the time does not depend on it.
fn cipher() -> Cipher {
    Xts128::new(Aes256::new(&Array([0x5a; 32])), Aes256::new(&Array([0xa5; 32])))
}

impl Block {
    fn new(number: usize) -> Self {
        let sector = (number * (BLOCK / SECTOR)) as u128;
        Self { sector, data: vec![0; BLOCK], digest: [0; 64], is_encrypted: false }
    }

    /// The issuer's part before a block is written.
    fn fill(&mut self, rng: &mut Rng) {
        rng.fill(&mut self.data);
        self.digest = Sha512::digest(&self.data).into();
    }

    /// The issuer's part when it was read.
    fn verify(&self) -> Result<()> {
        let digest: [u8; 64] = Sha512::digest(&self.data).into();
        ensure!(digest == self.digest, "the block of sector {} came back changed", self.sector);
        Ok(())
    }

    /// The worker's part.
    fn convert(&mut self, cipher: &Cipher) {
        let data = &mut self.data[..];
        if self.is_encrypted {
            cipher.decrypt_area(data, SECTOR, self.sector, get_tweak_default);
        } else {
            cipher.encrypt_area(data, SECTOR, self.sector, get_tweak_default);
        }
        self.is_encrypted = !self.is_encrypted;
    }
}

/// Runs one round in this process.
pub(crate) fn measure<P: Peer>(job: &Job) -> Result<Sample> {
    ensure!(job.issuers > 0 && job.count > 0, "a run needs issuers, and blocks for them");
    // They live as long as the process: items in flight when the time is up refer to them.
    let peer: &'static P = Box::leak(Box::new(P::start(job)?));
    let cipher: &'static Cipher = Box::leak(Box::new(cipher()));
    peers::warm_up(peer, job.cpus);
    let barrier = Arc::new(Barrier::new(job.issuers + 1));
    let issuers: Vec<_> = (0..job.issuers)
        .map(|number| {
            let (barrier, job) = (Arc::clone(&barrier), job.clone());
            thread::spawn(move || issue(peer, cipher, &job, number, &barrier))
        })
        .collect();
    barrier.wait();
    let (cpu_ns, start) = (sys::cpu_ns(), Instant::now());
    thread::sleep(job.wait());
    let (cpu_ns, elapsed) = (sys::cpu_ns() - cpu_ns, start.elapsed());
    let mut blocks = 0;
    for issuer in issuers {
        blocks += issuer.join().ok().context("an issuer panicked")??;
    }
    let all_ns = sys::duration_ns(elapsed) as f64 * job.cpus as f64;
    Ok(Sample {
        mib_per_s: (blocks * BLOCK) as f64 / f64::from(1 << 20) / job.wait().as_secs_f64(),
        cpu_percent: 100.0 * cpu_ns as f64 / all_ns,
    })
}

/// Keeps `job.count` blocks in flight until the time is up; how many were verified.
fn issue<P: Peer>(
    peer: &'static P,
    cipher: &'static Cipher,
    job: &Job,
    number: usize,
    barrier: &Barrier,
) -> Result<usize> {
    let mut rng = Rng::with_seed(job.seed.wrapping_add(number as u64));
    let (sender, receiver) = channel::<Block>();
    let sender: &'static Sender<Block> = Box::leak(Box::new(sender));
    let send = |mut block: Block| {
        peer.spawn(move || {
            block.convert(cipher);
            // Fails when the time is up and nobody waits for it any more.
            let _ = sender.send(block);
        });
    };
    let mut blocks: Vec<_> = (0..job.count).map(|n| Block::new(number * job.count + n)).collect();
    blocks.iter_mut().for_each(|block| block.fill(&mut rng));
    barrier.wait();
    let end = Instant::now() + job.wait();
    blocks.into_iter().for_each(send);
    let mut verified = 0;
    loop {
        let mut block = receiver.recv().context("a sender that lives for ever")?;
        // One at least, however slow the machine: a benchmark that found nothing has failed.
        if Instant::now() >= end && verified > 0 {
            return Ok(verified);
        }
        if !block.is_encrypted {
            block.verify()?;
            verified += 1;
            block.fill(&mut rng);
        }
        send(block);
    }
}

/// Numbers of issuers for a machine of `cpus` CPUs, in the documented proportions, each once.
fn proportions(cpus: usize) -> Vec<usize> {
    let mut issuers: Vec<_> = SHARES.iter().map(|share| (cpus / share).max(1)).collect();
    issuers.dedup();
    issuers
}

/// Measures all chosen systems and makes a table for each number of issuers.
pub(crate) fn run(session: &mut Session, options: &CryptOptions) -> Result<Vec<Section>> {
    let chosen: Vec<_> = options.issuers.iter().copied().map(usize::from).collect();
    let chosen = if chosen.is_empty() { proportions(session.cpus) } else { chosen };
    chosen.into_iter().map(|issuers| section(session, options, issuers)).collect()
}

fn section(session: &mut Session, options: &CryptOptions, issuers: usize) -> Result<Section> {
    let rounds = session.rounds(RUNS);
    let depth = options.depth.map_or(DEPTH, NonZeroUsize::get);
    let usual = if session.quick { LENGTH_QUICK_MS } else { LENGTH_MS };
    let length = Duration::from_millis(options.length_ms.unwrap_or(usual).max(1));
    let wait_us = sys::duration_ns(length) / 1000;
    let job = Job { issuers, wait_us, ..Job::new(Bench::Crypt, session.cpus, depth) };
    let entrants = session.entrants(Bench::Crypt);
    let cells = entrants.iter().map(|&(system, _)| Cell { system, job: job.clone() }).collect();
    let outcomes = session.alternate::<Sample>(&format!("crypt, {issuers}"), cells, rounds)?;
    let of_system = outcomes.iter().find(|outcome| outcome.system == System::CmwqWhole);
    let of_system = of_system.and_then(|outcome| outcome.figure(|one| one.sample.mib_per_s));
    let rows: Vec<Row> = outcomes.iter().map(|outcome| row(outcome, of_system)).collect();
    let s = if issuers == 1 { "" } else { "s" };
    Ok(Section {
        curves: Vec::new(),
        name: format!("crypt-{issuers}"),
        title: format!(
            "crypt: {issuers} issuer{s} with {depth} blocks of 32 KiB in flight each, AES-256-XTS \
             by \
             workers, SHA-512 by issuers; {} rounds of {} ms",
            rounds.runs,
            length.as_millis(),
        ),
        columns: vec![
            Column::new("bandwidth", Unit::Count),
            Column::new("CPU", Unit::Plain),
            Column::new("x system", Unit::Plain),
        ],
        ratios: ratios(&rows, &outcomes),
        rows,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

fn row(outcome: &Outcome<Sample>, of_system: Option<Spread>) -> Row {
    let bandwidth = outcome.figure(|one| one.sample.mib_per_s);
    let ratio = bandwidth.zip(of_system).map(|(ours, system)| Spread {
        median: ours.median / system.median,
        min: ours.min / system.median,
        max: ours.max / system.median,
    });
    row_of(
        outcome,
        Bench::Crypt,
        vec![bandwidth, outcome.figure(|one| one.sample.cpu_percent), ratio],
    )
}

/// Bandwidth of `system` by that of a row: over 1 where the row loses.
fn ratios(rows: &[Row], outcomes: &[Outcome<Sample>]) -> Vec<Ratio> {
    let of = |system| Side::of(rows, system, 0);
    let each = |system: System| each_round(outcomes, &system.name(), |one| one.sample.mib_per_s);
    let mut ratios = Vec::new();
    for (system, goal) in
        [(System::Cmwq, Some(GOAL)), (System::CmwqCache, None), (System::CmwqCacheStrict, None)]
    {
        let what = format!("bandwidth, {} / {}", System::CmwqWhole.name(), system.name());
        let ratio = Ratio::new(what, Unit::Count, of(System::CmwqWhole), of(system))
            .rounds(&each(System::CmwqWhole), &each(system));
        ratios.extend(match goal {
            Some(goal) => ratio.goal(goal),
            None => ratio.value(),
        });
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_are_as_documented_on_24_cpus() {
        assert_eq!(proportions(24), [24, 8, 4]);
        assert_eq!(proportions(2), [2, 1]);
        assert_eq!(proportions(1), [1]);
    }

    #[test]
    fn a_block_goes_round() {
        let (cipher, mut rng, mut block) = (cipher(), Rng::with_seed(1), Block::new(3));
        block.fill(&mut rng);
        let plain = block.data.clone();
        block.convert(&cipher);
        assert!(block.verify().is_err(), "it is not plain text");
        block.convert(&cipher);
        assert_eq!(block.data, plain);
        block.verify().unwrap();
        block.data[BLOCK - 1] ^= 1;
        assert!(block.verify().is_err(), "a bit was changed");
    }
}
