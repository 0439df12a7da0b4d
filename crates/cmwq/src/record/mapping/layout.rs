//! What is where in the mapping.
//!
//! Everything is made of 64-bit words in the machine's byte order. Page 0 is the header; behind it
//! are tables of records of one size each, whose places the header tells. A record begins with the
//! count of `seqlock` and its *life*: 0 while it is free, and another number for
//! each thing that it was given to.
//!
//! | word | header |
//! |---|---|
//! | 0 | [`MAGIC`] |
//! | 1 | [`VERSION`]: another one means that nothing else can be understood |
//! | 2 | length of the mapping in bytes |
//! | 3… | [`Header`], whose words keep their places within a version; new ones come behind |
//! | 64… | for each table, in the order of [`TABLES`]: [`TABLE_WORDS`] words, see [`TableWords`] |
//!
//! Within a version records may grow at their ends: a reader takes what it knows. Tables do not get
//! more records within a version, and lie behind each other: a reader refuses what is larger, and
//! tables that overlap.
//!
//! All counts are of one writer at a time (the pool's lock, or the thread that the record is
//! about), stored without ordering; words that belong together are written between two steps of the
//! record's count.

use std::mem::offset_of;
use std::ptr;

use cmwq_core::PwqCounts;

use crate::os::sync::AtomicU64;

/// `cmwq-map`, as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"cmwq-map");
/// Of the layout.
pub const VERSION: u64 = 1;
/// No mask, node, CPU, pool, …
pub const NONE: u64 = u64::MAX;
/// Words of the header page.
pub const HEADER_WORDS: usize = 512;
/// Where the tables' words begin.
pub const TABLES_AT: usize = 64;
/// Words for each table.
pub const TABLE_WORDS: usize = 8;
/// How many decisions a pool remembers.
pub const RING: usize = 15;
/// Words of a decision.
pub const DECISION_WORDS: usize = 4;
/// Words of a set of CPUs, behind its number of words.
pub const MASK_WORDS: usize = 64;

/// Defines words that a writer shares and a copy of them.
macro_rules! words {
    (
        $(#[$doc:meta])* $shared:ident, $copy:ident {
            $($(#[$field_doc:meta])* $field:ident),* $(,)?
        }
    ) => {
        $(#[$doc])*
        #[repr(C, align(64))]
        #[derive(Debug)]
        pub struct $shared {
            $($(#[$field_doc])* pub $field: AtomicU64,)*
        }

        #[doc = concat!("A copy of [`", stringify!($shared), "`].")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $copy {
            $($(#[$field_doc])* pub $field: u64,)*
        }

        impl $copy {
            /// How many words there are.
            pub const WORDS: usize = [$(stringify!($field)),*].len();

            /// Missing words are 0.
            pub fn from_words(words: &[u64]) -> Self {
                let mut words = words.iter().copied();
                $(let $field = words.next().unwrap_or_default();)*
                Self { $($field),* }
            }
        }

        const _: () = assert!($copy::WORDS * 8 <= size_of::<$shared>());
    };
}

words! {
    /// The header. Constant unless it says otherwise.
    Header, HeaderWords {
        magic,
        version,
        /// Of the whole mapping.
        bytes,
        /// The process, in its own PID namespace.
        pid,
        /// Another one for each mapping.
        nonce,
        /// `CLOCK_MONOTONIC` when it was made, in ns. All times in the mapping are of this clock.
        born_ns,
        /// The time of day when it was made, in ns since 1970.
        born_unix_ns,
        /// 0 until everything above is there.
        is_ready,
        nr_tables,
        /// How blocking is noticed: the place of it in [`crate::Detect`].
        detect,
        /// The place in [`AffinityScope::ALL`](crate::AffinityScope::ALL). Changes.
        default_scope,
        /// Masks: CPUs that may be the process's, those that are, those for unbound queues, those
        /// asked for.
        possible,
        /// Changes.
        allowed,
        /// Changes.
        unbound,
        /// Changes.
        requested,
        isolated,
        /// Queues of the process are [frozen](crate::freeze). Changes.
        is_frozen,
        /// CPU time, in ns, after which an item is CPU-intensive.
        hog_thresh_ns,
        /// CPUs' worth of time of the cgroup's quota, in thousandths.
        quota_milli,
        /// The process has shut the library down.
        is_shut,
        /// Workqueues that there are, with or without a record. Changes.
        nr_queues,
        /// Where names of functions begin, in bytes from the beginning: see `functions`.
        functions,
        /// How many bytes those are.
        functions_bytes,
    }
}

words! {
    /// A table, as the header tells.
    TableHeader, TableWords {
        /// Which: a place in [`TABLES`].
        kind,
        /// Of the first record, in bytes from the beginning.
        offset,
        /// Words from one record to the next.
        stride,
        /// Records that there is room for.
        capacity,
        /// Records that were ever used: those behind are zero.
        used,
        /// Records in use now.
        live,
        /// Things that there was no room for, now.
        missed,
    }
}

words! {
    /// A worker pool.
    PoolRecord, PoolWords {
        seq,
        life,
        id,
        /// See [`PoolKind`](super::PoolKind).
        kind,
        /// Of a per-CPU or BH pool.
        cpu,
        /// A signed number.
        nice,
        /// Policy and, of real-time ones, priority: see `Sched`.
        sched,
        /// Mask: where its workers may run.
        cpus,
        /// Mask: where they begin to.
        pod,
        node,
        /// How many may run at once. Changes.
        concurrency,
        /// `POOL_…`. Changes.
        flags,
        /// Pwqs that lead here.
        refs,
        /// Workers, idle and running ones: 21 bits each, from the top.
        counts,
        /// Items on the worklist wait for a worker: 1, else 0.
        work_waits,
        /// When an item was last started.
        progress_ns,
        created,
        culled,
        /// Creations that failed.
        failed,
        /// `errno` of the last failure.
        errno,
    }
}

/// The pool's CPU, or its pod's last one, has gone.
pub const POOL_DISASSOCIATED: u64 = 1 << 0;
/// Workers may leave the pod.
pub const POOL_STRAY: u64 = 1 << 1;
/// No queue leads there.
pub const POOL_UNUSED: u64 = 1 << 2;
/// Workers were asked to stay in the pod.
pub const POOL_STRICT: u64 = 1 << 3;

/// See [`PoolRecord`].
pub const fn pack_counts(workers: u32, idle: u32, running: u32) -> u64 {
    (workers as u64) << 42 | (idle as u64 & COUNT) << 21 | (running as u64 & COUNT)
}

/// Undoes [`pack_counts`].
pub const fn unpack_counts(counts: u64) -> (u32, u32, u32) {
    ((counts >> 42) as u32, (counts >> 21 & COUNT) as u32, (counts & COUNT) as u32)
}

const COUNT: u64 = (1 << 21) - 1;

words! {
    /// A worker, a rescuer or a BH context.
    WorkerRecord, WorkerWords {
        // What changes with each item comes first, in one line of the cache.
        seq,
        life,
        /// The function of the item that it runs, or 0.
        func,
        /// The item.
        work,
        /// The key of its queue.
        queue,
        /// When it was started, or when the worker became idle, by `CLOCK_MONOTONIC_COARSE`. Of an
        /// item that was started while the pool was watched: the tick before that. 0 between two
        /// items.
        since_ns,
        /// Items started.
        runs,
        /// The pool that is served: the worker's own, or one that it is lent to or visits.
        pool,
        /// `WORKER_…`, and what is believed of it: see [`pack_state`]. Changes.
        flags,
        tid,
        /// The pool it belongs to, or `NONE`.
        home,
        /// Whose the CPU time since then is: pool and pwq as in [`pwq_id`], or `NONE`.
        meter_pwq,
        /// The thread's CPU time up to which all is charged, in ns.
        meter_charged,
        /// Of a rescuer: its queue's key. Of a BH context: its CPU.
        of,
        /// The name, as in `ps -L`, without what is behind `+`.
        comm0,
        comm1,
    }
}

/// Of a `WQ_MEM_RECLAIM` queue.
pub const WORKER_RESCUER: u64 = 1 << 0;
/// A BH context.
pub const WORKER_BH: u64 = 1 << 1;
/// Serves another pool than its own.
pub const WORKER_LENT: u64 = 1 << 4;
/// Believed blocked, in the run whose number is above [`BELIEF_SHIFT`].
const WORKER_BLOCKED: u64 = 1 << 2;
/// Seen to hog the CPU in that run.
const WORKER_HOG: u64 = 1 << 3;
/// Where the run's number begins.
const BELIEF_SHIFT: u32 = 8;
/// Flags that do not end with a run.
const LASTING: u64 = WORKER_RESCUER | WORKER_BH | WORKER_LENT;

/// What is believed of a worker in the run of this number, into its flags. The next run need not
/// take it back.
pub const fn pack_state(flags: u64, run: u64, is_blocked: bool, is_hog: bool) -> u64 {
    let blocked = if is_blocked { WORKER_BLOCKED } else { 0 };
    flags & LASTING | run << BELIEF_SHIFT | blocked | if is_hog { WORKER_HOG } else { 0 }
}

/// Whether it is blocked, and whether it hogs the CPU, in the run of this number: undoes
/// [`pack_state`].
pub const fn unpack_state(flags: u64, run: u64) -> (bool, bool) {
    let is_of_run = flags >> BELIEF_SHIFT == run & (u64::MAX >> BELIEF_SHIFT);
    (is_of_run && flags & WORKER_BLOCKED != 0, is_of_run && flags & WORKER_HOG != 0)
}

words! {
    /// A workqueue.
    QueueRecord, QueueWords {
        seq,
        life,
        key,
        name0,
        name1,
        name2,
        name3,
        /// See [`QueueKind`](super::QueueKind).
        kind,
        /// The kernel's `WQ_…` bits.
        flags,
        max_active,
        min_active,
        /// For all pwqs together, or `NONE`.
        total,
        nice,
        sched,
        /// Mask, or `NONE` for all.
        cpumask,
        /// As `default_scope`, or `NONE` for the default one.
        scope,
        strict,
        /// Counters of pwqs that are gone.
        started,
        completed,
        cpu_time,
        cpu_intensive,
        cm_wakeup,
        repatriated,
        mayday,
        rescued,
        cancelled,
        /// Items that wait for it outside of the process. Changes, without a step of the count.
        outside,
    }
}

words! {
    /// Where a queue meets a pool.
    PwqRecord, PwqWords {
        seq,
        life,
        started,
        completed,
        /// Items admitted and not finished. These three are the core's own counters, see
        /// `PwqRecord::counts`.
        active,
        cancelled,
        cm_wakeup,
        /// Charged, in µs.
        cpu_time,
        cpu_intensive,
        repatriated,
        mayday,
        rescued,
        /// The queue's key.
        queue,
        /// Pool and pwq: see [`pwq_id`].
        id,
        /// The CPU that this way is for; `NONE`: for all.
        cpu,
        max_active,
        /// Replaced by another one.
        retired,
        /// Others wait behind `max_active`: 1, else 0.
        has_inactive,
    }
}

impl PwqRecord {
    /// Where the core counts.
    #[cfg_attr(any(cmwq_loom, cmwq_shuttle), allow(dead_code, reason = "no mapping in models"))]
    pub(crate) fn counts(&'static self) -> &'static PwqCounts {
        const { assert!(size_of::<PwqCounts>() == PwqCounts::WORDS * 8) };
        let first = ptr::from_ref(self).wrapping_byte_add(offset_of!(Self, started)).cast();
        // SAFETY: the three words from there on are atomics of 64 bits, as are the counts, and live
        // for ever. Models have other atomics, and no mapping.
        unsafe { &*first }
    }
}

words! {
    /// A node's share of a queue's `max_active`.
    NodeRecord, NodeWords {
        seq,
        life,
        nr,
        max,
        nr_waiting,
        /// The queue's key.
        queue,
        /// `NONE`: no node holds the pods.
        node,
    }
}

words! {
    /// A pod of an affinity scope.
    PodRecord, PodWords {
        seq,
        life,
        /// As `default_scope`.
        scope,
        /// Which of the scope's.
        index,
        cpus,
        node,
    }
}

/// A set of CPUs, never changed.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct MaskRecord {
    pub seq: AtomicU64,
    pub life: AtomicU64,
    pub len: AtomicU64,
    pub words: [AtomicU64; MASK_WORDS],
}

/// The last decisions of the pool whose record has the same place.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RingRecord {
    pub seq: AtomicU64,
    pub life: AtomicU64,
    /// How many decisions there were, repeats not counted.
    pub next: AtomicU64,
    /// Each: the [`Reason`](super::Reason), how often in a row, when first, when last.
    pub words: [AtomicU64; RING * DECISION_WORDS],
}

/// The tables in their order, and how many records of each there is room for.
pub const TABLES: [(&str, usize, usize); 8] = [
    ("pools", size_of::<PoolRecord>(), 4096),
    ("rings", size_of::<RingRecord>(), 4096),
    ("workers", size_of::<WorkerRecord>(), 16_384),
    ("queues", size_of::<QueueRecord>(), 16_384),
    ("pwqs", size_of::<PwqRecord>(), 65_536),
    ("nodes", size_of::<NodeRecord>(), 16_384),
    ("pods", size_of::<PodRecord>(), 8192),
    ("masks", size_of::<MaskRecord>(), 8192),
];

/// LIMIT: within a version, records do not become longer than so many times what they are now.
pub const MAX_GROWTH: usize = 2;
/// LIMIT: bytes of a mapping. What a reader believes is no longer than the tables and names of a
/// whole one.
pub const MAX_BYTES: u64 = {
    let (mut bytes, mut kind) = (HEADER_WORDS * 8 + super::functions::MOST_WORDS * 8, 0);
    while kind < TABLES.len() {
        let (_, size, capacity) = TABLES[kind];
        bytes += (size * MAX_GROWTH * capacity).next_multiple_of(4096);
        kind += 1;
    }
    bytes as u64
};

/// Places in [`TABLES`].
pub mod table {
    pub const POOLS: usize = 0;
    pub const RINGS: usize = 1;
    pub const WORKERS: usize = 2;
    pub const QUEUES: usize = 3;
    pub const PWQS: usize = 4;
    pub const NODES: usize = 5;
    pub const PODS: usize = 6;
    pub const MASKS: usize = 7;
}

/// Where each table begins, and where the mapping ends, in bytes.
pub fn offsets() -> ([usize; TABLES.len()], usize) {
    let mut at = HEADER_WORDS * 8;
    let offsets = TABLES.map(|(_, size, capacity)| {
        let here = at;
        at = (at + size * capacity).next_multiple_of(4096);
        here
    });
    (offsets, at)
}

/// A pwq, in one word.
pub const fn pwq_id(pool: u32, pwq: u32) -> u64 {
    (pool as u64) << 32 | pwq as u64
}

/// Text in words, cut to fit.
pub fn pack_text<const WORDS: usize>(text: &str) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(eight);
    }
    words
}

/// Undoes [`pack_text`].
pub fn unpack_text(words: &[u64]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What all records begin with.
pub trait Record: 'static {
    /// See `seqlock`.
    fn seq(&self) -> &AtomicU64;
    /// See the module header.
    fn life(&self) -> &AtomicU64;
}

macro_rules! records {
    ($($record:ident)*) => {
        $(impl Record for $record {
            fn seq(&self) -> &AtomicU64 {
                &self.seq
            }

            fn life(&self) -> &AtomicU64 {
                &self.life
            }
        })*
    };
}

records!(PoolRecord WorkerRecord QueueRecord PwqRecord NodeRecord PodRecord MaskRecord RingRecord);

// Both sides count on these.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
const _: () = {
    assert!(size_of::<Header>() <= TABLES_AT * 8);
    assert!(size_of::<TableHeader>() == TABLE_WORDS * 8);
    assert!(TABLES_AT + TABLES.len() * TABLE_WORDS <= HEADER_WORDS);
    assert!(size_of::<WorkerRecord>() == 128);
    assert!(offset_of!(PwqRecord, completed) == offset_of!(PwqRecord, started) + 8);
    assert!(offset_of!(PwqRecord, active) == offset_of!(PwqRecord, started) + 16);
};
