//! Who takes part: the table of systems, how each one is used, and in which benchmarks.

use clap::ValueEnum;
use serde::Serialize;

use crate::job::Bench;

/// A system under test, in the one way of using it that its name stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum System {
    Cmwq,
    CmwqWork,
    CmwqPercpu,
    CmwqUnbound,
    #[value(name = "cmwq-system")]
    CmwqWhole,
    CmwqCache,
    CmwqCacheStrict,
    CmwqPerf,
    CmwqSentinel,
    CmwqTick,
    CmwqInline,
    Capi,
    CapiStatic,
    CmwqRaw,
    CmwqShown,
    CmwqHidden,
    CmwqTraced,
    CmwqOther,
    CmwqTokio,
    CmwqRun,
    Rayon,
    Tokio,
    TokioBlocking,
    TokioInplace,
    TokioAsync,
    Blocking,
    Crossbeam,
    Tbb,
    Go,
    GoPark,
    Futex,
    FutexSame,
    FutexApart,
    OriginalMt,
    OriginalSt,
    /// No load at all.
    #[value(name = "none")]
    Nothing,
}

/// What a row of a table is there for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// cmwq.
    Ours,
    /// A system that does the same job: candidates for "the best peer".
    Peer,
    /// Shown for orientation: it does another job, as its description says, and is not compared
    /// with.
    Reference,
}

impl System {
    /// All of them, in the order of the tables.
    pub(crate) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// The name in tables and on the command line.
    pub(crate) fn name(self) -> String {
        crate::job::value_name(self)
    }

    /// How it is used, in one line.
    pub(crate) fn how(self) -> &'static str {
        match self {
            Self::Cmwq => "Workqueue::new (managed), closures: queue(|| ..), join()",
            Self::CmwqWork => "the same queue, embedded reusable Work items: queue_work, flush",
            Self::CmwqPercpu => "per-CPU queue, closures; mixed deals them out by queue_on",
            Self::CmwqUnbound => "unbound queue: no management, only max_active",
            Self::CmwqWhole => "unbound queue, scope system: one pool",
            Self::CmwqCache => "unbound queue, scope cache: a pool for each last-level cache",
            Self::CmwqCacheStrict => "the same, workers stay on the CPUs of their cache",
            Self::CmwqPerf => "per-CPU queue, CMWQ_DETECT=perf",
            Self::CmwqSentinel => "per-CPU queue, CMWQ_DETECT=sentinel",
            Self::CmwqTick => "per-CPU queue, CMWQ_DETECT=tick",
            Self::CmwqInline => "per-CPU queue, CMWQ_DETECT=inline, items call cmwq::blocking",
            Self::Capi => "C program with libcmwq.so: queue_work, flush_work",
            Self::CapiStatic => "the same program with libcmwq.a",
            Self::CmwqRaw => "Rust, the functions that libcmwq is made of: raw::queue, raw::flush",
            Self::CmwqShown => "per-CPU queue, as it is: state shown, not traced",
            Self::CmwqHidden => "the same, CMWQ_PARAMS=inspect=0",
            Self::CmwqTraced => {
                "the same as cmwq-shown, traced: the kernel's four events, read now and then"
            }
            Self::CmwqOther => "cmwq-shown of another build: --against",
            Self::CmwqTokio => "cmwq_tokio::spawn_blocking, on its managed queue",
            Self::CmwqRun => "the managed queue, Workqueue::run: by the caller where that may be",
            Self::Rayon => "ThreadPool::spawn; install for a round trip",
            Self::Tokio => {
                "multi-thread runtime, spawn; blocks inside the task, which its docs warn against"
            }
            Self::TokioBlocking => "spawn_blocking, the documented place for blocking calls",
            Self::TokioInplace => "spawn, blocking calls announced by block_in_place",
            Self::TokioAsync => "spawn, the wait rewritten as tokio::time::sleep: no thread blocks",
            Self::Blocking => "unblock(..), detached or awaited",
            Self::Crossbeam => "one thread per CPU behind an unbounded channel",
            Self::Tbb => {
                "oneTBB task_arena::enqueue with one worker per CPU; task_group::run inside"
            }
            Self::Go => "goroutines; the blocking call is a system call, as for files and cgo",
            Self::GoPark => "goroutines, the wait rewritten as time.Sleep: no thread blocks",
            Self::Futex => "two raw threads, two futex words: the floor of any sleeping hand-over",
            Self::FutexSame => "the same, both threads pinned to one CPU",
            Self::FutexApart => "the same, each thread pinned to a CPU of its own",
            Self::OriginalMt => "Linux' workqueue before 2010: each queue has a thread on each CPU",
            Self::OriginalSt => "the same, each queue has one thread",
            Self::Nothing => "no load: the foreground program alone",
        }
    }

    /// The role of this system's row in a benchmark, `None` where it does not take part.
    pub(crate) fn role(self, bench: Bench) -> Option<Role> {
        use Bench::{
            Block, Capi, Crypt, Delayed, Hash, Idle, Items, Mixed, PerfWq, Pictures, Power, Queues,
            Roundtrip, Scaling, Showing, Tasks, Ten, Waits, Woken,
        };
        use Role::{Ours, Peer, Reference};
        match (self, bench) {
            (Self::CmwqTokio, Tasks | Roundtrip) => Some(Ours),
            (Self::TokioBlocking | Self::TokioInplace, Tasks) => Some(Peer),
            (Self::CmwqRun, Roundtrip) => Some(Ours),
            (Self::CmwqTokio | Self::CmwqRun, _) | (_, Tasks) => None,
            (Self::CmwqShown | Self::CmwqTraced, Showing) => Some(Ours),
            (Self::CmwqHidden | Self::CmwqOther, Showing) => Some(Peer),
            (_, Showing)
            | (Self::CmwqShown | Self::CmwqTraced | Self::CmwqHidden | Self::CmwqOther, _) => None,
            (Self::Capi | Self::CapiStatic, Capi) => Some(Ours),
            (Self::CmwqRaw, Capi) => Some(Peer),
            (_, Capi) | (Self::Capi | Self::CapiStatic | Self::CmwqRaw, _) => None,
            (Self::Cmwq | Self::CmwqWhole | Self::CmwqCache | Self::CmwqCacheStrict, Crypt) => {
                Some(Ours)
            }
            (Self::Rayon | Self::TokioBlocking | Self::Crossbeam, Crypt) => Some(Peer),
            (_, Crypt) | (Self::CmwqWhole | Self::CmwqCache | Self::CmwqCacheStrict, _) => None,
            (Self::Cmwq | Self::CmwqPercpu | Self::CmwqUnbound, Ten | Queues) => Some(Ours),
            (Self::Cmwq | Self::CmwqPercpu | Self::CmwqUnbound, PerfWq) => Some(Ours),
            (Self::OriginalMt | Self::OriginalSt, Ten | PerfWq | Queues) => Some(Peer),
            (Self::Cmwq | Self::CmwqPercpu, Scaling) => Some(Ours),
            (Self::OriginalMt | Self::OriginalSt, Scaling) => Some(Peer),
            (Self::CmwqPercpu, Power) => Some(Ours),
            (Self::OriginalMt, Power) => Some(Peer),
            (Self::Nothing, Power) => Some(Reference),
            (_, Ten | Queues | Power | Scaling) => None,
            (Self::Nothing, PerfWq) => Some(Reference),
            // The load consists of waits that block, and of embedded items.
            (Self::CmwqWork | Self::TokioAsync | Self::GoPark, PerfWq) => None,
            // No timers, and nothing but a timer thread to write beside it: as crossbeam and rayon.
            (Self::Tbb, PerfWq) => None,
            // Part of `sizes`: what takes no size has no place there.
            (Self::Cmwq | Self::CmwqPercpu, Hash) => Some(Ours),
            (system, Hash) => (system.has_size() && system != Self::Tbb).then_some(Peer),
            (Self::Cmwq | Self::CmwqUnbound, Waits | Pictures) => Some(Ours),
            (Self::Rayon | Self::TokioBlocking | Self::Crossbeam, Waits | Pictures) => Some(Peer),
            (_, Waits | Pictures) => None,
            (Self::Cmwq | Self::CmwqUnbound, Woken) => Some(Ours),
            // Those with a thread per CPU would wait for ever.
            (Self::TokioBlocking | Self::TokioInplace | Self::Blocking, Woken) => Some(Peer),
            (_, Woken) => None,
            (Self::CmwqUnbound | Self::OriginalMt | Self::OriginalSt | Self::Nothing, _) => None,
            (Self::CmwqWork, Delayed) => Some(Ours),
            // `go` makes no system calls here and is what `go-park` would be.
            (Self::Tokio | Self::Go, Delayed) => Some(Peer),
            (Self::TokioAsync, Delayed) => Some(Reference),
            (_, Delayed) => None,
            (Self::Cmwq | Self::CmwqPercpu, Idle) => Some(Ours),
            (Self::Tokio | Self::Go, Idle) => Some(Peer),
            (_, Idle) => None,
            (Self::CmwqPerf | Self::CmwqSentinel | Self::CmwqTick | Self::CmwqInline, Block) => {
                Some(Ours)
            }
            (Self::CmwqPerf | Self::CmwqSentinel | Self::CmwqTick | Self::CmwqInline, _) => None,
            // In `block`, the per-CPU queue is entered once per detection source instead, and what
            // an item is made of changes nothing.
            (Self::CmwqPercpu | Self::CmwqWork, Block) => None,
            (Self::Cmwq | Self::CmwqWork | Self::CmwqPercpu, _) => Some(Ours),
            // Announcing a block changes nothing for items that do not block.
            (Self::TokioInplace, Items | Roundtrip) => None,
            (Self::TokioAsync | Self::GoPark, Mixed) => Some(Reference),
            (Self::TokioAsync | Self::GoPark, _) => None,
            (Self::Futex | Self::FutexSame | Self::FutexApart, Roundtrip) => Some(Reference),
            (Self::Futex | Self::FutexSame | Self::FutexApart, _) => None,
            // Caller and item share one thread, so nothing is handed over.
            (Self::Go, Roundtrip) => Some(Reference),
            _ => Some(Peer),
        }
    }

    /// `CMWQ_DETECT` for this row, where the row stands for one way of noticing a block.
    pub(crate) fn detect(self) -> Option<&'static str> {
        match self {
            Self::CmwqPerf => Some("perf"),
            Self::CmwqSentinel => Some("sentinel"),
            Self::CmwqTick => Some("tick"),
            Self::CmwqInline => Some("inline"),
            _ => None,
        }
    }

    /// What this row stands for, in `CMWQ_PARAMS`.
    pub(crate) fn params(self) -> Option<&'static str> {
        (self == Self::CmwqHidden).then_some("inspect=0")
    }

    /// The environment variable by which the number of threads is set, where that is the way.
    pub(crate) fn size_variable(self) -> Option<&'static str> {
        match self {
            Self::Blocking => Some("BLOCKING_MAX_THREADS"),
            _ => None,
        }
    }

    /// Whether its number of threads can be chosen.
    pub(crate) fn has_size(self) -> bool {
        matches!(
            self,
            Self::Rayon
                | Self::Tokio
                | Self::TokioBlocking
                | Self::Blocking
                | Self::Crossbeam
                | Self::Tbb
        )
    }

    /// Whether its items run on threads of this program, so that they may block in any way.
    pub(crate) fn runs_threads(self) -> bool {
        !matches!(self, Self::Tbb | Self::Go | Self::GoPark | Self::TokioAsync)
    }

    /// Why this build cannot measure the system, if so.
    pub(crate) fn left_out(self) -> Option<String> {
        let (built_in, feature) = match self {
            Self::Rayon => (cfg!(feature = "rayon"), "rayon"),
            Self::Tokio
            | Self::TokioBlocking
            | Self::TokioInplace
            | Self::TokioAsync
            | Self::CmwqTokio => (cfg!(feature = "tokio"), "tokio"),
            Self::Blocking => (cfg!(feature = "blocking"), "blocking"),
            Self::Crossbeam => (cfg!(feature = "crossbeam"), "crossbeam"),
            Self::Tbb | Self::Go | Self::GoPark | Self::Capi | Self::CapiStatic => {
                (cfg!(feature = "external"), "external")
            }
            _ => (true, ""),
        };
        (!built_in).then(|| format!("built without feature `{feature}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_is_described_and_takes_part_somewhere() {
        for &system in System::all() {
            let part = Bench::value_variants().iter().any(|&bench| system.role(bench).is_some());
            assert!(part, "{} takes part in nothing", system.name());
            assert!(!system.how().is_empty());
        }
    }

    #[test]
    fn every_benchmark_compares_us_with_peers() {
        for &bench in Bench::value_variants() {
            let roles: Vec<_> =
                System::all().iter().filter_map(|system| system.role(bench)).collect();
            assert!(roles.contains(&Role::Ours) && roles.contains(&Role::Peer), "{bench:?}");
        }
    }
}
