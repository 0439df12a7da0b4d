//! Descriptors that the library keeps for long.
//!
//! A program may close all descriptors that it does not know (`closefrom`), and get their numbers
//! for files of its own. Closing one of those would take the program's file away from it, and
//! writing there would spoil it. So a descriptor that is kept remembers where it leads, and is
//! looked at before anything is done with it that the program would notice.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};

use super::budget::identity;

/// Where a descriptor leads: device and inode. `None`: the system does not say.
pub(crate) type Place = Option<(u64, u64)>;

/// An owner of a descriptor, which closes it when it is dropped, unless the number is the program's
/// by then.
pub(crate) struct LastingFd<F: AsRawFd> {
    /// There until it is dropped.
    file: Option<F>,
    leads_to: Place,
    is_left: bool,
}

impl<F: AsRawFd> LastingFd<F> {
    /// Of what was just opened.
    pub(crate) fn new(file: F) -> Self {
        let leads_to = identity(file.as_raw_fd());
        Self { file: Some(file), leads_to, is_left: false }
    }

    /// Whether its number still leads where it did.
    pub(crate) fn is_there(&self) -> bool {
        !self.is_left && identity(self.as_raw_fd()) == self.leads_to
    }

    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    pub(crate) fn leads_to(&self) -> Place {
        self.leads_to
    }

    /// The number is the program's, although it leads to where this one did.
    pub(crate) fn leave(&mut self) {
        self.is_left = true;
    }
}

impl<F: AsRawFd> Deref for LastingFd<F> {
    type Target = F;

    fn deref(&self) -> &F {
        self.file.as_ref().expect("it is there until it is dropped")
    }
}

impl<F: AsRawFd> AsRawFd for LastingFd<F> {
    fn as_raw_fd(&self) -> RawFd {
        self.deref().as_raw_fd()
    }
}

impl<F: AsRawFd> fmt::Debug for LastingFd<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "descriptor {}", self.as_raw_fd())
    }
}

impl<F: AsRawFd> Drop for LastingFd<F> {
    fn drop(&mut self) {
        if !self.is_there() {
            mem::forget(self.file.take());
        }
    }
}
