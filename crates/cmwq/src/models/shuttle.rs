//! Shuttle models: the whole driver on two CPUs, in random interleavings of all its steps.
//!
//! `RUSTFLAGS="--cfg cmwq_shuttle" cargo test --manifest-path models/Cargo.toml -p cmwq-models
//! --release shuttle`
//!
//! Each scenario runs under two schedulers, many times: at random, and by priorities that change in
//! a few places (PCT), which finds what takes a few unlucky preemptions. `CMWQ_SHUTTLE_ITERS=N`
//! says how many times under each. A failure prints its schedule; in a file named by
//! `CMWQ_SHUTTLE_REPLAY` it is run again, with a filter for the test's name.
//!
//! What must hold is mostly that an execution comes to its end: a lost wake-up leaves threads that
//! sleep for ever, and shuttle reports those. Each ends with the runtime's shutdown, when all
//! threads are gone. Time passes when somebody sleeps until a deadline, see `clock`.

mod bh;
mod cancelling;
mod creating;
mod delaying;
mod disabling;
mod draining;
mod flushing;
mod lending;
mod limiting;
mod mutation;
mod placing;
mod queueing;
mod rescuing;
mod scoping;
mod tearing_down;
mod timing;

use std::env;

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

use crate::api::builder::Builder;
use crate::api::work::Work;
use crate::api::workqueue::Workqueue;
use crate::detect::method::Detect;
use crate::engine::pool::Pool;
use crate::engine::process::{Process, UPCALLS};
use crate::engine::runtime::{Machine, Runtime};
use crate::engine::threads::service_thread;
use crate::engine::tools::params::Params;
use crate::engine::wq::{Kind, Spec};
use crate::os::clock;
use crate::os::sync::{self, Arc, AtomicU32, Ordering};
use crate::os::topo::{CpuSet, Pod};
use crate::record::Inspect;

/// Executions of a scenario under each scheduler.
const ITERS: usize = 500;
/// Places where PCT changes priorities, and one.
const DEPTH: usize = 3;
/// An execution that takes more steps is one that goes in circles.
const MAX_STEPS: usize = 200_000;
/// Deep enough for a panic's message.
const STACK: usize = 256 << 10;

/// How the two CPUs form managed pods.
#[derive(Clone, Copy)]
enum Pods {
    One,
    Two,
}

/// What a scenario has to play with.
#[derive(Clone, Copy)]
struct World {
    runtime: &'static Runtime,
}

/// A runtime that does not live for ever, as those of processes do: there are too many of them
/// here.
struct Mortal(*mut Runtime, *mut Process);

impl Mortal {
    fn new(params: Params, pods: Pods) -> (Self, World) {
        clock::restart();
        sync::restart();
        let cpus: CpuSet = (0..2).collect();
        let all = vec![Pod { cpus: cpus.clone(), node: Some(0) }];
        let each = (0..2).map(|cpu| Pod { cpus: CpuSet::single(cpu), node: Some(0) });
        let managed = match pods {
            Pods::One => all.clone(),
            Pods::Two => each.collect(),
        };
        let machine = Machine::new(&cpus, None, all, managed);
        let raw = Box::into_raw(Runtime::assemble(params, machine, 0, Inspect::off(), UPCALLS));
        // SAFETY: from a box; freed by `end`, when nobody is left.
        let runtime: &'static Runtime = unsafe { &*raw };
        let process = Box::into_raw(Process::around(runtime));
        // SAFETY: as above.
        unsafe { &*process }.make_global();
        service_thread::start(runtime).expect("a model has threads");
        (Self(raw, process), World { runtime })
    }

    fn end(self) {
        // SAFETY: from a box.
        unsafe { &*self.0 }.shutdown();
        sync::join_all();
        // SAFETY: from boxes, and the scenario and all threads of the runtime have ended.
        drop(unsafe { (Box::from_raw(self.1), Box::from_raw(self.0)) });
    }
}

impl World {
    fn queue(&self, describe: impl FnOnce(Builder) -> Builder) -> Workqueue {
        describe(Workqueue::builder("model")).build_on(self.runtime).expect("a good description")
    }

    fn percpu(&self) -> Workqueue {
        self.queue(Builder::percpu)
    }

    fn managed(&self) -> Workqueue {
        self.queue(Builder::managed)
    }

    fn managed_pool(&self, slot: usize) -> &'static Pool {
        self.runtime.pool_for(Spec::of(Kind::Managed), slot)
    }
}

/// Plays a scenario in many interleavings. Nobody is seen blocked who does not say so.
fn check(pods: Pods, scenario: impl Fn(&World) + Clone + Send + Sync + 'static) {
    check_by(Detect::Inline, pods, scenario);
}

/// As [`check`], with a source of knowledge about blocking workers.
fn check_by(detect: Detect, pods: Pods, scenario: impl Fn(&World) + Clone + Send + Sync + 'static) {
    check_with(&Params { detect: Some(detect), ..Params::default() }, pods, scenario);
}

/// As [`check`], with these parameters.
fn check_with(
    params: &Params,
    pods: Pods,
    scenario: impl Fn(&World) + Clone + Send + Sync + 'static,
) {
    let iters = env::var("CMWQ_SHUTTLE_ITERS").ok().and_then(|n| n.parse().ok()).unwrap_or(ITERS);
    if let Some(schedule) = env::var_os("CMWQ_SHUTTLE_REPLAY") {
        let replay = ReplayScheduler::new_from_file(schedule).expect("a schedule in a file");
        return run(replay, params, pods, scenario);
    }
    run(RandomScheduler::new(iters), params, pods, scenario.clone());
    run(PctScheduler::new(DEPTH, iters), params, pods, scenario);
}

fn run(
    scheduler: impl Scheduler + 'static,
    params: &Params,
    pods: Pods,
    scenario: impl Fn(&World) + Send + Sync + 'static,
) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.silence_warnings = true;
    let params = params.clone();
    Runner::new(scheduler, config).run(move || {
        let (mortal, world) = Mortal::new(params.clone(), pods);
        scenario(&world);
        mortal.end();
    });
}

/// Counts runs.
#[derive(Debug, Default)]
struct Count(AtomicU32);

impl Count {
    fn up(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A function that counts its runs.
fn counter() -> (impl Fn() + Send + Sync + 'static, Arc<Count>) {
    let count = Arc::new(Count::default());
    let theirs = Arc::clone(&count);
    (move || _ = theirs.up(), count)
}

/// An item with such a function.
fn counting() -> (Work, Arc<Count>) {
    let (up, count) = counter();
    (Work::new(up), count)
}
