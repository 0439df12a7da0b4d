//! The limits of a queue as the runtime has them: the core's, and their memory by node.
//!
//! Why: docs/decisions/limits-count-together.md

use std::ops::DerefMut;

use cmwq_core::NodeMemory;
pub(crate) use cmwq_core::limit::NodeCpus;
use cmwq_core::limit::{Count, Line};

use crate::os::sync::{AtomicU64, Mutex, lock};
use crate::record::NodeCounts;

/// The numbers of a node's limit, where tools see them, and its line.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    counts: NodeCounts,
    line: Mutex<Line>,
}

impl NodeMemory for Memory {
    #[inline]
    fn count(&self, which: Count) -> &AtomicU64 {
        self.counts.count(which)
    }

    fn line(&self) -> impl DerefMut<Target = Line> {
        lock(&self.line)
    }
}

pub(crate) type NodeLimits = cmwq_core::NodeLimits<Memory>;

impl Memory {
    pub(crate) fn new(counts: NodeCounts) -> Self {
        Self { counts, line: Mutex::default() }
    }
}
