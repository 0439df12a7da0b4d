//! Starting a runtime: hands it the functions that it calls of the modules above it.

use std::io;

#[cfg(all(test, not(cmwq_shuttle)))]
use crate::detect::method::Detect;
use crate::engine::bh_thread;
use crate::engine::params::Params;
use crate::engine::runtime::{Machine, Runtime, Upcalls};
use crate::engine::service_thread;
use crate::engine::worker;
use crate::os::IS_MODEL;
use crate::os::sense;
#[cfg(all(test, not(cmwq_shuttle)))]
use crate::os::topo::{CpuSet, Pod};
use crate::record::Inspect;

/// The same for every runtime.
pub(crate) const UPCALLS: Upcalls = Upcalls {
    worker_main: worker::main,
    bh_main: bh_thread::main,
    runtime_of_process: Runtime::global,
};

/// A runtime for tests, without threads, where nobody looks for workers that block. Models play who
/// would look, and so that is a sentinel.
#[cfg(all(test, not(cmwq_shuttle)))]
pub(crate) fn without_threads(machine: Machine) -> &'static Runtime {
    let detect = if IS_MODEL { Detect::Sentinel } else { Detect::Inline };
    without_threads_by(detect, machine)
}

/// The same, with a source of knowledge about blocking workers.
#[cfg(all(test, not(cmwq_shuttle)))]
pub(crate) fn without_threads_by(detect: Detect, machine: Machine) -> &'static Runtime {
    let params = Params { detect: Some(detect), ..Params::default() };
    Box::leak(Runtime::assemble(params, machine, 0, Inspect::off(), UPCALLS))
}

/// The same, on one CPU.
#[cfg(all(test, not(cmwq_shuttle)))]
pub(crate) fn on_one_cpu() -> &'static Runtime {
    let cpus = CpuSet::single(0);
    let pods = vec![Pod { cpus: cpus.clone(), node: None }];
    without_threads(Machine::new(&cpus, None, pods.clone(), pods))
}

/// Makes a runtime and starts its service. Runtimes live for ever.
///
/// # Errors
/// If the system has no thread to give; then nothing is left of the runtime.
pub(crate) fn start(
    params: Params,
    machine: Machine,
    first_pool: u32,
    inspect: Inspect,
) -> io::Result<&'static Runtime> {
    let raw = Box::into_raw(Runtime::assemble(params, machine, first_pool, inspect, UPCALLS));
    // SAFETY: from a box, which is freed only below, where nobody knows of it.
    let runtime: &'static Runtime = unsafe { &*raw };
    runtime.record_placement();
    if !IS_MODEL && sense::is_alone() {
        sense::reserve();
    }
    if let Err(error) = service_thread::start(runtime) {
        // SAFETY: from a box. There is no thread, and only that one was told of it.
        drop(unsafe { Box::from_raw(raw) });
        return Err(error);
    }
    Ok(runtime)
}
