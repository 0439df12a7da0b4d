//! The situations by which the kernel's documentation compares affinity scopes, simulated.
//!
//! There, 24, 8 or 4 issuers keep 64 blocks of 32 KiB each in flight on a dm-crypt device, half of
//! them written and half read back and verified, on a CPU with 24 hardware threads and four
//! last-level caches; the workers of one unbound queue encrypt and decrypt. Here the same closed
//! loop runs on virtual CPUs, with queues and pools of the real core.
//!
//! What the model is given:
//!
//! - *CPU time per block*, for issuer and worker: from the documented bandwidth and CPU time of
//!   scope `system` with four issuers, taken for busy all the time ([`ISSUER`], [`WORKER`]).
//!   Hardware threads that slow each other down are not modelled, so where the machine is full,
//!   bandwidth comes out 14 % higher than documented, for all scopes alike: compare ratios.
//! - *The scheduler*, as [`Caches`] says, with Linux's defaults: [`HOT`], [`BALANCE`], [`SLICE`].
//! - *Issuers that move about*, as the documentation says they do: each is put on a random CPU from
//!   time to time, on average once per balancing interval. This is an assumption, chosen among
//!   intervals of 3 to 100 ms with the documented loss of strict queues in view: that loss is no
//!   independent result.
//! - *One calibrated number*, [`TRANSFER`]: such that scope `cache` gains the documented 0.6 % with
//!   24 issuers.
//!
//! The other ratios come out of it. `cmwq sim --crypt` shows them beside the documented ones.

use std::sync::Arc;

use crate::Nanos;
use crate::config::{Caches, Checks, Config, Costs};
use crate::engine::{Engine, Issuers};
use crate::plan::{Item, Op, Plan};
use crate::rng::Rng;
use crate::scenario::{Flag, Flags, QueueSpec};
use crate::topology::{Scope, Shape};

/// The documented machine: 12 cores with two threads each, three cores per last-level cache.
pub const MACHINE: Shape = Shape::Regular([1, 4, 3, 2]);
/// Blocks that each issuer has in flight.
pub const DEPTH: usize = 64;
/// CPU time of an issuer per block, in nanoseconds: four issuers, 993.6 MiB/s read and as much
/// written.
pub const ISSUER: Nanos = 62_900;
/// CPU time of a worker per block, in nanoseconds: what is left of 75.49 % of 24 CPUs.
pub const WORKER: Nanos = 222_000;
/// CPU time for getting a block from another cache, in nanoseconds; calibrated.
pub const TRANSFER: Nanos = 1_700;
/// A thread that had a CPU so recently is not taken to another cache (`sched_migration_cost_ns`).
pub const HOT: Nanos = 500_000;
/// How often Linux looks whether a domain of 24 CPUs is balanced: a millisecond for each.
pub const BALANCE: Nanos = 24_000_000;
/// How long a thread keeps a CPU for which others wait: 0.75 ms, times four on a machine of eight
/// CPUs or more.
pub const SLICE: Nanos = 3_000_000;

/// A row of the table: how the workers' queue is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Unbound, one pool for all CPUs.
    System,
    /// Unbound, a pool for each last-level cache; workers wake up there and may be taken elsewhere.
    Cache,
    /// Unbound, a pool for each last-level cache; workers stay there.
    CacheStrict,
    /// Managed, as the library makes such queues: a pool for each CPU, and idle ones help.
    Managed,
    /// Managed, a pool for each last-level cache.
    ManagedCache,
}

impl Way {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 5] =
        [Self::System, Self::Cache, Self::CacheStrict, Self::Managed, Self::ManagedCache];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Cache => "cache",
            Self::CacheStrict => "cache (strict)",
            Self::Managed => "managed",
            Self::ManagedCache => "managed, cache",
        }
    }

    const fn kind(self) -> Flag {
        match self {
            Self::System | Self::Cache | Self::CacheStrict => Flag::Unbound,
            Self::Managed | Self::ManagedCache => Flag::Managed,
        }
    }

    const fn scope(self) -> Scope {
        match self {
            Self::System => Scope::System,
            Self::Cache | Self::CacheStrict | Self::ManagedCache => Scope::Cache,
            Self::Managed => Scope::Cpu,
        }
    }
}

/// Numbers of issuers, as documented.
pub const ISSUERS: [usize; 3] = [24, 8, 4];

/// What came of a run, or was documented.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Bandwidth of reading, in MiB per second: half of the blocks.
    pub mib_per_s: f64,
    /// Part of the machine's CPU time that was used, in per cent.
    pub cpu: f64,
    /// Of the fetches that may be necessary, two per block, those that were, in per cent; `None`:
    /// unknown.
    pub remote: Option<f64>,
}

/// What the kernel's documentation says, if it does.
#[must_use]
pub const fn documented(way: Way, issuers: usize) -> Option<Figures> {
    let (mib_per_s, cpu) = match (way, issuers) {
        (Way::System, 24) => (1159.4, 99.31),
        (Way::Cache, 24) => (1166.4, 99.34),
        (Way::CacheStrict, 24) => (1166.0, 99.35),
        (Way::System, 8) => (1155.4, 97.41),
        (Way::Cache, 8) => (1154.4, 96.15),
        (Way::CacheStrict, 8) => (1112.0, 93.26),
        (Way::System, 4) => (993.6, 75.49),
        (Way::Cache, 4) => (973.4, 74.9),
        (Way::CacheStrict, 4) => (828.2, 66.84),
        _ => return None,
    };
    Some(Figures { mib_per_s, cpu, remote: None })
}

/// Runs one situation for so many virtual nanoseconds; the same for the same arguments.
///
/// # Panics
/// If `issuers` or `length` is 0.
#[must_use]
pub fn run(seed: u64, way: Way, issuers: usize, length: Nanos) -> Figures {
    assert!(issuers > 0 && length > 0, "nobody would do anything");
    let plan = plan(seed, way, issuers);
    let config = config(seed, way);
    let issuers = Issuers { nr: issuers, work: ISSUER, stay: BALANCE, until: length };
    let traffic = Engine::new(&plan, &config).with_issuers(issuers).run_traffic();
    let blocks = traffic.blocks as f64;
    let seconds = length as f64 / 1e9;
    // 32 blocks are a MiB.
    Figures {
        mib_per_s: blocks / 2.0 / 32.0 / seconds,
        cpu: 100.0 * traffic.busy as f64 / (length as f64 * f64::from(MACHINE.cpus())),
        remote: Some(100.0 * traffic.transfers as f64 / (2.0 * blocks)),
    }
}

fn config(seed: u64, way: Way) -> Config {
    let is_loose = way != Way::CacheStrict;
    Config {
        seed,
        shape: MACHINE,
        costs: Costs { slice: Some(SLICE), ..Costs::default() },
        caches: Some(Caches { transfer: TRANSFER, hot: HOT, look: BALANCE, is_loose }),
        // The managed runtime would know it after some items, by samples.
        has_long_items: true,
        // Work waits for CPUs beside idle ones here, which is what is measured.
        checks: Checks::None,
        ..Config::exact(MACHINE.cpus())
    }
}

/// One queue, and an item for each block. Blocks differ by up to an eighth, so that nothing goes in
/// step.
fn plan(seed: u64, way: Way, issuers: usize) -> Plan {
    let mut rng = Rng::new(seed ^ 0x6b63_7279_7074_6421);
    // dm-crypt asks for as many as there are CPUs, which was a limit of each pool at the time.
    let nr_pools = MACHINE.pods(way.scope()).len() as u32;
    let queue = QueueSpec {
        name: "kcryptd".to_owned(),
        flags: Flags::NONE.with(way.kind()),
        max_active: MACHINE.cpus() * nr_pools,
        scope: Some(way.scope()),
    };
    let item = |_| {
        let work = rng.between(WORKER / 8 * 7, WORKER / 8 * 9);
        Item { queue: 0, ops: Arc::from([Op::Burn(work)]), nr_queueings: 0 }
    };
    let items = (0..issuers * DEPTH).map(item).collect();
    Plan { queues: vec![queue], items, ..Plan::default() }
}
