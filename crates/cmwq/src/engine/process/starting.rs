//! Starting a runtime: hands it the functions that it calls of the modules above it.

#[cfg(all(test, not(cmwq_shuttle)))]
pub(super) mod without_threads;

use std::io;

use crate::engine::runtime::{Machine, Runtime, Upcalls};
use crate::engine::threads::bh_thread;
use crate::engine::threads::service_thread;
use crate::engine::threads::worker;
use crate::engine::tools::params::Params;
use crate::os::IS_MODEL;
use crate::os::sense;
use crate::record::Inspect;

/// The same for every runtime.
pub(crate) const UPCALLS: Upcalls = Upcalls {
    worker_main: worker::main,
    bh_main: bh_thread::main,
    runtime_of_process: Runtime::global,
};

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
