//! What a trace consists of: events of six words, as they lie in the rings and in trace files.

/// Words of an event.
pub const WORDS: usize = 6;

/// What happened. The first four are the kernel's trace events, with its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// An item was queued: `work`, `func`, `wq`, the pool and the CPU that was asked for.
    QueueWork = 0,
    /// An item may start: it was put on its pool's worklist.
    ActivateWork = 1,
    /// The function is entered.
    ExecuteStart = 2,
    /// The function has returned. Only the address of `work` means anything.
    ExecuteEnd = 3,
    /// Worker `tid` was found to block.
    WorkerBlocked = 4,
    /// Worker `tid`, believed blocked, was found to run.
    WorkerResumed = 5,
    /// The emitting thread is a new worker.
    WorkerCreated = 6,
    /// The emitting thread is a worker that leaves.
    WorkerCulled = 7,
    /// Worker `tid` has used the CPU for long with one item.
    CpuHog = 8,
    /// The rescuer of `wq` was called to `pool`.
    Mayday = 9,
    /// From here on the ring has events of thread `tid`, of that name.
    Thread = 10,
    /// A part of the name of queue `wq`.
    QueueName = 11,
    /// A part of what a function is for.
    FunctionName = 12,
}

/// All kinds that can be asked for, with their names.
pub const NAMES: [(Kind, &str); 10] = [
    (Kind::QueueWork, "workqueue_queue_work"),
    (Kind::ActivateWork, "workqueue_activate_work"),
    (Kind::ExecuteStart, "workqueue_execute_start"),
    (Kind::ExecuteEnd, "workqueue_execute_end"),
    (Kind::WorkerBlocked, "worker_blocked"),
    (Kind::WorkerResumed, "worker_resumed"),
    (Kind::WorkerCreated, "worker_created"),
    (Kind::WorkerCulled, "worker_culled"),
    (Kind::CpuHog, "cpu_hog"),
    (Kind::Mayday, "mayday"),
];

/// The mask of all of them.
pub const ALL: u32 = (1 << NAMES.len()) - 1;

impl Kind {
    /// Its bit in the mask of what is traced.
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << self as u8
    }

    pub(super) const fn is_in(self, mask: u32) -> bool {
        mask & self.bit() != 0
    }

    /// Its name; the kernel's for the kernel's.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    fn of(number: u8) -> Option<Self> {
        match number {
            10 => Some(Self::Thread),
            11 => Some(Self::QueueName),
            12 => Some(Self::FunctionName),
            _ => NAMES.get(usize::from(number)).map(|(kind, _)| *kind),
        }
    }
}

/// In the head of the record of a start: its item became active at the same moment, and no record
/// of its own says so.
const BECAME_ACTIVE: u32 = 1 << 8;

/// No CPU was asked for. KERNEL: `WORK_CPU_UNBOUND` — same meaning.
pub const ANY_CPU: i32 = -1;
/// Bytes of a name in one event of that kind.
pub(super) const NAME_PART: usize = 24;
/// LIMIT: bytes of a queue's name that are told: eight events' worth.
pub(super) const MAX_NAME: usize = 8 * NAME_PART;

/// Bytes of a function's name in one event of that kind.
const FUNCTION_PART: usize = 16;
/// LIMIT: bytes of a function's name that are told.
const MAX_FUNCTION: usize = 12 * FUNCTION_PART;
/// Records that a name takes at most.
pub(super) const MAX_PARTS: usize = 12;
const _: () =
    assert!(MAX_NAME <= MAX_PARTS * NAME_PART && MAX_FUNCTION <= MAX_PARTS * FUNCTION_PART);

/// One event. Which fields mean something depends on the [`Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When: ticks of the trace's clock.
    pub stamp: u64,
    /// What.
    pub kind: Kind,
    /// Where the emitting thread was.
    pub cpu: u16,
    /// Id of the pool.
    pub pool: u32,
    /// Key of the workqueue. Keys of queues that are gone are used again.
    pub wq: u32,
    /// The CPU it was queued for, or [`ANY_CPU`].
    pub requested_cpu: i32,
    /// Address of the item.
    pub work: u64,
    /// Address of its function.
    pub func: u64,
    /// The worker it is about, if that is not the emitting thread.
    pub tid: u32,
    /// CPU of the pool, or -1.
    pub pool_cpu: i32,
}

/// When and where something happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(super) stamp: u64,
    pub(super) cpu: u16,
}

/// What a record of a ring says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Something happened.
    Event(Event),
    /// What follows in this ring is of this thread.
    Thread {
        /// Its id.
        tid: u32,
        /// Its name, cut to what fits.
        name: String,
    },
    /// A part of a queue's name.
    QueueName {
        /// When it was told.
        stamp: u64,
        /// The queue's key.
        wq: u32,
        /// Where in the name it belongs, in bytes, and how long all of it is.
        at: (usize, usize),
        /// The bytes.
        part: Vec<u8>,
    },
    /// A part of what runs when a function is called: the type of a closure.
    FunctionName {
        /// The function's address.
        func: u64,
        /// Where in the name it belongs, in bytes, and how long all of it is.
        at: (usize, usize),
        /// The bytes.
        part: Vec<u8>,
    },
}

impl Event {
    /// An event of the kind, about nothing.
    pub(crate) const fn new(kind: Kind) -> Self {
        Self {
            stamp: 0,
            kind,
            cpu: 0,
            pool: u32::MAX,
            wq: u32::MAX,
            requested_cpu: ANY_CPU,
            work: 0,
            func: 0,
            tid: 0,
            pool_cpu: -1,
        }
    }

    #[inline]
    pub(super) const fn pack(&self) -> [u64; WORDS] {
        self.pack_with(0)
    }

    /// Of a start, and of the activation at the same moment.
    #[inline]
    pub(super) const fn pack_begin(&self) -> [u64; WORDS] {
        self.pack_with(BECAME_ACTIVE)
    }

    #[inline(always)]
    const fn pack_with(&self, mark: u32) -> [u64; WORDS] {
        [
            self.stamp,
            pair(self.kind as u32 | mark | (self.cpu as u32) << 16, self.pool),
            pair(self.wq, self.requested_cpu as u32),
            self.work,
            self.func,
            pair(self.tid, self.pool_cpu as u32),
        ]
    }
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// A record that says whose events follow.
pub(super) fn pack_thread(stamp: u64, tid: u32, name: &[u8]) -> [u64; WORDS] {
    let [w0, w1, w2] = words_of(name);
    [stamp, pair(Kind::Thread as u32, 0), pair(tid, name.len().min(NAME_PART) as u32), w0, w1, w2]
}

/// The records that say what a queue is called.
pub(super) fn pack_name(
    stamp: u64,
    wq: u32,
    name: &str,
) -> impl ExactSizeIterator<Item = [u64; WORDS]> {
    let name = &name.as_bytes()[..name.len().min(MAX_NAME)];
    // An empty name is told, too.
    let parts = name.len().div_ceil(NAME_PART).max(1);
    (0..parts).map(move |index| {
        let part = &name[index * NAME_PART..name.len().min((index + 1) * NAME_PART)];
        let [w0, w1, w2] = words_of(part);
        let head = Kind::QueueName as u32 | (index as u32) << 8;
        [stamp, pair(head, 0), pair(wq, name.len() as u32), w0, w1, w2]
    })
}

/// The records that say what a function is for.
pub(super) fn pack_function(
    stamp: u64,
    func: u64,
    name: &str,
) -> impl ExactSizeIterator<Item = [u64; WORDS]> {
    let name = &name.as_bytes()[..name.len().min(MAX_FUNCTION)];
    let parts = name.len().div_ceil(FUNCTION_PART);
    (0..parts).map(move |index| {
        let part = &name[index * FUNCTION_PART..name.len().min((index + 1) * FUNCTION_PART)];
        let [w0, w1, _] = words_of(part);
        let head = Kind::FunctionName as u32 | (index as u32) << 8;
        [stamp, pair(head, 0), pair(name.len() as u32, 0), func, w0, w1]
    })
}

fn words_of(bytes: &[u8]) -> [u64; 3] {
    let mut padded = [0; NAME_PART];
    let len = bytes.len().min(NAME_PART);
    padded[..len].copy_from_slice(&bytes[..len]);
    let word = |at: usize| u64::from_le_bytes(padded[at..at + 8].try_into().expect("eight bytes"));
    [word(0), word(8), word(16)]
}

/// What the words say, in order. Nothing, if this version of cmwq writes no such words.
pub fn unpack(words: &[u64; WORDS]) -> impl Iterator<Item = Record> {
    let record = unpack_one(words);
    let activation = match &record {
        Some(Record::Event(event)) if has_become_active(event.kind, words[1]) => {
            Some(Record::Event(Event { kind: Kind::ActivateWork, ..*event }))
        }
        _ => None,
    };
    activation.into_iter().chain(record)
}

fn has_become_active(kind: Kind, head: u64) -> bool {
    kind == Kind::ExecuteStart && head & u64::from(BECAME_ACTIVE) != 0
}

fn unpack_one(words: &[u64; WORDS]) -> Option<Record> {
    let [stamp, head, ids, work, func, last] = *words;
    let (low, high) = ((ids & 0xffff_ffff) as u32, (ids >> 32) as u32);
    let bytes = || [work, func, last].map(u64::to_le_bytes).concat();
    match Kind::of(head as u8)? {
        Kind::Thread => {
            let name = bytes();
            let name = name.get(..high as usize)?;
            Some(Record::Thread { tid: low, name: String::from_utf8_lossy(name).into_owned() })
        }
        Kind::QueueName => {
            let (at, len) = (usize::from((head >> 8) as u8) * NAME_PART, high as usize);
            if len > MAX_NAME || at > len {
                return None;
            }
            let part = bytes().get(..NAME_PART.min(len - at))?.to_vec();
            Some(Record::QueueName { stamp, wq: low, at: (at, len), part })
        }
        Kind::FunctionName => {
            let (at, len) = (usize::from((head >> 8) as u8) * FUNCTION_PART, low as usize);
            if len > MAX_FUNCTION || at > len {
                return None;
            }
            let bytes = [func, last].map(u64::to_le_bytes).concat();
            let part = bytes.get(..FUNCTION_PART.min(len - at))?.to_vec();
            Some(Record::FunctionName { func: work, at: (at, len), part })
        }
        kind => Some(Record::Event(Event {
            stamp,
            kind,
            cpu: (head >> 16) as u16,
            pool: (head >> 32) as u32,
            wq: low,
            requested_cpu: high as i32,
            work,
            func,
            tid: last as u32,
            pool_cpu: (last >> 32) as i32,
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of(words: &[u64; WORDS]) -> Vec<Record> {
        unpack(words).collect()
    }

    #[test]
    fn events_come_back_as_they_were() {
        for (kind, _) in NAMES {
            let event = Event {
                stamp: u64::MAX - 1,
                kind,
                cpu: 65_535,
                pool: 7,
                wq: u32::MAX,
                requested_cpu: -1,
                work: 1 << 63 | 5,
                func: 0x1234_5678_9abc_def0,
                tid: 4_000_000,
                pool_cpu: -1,
            };
            assert_eq!(all_of(&event.pack()), [Record::Event(event)]);
        }
    }

    #[test]
    fn one_record_says_that_an_item_became_active_and_began() {
        let start = Event {
            stamp: 17,
            cpu: 65_535,
            pool: 7,
            wq: 3,
            work: 1 << 63 | 5,
            func: 6,
            pool_cpu: 1,
            ..Event::new(Kind::ExecuteStart)
        };
        let activation = Event { kind: Kind::ActivateWork, ..start };
        let both = [activation, start].map(Record::Event);
        assert_eq!(all_of(&start.pack_begin()), both);
        // What else has that bit says something else by it, or nothing.
        for kind in (0..=255).filter(|kind| *kind != Kind::ExecuteStart as u64) {
            let mut words = start.pack_begin();
            words[1] = words[1] & !0xff | kind;
            assert!(all_of(&words).len() <= 1, "{kind}");
        }
    }

    #[test]
    fn names_come_back_in_parts() {
        for len in [0, 1, 23, 24, 25, 191, 192, 200] {
            let name: String = ('a'..='z').cycle().take(len).collect();
            let mut told = vec![0; len.min(MAX_NAME)];
            for words in pack_name(9, 3, &name) {
                let Some(Record::QueueName { stamp: 9, wq: 3, at: (at, all), part }) =
                    unpack_one(&words)
                else {
                    panic!("{len}: {words:?}");
                };
                assert_eq!(all, told.len());
                told[at..at + part.len()].copy_from_slice(&part);
            }
            assert_eq!(told, name.as_bytes()[..len.min(MAX_NAME)]);
        }
        let name = "a::very::long::path::of::modules::{{closure}}";
        let mut told = vec![0; name.len()];
        for words in pack_function(1, 0x40, name) {
            let Some(Record::FunctionName { func: 0x40, at: (at, len), part }) = unpack_one(&words)
            else {
                panic!("{words:?}");
            };
            assert_eq!(len, told.len());
            told[at..at + part.len()].copy_from_slice(&part);
        }
        assert_eq!(told, name.as_bytes());
        let thread = Record::Thread { tid: 12, name: "kworker/0:1+fetch".into() };
        assert_eq!(all_of(&pack_thread(1, 12, b"kworker/0:1+fetch")), [thread]);
    }

    #[test]
    fn whatever_the_words_say_nothing_breaks() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for kind in 0..=255 {
            for _ in 0..50 {
                let mut words: [u64; WORDS] = std::array::from_fn(|_| next());
                words[1] = words[1] & !0xff | kind;
                assert!(all_of(&words).is_empty() || kind <= 12);
            }
        }
    }
}
