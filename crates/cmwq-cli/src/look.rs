//! Looking into a running process: what `dump`, `monitor`, `top` and `trace` share.

mod maps;
mod stacks;
mod symbols;
pub(crate) mod threads;
mod unwinding;

use std::process::ExitCode;

use cmwq::inspect::{Snapshot, Target};

pub(crate) use stacks::Stacks;
pub(crate) use symbols::{Place, Symbols};

use crate::{exit, message};

/// Opens what process `pid` shows, or says why not.
///
/// # Errors
/// The exit code.
pub(crate) fn open(pid: u32) -> Result<Target, ExitCode> {
    Target::open(pid).map_err(|error| {
        message::say(format_args!("process {pid}: {error}"));
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
