//! Looking into a running process: what `dump`, `monitor`, `top` and `trace` share.

mod code;
mod files;
pub(crate) mod limit;
mod maps;
pub(crate) mod others;
mod stacks;
mod symbols;
pub(crate) mod threads;
mod unwinding;
mod which;

use std::process::ExitCode;

use cmwq_observe::inspect::{Snapshot, Target};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) use stacks::Stacks;
pub(crate) use symbols::{Place, Symbols};
pub(crate) use which::Which;

use crate::{exit, message};

/// LIMIT: address space of a command that reads what another process has made: 4 GiB. What is read
/// is bounded by itself; what is made of it, debug information above all, ends here.
const MAX_MEMORY: u64 = 4 << 30;

/// See [`MAX_MEMORY`].
pub(crate) fn bound_memory() {
    let now = getrlimit(Resource::As);
    if now.current.is_none_or(|current| current > MAX_MEMORY) {
        // Where that is refused it is done without.
        let _ = setrlimit(Resource::As, Rlimit { current: Some(MAX_MEMORY), ..now });
    }
}

/// Opens what the process shows, or says why not.
///
/// # Errors
/// The exit code.
pub(crate) fn open(process: &Which) -> Result<Target, ExitCode> {
    bound_memory();
    let opened = process
        .find()
        .and_then(|pid| Target::open(pid).map_err(|error| format!("process {pid}: {error}")));
    opened.map_err(|error| {
        message::say(error);
        ExitCode::from(exit::FAILED)
    })
}

/// A copy of it, or what is wrong with it.
///
/// # Errors
/// The exit code.
pub(crate) fn snapshot(target: &Target) -> Result<Snapshot, ExitCode> {
    target.snapshot().map_err(|error| {
        message::say(format_args!("process {}: {error}", target.pid()));
        ExitCode::from(exit::FAILED)
    })
}
