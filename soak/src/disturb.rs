//! What happens beside the calls: freezes, and what the switches ask for.

use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::AffinityScope;
use fastrand::Rng;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;

use crate::sys;
use crate::watch::{Post, fail};
use crate::world::{Totals, World, random_cpus};

fn pause(rng: &mut Rng, most_ms: u64) {
    thread::sleep(Duration::from_micros(rng.u64(..most_ms * 1_000)));
}

/// Freezes and thaws until it is over, and leaves it thawed. Frozen items may wait for each other,
/// so that it is busy for as long as it is frozen: it is not waited for.
pub(crate) fn freezes(world: &World, post: &Post, mut rng: Rng) {
    while !world.is_over() {
        pause(&mut rng, 300);
        post.doing("freeze", cmwq::freeze);
        for _ in 0..rng.u8(..30) {
            if !post.doing("freeze_busy", cmwq::freeze_busy) {
                break;
            }
            pause(&mut rng, 1);
        }
        post.doing("thaw", cmwq::thaw);
        Totals::add(&world.totals.freezes, 1);
    }
}

/// Changes masks until it is over, and then lets all threads run everywhere.
pub(crate) fn masks(world: &World, post: &Post, mut rng: Rng) {
    let Ok(all) = sched_getaffinity(Pid::from_raw(0)) else { return };
    let own: Vec<usize> =
        (0..CpuSet::count()).filter(|&cpu| all.is_set(cpu).unwrap_or(false)).collect();
    let confine = |thread: i32, cpus: &[usize]| {
        let mut set = CpuSet::new();
        if cpus.iter().all(|&cpu| set.set(cpu).is_ok()) {
            // The thread may have ended.
            let _gone = sched_setaffinity(Pid::from_raw(thread), &set);
        }
    };
    while !world.is_over() {
        pause(&mut rng, 100);
        let threads = sys::threads();
        match rng.u8(..8) {
            0..4 if !threads.is_empty() => {
                confine(threads[rng.usize(..threads.len())], &own[rng.usize(..own.len())..][..1]);
            }
            // As `taskset -a` does.
            4 => {
                let cpus = if rng.bool() { &own[..1] } else { &own[..] };
                threads.iter().for_each(|&thread| confine(thread, cpus));
                post.doing("rescan_cpus", || _ = world.allowed(cmwq::rescan_cpus()));
            }
            5 => {
                let cpus = random_cpus(world.cpus, &mut rng);
                // CPUs that the process does not have now are refused.
                let _changed =
                    post.doing("set_unbound_cpumask", || cmwq::set_unbound_cpumask(&cpus));
            }
            6 => {
                let scope = AffinityScope::ALL[rng.usize(..AffinityScope::ALL.len())];
                let set = || cmwq::set_default_affinity_scope(scope);
                let _changed = post.doing("set_default_affinity_scope", set);
            }
            _ => threads.iter().for_each(|&thread| confine(thread, &own)),
        }
        Totals::add(&world.totals.mask_changes, 1);
    }
    sys::threads().iter().for_each(|&thread| confine(thread, &own));
    post.doing("rescan_cpus", || _ = cmwq::rescan_cpus());
}

/// A user without privileges, and of no other process: the limit is on all of a user's threads.
pub(crate) fn another_user() -> u32 {
    0x5000_0000 + std::process::id() % 0x0f00_0000
}

/// Now and then no more threads can be had, until it is over.
pub(crate) fn failing_threads(world: &World, mut rng: Rng) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NPROC) else { return };
    while !world.is_over() {
        pause(&mut rng, 1_500);
        // Some more than there are, or some less: others than ours count, too.
        let limit = sys::nr_threads() + rng.u64(..4);
        if let Err(error) = setrlimit(Resource::RLIMIT_NPROC, limit.min(hard), hard) {
            fail(&format!("cannot set RLIMIT_NPROC: {error}"));
        }
        pause(&mut rng, 300);
        if let Err(error) = setrlimit(Resource::RLIMIT_NPROC, soft, hard) {
            fail(&format!("cannot set RLIMIT_NPROC back: {error}"));
        }
    }
}

/// Processes that compute; they end when this is dropped.
pub(crate) struct ForeignLoad(Vec<Child>);

impl ForeignLoad {
    pub(crate) fn start(processes: usize) -> Self {
        let start = |_| {
            // Its input ends when this process does, however that comes about.
            Command::new(sys::THIS_PROGRAM).arg("burn").stdin(Stdio::piped()).spawn().ok()
        };
        Self((0..processes).filter_map(start).collect())
    }

    pub(crate) fn processes(&self) -> usize {
        self.0.len()
    }
}

impl Drop for ForeignLoad {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ended = child.kill();
            let _status = child.wait();
        }
    }
}

/// What such a process does, until its input ends.
pub(crate) fn burn() -> ExitCode {
    thread::spawn(|| {
        let _end = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        sys::exit_now(0)
    });
    let mut rng = Rng::new();
    loop {
        let end = Instant::now() + Duration::from_millis(rng.u64(1..200));
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        pause(&mut rng, 50);
    }
}
