//! Runtimes for tests, without threads.

use super::UPCALLS;
use crate::detect::method::Detect;
use crate::engine::runtime::{Machine, Runtime};
use crate::engine::tools::params::Params;
use crate::os::IS_MODEL;
use crate::os::topo::{CpuSet, Pod};
use crate::record::Inspect;

/// Where nobody looks for workers that block. Models play who would look, and so that is a
/// sentinel.
pub(crate) fn without_threads(machine: Machine) -> &'static Runtime {
    let detect = if IS_MODEL { Detect::Sentinel } else { Detect::Inline };
    without_threads_by(detect, machine)
}

/// With a source of knowledge about blocking workers.
pub(crate) fn without_threads_by(detect: Detect, machine: Machine) -> &'static Runtime {
    let params = Params { detect: Some(detect), ..Params::default() };
    Box::leak(Runtime::assemble(params, machine, 0, Inspect::off(), UPCALLS))
}

/// On one CPU.
pub(crate) fn on_one_cpu() -> &'static Runtime {
    let cpus = CpuSet::single(0);
    let pods = vec![Pod { cpus: cpus.clone(), node: None }];
    without_threads(Machine::new(&cpus, None, pods.clone(), pods))
}
