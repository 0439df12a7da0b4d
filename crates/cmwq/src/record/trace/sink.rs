//! Where the hooks' events go.

use super::{control, flusher, local};
use crate::os::sync::Ordering;

pub(crate) use flusher::{FlusherGuard, finish, lock_flusher};
pub(crate) use local::{RingsGuard, lock_rings};
pub(super) use local::{
    end_of_run, forget_queue, knows_names, moment, name_function, name_queue, ready, record,
    record_begin, record_end, tell_queue,
};

/// What is traced.
#[inline(always)]
pub(super) fn mask() -> u32 {
    if cfg!(cmwq_no_trace) {
        return 0;
    }
    // ORDERING: no pairing: a switch.
    control::control().mask.load(Ordering::Relaxed)
}

/// Number of the reader.
#[inline]
pub(super) fn session() -> u32 {
    // ORDERING: no pairing: a number that is compared with others.
    control::control().session.load(Ordering::Relaxed)
}

/// Counts events that could not be kept.
#[cold]
pub(super) fn lose(count: u64) {
    // ORDERING: no pairing: a count.
    control::control().lost.fetch_add(count, Ordering::Relaxed);
}

/// The runtime starts: makes the switch reachable. Where that is refused nothing can be traced,
/// which hurts nobody who does not try to.
pub(crate) fn open() {
    if cfg!(cmwq_no_trace) {
        return;
    }
    let mut rings = lock_rings();
    if rings.file.is_some() {
        return;
    }
    match control::TraceFile::open() {
        Ok(file) => {
            let own_reader = file.reopen();
            rings.file = Some(file);
            drop(rings);
            flusher::start(own_reader);
        }
        Err(error) => flusher::start(Err(error)),
    }
}

/// The process is a child. Caller holds both locks, as their guards show.
pub(crate) fn leave_behind(rings: &mut RingsGuard, flusher: &mut FlusherGuard) {
    control::leave_behind();
    local::leave_behind(rings);
    flusher::leave_behind(flusher);
}
