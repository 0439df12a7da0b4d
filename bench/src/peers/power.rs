//! Works that come back after a period, on the CPU that they were made for, and who ran them where.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use cmwq::{DelayedWork, Workqueue};

use crate::bench_power::{CpuIdle, DEFERRABLE, Sample, WORKS_PER_CPU};
use crate::job::Job;
use crate::original;
use crate::sys;
use crate::systems::System;

/// Does `job` on `system` in this process and returns the result as one line of JSON.
pub(super) fn measure(system: System, job: &Job) -> Result<String> {
    let cpus = sys::allowed_cpus()?;
    let log = Log::leaked(job.burn());
    let spots = cpus.iter().flat_map(|&cpu| (0..WORKS_PER_CPU).map(move |nth| (cpu, nth)));
    // Phases are spread, and the same on each CPU, as those of the kernel's timers, which all
    // expire with a tick.
    let phase = |nth: usize| job.wait() * nth as u32 / WORKS_PER_CPU as u32;
    let spots: Vec<_> = spots.map(|(cpu, nth)| (cpu, phase(nth))).collect();
    match system {
        System::Nothing => {}
        System::CmwqPercpu => ours(log, job, &spots)?,
        System::OriginalMt => theirs(log, job, &spots)?,
        other => bail!("{} has no periodic works", other.name()),
    }
    // Until everything has started; deferrable timers may not expire at all.
    let may_wait = system != System::Nothing && job.max_active != DEFERRABLE;
    thread::sleep(job.wait());
    log.wait_for(if may_wait { spots.len() } else { 0 })?;
    log.clear();
    let (idle, used, start) = (CpuIdle::read(), sys::own_usage()?, Instant::now());
    thread::sleep(job.wait() * job.count as u32);
    log.wait_for(usize::from(may_wait))?;
    let seconds = start.elapsed().as_secs_f64();
    let switches = (sys::own_usage()?.switches - used.switches) as f64 / seconds;
    let idle_wakes = CpuIdle::since(&idle).map(|wakes| wakes as f64 / seconds);
    let sample = log.sample(cpus.len(), seconds);
    Ok(serde_json::to_string(&Sample { idle_wakes, switches, ..sample })?)
}

fn ours(log: &'static Log, job: &Job, spots: &[(u32, Duration)]) -> Result<()> {
    let queue = Workqueue::builder("power").percpu().power_efficient().build();
    let queue: &'static Workqueue =
        Box::leak(Box::new(queue.context("creating a power-efficient workqueue")?));
    let (period, is_deferrable) = (job.wait(), job.max_active == DEFERRABLE);
    for &(cpu, phase) in spots {
        let place: &'static OnceLock<DelayedWork> = Box::leak(Box::new(OnceLock::new()));
        let run = move || {
            log.run(cpu);
            place.get().into_iter().for_each(|work| {
                queue.queue_delayed_work_on(cpu, work, period);
            });
        };
        let work = if is_deferrable { DelayedWork::deferrable(run) } else { DelayedWork::new(run) };
        queue.queue_delayed_work_on(cpu, place.get_or_init(|| work), phase);
    }
    Ok(())
}

fn theirs(log: &'static Log, job: &Job, spots: &[(u32, Duration)]) -> Result<()> {
    let queue: &'static original::Workqueue =
        Box::leak(Box::new(original::Workqueue::multi_threaded("power")?));
    let period = job.wait();
    for &(cpu, phase) in spots {
        let place: &'static OnceLock<original::Work> = Box::leak(Box::new(OnceLock::new()));
        let work = original::Work::new(move || {
            log.run(cpu);
            place.get().into_iter().for_each(|work| {
                queue.queue_delayed_work_on(cpu, work, period);
            });
        });
        queue.queue_delayed_work_on(cpu, place.get_or_init(|| work), phase);
    }
    Ok(())
}

/// Who ran where and when.
struct Log {
    burn: Duration,
    /// On which CPU, whether that was its own, and in which millisecond.
    runs: Arc<Mutex<Vec<(u32, bool, u64)>>>,
}

impl Log {
    fn leaked(burn: Duration) -> &'static Self {
        Box::leak(Box::new(Self { burn, runs: Arc::default() }))
    }

    /// A work of `cpu` runs.
    fn run(&self, cpu: u32) {
        let here = sys::current_cpu();
        sys::burn(self.burn);
        let run = (here, here == cpu, sys::now_ns() / 1_000_000);
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).push(run);
    }

    /// Waits until so many have run.
    fn wait_for(&self, runs: usize) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(30);
        while self.runs.lock().unwrap_or_else(PoisonError::into_inner).len() < runs {
            ensure!(Instant::now() < end, "periodic works do not come");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn clear(&self) {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn sample(&self, cpus: usize, seconds: f64) -> Sample {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let spots: HashSet<_> = runs.iter().map(|&(cpu, _, ms)| (cpu, ms)).collect();
        let all = runs.len().max(1) as f64;
        let mut by_cpu = vec![0.0_f64; cpus];
        for &(cpu, ..) in &runs {
            let place = cpu as usize % cpus;
            by_cpu[place] += 1.0 / all;
        }
        Sample {
            idle_wakes: None,
            switches: 0.0,
            runs: runs.len() as f64 / seconds,
            spots: spots.len() as f64 / seconds,
            busiest: by_cpu.iter().copied().fold(0.0, f64::max),
            away: runs.iter().filter(|(_, own, _)| !own).count() as f64 / all,
        }
    }
}
