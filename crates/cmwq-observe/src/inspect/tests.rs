//! Mappings that are damaged, cut short, foreign or of another time: errors, and never a panic.

use std::sync::atomic::{AtomicU64, Ordering};

use cmwq::shared::mapping::layout::{
    HEADER_WORDS, MAGIC, MAX_GROWTH, TABLE_WORDS, TABLES, TABLES_AT, VERSION, offsets, table,
};

use super::snapshot::{ReadError, snapshot};
use super::words::Words;
use crate::fuzzing::mapping::{PWQ_ID, whole as mapping};

fn read(words: &[AtomicU64]) -> Result<usize, ReadError> {
    snapshot(Words(words), 5).map(|seen| {
        // Sums are made of whatever is there.
        seen.queues.iter().for_each(|queue| _ = seen.stats_of(queue));
        let _ = Words(words).functions();
        seen.queues.len()
    })
}

/// A generator of numbers that is good enough, and the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 27
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

#[test]
fn a_whole_mapping_is_read() {
    assert_eq!(read(&mapping()), Ok(3));
}

#[test]
fn what_is_not_ours_is_told_apart() {
    let words = mapping();
    words[0].store(7, Ordering::Relaxed);
    assert_eq!(read(&words), Err(ReadError::NotCmwq));
    words[0].store(MAGIC, Ordering::Relaxed);
    words[1].store(VERSION + 1, Ordering::Relaxed);
    assert_eq!(read(&words), Err(ReadError::OtherVersion { theirs: VERSION + 1, ours: VERSION }));
    words[1].store(VERSION, Ordering::Relaxed);
    words[7].store(0, Ordering::Relaxed);
    assert_eq!(read(&words), Err(ReadError::NotReady));
    words[7].store(1, Ordering::Relaxed);
    for len in [0, 1, 7, HEADER_WORDS, words.len() - 1] {
        assert_eq!(read(&words[..len]), Err(ReadError::Truncated), "{len} words");
    }
}

/// Each of a table's words says something that the layout forbids.
#[test]
fn tables_are_where_and_as_large_as_the_layout_has_them() {
    let words = mapping();
    let (offsets, end) = offsets();
    for (kind, (name, size, capacity)) in TABLES.into_iter().enumerate() {
        let (stride, capacity) = (size as u64 / 8, capacity as u64);
        let other = offsets[(kind + 1) % TABLES.len()] as u64;
        for (word, wrong) in [
            (0, kind as u64 + 1),
            (1, 0),
            (1, 8),
            (1, offsets[kind] as u64 + 4),
            (1, end as u64),
            (1, u64::MAX - 7),
            (1, other),
            (1, other + 8),
            (2, 0),
            (2, 2),
            (2, stride * MAX_GROWTH as u64 + 1),
            (2, u64::MAX),
            (3, capacity + 1),
            (3, u64::MAX / stride),
            (3, u64::MAX),
        ] {
            let place = &words[TABLES_AT + kind * TABLE_WORDS + word];
            let right = place.swap(wrong, Ordering::Relaxed);
            let seen = read(&words);
            assert!(
                matches!(seen, Err(ReadError::Corrupt { .. })),
                "{name} {word} {wrong}: {seen:?}"
            );
            place.store(right, Ordering::Relaxed);
        }
    }
    assert_eq!(read(&words), Ok(3), "as before");
}

/// Numbers that were given out again while the mapping was read.
#[test]
fn a_number_is_one_queue_s_one_pool_s_and_one_way_s() {
    let words = mapping();
    for (kind, word) in [(table::POOLS, 2), (table::QUEUES, 2), (table::PWQS, PWQ_ID)] {
        let (first, stride) = (offsets().0[kind] / 8 + word, TABLES[kind].1 / 8);
        let of_first = words[first].load(Ordering::Relaxed);
        words[first + stride].store(of_first, Ordering::Relaxed);
    }
    let seen = snapshot(Words(&words), 5).unwrap();
    assert_eq!((seen.pools.len(), seen.queues.len(), seen.links.len()), (2, 2, 2));
}

#[test]
fn a_record_that_is_being_written_is_left_out() {
    let words = mapping();
    let queues = offsets().0[table::QUEUES] / 8;
    words[queues].store(1, Ordering::Relaxed);
    let seen = snapshot(Words(&words), 5).unwrap();
    assert_eq!(seen.queues.len(), 2);
    assert!(seen.torn > 0);
}

/// Bits and words of the header, the tables' headers and the records that are read change at
/// random.
#[test]
#[expect(clippy::print_stdout, reason = "a failure shows its seed")]
fn damage_is_no_panic() {
    let seed = std::env::var("CMWQ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    println!("CMWQ_SEED={seed}");
    let words = mapping();
    let (offsets, _) = offsets();
    let used: Vec<usize> = (0..HEADER_WORDS)
        .chain((0..TABLES.len()).flat_map(|kind| {
            let begin = offsets[kind] / 8;
            begin..begin + 3 * TABLES[kind].1 / 8
        }))
        .collect();
    let wild = [0, 1, 2, 7, u64::MAX, u64::MAX / 8, 1 << 32, 1 << 63, 0xffff];
    for _ in 0..1_000 {
        let changes: Vec<(usize, u64)> = (0..1 + random.below(4))
            .map(|_| {
                // The header is a small part, and the one that matters.
                let at = if random.below(2) == 0 {
                    random.below(TABLES_AT + TABLES.len() * TABLE_WORDS)
                } else {
                    used[random.below(used.len())]
                };
                let old = words[at].load(Ordering::Relaxed);
                let new = match random.below(3) {
                    0 => old ^ 1 << random.below(64),
                    1 => wild[random.below(wild.len())],
                    _ => random.next(),
                };
                words[at].store(new, Ordering::Relaxed);
                (at, old)
            })
            .collect();
        // Whatever it says: no panic.
        let _ = read(&words);
        for (at, old) in changes.into_iter().rev() {
            words[at].store(old, Ordering::Relaxed);
        }
    }
    assert_eq!(read(&words), Ok(3), "as before");
}
