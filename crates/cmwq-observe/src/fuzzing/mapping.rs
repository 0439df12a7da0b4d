//! Mappings of other processes: whatever is in one, it is read within the bounds of a whole one, or
//! refused.
//!
//! A case is a list of changes to a whole mapping, 12 bytes each: what is changed, where, and the
//! value. Most of a mapping's bytes are records that nobody uses, so that a case of them would
//! change nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use cmwq::shared::mapping::layout::{
    MAGIC, PwqRecord, RING, TABLE_WORDS, TABLES, TABLES_AT, VERSION, offsets, pwq_id, table,
};

use crate::inspect::{ReadError, Snapshot, Words, snapshot};

/// The word of a pwq's record that says which it is.
pub(crate) const PWQ_ID: usize = std::mem::offset_of!(PwqRecord, id) / 8;
/// Records in use in each table.
const USED: usize = 3;
/// Words of names of functions, behind the tables.
const NAMES: usize = 64;
const CHANGE: usize = 12;
/// Numbers at which something ends.
const WILD: [u64; 12] =
    [0, 1, 2, 7, 512, 4096, 0xffff, 1 << 32, 1 << 63, u64::MAX / 8, u64::MAX - 7, u64::MAX];

/// A mapping with a few records in each table, all of them in use, filled with small numbers; and
/// two names.
pub(crate) fn whole() -> Vec<AtomicU64> {
    let (offsets, end) = offsets();
    let bytes = end + NAMES * 8;
    let words: Vec<AtomicU64> = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
    let set = |at: usize, value: u64| words[at].store(value, Ordering::Relaxed);
    for (at, value) in [MAGIC, VERSION, bytes as u64, 1, 2, 3, 4, 1].into_iter().enumerate() {
        set(at, value);
    }
    // Where the names are, and what they are.
    set(21, end as u64);
    set(22, NAMES as u64 * 8);
    for (at, value) in [1, 3, u64::from_ne_bytes(*b"one\0\0\0\0\0"), 2, 0].into_iter().enumerate() {
        set(end / 8 + at, value);
    }
    for (kind, (_, size, capacity)) in TABLES.into_iter().enumerate() {
        let table = [kind, offsets[kind], size / 8, capacity, USED, USED, 0];
        for (at, value) in table.into_iter().enumerate() {
            set(TABLES_AT + kind * TABLE_WORDS + at, value as u64);
        }
        for record in 0..USED {
            let begin = offsets[kind] / 8 + record * size / 8;
            (1..size / 8).for_each(|word| set(begin + word, 1 + word as u64 % 3));
            // What tells them apart: a key or an id, and that of a way into a pool.
            set(begin + 2, 1 + record as u64);
            if kind == table::PWQS {
                set(begin + PWQ_ID, pwq_id(1, record as u32));
            }
        }
    }
    words
}

/// Reads a whole mapping with the changes that `data` describes.
///
/// # Panics
/// If the outcome is not what it must be.
pub fn run(data: &[u8]) {
    static WHOLE: OnceLock<Mutex<Vec<AtomicU64>>> = OnceLock::new();
    let words = WHOLE.get_or_init(|| Mutex::new(whole()));
    // After a failure it is damaged, and nobody goes on.
    let words = words.lock().unwrap_or_else(PoisonError::into_inner);
    let before: Vec<(usize, u64)> =
        data.chunks_exact(CHANGE).map(|change| apply(&words, change)).collect();
    check(&words);
    for (at, value) in before.into_iter().rev() {
        words[at].store(value, Ordering::Relaxed);
    }
}

/// Makes a change. Where, and what was there.
fn apply(words: &[AtomicU64], change: &[u8]) -> (usize, u64) {
    let [what, table, low, high] = [change[0], change[1], change[2], change[3]].map(usize::from);
    let value = change[4..].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let kind = table % TABLES.len();
    let at = match what % 4 {
        0 => low % TABLES_AT,
        1 => TABLES_AT + kind * TABLE_WORDS + low % TABLE_WORDS,
        2 => {
            let stride = TABLES[kind].1 / 8;
            offsets().0[kind] / 8 + high % (USED + 1) * stride + low % stride
        }
        _ => words.len() - NAMES + low % NAMES,
    };
    let old = words[at].load(Ordering::Relaxed);
    let new = match what >> 6 {
        0 => value,
        1 => old ^ value,
        2 => old.wrapping_add(value),
        _ => WILD[value as usize % WILD.len()],
    };
    words[at].store(new, Ordering::Relaxed);
    (at, old)
}

fn check(words: &[AtomicU64]) {
    let words = Words(words);
    match snapshot(words, 5) {
        Ok(seen) => check_seen(&seen),
        Err(ReadError::Corrupt { table }) => assert!(TABLES.iter().any(|of| of.0 == table)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(functions) = words.functions() {
        let bytes: usize = functions.values().map(String::len).sum();
        // Wherever the header says that they are. A name has two words before its bytes, and each
        // byte may have become a replacement character of three.
        assert!(functions.len() <= words.0.len() / 2 && bytes <= words.0.len() * 8 * 3);
    }
}

/// No more than there may be, each once, and in order.
fn check_seen(seen: &Snapshot) {
    let most = |kind: usize| TABLES[kind].2;
    assert!(seen.pools.len() <= most(table::POOLS) && seen.queues.len() <= most(table::QUEUES));
    assert!(seen.workers.len() <= most(table::WORKERS) && seen.links.len() <= most(table::PWQS));
    assert!(seen.nodes.len() <= most(table::NODES) && seen.pods.len() <= most(table::PODS));
    assert!(seen.pools.is_sorted_by(|a, b| a.id < b.id), "each pool once");
    assert!(seen.links.is_sorted_by_key(|link| link.queue));
    for pool in &seen.pools {
        assert_eq!(seen.pool(pool.id), Some(pool));
        assert!(pool.decisions.len() <= RING);
    }
    let mut keys: Vec<u32> = seen.queues.iter().map(|queue| queue.key).collect();
    keys.sort_unstable();
    assert!(keys.is_sorted_by(|a, b| a < b), "each queue once");
    for queue in &seen.queues {
        assert!(queue.name.len() <= 32 * 3, "{:?}", queue.name);
        let _ = (seen.stats_of(queue), seen.rescuer_of(queue));
        assert!(seen.links_of(queue).iter().all(|link| link.queue == queue.key));
    }
}

#[test]
fn any_mapping_is_read_within_its_bounds_or_refused() {
    super::cases::run(&super::cases::seeds("../../fuzz/seeds/mapping"), 500, run);
}
