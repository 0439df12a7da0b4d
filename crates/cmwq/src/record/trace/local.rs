//! The calling thread's ring.
//!
//! A thread gets one with its first event while tracing is on, outside of all core locks
//! ([`ready`]), keeps it until it ends, and gives it back to be used again. Events of a thread
//! without one are counted.
//!
//! Lock: `RINGS`, innermost.

use std::cell::{Cell, UnsafeCell};
use std::ptr;

use super::control::{self, TraceFile, control, is_leased};
use super::event::{self, Event, Kind, Moment, WORDS};
use super::map::RingMap;
use super::ring::Writer;
use crate::os::sense;
use crate::os::sync::{Ordering, PlainGuard, PlainMutex, lock_plain};

/// Queues whose names a ring remembers having told.
const KNOWN_QUEUES: usize = 512;
/// Functions whose names a ring remembers having told.
const KNOWN_FUNCTIONS: usize = 256;

/// A ring and what its thread has to remember.
#[derive(Debug)]
struct Local {
    writer: Writer<RingMap>,
    dropped: u64,
    /// The reader that knows whose ring it is.
    session: u32,
    tid: u32,
    name: Vec<u8>,
    /// Keys, one more than their value, of queues whose names need not be looked up: direct-mapped.
    known: Box<[u32; KNOWN_QUEUES]>,
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
    // closed it: see `Lasting`.
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

#[cold]
fn lose_one() {
    control().lost.fetch_add(1, Ordering::Relaxed);
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

/// As [`record`], an event of each of these kinds.
#[inline(always)]
pub(super) fn record_each(kinds: impl Iterator<Item = Kind>, event: &Event, moment: Moment) {
    let Some(ring) = ptr::NonNull::new(RING.get().cast_mut()) else {
        return kinds.for_each(|_| lose_one());
    };
    // SAFETY: as in `with`.
    let local = unsafe { &mut *ring.as_ref().get() };
    kinds.for_each(|kind| local.push_event(&Event { kind, ..*event }, moment));
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
        && local.known[place_of_queue(wq)] == wq.wrapping_add(1)
        && local.functions[place_of_function(func)] == func
}

fn place_of_queue(wq: u32) -> usize {
    wq as usize % KNOWN_QUEUES
}

fn place_of_function(func: usize) -> usize {
    (func >> 4) % KNOWN_FUNCTIONS
}

/// Tells the name of a queue, unless the calling thread knows that it was told, by whoever.
#[inline]
pub(super) fn name_queue(wq: u32, find: impl FnOnce(u32) -> Option<String>) {
    let ring = RING.get();
    if ring.is_null() {
        return;
    }
    let place = place_of_queue(wq);
    // SAFETY: as in `with`.
    let known = unsafe { &mut *(*ring).get() };
    known.meet_session();
    if known.known[place] != wq.wrapping_add(1) {
        known.known[place] = wq.wrapping_add(1);
        if let Some(name) = find(control().session.load(Ordering::Relaxed)) {
            tell_name(wq, &name);
        }
    }
}

/// Tells what a function is for, if `find` knows, unless the calling thread did lately.
#[inline]
pub(super) fn name_function(func: usize, find: fn(usize) -> Option<&'static str>) {
    let ring = RING.get();
    if ring.is_null() {
        return;
    }
    // SAFETY: as in `with`.
    let local = unsafe { &mut *(*ring).get() };
    local.meet_session();
    let place = &mut local.functions[place_of_function(func)];
    if *place != func {
        *place = func;
        if let Some(name) = find(func) {
            tell_function(func as u64, name);
        }
    }
}

#[cold]
fn tell_function(func: u64, name: &str) {
    let stamp = control::now();
    with(|local| {
        event::pack_function(stamp, func, name).for_each(|words| local.push(&words, stamp));
    });
}

/// Tells the name of a queue.
#[cold]
pub(super) fn tell_name(wq: u32, name: &str) {
    let stamp = control::now();
    with(|local| {
        event::pack_name(stamp, wq, name).for_each(|words| local.push(&words, stamp));
    });
}

#[inline]
fn current_cpu() -> u16 {
    sense::sched::current_cpu().unwrap_or(0) as u16
}

impl Local {
    #[inline(always)]
    fn push_event(&mut self, event: &Event, Moment { stamp, cpu }: Moment) {
        self.push(&Event { stamp, cpu, ..*event }.pack(), stamp);
    }

    #[inline(always)]
    fn push(&mut self, words: &[u64; WORDS], stamp: u64) {
        self.meet_session();
        if !self.writer.has_room(1) || (self.tid != 0 && !self.introduce(stamp)) {
            self.dropped += 1;
            self.writer.memory().ring().dropped.store(self.dropped, Ordering::Relaxed);
            return;
        }
        self.writer.push(words);
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

    /// Says whose events follow, if there is room for that and one of them.
    #[cold]
    fn introduce(&mut self, stamp: u64) -> bool {
        if !self.writer.has_room(2) {
            return false;
        }
        self.writer.push(&event::pack_thread(stamp, self.tid, &self.name));
        self.tid = 0;
        true
    }
}
