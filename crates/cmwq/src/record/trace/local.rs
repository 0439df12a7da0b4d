//! The calling thread's ring.
//!
//! A thread gets one with its first event while tracing is on, outside of all core locks
//! ([`ready`]), keeps it until it ends, and gives it back to be used again. Events of a thread
//! without one are counted.
//!
//! Lock: `RINGS`, innermost.

use std::cell::{Cell, UnsafeCell};
use std::ptr;

use super::TracedQueue;
use super::control::{self, TraceFile, control, is_leased};
use super::event::{self, Event, Moment, WORDS};
use super::map::RingMap;
use super::ring::Writer;
use crate::os::sense;
use crate::os::sync::plain::AtomicU32;
use crate::os::sync::{Arc, Ordering, PlainGuard, PlainMutex, lock_plain};

/// Queues whose names a ring remembers having told.
const KNOWN_QUEUES: usize = 512;
/// Functions whose names a ring remembers having told.
const KNOWN_FUNCTIONS: usize = 256;
/// Records for which there must be room where an event is written: as many as its thread and a name
/// would have taken. So none is written whose names could not be told, for want of room, and which
/// readers would take for one of whatever had the number before.
const ROOM: u64 = 2 + event::MAX_PARTS as u64;

/// How often a queue has gone whose key has this place in `known`: its key is another's then.
static GONE: [AtomicU32; KNOWN_QUEUES] = [const { AtomicU32::new(0) }; KNOWN_QUEUES];

/// A ring and what its thread has to remember.
#[derive(Debug)]
struct Local {
    writer: Writer<RingMap>,
    dropped: u64,
    /// The reader that knows whose ring it is.
    session: u32,
    tid: u32,
    name: Vec<u8>,
    /// [Marks](mark_of) of queues whose names need not be looked up: direct-mapped.
    known: Box<[u64; KNOWN_QUEUES]>,
    /// Functions that were named: direct-mapped.
    functions: Box<[usize; KNOWN_FUNCTIONS]>,
    /// The last run, by its pool and number, whose end was written, and when that was.
    ended: Option<(u32, u64, Moment)>,
}

/// The file and the rings that nobody uses.
#[derive(Debug)]
pub(crate) struct Rings {
    pub(super) file: Option<TraceFile>,
    free: Vec<Slot>,
    next: u64,
}

#[derive(Debug)]
struct Slot(ptr::NonNull<UnsafeCell<Local>>);

// SAFETY: whoever has a slot is the only one that uses what it points at, which lives for ever.
unsafe impl Send for Slot {}

static RINGS: PlainMutex<Rings> = PlainMutex::new(Rings { file: None, free: Vec::new(), next: 0 });

/// See `fork`.
pub(crate) type RingsGuard = PlainGuard<'static, Rings>;

pub(crate) fn lock_rings() -> RingsGuard {
    lock_plain(&RINGS)
}

std::thread_local! {
    /// Null: none yet.
    static RING: Cell<*const UnsafeCell<Local>> = const { Cell::new(ptr::null()) };
    static IS_OVER: Cell<bool> = const { Cell::new(false) };
    static GIVE_BACK: GiveBack = const { GiveBack };
}

/// Gives the thread's ring back when the thread ends.
struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        IS_OVER.set(true);
        if let Some(ring) = ptr::NonNull::new(RING.replace(ptr::null()).cast_mut()) {
            lock_rings().free.push(Slot(ring));
        }
    }
}

/// The process is a child: the rings are its parent's. Caller holds the lock of [`lock_rings`].
pub(super) fn leave_behind(rings: &mut Rings) {
    // The forking thread's, too. Those of others are out of reach, as they are.
    RING.set(ptr::null());
    // The file stays open in the parent only; here nobody is to find it. Unless the program has
    // closed it: see `LastingFd`.
    *rings = Rings { file: None, free: Vec::new(), next: 0 };
}

/// Sees to it that the calling thread has a ring. Caller holds no core lock.
#[inline]
pub(super) fn ready() {
    if RING.get().is_null() {
        acquire_ring();
    }
}

#[cold]
fn acquire_ring() {
    if IS_OVER.get() {
        return;
    }
    let mut rings = lock_rings();
    let slot = rings.free.pop().or_else(|| new_ring(&mut rings));
    drop(rings);
    let Some(Slot(ring)) = slot else { return };
    // SAFETY: the slot was ours alone, and is this thread's now.
    let local = unsafe { &mut *ring.as_ref().get() };
    (local.session, local.ended) = (0, None);
    local.tid = u32::try_from(sense::sched::gettid()).unwrap_or_default();
    local.name = base_name(sense::sched::thread_name());
    RING.set(ring.as_ptr());
    GIVE_BACK.with(|_| ());
}

/// A worker's name without what it shows of its work.
fn base_name(mut name: Vec<u8>) -> Vec<u8> {
    if name.starts_with(b"kworker/") && !name.starts_with(b"kworker/R-") {
        let end = name.iter().position(|byte| b"+-".contains(byte));
        name.truncate(end.unwrap_or(name.len()));
    }
    name
}

fn new_ring(rings: &mut Rings) -> Option<Slot> {
    let map = rings.file.as_ref()?.ring(rings.next)?;
    rings.next += 1;
    // ORDERING: no pairing: the ring has been there, empty, since the file was made.
    control().nr_rings.store(rings.next, Ordering::Relaxed);
    let local = Local {
        writer: Writer::new(map),
        dropped: 0,
        session: 0,
        tid: 0,
        name: Vec::new(),
        known: Box::new([0; KNOWN_QUEUES]),
        functions: Box::new([0; KNOWN_FUNCTIONS]),
        ended: None,
    };
    Some(Slot(ptr::NonNull::from(Box::leak(Box::new(UnsafeCell::new(local))))))
}

/// The calling thread's ring, unless it has none: then the event is counted as lost.
fn with(f: impl FnOnce(&mut Local)) {
    let ring = RING.get();
    if ring.is_null() {
        return lose_one();
    }
    // SAFETY: this thread's alone; not reentered, since nothing that `f` does traces.
    f(unsafe { &mut *(*ring).get() });
}

fn lose_one() {
    lose_some(1);
}

#[cold]
fn lose_some(count: u64) {
    control().lost.fetch_add(count, Ordering::Relaxed);
}

/// Now and here, unless tracing has ended by itself.
#[inline]
pub(super) fn moment() -> Option<Moment> {
    let stamp = control::now();
    is_leased(stamp).then(|| Moment { stamp, cpu: current_cpu() })
}

/// Writes an event of that moment. Of what was switched on; the caller has looked.
#[inline(always)]
pub(super) fn record(event: &Event, moment: Moment) {
    let Some(ring) = ptr::NonNull::new(RING.get().cast_mut()) else { return lose_one() };
    // SAFETY: as in `with`.
    unsafe { &mut *ring.as_ref().get() }.push_event(event, moment);
}

/// As [`record`], of a start at the moment at which the item became active, which is traced, too.
#[inline(always)]
pub(super) fn record_begin(event: &Event, moment: Moment) {
    let Some(ring) = ptr::NonNull::new(RING.get().cast_mut()) else { return lose_some(2) };
    // SAFETY: as in `with`.
    unsafe { &mut *ring.as_ref().get() }.push_begin(event, moment);
}

/// As [`record`], of the end of run `seq`, whose moment is [kept](end_of_run).
#[inline(always)]
pub(super) fn record_end(event: &Event, seq: u64, moment: Moment) {
    let Some(ring) = ptr::NonNull::new(RING.get().cast_mut()) else { return lose_one() };
    // SAFETY: as in `with`.
    let local = unsafe { &mut *ring.as_ref().get() };
    local.push_event(event, moment);
    local.ended = Some((event.pool, seq, moment));
}

/// When a run of the calling thread ended, if it was the last one whose end was written.
#[inline(always)]
pub(super) fn end_of_run(pool: u32, seq: u64) -> Option<Moment> {
    let ring = ptr::NonNull::new(RING.get().cast_mut())?;
    // SAFETY: as in `with`.
    let (of_pool, of_seq, moment) = unsafe { &*ring.as_ref().get() }.ended?;
    ((of_pool, of_seq) == (pool, seq)).then_some(moment)
}

/// Whether the calling thread knows that the name of a queue was told, and remembers that it has
/// told what a function is for.
#[inline]
pub(super) fn knows_names(wq: u32, func: usize) -> bool {
    // SAFETY: null, or as in `with`.
    let Some(local) = (unsafe { RING.get().as_ref().map(|ring| &*ring.get()) }) else {
        return false;
    };
    local.session == control().session.load(Ordering::Relaxed)
        && local.known[place_of_queue(wq)] == mark_of(wq)
        && local.functions[place_of_function(func)] == func
}

fn place_of_queue(wq: u32) -> usize {
    wq as usize % KNOWN_QUEUES
}

/// What tells the queue that has the key from those that had it. Never 0.
fn mark_of(wq: u32) -> u64 {
    // ORDERING: no pairing: whoever has the new queue has it from who made it, after this one went.
    let gone = GONE[place_of_queue(wq)].load(Ordering::Relaxed);
    u64::from(gone) << 32 | u64::from(wq.wrapping_add(1))
}

/// The queue of this key has gone. Before another one gets it.
pub(super) fn forget_queue(wq: u32) {
    GONE[place_of_queue(wq)].fetch_add(1, Ordering::Relaxed);
}

fn place_of_function(func: usize) -> usize {
    (func >> 4) % KNOWN_FUNCTIONS
}

/// Tells the name of a queue, unless the calling thread knows that it was told, by whoever.
#[inline]
pub(super) fn name_queue<Q: TracedQueue>(wq: u32, find: impl FnOnce() -> Option<Arc<Q>>) {
    let ring = RING.get();
    if ring.is_null() {
        return;
    }
    // SAFETY: as in `with`.
    let local = unsafe { &mut *(*ring).get() };
    local.meet_session();
    let (place, mark) = (place_of_queue(wq), mark_of(wq));
    let may_tell = local.known[place] != mark && local.writer.has_room(ROOM);
    // Who finds none knows nothing of the one that will have the number.
    if may_tell && find().is_some_and(|queue| local.tell_queue(&*queue)) {
        local.known[place] = mark;
    }
}

/// Tells the name of a queue, unless that was done, by whoever.
#[inline]
pub(super) fn tell_queue(queue: &impl TracedQueue) {
    if queue.is_new_to(control().session.load(Ordering::Relaxed)) {
        // For want of room it is told with a later event.
        with(|local| _ = local.tell_queue(queue));
    }
}

/// Tells what a function is for, if `find` knows, unless the calling thread did lately.
#[inline(always)]
pub(super) fn name_function(func: usize, find: fn(usize) -> Option<&'static str>) {
    let Some(ring) = ptr::NonNull::new(RING.get().cast_mut()) else { return };
    // SAFETY: as in `with`.
    let local = unsafe { &mut *ring.as_ref().get() };
    let is_known = local.session == control().session.load(Ordering::Relaxed)
        && local.functions[place_of_function(func)] == func;
    if !is_known {
        local.name_function(func, find);
    }
}

#[inline]
fn current_cpu() -> u16 {
    sense::sched::current_cpu().unwrap_or(0) as u16
}

impl Local {
    #[inline(always)]
    fn push_event(&mut self, event: &Event, Moment { stamp, cpu }: Moment) {
        self.push(&Event { stamp, cpu, ..*event }.pack(), stamp, 1);
    }

    #[inline(always)]
    fn push_begin(&mut self, event: &Event, Moment { stamp, cpu }: Moment) {
        self.push(&Event { stamp, cpu, ..*event }.pack_begin(), stamp, 2);
    }

    /// Words that tell of so many events.
    #[inline(always)]
    fn push(&mut self, words: &[u64; WORDS], stamp: u64, events: u64) {
        self.meet_session();
        if !self.writer.has_room(ROOM) {
            self.dropped += events;
            self.writer.memory().ring().dropped.store(self.dropped, Ordering::Relaxed);
            return;
        }
        if self.tid != 0 {
            self.introduce(stamp);
        }
        self.writer.push(words);
    }

    /// Tells the name of a queue, unless somebody else has. `false`: there is no room.
    #[cold]
    fn tell_queue(&mut self, queue: &impl TracedQueue) -> bool {
        let session = control().session.load(Ordering::Relaxed);
        if !queue.is_new_to(session) {
            return true;
        }
        let stamp = control::now();
        let is_told = self.tell(event::pack_name(stamp, queue.key(), queue.name()), stamp);
        if is_told {
            queue.is_named_to(session);
        }
        is_told
    }

    #[cold]
    fn name_function(&mut self, func: usize, find: fn(usize) -> Option<&'static str>) {
        self.meet_session();
        let place = place_of_function(func);
        let may_tell = self.functions[place] != func && self.writer.has_room(ROOM);
        if may_tell && find(func).is_none_or(|name| self.tell_function(func, name)) {
            self.functions[place] = func;
        }
    }

    #[cold]
    fn tell_function(&mut self, func: usize, name: &str) -> bool {
        let stamp = control::now();
        self.tell(event::pack_function(stamp, func as u64, name), stamp)
    }

    /// Writes all of a name, if there is room for that.
    fn tell(&mut self, name: impl ExactSizeIterator<Item = [u64; WORDS]>, stamp: u64) -> bool {
        self.meet_session();
        // And one that says whose it is.
        if !self.writer.has_room(name.len() as u64 + 1) {
            return false;
        }
        if self.tid != 0 {
            self.introduce(stamp);
        }
        name.for_each(|words| self.writer.push(&words));
        true
    }

    /// A new reader knows nothing.
    #[inline]
    fn meet_session(&mut self) {
        let session = control().session.load(Ordering::Relaxed);
        if self.session != session {
            self.forget(session);
        }
    }

    #[cold]
    fn forget(&mut self, session: u32) {
        self.session = session;
        self.known.fill(0);
        self.functions.fill(0);
        self.tid = u32::try_from(sense::sched::gettid()).unwrap_or_default();
    }

    /// Says whose events follow. There must be room for that and one of them.
    #[cold]
    fn introduce(&mut self, stamp: u64) {
        self.writer.push(&event::pack_thread(stamp, self.tid, &self.name));
        self.tid = 0;
    }
}
