//! Which pwqs have changed in ways that are not seen with each item: for whoever keeps a copy of
//! the counters.

use super::PoolState;
use crate::ids::PwqId;

/// LIMIT: so many are told apart in one hold of the lock; more are rare, and all pwqs are looked at
/// then.
const MOST: usize = 4;

/// Pwqs whose counters, other than those of started and completed items, have changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touched {
    some: [Option<PwqId>; MOST],
    is_full: bool,
}

impl Touched {
    /// Whether it may be any of the pool's.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.is_full
    }

    /// Those that were told apart.
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

    /// Whether numbers of workers have changed, or something of a pwq that
    /// [`take_touched`](Self::take_touched) tells, since that was asked last.
    #[inline]
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// What has changed since this was asked last.
    pub fn take_touched(&mut self) -> Option<Touched> {
        self.changed = false;
        let is_any = self.touched.some[0].is_some();
        is_any.then(|| core::mem::take(&mut self.touched))
    }
}
