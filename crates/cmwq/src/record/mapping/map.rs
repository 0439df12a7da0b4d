//! The mapping, as the process that it is about writes it.

use std::io;

use super::functions;
use super::layout::{
    Header, MASK_WORDS, MaskRecord, NONE, NodeRecord, PodRecord, PoolRecord, PwqRecord,
    QueueRecord, RingRecord, TABLES, TABLES_AT, TableHeader, WorkerRecord, offsets, table,
};
use super::layout::{MAGIC, VERSION};
use super::memfd;
use super::slots::{Slot, Slots};
use crate::os::clock;
use crate::os::sync::{AtomicU64, Ordering, PlainMutex, lock_plain};
use crate::os::topo::CpuSet;
use crate::record::symbol::closures;

/// See the module header. Lives for ever.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) header: &'static Header,
    pub(crate) pools: Slots<PoolRecord>,
    pub(crate) rings: &'static [RingRecord],
    pub(crate) workers: Slots<WorkerRecord>,
    pub(crate) queues: Slots<QueueRecord>,
    pub(crate) pwqs: Slots<PwqRecord>,
    pub(crate) nodes: Slots<NodeRecord>,
    pub(crate) pods: Slots<PodRecord>,
    masks: Slots<MaskRecord>,
    /// Those of now.
    known_pods: PlainMutex<Vec<Slot<PodRecord>>>,
    /// Sets of CPUs that have a record, which they keep; and of those that have none, some.
    known_masks: PlainMutex<Vec<(CpuSet, Slot<MaskRecord>)>>,
}

impl Map {
    /// Makes the process's mapping.
    ///
    /// # Errors
    /// If the system does not give the memory.
    pub(crate) fn make() -> io::Result<&'static Self> {
        let (offsets, end) = offsets();
        let functions = functions::pack(&closures::all());
        let bytes = end + functions.len() * 8;
        let base = memfd::map(bytes)?.cast::<u8>();
        // SAFETY: page 0 of zeroed memory that lives for ever, aligned, of atomics only.
        let header: &'static Header = unsafe { base.cast().as_ref() };
        let headers = {
            // SAFETY: within page 0, behind the header, as above.
            unsafe {
                let first = base.add(TABLES_AT * 8).cast::<TableHeader>();
                std::slice::from_raw_parts(first.as_ptr(), TABLES.len())
            }
        };
        let own: &'static [TableHeader] = headers;
        for (kind, table) in own.iter().enumerate() {
            let (_, size, capacity) = TABLES[kind];
            table.kind.store(kind as u64, Ordering::Relaxed);
            table.offset.store(offsets[kind] as u64, Ordering::Relaxed);
            table.stride.store((size / 8) as u64, Ordering::Relaxed);
            table.capacity.store(capacity as u64, Ordering::Relaxed);
            if kind == table::RINGS {
                // Each goes with the pool of its place, and nobody counts them.
                table.used.store(capacity as u64, Ordering::Relaxed);
            }
        }
        /// # Safety
        /// `T` must be the record of table `kind`.
        unsafe fn records<T>(base: std::ptr::NonNull<u8>, kind: usize) -> &'static [T] {
            let (offsets, _) = super::layout::offsets();
            let (_, size, capacity) = TABLES[kind];
            assert_eq!(size, size_of::<T>());
            // SAFETY: the table is inside of the mapping, page-aligned, zeroed, of atomics only.
            unsafe {
                let first = base.add(offsets[kind]).cast::<T>();
                std::slice::from_raw_parts(first.as_ptr(), capacity)
            }
        }
        // SAFETY: each with its own record.
        let map = unsafe {
            Self {
                header,
                pools: Slots::new(records(base, table::POOLS), &own[table::POOLS]),
                rings: records(base, table::RINGS),
                workers: Slots::new(records(base, table::WORKERS), &own[table::WORKERS]),
                queues: Slots::new(records(base, table::QUEUES), &own[table::QUEUES]),
                pwqs: Slots::new(records(base, table::PWQS), &own[table::PWQS]),
                nodes: Slots::new(records(base, table::NODES), &own[table::NODES]),
                pods: Slots::new(records(base, table::PODS), &own[table::PODS]),
                masks: Slots::new(records(base, table::MASKS), &own[table::MASKS]),
                known_pods: PlainMutex::default(),
                known_masks: PlainMutex::default(),
            }
        };
        // SAFETY: behind the tables, page-aligned, zeroed, of atomics only.
        let words: &[AtomicU64] =
            unsafe { std::slice::from_raw_parts(base.add(end).cast().as_ptr(), functions.len()) };
        words
            .iter()
            .zip(&functions)
            .for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
        header.functions.store(end as u64, Ordering::Relaxed);
        header.functions_bytes.store((functions.len() * 8) as u64, Ordering::Relaxed);
        map.introduce(bytes);
        Ok(Box::leak(Box::new(map)))
    }

    fn introduce(&self, bytes: usize) {
        let header = self.header;
        let unix = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let words = [
            (&header.magic, MAGIC),
            (&header.version, VERSION),
            (&header.bytes, bytes as u64),
            (&header.pid, std::process::id().into()),
            (&header.nonce, unix.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40)),
            (&header.born_ns, clock::coarse()),
            (&header.born_unix_ns, unix.as_nanos() as u64),
            (&header.nr_tables, TABLES.len() as u64),
            (&header.possible, NONE),
            (&header.allowed, NONE),
            (&header.unbound, NONE),
            (&header.requested, NONE),
            (&header.isolated, NONE),
            (&header.quota_milli, NONE),
        ];
        for (word, value) in words {
            word.store(value, Ordering::Relaxed);
        }
        // ORDERING: no pairing: a reader that comes too early takes the mapping for unfinished, or
        // sees tables without records.
        header.is_ready.store(1, Ordering::Relaxed);
    }

    /// Others take the place of the pods.
    pub(crate) fn replace_pods(&self, make: impl FnOnce() -> Vec<Slot<PodRecord>>) {
        let mut known = lock_plain(&self.known_pods);
        known.clear();
        *known = make();
    }

    /// The place of the record of these CPUs, or [`NONE`] if there is no room.
    pub(crate) fn mask(&'static self, cpus: &CpuSet) -> u64 {
        let mut known = lock_plain(&self.known_masks);
        if let Some((_, slot)) = known.iter().find(|(set, _)| set == cpus) {
            return slot.index().map_or(NONE, u64::from);
        }
        let words = cpus.words();
        if words.len() > MASK_WORDS {
            return NONE;
        }
        let slot = self.masks.take(|record| {
            record.len.store(words.len() as u64, Ordering::Relaxed);
            for (place, word) in record.words.iter().zip(words) {
                place.store(*word, Ordering::Relaxed);
            }
        });
        let index = slot.index();
        // One without a place is known, too, and counted as such once.
        if index.is_some() || known.len() < 2 * TABLES[table::MASKS].2 {
            known.push((cpus.clone(), slot));
        }
        index.map_or(NONE, u64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cpus_for_which_there_is_no_room_are_counted() {
        let map = Map::make().unwrap();
        let capacity = TABLES[table::MASKS].2 as u64;
        let set = |number: u64| CpuSet::from_words(vec![number + 1]);
        for number in 0..capacity {
            assert_eq!(map.mask(&set(number)), number);
        }
        for _ in 0..3 {
            assert_eq!(map.mask(&set(capacity)), NONE);
        }
        assert_eq!(map.mask(&set(0)), 0);
        assert_eq!(map.masks.nr_missed(), 1);
    }
}
