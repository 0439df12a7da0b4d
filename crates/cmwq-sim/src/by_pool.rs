//! Something for each pool that a queue has met: few of many, so a sorted list, not a table of all
//! pools. A machine with thousands of pools and a hundred thousand queues has room for no such
//! table.

use crate::event::PoolNo;

/// See the module header.
#[derive(Clone, Debug)]
pub(crate) struct ByPool<T>(Vec<(u32, T)>);

impl<T> Default for ByPool<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> ByPool<T> {
    fn find(&self, pool: PoolNo) -> Result<usize, usize> {
        let pool = pool as u32;
        self.0.binary_search_by_key(&pool, |&(number, _)| number)
    }

    #[inline]
    pub(crate) fn get(&self, pool: PoolNo) -> Option<T> {
        self.find(pool).ok().map(|at| self.0[at].1)
    }

    /// The entry of `pool`, which is `new` at first.
    pub(crate) fn entry(&mut self, pool: PoolNo, new: T) -> &mut T {
        let at = self.find(pool).unwrap_or_else(|at| {
            self.0.insert(at, (pool as u32, new));
            at
        });
        &mut self.0[at].1
    }
}
