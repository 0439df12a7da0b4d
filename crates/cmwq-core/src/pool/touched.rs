//! Which pwqs have changed in other counters than those of each item: for copies of the counters.

use super::PoolState;
use crate::ids::PwqId;

/// LIMIT: pwqs that are told apart in one hold of the lock. More are rare, and then all pwqs are
/// looked at.
const MOST: usize = 4;

/// Pwqs whose counters, other than those of started and completed items, have changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touched {
    some: [Option<PwqId>; MOST],
    is_full: bool,
}

impl Touched {
    /// Whether any of the pool's pwqs may have changed.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.is_full
    }

    /// The changed pwqs, unless [`is_all`](Self::is_all).
    pub fn iter(&self) -> impl Iterator<Item = PwqId> {
        self.some.into_iter().flatten()
    }

    fn add(&mut self, pwq: PwqId) {
        match self.some.iter_mut().find(|place| place.is_none_or(|known| known == pwq)) {
            Some(place) => *place = Some(pwq),
            None => self.is_full = true,
        }
    }
}

impl PoolState {
    #[cold]
    pub(crate) fn touch(&mut self, pwq: PwqId) {
        self.touched.add(pwq);
        self.changed = true;
    }

    /// Whether a number of workers, or a pwq that [`take_touched`](Self::take_touched) would name,
    /// has changed since its last call.
    #[inline]
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// The pwqs that have changed since the last call.
    pub fn take_touched(&mut self) -> Option<Touched> {
        self.changed = false;
        let is_any = self.touched.some[0].is_some();
        is_any.then(|| core::mem::take(&mut self.touched))
    }
}
