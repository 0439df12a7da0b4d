//! What the doctor judges: what the runtime works with, and what the system permits.
//!
//! Only what the library alone can tell is here; explanations, advice and what any program can read
//! are `cmwq-observe`'s.

pub(crate) mod machine;
pub(crate) mod probe;

use std::io;

use crate::detect::method::Detect;
use crate::engine::runtime::Runtime;
use crate::engine::tools::params::Params;
use crate::engine::tools::params::early::lock_early;
use crate::engine::tools::params::settings::{self, Setting};
use crate::os::error::Error;
use crate::os::topo::{self, TaskLimit};
use machine::Machine;
use probe::Probes;

/// What was found.
#[derive(Debug)]
pub struct Facts {
    /// The CPUs, and how they are grouped.
    pub machine: Machine,
    /// What was tried; or why there was no thread to try it on.
    pub probes: io::Result<Probes>,
    /// The source of detection in use.
    pub detect: Detect,
    /// Somebody asked for that one.
    pub is_asked_for: bool,
    /// It was the program, which has the last word.
    pub program_asks: bool,
    /// The settings in force.
    pub settings: Vec<Setting>,
    /// What is wrong with settings in the environment.
    pub complaints: Vec<String>,
    /// The tightest limit on threads among the process's cgroups.
    pub task_limit: Option<TaskLimit>,
}

impl Facts {
    /// Looks and tries: about a millisecond.
    ///
    /// # Errors
    /// If the library's service thread cannot be created.
    pub fn find() -> Result<Self, Error> {
        let runtime = Runtime::global()?;
        Ok(Self {
            machine: Machine::read(&runtime.machine, &runtime.params),
            probes: probe::run(),
            detect: runtime.detect,
            is_asked_for: runtime.params.detect.is_some(),
            program_asks: lock_early().detect.is_some(),
            settings: settings::list(&runtime.params),
            complaints: Params::try_env().1,
            task_limit: topo::task_limit("/proc".as_ref(), "/".as_ref()),
        })
    }
}
