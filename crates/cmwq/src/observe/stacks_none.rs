//! In place of `stacks`, where the library was built without them.

use crate::engine::tools::params::Params;
use crate::engine::tools::thread::Thread;
use crate::observe::watchdog::{Frame, Stack};

/// None to be had.
pub(crate) struct Stacks;

impl Stacks {
    pub(crate) fn begin(_: &Params) -> Self {
        Self
    }

    pub(crate) fn of(&mut self, _: &Thread) -> Stack {
        Stack::Missing("the library was built without the feature `stacks`".to_owned())
    }
}

pub(crate) fn function_at(_: usize) -> Option<Frame> {
    None
}

pub(crate) fn forget() {}
