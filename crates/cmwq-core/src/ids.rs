//! Newtyped identifiers, so that a pool cannot be passed where a worker is meant.

use core::fmt;

/// Nanoseconds on the driver's monotonic clock. The core only compares and adds them.
pub type Nanos = u64;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A worker pool. Ids come from a table that never shrinks, so the id left in an off-queue work
    /// word can always be resolved, if only to find that the item is idle.
    PoolId, "pool"
);
id!(
    /// A worker, within its pool.
    WorkerId, "worker"
);
id!(
    /// A pool–workqueue pair (`pool_workqueue`), within its pool.
    PwqId, "pwq"
);
id!(
    /// A workqueue, as its driver knows it. The core only compares keys and hands them back.
    WqKey, "wq"
);

/// A pwq together with the pool it lives in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PwqRef {
    /// The pool.
    pub pool: PoolId,
    /// The pwq within that pool.
    pub pwq: PwqId,
}
