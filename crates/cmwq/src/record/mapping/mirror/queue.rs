//! A queue's record, and those of its nodes.

use cmwq_core::limit::Count;
use cmwq_core::{PwqStats, WqKey};

use super::{Inspect, or_none, scope_word, set, set_stats, signed};
use crate::os::sync::{AtomicU64, Ordering};
use crate::os::topo::{AffinityScope, CpuSet};
use crate::record::mapping::QueueKind;
use crate::record::mapping::layout::{NONE, NodeRecord, QueueRecord, Record, pack_text};
use crate::record::mapping::seqlock;
use crate::record::mapping::slots::Slot;

/// A queue's record, if it has one.
#[derive(Debug, Default)]
pub(crate) struct QueueMirror(Option<Box<Slot<QueueRecord>>>);

/// What does not change of a queue.
#[derive(Debug)]
pub(crate) struct QueueValues {
    pub(crate) kind: QueueKind,
    /// The kernel's bits.
    pub(crate) flags: u64,
    /// Its limit for all CPUs together.
    pub(crate) total: Option<u32>,
}

/// What changes of a queue.
#[derive(Debug)]
pub(crate) struct QueueSettings<'a> {
    pub(crate) max_active: u32,
    pub(crate) min_active: u32,
    pub(crate) nice: i32,
    /// Policy in the upper half, priority in the lower one.
    pub(crate) sched: u64,
    pub(crate) cpumask: Option<&'a CpuSet>,
    pub(crate) scope: Option<AffinityScope>,
    pub(crate) is_strict: bool,
}

impl Inspect {
    pub(crate) fn queue(
        &self,
        key: WqKey,
        name: &str,
        values: &QueueValues,
        settings: &QueueSettings<'_>,
    ) -> QueueMirror {
        let Some(map) = self.map else { return QueueMirror::default() };
        let [name0, name1, name2, name3] = pack_text(name);
        let cpumask = settings.cpumask.map_or(NONE, |cpus| map.mask(cpus));
        let slot = map.queues.take(|record| {
            let words = [
                (&record.key, u64::from(key.0)),
                (&record.name0, name0),
                (&record.name1, name1),
                (&record.name2, name2),
                (&record.name3, name3),
                (&record.kind, values.kind as u64),
                (&record.flags, values.flags),
                (&record.total, or_none(values.total)),
                (&record.outside, 0),
            ];
            words.into_iter().for_each(|(word, value)| set(word, value));
            fill(record, settings, cpumask);
            set_stats(record, &PwqStats::default());
        });
        // There may be millions without one, which the header's count of queues tells.
        QueueMirror(slot.index().is_some().then(|| Box::new(slot)))
    }

    /// The counts of a node of a queue, in its record if there is room.
    pub(crate) fn node(&self, key: WqKey, node: Option<u32>) -> NodeCounts {
        let slot = self.map.map(|map| {
            map.nodes.take(|record| {
                let words = [
                    (&record.nr, 0),
                    (&record.max, 0),
                    (&record.nr_waiting, 0),
                    (&record.queue, u64::from(key.0)),
                    (&record.node, or_none(node)),
                ];
                words.into_iter().for_each(|(word, value)| set(word, value));
            })
        });
        match slot.filter(|slot| slot.record().is_some()) {
            Some(slot) => NodeCounts::Shown(slot),
            None => NodeCounts::default(),
        }
    }
}

fn fill(record: &QueueRecord, settings: &QueueSettings<'_>, cpumask: u64) {
    let words = [
        (&record.max_active, u64::from(settings.max_active)),
        (&record.min_active, u64::from(settings.min_active)),
        (&record.nice, signed(settings.nice)),
        (&record.sched, settings.sched),
        (&record.cpumask, cpumask),
        (&record.scope, settings.scope.map_or(NONE, scope_word)),
        (&record.strict, settings.is_strict.into()),
    ];
    words.into_iter().for_each(|(word, value)| set(word, value));
}

impl QueueMirror {
    /// Limits or attributes have changed. Under WQ.
    pub(crate) fn publish(&self, inspect: &Inspect, settings: &QueueSettings<'_>) {
        let Some(slot) = &self.0 else { return };
        let cpumask = settings.cpumask.map_or(NONE, |cpus| inspect.mask(cpus));
        slot.change(|record| fill(record, settings, cpumask));
    }

    /// Adds, wrapping, to how many items wait outside of the process. A word by itself, which many
    /// may change.
    pub(crate) fn add_outside(&self, change: u64) {
        if let Some(record) = self.0.as_ref().and_then(|slot| slot.record()) {
            // ORDERING: no pairing: a number for people.
            record.outside.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// `remove` takes a pwq and its counters away, and returns those of all that are gone. Readers
    /// find the counters in the pwq's record, or here; in between they find this record changing.
    /// Under WQ.
    ///
    /// # Errors
    /// Those of `remove`, which has removed nothing then.
    pub(crate) fn take_over<E>(
        &self,
        remove: impl FnOnce() -> Result<PwqStats, E>,
    ) -> Result<(), E> {
        let Some(record) = self.0.as_ref().and_then(|slot| slot.record()) else {
            return remove().map(drop);
        };
        seqlock::write(record.seq(), || remove().map(|stats| set_stats(record, &stats)))
    }
}

/// How many items of a queue a node has admitted, may, and how many pwqs wait for a place.
#[derive(Debug)]
pub(crate) enum NodeCounts {
    /// In the mapping.
    Shown(Slot<NodeRecord>),
    /// There is none, or no room.
    Own([AtomicU64; 3]),
}

impl Default for NodeCounts {
    fn default() -> Self {
        Self::Own(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl NodeCounts {
    #[inline]
    pub(crate) fn count(&self, which: Count) -> &AtomicU64 {
        match self {
            Self::Own(counts) => &counts[which as usize],
            Self::Shown(slot) => {
                let record = slot.record().expect("it is shown");
                match which {
                    Count::Nr => &record.nr,
                    Count::Max => &record.max,
                    Count::NrWaiting => &record.nr_waiting,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_change_places_are_never_nowhere() {
        let inspect = Inspect::new();
        let settings = QueueSettings {
            max_active: 1,
            min_active: 1,
            nice: 0,
            sched: 0,
            cpumask: None,
            scope: None,
            is_strict: false,
        };
        let values = QueueValues { kind: QueueKind::Unbound, flags: 0, total: None };
        let mirror = inspect.queue(WqKey(7), "moves", &values, &settings);
        let record = mirror.0.as_ref().unwrap().record().unwrap();
        let look = || seqlock::copy(record.seq(), &[], &mut []);
        assert!(look());
        let stays = mirror.take_over(|| {
            assert!(!look(), "who looks now has to look again");
            Err("in use")
        });
        assert_eq!(stays, Err("in use"));
        assert!(look());
        let mut gone = PwqStats::default();
        gone.started = 3;
        let removed = mirror.take_over(|| {
            assert!(!look(), "who looks now has to look again");
            Ok::<_, ()>(gone)
        });
        assert_eq!(removed, Ok(()));
        assert!(look());
        assert_eq!(record.started.load(Ordering::Relaxed), 3);
    }
}
