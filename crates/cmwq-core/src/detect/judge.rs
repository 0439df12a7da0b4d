//! What a look makes of a worker.
//!
//! KERNEL: no twin. There each worker reports for itself, as it goes to sleep.

use super::evidence::Seen;
use crate::pool::{Finding, Found};
use crate::worker::WorkerView;

/// A worker that is looked at, as a driver sees it.
pub trait Suspect {
    /// Whether it is back, having been believed blocked.
    fn is_back(&mut self) -> bool;
    /// What is seen of it, having been believed to run.
    fn state(&mut self) -> Seen;
    /// Whether it runs, and has used the CPU for long without a sleep. To be asked at intervals.
    fn hogs(&mut self) -> bool;
}

/// A look at the workers of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Workers that were found blocked.
    pub nr_blocked: usize,
    /// How many more may be found to be hogs.
    room_for_hogs: u32,
}

impl Look {
    /// Nobody was looked at yet. `room_for_hogs`: see
    /// [`PoolState::room_for_new_hogs`](crate::PoolState::room_for_new_hogs); 0 for a look that is
    /// none of those at intervals, or where no item is taken for a hog.
    #[must_use]
    pub const fn begin(room_for_hogs: u32) -> Self {
        Self { nr_blocked: 0, room_for_hogs }
    }

    /// What a worker may be found to be.
    #[must_use]
    pub const fn expects(view: &WorkerView) -> Finding {
        Finding::new(view.id, view.seq, Found::of(!view.sleeping))
    }

    /// Looks at a worker of which that was [expected](Self::expects). `is_hog`: it is known as one.
    /// `false`: there is nothing to report.
    pub fn judge(
        &mut self,
        finding: &mut Finding,
        is_hog: bool,
        worker: &mut impl Suspect,
    ) -> bool {
        if finding.is_back() {
            return worker.is_back();
        }
        match worker.state() {
            Seen::Blocked => {
                self.nr_blocked += 1;
                true
            }
            Seen::Running if !is_hog && self.room_for_hogs > 0 && worker.hogs() => {
                self.room_for_hogs -= 1;
                finding.found = Found::Hog;
                true
            }
            Seen::Running | Seen::Unknown => false,
        }
    }
}
