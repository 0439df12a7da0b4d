//! Trying what workers and sentinels ask the system for.

use std::io;

use crate::engine::tools::attrs::HIGHPRI_NICE;
use crate::os::sense::{self, RefusalCause, StatFile, sched};
use crate::os::topo::{self, CpuSet};

/// What happened.
#[derive(Debug)]
pub struct Probes {
    /// Recording the context switches of a thread.
    pub perf: Result<(), RefusalCause>,
    /// Reading the state of a thread.
    pub stat: io::Result<()>,
    /// Keeping a thread on one CPU.
    pub pin: io::Result<()>,
    /// The priority of high-priority workers.
    pub nice: io::Result<()>,
    /// The scheduling class of sentinels.
    pub idle_class: io::Result<()>,
}

/// Tries everything.
///
/// # Errors
/// If there is no thread to try it on.
pub(crate) fn run() -> io::Result<Probes> {
    // On a thread that ends afterwards: there may be no way back from the idle class.
    sense::thread::ask("cmwq/probe", probe)
}

fn probe() -> Probes {
    // To where the thread is already: another CPU might never let it run.
    let here = CpuSet::single(sched::current_cpu().unwrap_or(0));
    let allowed = topo::allowed_cpus();
    let perf = sense::probe_perf().map_err(|refusal| refusal.cause());
    let stat = StatFile::open(sched::gettid()).and_then(|stat| stat.state()).map(drop);
    let pin = sched::pin_current(&here).and_then(|()| sched::pin_current(&allowed));
    let nice = sched::set_nice_current(HIGHPRI_NICE);
    let idle_class = sched::enter_idle_class();
    Probes { perf, stat, pin, nice, idle_class }
}
