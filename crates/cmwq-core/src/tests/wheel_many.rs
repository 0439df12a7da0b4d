//! The timing wheel with so many timers that a slot is not emptied at once, against a sorted map.

use core::ptr::NonNull;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec::Vec;

use super::support::{Rng, steps, with_seeds};
use crate::{Nanos, TICK_NS, Timer, Wheel};

/// A wheel, its timers, and by tick those that must come.
struct Crowd {
    wheel: Wheel,
    now: Nanos,
    /// Boxed, and freed in the end. No box meanwhile: the wheel holds pointers to them.
    timers: NonNull<[Timer]>,
    /// When each one is due, in ticks; `None`: not armed.
    due_of: Vec<Option<u64>>,
    due: BTreeMap<u64, Vec<usize>>,
}

impl Crowd {
    fn new(now: Nanos, size: usize) -> Self {
        let timers: Box<[Timer]> = (0..size).map(|_| Timer::new()).collect();
        let timers = NonNull::from(Box::leak(timers));
        let due_of = std::vec![None; size];
        Self { wheel: Wheel::new(now), now, timers, due_of, due: BTreeMap::new() }
    }

    fn at(&self, timer: usize) -> NonNull<Timer> {
        assert!(timer < self.timers.len());
        // SAFETY: in bounds, as was just checked.
        unsafe { self.timers.cast::<Timer>().add(timer) }
    }

    fn index_of(&self, timer: NonNull<Timer>) -> usize {
        (timer.addr().get() - self.timers.addr().get()) / size_of::<Timer>()
    }

    fn arm(&mut self, timer: usize, delay: Nanos) {
        let (at, pointer) = (self.now.saturating_add(delay), self.at(timer));
        // SAFETY: boxed until the end, and not armed.
        let deadline = unsafe { self.wheel.arm(pointer, at) };
        let next = self.wheel.next_deadline().expect("one is armed");
        assert!(next <= deadline, "it asks for {deadline}, but the wheel's own is {next}");
        let tick = at.div_ceil(TICK_NS);
        self.due_of[timer] = Some(tick);
        self.due.entry(tick).or_default().push(timer);
    }

    fn cancel(&mut self, timer: usize) {
        let pointer = self.at(timer);
        // SAFETY: boxed until the end.
        let cancelled = unsafe { self.wheel.cancel(pointer) };
        assert_eq!(cancelled, self.due_of[timer].is_some());
        self.forget(timer);
    }

    /// Takes it out of the model. Returns its tick.
    fn forget(&mut self, timer: usize) -> Option<u64> {
        let tick = self.due_of[timer].take()?;
        let same = self.due.get_mut(&tick).expect("the model is consistent");
        same.retain(|&other| other != timer);
        if same.is_empty() {
            self.due.remove(&tick);
        }
        Some(tick)
    }

    /// One hold of the lock. Returns whether the driver has to come back at once.
    fn turn(&mut self, budget: usize) -> bool {
        let mut left = budget;
        let mut came = 0;
        while let Some(timer) = self.wheel.expire_some(self.now, &mut left) {
            came += 1;
            let timer = self.index_of(timer);
            let tick = self.forget(timer).expect("it came twice, or was not armed");
            assert!(tick <= self.now / TICK_NS, "early");
            // What was armed for a time that had passed may come after what is due later.
            let first = self.due.keys().next();
            assert!(first.is_none_or(|&first| first >= tick), "{tick} came before {first:?}");
        }
        assert!(came <= budget, "more than the lock may be held for");
        self.wheel.next_deadline().is_some_and(|at| at <= self.now)
    }

    /// Nothing is due any more, and the wheel knows when something will be.
    fn check(&self) {
        let first = self.due.keys().next().map(|tick| tick.saturating_mul(TICK_NS));
        assert!(
            first.is_none_or(|first| first > self.now),
            "{first:?} did not come by {}",
            self.now
        );
        let next = self.wheel.next_deadline();
        assert_eq!(next.is_some(), first.is_some());
        assert!(next <= first, "too late: {next:?}, but a timer is due at {first:?}");
        assert_eq!(self.wheel.len(), self.due_of.iter().flatten().count());
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for timer in 0..self.timers.len() {
            let pointer = self.at(timer);
            // SAFETY: boxed until the end of this.
            unsafe { self.wheel.cancel(pointer) };
        }
        // SAFETY: it was made of a box, and the wheel has none of them any more.
        drop(unsafe { Box::from_raw(self.timers.as_ptr()) });
    }
}

/// A delay of any order of magnitude up to `2^bits`.
fn delay(rng: &mut Rng, bits: usize) -> Nanos {
    1 + (rng.next() >> (64 - rng.below(bits) - 1).min(63))
}

/// Armed, cancelled, armed again and expired at random, a small part of the work at a time.
#[test]
fn a_crowd_agrees_with_a_sorted_map() {
    with_seeds(8, |rng| {
        let size = steps(6_000, 100);
        let mut crowd = Crowd::new(delay(rng, 60), size);
        // A little, or years; some all at nearly the same time, so that slots are crowded.
        let bits = [24, 33, 40, 61][rng.below(4)];
        let together = delay(rng, 36);
        for _ in 0..steps(60, 6) {
            for _ in 0..rng.below(size) {
                let timer = rng.below(size);
                if crowd.due_of[timer].is_some() {
                    crowd.cancel(timer);
                } else if rng.below(2) == 0 {
                    crowd.arm(timer, together + delay(rng, 24));
                } else {
                    let delay = delay(rng, bits);
                    crowd.arm(timer, delay);
                }
            }
            let ahead = delay(rng, bits.min(40));
            crowd.now = match rng.below(3) {
                0 => crowd.wheel.next_deadline().unwrap_or(0).max(crowd.now),
                _ => crowd.now.saturating_add(ahead),
            };
            while crowd.turn(1 + rng.below(200)) {
                // Time goes on meanwhile, or not, and others use the wheel.
                crowd.now += TICK_NS / 3 * rng.below(2) as Nanos;
                crowd.cancel(rng.below(size));
            }
            crowd.check();
        }
    });
}

/// A slot with a crowd comes up ahead of its time, and what is due meanwhile does not wait for it.
#[test]
fn a_crowded_slot_delays_nobody() {
    let size = steps(100_000, 200);
    let mut crowd = Crowd::new(0, size + 1);
    // In the slots that begin at tick 4096, of the third level.
    for timer in 0..size {
        crowd.arm(timer, (4096 + timer as u64 % 4096) * TICK_NS);
    }
    let mut most = 0;
    for tick in (1..8192).step_by(steps(1, 32)) {
        crowd.now = tick * TICK_NS;
        crowd.arm(size, 0);
        let mut holds = 1;
        while crowd.turn(64) {
            holds += 1;
        }
        assert!(crowd.due_of[size].is_none(), "due at once");
        most = most.max(holds);
        crowd.check();
    }
    assert_eq!(crowd.wheel.len(), 0);
    // A tick's share of two levels' slots, and the timers due: not thousands of holds in one tick.
    assert!(most <= 3 * 512 / 64, "{most} holds of the lock in one tick");
}
