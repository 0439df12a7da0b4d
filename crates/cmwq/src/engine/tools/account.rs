//! A queue's account of its closures, if it was asked to keep one: how many wait, and samples of
//! how long they wait and run.
//!
//! A queue without an account pays one test of a pointer for each closure. With an account each
//! closure is wrapped: it carries a [`Ticket`], which records when it begins and ends, or that it
//! never will.
//!
//! Why: docs/decisions/times-of-closures.md

use std::time::{Duration, Instant};

use crate::engine::tools::histogram::{Recorder, Times};
use crate::os::generation;
use crate::os::sync::{Arc, AtomicU64, Ordering};

mod oldest;

use oldest::{Generation, Note, Oldest};

/// See the module header.
#[derive(Debug)]
pub(crate) struct Account {
    room: Option<Room>,
    samples: Option<Samples>,
}

impl Account {
    /// `None`: nothing was asked for.
    pub(crate) fn new(max_queued: Option<u32>, sample_every: u32) -> Option<Arc<Self>> {
        let room = max_queued.map(Room::new);
        let samples = (sample_every > 0).then(|| Samples::new(sample_every));
        (room.is_some() || samples.is_some()).then(|| Arc::new(Self { room, samples }))
    }

    pub(crate) fn max_queued(&self) -> Option<u32> {
        self.room.as_ref().map(|room| room.most)
    }

    pub(crate) fn times(&self) -> Option<Times> {
        self.samples.as_ref().map(Samples::times)
    }

    /// How long the oldest of the sampled closures has waited.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.samples.as_ref().and_then(Samples::oldest)
    }

    /// A closure is let in, whether there is room or not.
    pub(crate) fn enter(self: &Arc<Self>) -> Ticket {
        let place = self.room.as_ref().map(|room| room.take(u32::MAX).unwrap_or(Place::NONE));
        self.ticket(place)
    }

    /// A closure is let in if there is room.
    pub(crate) fn try_enter(self: &Arc<Self>) -> Option<Ticket> {
        let place = match &self.room {
            Some(room) => Some(room.take(room.most)?),
            None => None,
        };
        Some(self.ticket(place))
    }

    fn ticket(self: &Arc<Self>, place: Option<Place>) -> Ticket {
        let sample = self.samples.as_ref().and_then(Samples::begin);
        Ticket { account: Arc::clone(self), place, sample }
    }
}

/// A closure's part in its queue's account, until it begins or is let go.
#[derive(Debug)]
pub(crate) struct Ticket {
    account: Arc<Account>,
    place: Option<Place>,
    sample: Option<Sample>,
}

impl Ticket {
    /// Runs `func`, the closure that the ticket is for.
    pub(crate) fn run<T>(mut self, func: impl FnOnce() -> T) -> T {
        let _running = self.begin();
        func()
    }

    /// The closure begins.
    fn begin(&mut self) -> Option<Running<'_>> {
        let waited = self.sample.take().map(|sample| self.samples().waited(&sample));
        self.leave();
        waited.map(|since| Running { samples: self.samples(), since })
    }

    fn samples(&self) -> &Samples {
        self.account.samples.as_ref().expect("a sample was taken")
    }

    fn leave(&mut self) {
        if let (Some(room), Some(place)) = (&self.account.room, self.place.take()) {
            room.give(&place);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
        if let Some(sample) = self.sample.take() {
            self.samples().forget(&sample);
        }
    }
}

/// Records the end of a function, also of one that panics.
struct Running<'a> {
    samples: &'a Samples,
    since: Instant,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.samples.running.add(self.since.elapsed());
    }
}

// ---- room

/// How many closures wait, and how many may. Closures that wait in the parent of a forked child do
/// not count in the child.
#[derive(Debug)]
struct Room {
    most: u32,
    /// The generation of the process, see `fork`, and the number.
    taken: AtomicU64,
}

/// A closure that waits, with the generation of its process.
#[derive(Debug)]
struct Place(Option<u32>);

impl Place {
    /// More closures than can be counted.
    const NONE: Self = Self(None);
}

impl Room {
    fn new(most: u32) -> Self {
        Self { most, taken: AtomicU64::new(0) }
    }

    fn parts(word: u64) -> (u32, u32) {
        ((word >> 32) as u32, word as u32)
    }

    /// `None`: `most` closures wait already.
    fn take(&self, most: u32) -> Option<Place> {
        let now = generation::current();
        let more = |word| {
            let (generation, taken) = Self::parts(word);
            let taken = if generation == now { taken } else { 0 };
            (taken < most).then(|| u64::from(now) << 32 | u64::from(taken + 1))
        };
        // ORDERING: no pairing: a number.
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then_some(Place(Some(now)))
    }

    fn give(&self, place: &Place) {
        let less = |word| {
            let (generation, taken) = Self::parts(word);
            (place.0 == Some(generation) && taken > 0).then(|| word - 1)
        };
        // ORDERING: no pairing: a number. A place of the parent's generation is not given back
        // here.
        let _ = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

// ---- samples

/// Times of every `every`-th closure. What those that wait write is beside `next`, which each
/// closure writes.
#[derive(Debug)]
#[repr(C, align(64))]
struct Samples {
    next: AtomicU64,
    /// By times in µs since `epoch`.
    oldest: Oldest,
    every: u64,
    epoch: Instant,
    waiting: Recorder,
    running: Recorder,
}

/// A closure that waits.
#[derive(Debug)]
struct Sample {
    since: Instant,
    note: Note,
}

fn whose() -> Generation {
    Generation::of(generation::current())
}

impl Samples {
    fn new(every: u32) -> Self {
        Self {
            next: AtomicU64::new(0),
            oldest: Oldest::new(),
            every: every.into(),
            epoch: Instant::now(),
            waiting: Recorder::new(),
            running: Recorder::new(),
        }
    }

    fn begin(&self) -> Option<Sample> {
        // ORDERING: no pairing: a number.
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        turn.is_multiple_of(self.every).then(|| {
            let since = Instant::now();
            Sample { since, note: self.oldest.enter(whose(), self.stamp(since)) }
        })
    }

    fn stamp(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.epoch).as_micros();
        u64::try_from(since).unwrap_or(u64::MAX).max(1)
    }

    /// The closure begins. Returns the time.
    fn waited(&self, sample: &Sample) -> Instant {
        let now = Instant::now();
        self.oldest.begun(whose(), sample.note, self.stamp(sample.since));
        self.waiting.add(now.saturating_duration_since(sample.since));
        now
    }

    fn forget(&self, sample: &Sample) {
        self.oldest.left(whose(), sample.note);
    }

    fn oldest(&self) -> Option<Duration> {
        let oldest = self.oldest.since(whose())?;
        Some(Duration::from_micros(self.stamp(Instant::now()).saturating_sub(oldest)))
    }

    fn times(&self) -> Times {
        Times { waiting: self.waiting.read(), running: self.running.read() }
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_that_wait() {
        let account = Account::new(Some(2), 0).unwrap();
        let first = account.try_enter().unwrap();
        let second = account.try_enter().unwrap();
        assert!(account.try_enter().is_none());
        let third = account.enter();
        drop(first);
        assert!(account.try_enter().is_none(), "one too many was let in");
        let inside = second.run(|| account.try_enter());
        assert!(inside.is_some(), "what runs does not wait");
        drop((third, inside));
        let both = [(); 2].map(|()| account.try_enter());
        assert!(both.iter().all(Option::is_some) && account.try_enter().is_none());
    }

    /// As in a child: the generation is another one.
    #[test]
    fn places_of_another_generation_are_free() {
        let room = Room::new(1);
        let place = room.take(1).unwrap();
        assert!(room.take(1).is_none());
        let word = room.taken.load(Ordering::Relaxed);
        room.taken.store(word + (1 << 32), Ordering::Relaxed);
        let _mine = room.take(1).expect("what the parent has waiting does not wait here");
        room.give(&Place(Some(generation::current() + 1)));
        room.give(&Place::NONE);
        assert!(room.take(1).is_none(), "nor does it give a place back");
        room.give(&place);
        assert!(room.take(1).is_some());
    }

    #[test]
    fn every_so_many_th_is_timed_and_let_go_whatever_becomes_of_it() {
        let account = Account::new(None, 3).unwrap();
        assert!(account.oldest().is_none() && account.max_queued().is_none());
        let mut tickets: Vec<_> = (0..9).map(|_| account.enter()).collect();
        assert!(account.oldest().is_some());
        drop(tickets.pop());
        for ticket in tickets.drain(..7) {
            ticket.run(|| ());
        }
        assert!(account.oldest().is_none());
        let times = account.times().unwrap();
        assert_eq!((times.waiting.count(), times.running.count()), (3, 3));
        let ticket = account.enter();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            ticket.run(|| std::panic::resume_unwind(Box::new("expected")))
        }));
        assert!(panicked.is_err());
        assert_eq!(account.times().unwrap().running.count(), 4);
    }

    /// More than can be known by their own times.
    #[test]
    fn of_many_that_wait_the_oldest_is_told_and_all_are_timed() {
        let account = Account::new(None, 1).unwrap();
        let mut tickets: Vec<_> = (0..16).map(|_| account.enter()).collect();
        let others: Vec<_> = (0..32).map(|_| account.enter()).collect();
        let queued = Instant::now();
        for ticket in tickets.drain(..) {
            ticket.run(|| ());
        }
        let waited = queued.elapsed();
        // It is rounded.
        assert!(account.oldest().expect("32 wait") + Duration::from_micros(1) >= waited);
        for ticket in others {
            ticket.run(|| ());
        }
        assert_eq!(account.times().unwrap().waiting.count(), 48);
        assert_eq!(account.oldest(), None);
    }
}
