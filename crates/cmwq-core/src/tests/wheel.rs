//! The timing wheel against a sorted map.

use core::ptr::NonNull;
use std::boxed::Box;
use std::collections::BTreeSet;
use std::format;
use std::vec::Vec;

use super::support::{Rng, steps, with_seeds};
use crate::{Nanos, TICK_NS, Timer, Wheel};

type TimerPtr = NonNull<Timer>;

/// Ticks that the seven levels of 64 slots span.
const REACH: Nanos = TICK_NS << 42;

/// A wheel, its timers, and when each armed one must come.
struct Timers {
    wheel: Wheel,
    now: Nanos,
    timers: Vec<TimerPtr>,
    /// `(tick, timer)`: the first tick that begins at or after the time asked for, or the last one.
    due: BTreeSet<(u64, usize)>,
}

impl Timers {
    fn new(now: Nanos, n: usize) -> Self {
        let timers = (0..n).map(|_| NonNull::from(Box::leak(Box::new(Timer::new())))).collect();
        Self { wheel: Wheel::new(now), now, timers, due: BTreeSet::new() }
    }

    fn arm(&mut self, timer: usize, at: Nanos) {
        // SAFETY: boxed until the end, and not armed.
        unsafe { self.wheel.arm(self.timers[timer], at) };
        self.due.insert((at.min(Wheel::LATEST).div_ceil(TICK_NS), timer));
    }

    fn arm_anew(&mut self, timer: usize, at: Nanos) {
        self.due.retain(|&(_, t)| t != timer);
        // SAFETY: boxed until the end.
        unsafe { self.wheel.arm_anew(self.timers[timer], at) };
        self.due.insert((at.min(Wheel::LATEST).div_ceil(TICK_NS), timer));
    }

    fn cancel(&mut self, timer: usize) -> bool {
        self.due.retain(|&(_, t)| t != timer);
        // SAFETY: boxed until the end.
        unsafe { self.wheel.cancel(self.timers[timer]) }
    }

    fn is_armed(&self, timer: usize) -> bool {
        // SAFETY: boxed until the end.
        unsafe { self.wheel.is_armed(self.timers[timer]) }
    }

    /// Moves the clock and takes what is due, which must be exactly what the map says.
    fn expire_at(&mut self, now: Nanos) -> Vec<usize> {
        self.now = now;
        let mut expired = Vec::new();
        while let Some(timer) = self.wheel.expire(now) {
            let index = self.timers.iter().position(|&t| t == timer).expect("a timer of ours");
            expired.push(index);
        }
        let later = self.due.split_off(&(now / TICK_NS + 1, 0));
        let due = core::mem::replace(&mut self.due, later);
        let mut expected: Vec<usize> = due.into_iter().map(|(_, timer)| timer).collect();
        expected.sort_unstable();
        let mut sorted = expired.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected, "at {now}");
        self.check();
        expired
    }

    /// When nothing is due any more.
    fn check(&self) {
        assert_eq!(self.wheel.len(), self.due.len());
        assert_eq!(self.wheel.is_empty(), self.due.is_empty());
        let first = self.due.first().map(|&(tick, _)| tick.saturating_mul(TICK_NS));
        let next = self.wheel.next_deadline();
        assert_eq!(next.is_some(), first.is_some());
        assert!(next <= first, "too late: {next:?}, but a timer is due at {first:?}");
        assert!(next.is_none_or(|at| at > self.now), "{next:?} would spin at {}", self.now);
        let armed = (0..self.timers.len()).filter(|&timer| self.is_armed(timer));
        assert!(armed.eq(self.due.iter().map(|&(_, timer)| timer).collect::<BTreeSet<_>>()));
    }

    /// Follows `next_deadline` until nothing is armed, as a driver does. Returns how often it woke
    /// up.
    fn drain(&mut self) -> usize {
        let mut wake_ups = 0;
        while let Some(next) = self.wheel.next_deadline() {
            self.expire_at(next);
            wake_ups += 1;
        }
        wake_ups
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        for &timer in &self.timers {
            // SAFETY: unlinked by `cancel`, if it was armed, and freed once.
            unsafe {
                self.wheel.cancel(timer);
                drop(Box::from_raw(timer.as_ptr()));
            }
        }
    }
}

/// A span of any order of magnitude up to `2^bits`.
fn span(rng: &mut Rng, bits: usize) -> Nanos {
    rng.next() >> (64 - rng.below(bits + 1)).min(63)
}

fn random_history(rng: &mut Rng, start: Nanos) {
    let mut t = Timers::new(start, 12);
    for _ in 0..steps(400, 40) {
        let timer = rng.below(t.timers.len());
        let armed = t.is_armed(timer);
        match rng.below(10) {
            0..=4 if !armed => t.arm(timer, t.now.saturating_add(span(rng, 64))),
            0..=1 => assert!(t.cancel(timer)),
            2 if !armed => assert!(!t.cancel(timer)),
            2 | 4 => t.arm_anew(timer, t.now.saturating_add(span(rng, 64))),
            3 => {
                // A little before the next timer is due.
                let next = t.due.first().map_or(t.now, |&(tick, _)| tick.saturating_mul(TICK_NS));
                t.expire_at(next.saturating_sub(1).max(t.now));
            }
            5..=6 => {
                let next = t.wheel.next_deadline();
                t.expire_at(next.unwrap_or(t.now).max(t.now));
            }
            _ => {
                let ahead = span(rng, 59);
                t.expire_at(t.now.saturating_add(ahead));
            }
        }
    }
}

#[test]
fn agrees_with_a_sorted_map() {
    with_seeds(40, |rng| {
        let start = span(rng, 60);
        random_history(rng, start);
    });
}

#[test]
fn agrees_with_a_sorted_map_where_the_top_level_wraps() {
    with_seeds(40, |rng| {
        let round = 1 + rng.below(4) as u64;
        let before = span(rng, 58);
        random_history(rng, round * REACH - before);
    });
}

#[test]
fn agrees_with_a_sorted_map_on_short_times() {
    with_seeds(20, |rng| {
        let mut t = Timers::new(span(rng, 40), 20);
        for _ in 0..steps(1000, 60) {
            let timer = rng.below(t.timers.len());
            if t.is_armed(timer) {
                let ahead = span(rng, 24);
                t.expire_at(t.now + ahead);
            } else {
                let delay = span(rng, 30);
                t.arm(timer, t.now + delay);
            }
        }
    });
}

#[test]
fn following_the_deadlines_takes_few_wake_ups() {
    with_seeds(20, |rng| {
        let mut t = Timers::new(span(rng, 62), 20);
        for timer in 0..20 {
            let delay = span(rng, 59);
            t.arm(timer, t.now + delay);
        }
        let wake_ups = t.drain();
        assert!(wake_ups <= 20 * 7, "at most one for each timer and level, not {wake_ups}");
    });
}

#[test]
fn a_timer_never_comes_early_and_at_most_a_tick_late() {
    let start = 10 * TICK_NS;
    for at in [start + 1, start + TICK_NS - 1, start + TICK_NS] {
        let mut t = Timers::new(start, 1);
        t.arm(0, at);
        assert!(t.expire_at(at - 1).is_empty());
        assert_eq!(t.expire_at(start + TICK_NS), [0]);
    }
}

#[test]
fn a_time_that_has_passed_is_due_at_once() {
    let mut t = Timers::new(1000 * TICK_NS, 3);
    t.arm(0, 0);
    t.arm(1, 1000 * TICK_NS);
    assert_eq!(t.wheel.next_deadline(), Some(1000 * TICK_NS));
    t.arm(2, 1001 * TICK_NS);
    assert_eq!(t.expire_at(1000 * TICK_NS), [0, 1]);
    assert_eq!(t.expire_at(1001 * TICK_NS), [2]);
}

#[test]
fn timers_come_in_the_order_of_their_ticks() {
    let mut t = Timers::new(0, 5);
    for (timer, ticks) in [(0, 5000), (1, 3), (2, 70), (3, 300_000), (4, 3)] {
        t.arm(timer, ticks * TICK_NS);
    }
    assert_eq!(t.expire_at(1_000_000 * TICK_NS), [1, 4, 2, 0, 3]);
}

#[test]
fn a_timer_can_be_armed_again_after_it_came_or_was_cancelled() {
    let mut t = Timers::new(0, 1);
    for round in 1..5 {
        t.arm(0, round * 100 * TICK_NS);
        assert_eq!(t.expire_at(round * 100 * TICK_NS), [0]);
        t.arm(0, round * 100 * TICK_NS + 1);
        assert!(t.cancel(0));
        assert!(!t.cancel(0));
        assert!(t.expire_at(round * 100 * TICK_NS + 5 * TICK_NS).is_empty());
    }
}

#[test]
fn an_expired_timer_that_was_not_collected_can_be_cancelled() {
    let mut t = Timers::new(0, 2);
    t.arm(0, TICK_NS);
    t.arm(1, TICK_NS);
    // The first is collected; the other is due, but the caller comes back only later.
    assert_eq!(t.wheel.expire(TICK_NS), Some(t.timers[0]));
    t.due.remove(&(1, 0));
    assert!(t.is_armed(1));
    assert!(t.cancel(1));
    assert!(t.expire_at(5 * TICK_NS).is_empty());
}

#[test]
fn a_timer_beyond_the_wheels_reach_comes_all_the_same() {
    for start in [0, 1, TICK_NS, 12345 * TICK_NS, REACH - TICK_NS, REACH, 3 * REACH + 17] {
        let mut t = Timers::new(start, 2);
        t.arm(0, start + REACH + 5 * TICK_NS);
        t.arm(1, start + 4 * REACH);
        let wake_ups = t.drain();
        assert!(wake_ups <= 30, "{wake_ups} from {start}");
    }
}

#[test]
fn the_end_of_time_is_not_now() {
    let mut t = Timers::new(5 * TICK_NS, 2);
    t.arm(0, Wheel::LATEST);
    // SAFETY: boxed until the end.
    assert_eq!(unsafe { Wheel::due(t.timers[0]) }, Wheel::LATEST);
    for exponent in 20..64 {
        assert!(t.expire_at(1 << exponent).is_empty());
    }
    t.arm(1, (1 << 63) + 1000 * TICK_NS);
    // SAFETY: as above.
    assert_eq!(unsafe { Wheel::due(t.timers[1]) }, (1 << 63) + 1000 * TICK_NS);
    assert_eq!(t.expire_at(Nanos::MAX - TICK_NS), [1]);
    assert!(t.cancel(0));
}

#[test]
fn what_is_never_due_is_due_at_the_end_of_time() {
    for at in [Wheel::LATEST, Wheel::LATEST + 1, Nanos::MAX] {
        let mut t = Timers::new(5 * TICK_NS, 1);
        t.arm(0, at);
        // SAFETY: boxed until the end.
        assert_eq!(unsafe { Wheel::due(t.timers[0]) }, Wheel::LATEST);
        assert!(t.expire_at(Wheel::LATEST - 1).is_empty());
        assert_eq!(t.expire_at(Nanos::MAX), [0]);
    }
}

#[test]
fn a_clock_that_stands_still_or_goes_back_does_no_harm() {
    let mut t = Timers::new(100 * TICK_NS, 1);
    t.arm(0, 200 * TICK_NS);
    assert_eq!(t.wheel.expire(150 * TICK_NS), None);
    assert_eq!(t.wheel.expire(120 * TICK_NS), None);
    assert!(t.expire_at(150 * TICK_NS).is_empty());
    assert_eq!(t.expire_at(200 * TICK_NS), [0]);
}

#[test]
fn debug_tells_the_time_and_the_number_of_timers() {
    let mut t = Timers::new(7 * TICK_NS, 1);
    t.arm(0, 50 * TICK_NS);
    assert_eq!(format!("{:?}", t.wheel), "Wheel { elapsed: 7, len: 1 }");
}
