//! Whose turn it is: the oldest of the commands that wait, when it may start.
//!
//! Whether it may and which one it is are decided under one lock, so commands start in order, and
//! none is left out while a younger one starts.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::memory::Memory;
use super::running::{Going, Running};
use crate::message;

/// When to look again whether memory or processes are short.
pub(super) const SHORT_WAIT: Duration = Duration::from_millis(100);

/// When to look again whether output is behind.
const READER_WAIT: Duration = Duration::from_millis(10);

/// One command.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) words: Vec<OsString>,
    pub(super) tag: Option<Vec<u8>>,
}

/// Whether a command may start.
#[derive(Debug)]
pub(super) enum Turn {
    /// This one. It counts as busy until somebody says [`Turns::ended`].
    Now(Job),
    /// None before so long: who asks asks again then, for others, too.
    Wait(Duration),
    /// None now, and somebody else asks again: who asks does not.
    Never,
    /// Never this one.
    LeftOut(Job),
}

/// See the module header.
#[derive(Debug)]
pub(super) struct Turns {
    delay: Duration,
    memory: Memory,
    said_short: AtomicBool,
    said_scarce: AtomicBool,
    // ORDERING (all accesses): no pairing: a number, which only grows under the lock of `line`.
    busy: AtomicU64,
    line: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    /// Oldest first; for each somebody asks, or has given up.
    jobs: VecDeque<Job>,
    /// Somebody waits, and asks again.
    has_asker: bool,
    /// So many have given up for it: whoever takes a command has the next one ask.
    given_up: usize,
    /// Before then none starts.
    next_start: Instant,
}

impl Turns {
    pub(super) fn new(delay: Duration, memory: Memory) -> Self {
        let line = Line {
            jobs: VecDeque::new(),
            has_asker: false,
            given_up: 0,
            next_start: Instant::now(),
        };
        Self {
            delay,
            memory,
            said_short: AtomicBool::new(false),
            said_scarce: AtomicBool::new(false),
            busy: AtomicU64::new(0),
            line: Mutex::new(line),
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another command waits. Whoever calls this asks for a turn, once, whenever that is.
    pub(super) fn add(&self, job: Job) {
        self.line().jobs.push_back(job);
    }

    /// Takes the oldest that waits, unless it has to go on waiting, as it does where output is
    /// behind. `has_waited`: by [`Turn::Wait`]. Whoever gets a command calls [`Self::next`].
    pub(super) fn ask(&self, running: &Running, is_behind: bool, has_waited: bool) -> Turn {
        let mut line = self.line();
        line.has_asker &= !has_waited;
        let is_over = running.going() != Going::On;
        let wait = match () {
            () if is_over => None,
            () if is_behind => Some(READER_WAIT),
            () => self.wait(&mut line),
        };
        if let Some(wait) = wait {
            if line.has_asker {
                line.given_up += 1;
                return Turn::Never;
            }
            line.has_asker = true;
            return Turn::Wait(wait);
        }
        let job = line.jobs.pop_front().expect("a command for each that asks");
        if is_over { Turn::LeftOut(job) } else { Turn::Now(job) }
    }

    /// Whether another one is to ask at once, in place of one that has given up.
    pub(super) fn next(&self) -> bool {
        let mut line = self.line();
        let has_next = line.given_up > 0;
        line.given_up -= usize::from(has_next);
        has_next
    }

    /// Waits until one that has failed may start again, as one that waits for its first start, but
    /// in front of these. While it waits it is not busy: others are not waited for in vain.
    /// `false`: never.
    pub(super) fn again(&self, running: &Running) -> bool {
        self.ended();
        loop {
            let mut line = self.line();
            if running.going() != Going::On {
                self.busy.fetch_add(1, Relaxed);
                return false;
            }
            let Some(wait) = self.wait(&mut line) else { return true };
            drop(line);
            thread::sleep(wait);
        }
    }

    /// How long the next has to wait. `None`: it starts, and is busy from now on.
    fn wait(&self, line: &mut Line) -> Option<Duration> {
        // What runs gives memory back; where nothing runs, waiting does not help.
        let shortage = self.memory.shortage();
        if let Some(shortage) = &shortage
            && self.busy.load(Relaxed) > 0
        {
            if !self.said_short.swap(true, Relaxed) {
                message::say(format_args!(
                    "memory is short ({shortage}): nothing starts until a command has ended"
                ));
            }
            return Some(SHORT_WAIT);
        }
        if shortage.is_none() {
            self.said_short.store(false, Relaxed);
        }
        let now = Instant::now();
        if line.next_start > now {
            // In parts: it may be told to end meanwhile.
            return Some((line.next_start - now).min(SHORT_WAIT));
        }
        line.next_start = now + self.delay;
        self.busy.fetch_add(1, Relaxed);
        None
    }

    /// The system could not start one, as `error` says, and what runs has to end first.
    pub(super) fn hold(&self, error: &io::Error) {
        let mut line = self.line();
        line.next_start = line.next_start.max(Instant::now() + SHORT_WAIT);
        drop(line);
        if !self.said_scarce.swap(true, Relaxed) {
            message::say(format_args!(
                "no other command can be started now ({error}): the next waits until one has ended"
            ));
        }
    }

    /// One that started has ended.
    pub(super) fn ended(&self) {
        self.busy.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Floor;
    use super::*;

    /// What `ask` says of so many commands, asked for by four threads while the end comes.
    fn ask(nr: u64) -> (Vec<u64>, Vec<u64>) {
        let turns = Turns::new(Duration::ZERO, Memory::new(Some(Floor::Off)));
        for number in 0..4 * nr {
            turns.add(Job { number, words: Vec::new(), tag: None });
        }
        let running = Running::default();
        let (mut started, mut left_out) = (Vec::new(), Vec::new());
        thread::scope(|scope| {
            let askers = [(); 4].map(|()| {
                let asks =
                    || (0..nr).map(|_| turns.ask(&running, false, false)).collect::<Vec<_>>();
                scope.spawn(asks)
            });
            while turns.busy.load(Relaxed) < nr {
                thread::yield_now();
            }
            running.end_soon();
            for turn in askers.into_iter().flat_map(|asker| asker.join().unwrap()) {
                match turn {
                    Turn::Now(job) => started.push(job.number),
                    Turn::LeftOut(job) => left_out.push(job.number),
                    Turn::Wait(_) | Turn::Never => panic!("there is nothing to wait for"),
                }
            }
        });
        (started, left_out)
    }

    fn busy(turns: &Turns) -> u64 {
        turns.busy.load(Relaxed)
    }

    /// Memory is always short here.
    fn short(nr: u64) -> Turns {
        let turns = Turns::new(Duration::ZERO, Memory::new(Some(Floor::Bytes(u64::MAX))));
        turns.busy.store(nr, Relaxed);
        turns
    }

    #[test]
    fn one_that_starts_again_waits_for_memory_while_another_runs() {
        let (turns, running) = (short(1), Running::default());
        assert!(turns.again(&running), "nothing else runs");
        assert_eq!(busy(&turns), 1);
        let turns = short(2);
        thread::scope(|scope| {
            let again = scope.spawn(|| turns.again(&running));
            while !turns.said_short.load(Relaxed) {
                assert!(!again.is_finished(), "it waits");
                thread::yield_now();
            }
            turns.ended();
            assert!(again.join().unwrap());
        });
        assert_eq!(busy(&turns), 1);
    }

    /// Both would wait for each other.
    #[test]
    fn those_that_wait_to_start_again_do_not_run() {
        let (turns, running) = (short(2), Running::default());
        thread::scope(|scope| {
            let [one, other] = [(); 2].map(|()| scope.spawn(|| turns.again(&running)));
            while !one.is_finished() && !other.is_finished() {
                thread::yield_now();
            }
            turns.ended();
            assert!(one.join().unwrap() && other.join().unwrap());
        });
        assert_eq!(busy(&turns), 1);
    }

    #[test]
    fn one_that_waits_to_start_again_does_not_when_nothing_starts_any_more() {
        let (turns, running) = (short(2), Running::default());
        thread::scope(|scope| {
            let again = scope.spawn(|| turns.again(&running));
            while !turns.said_short.load(Relaxed) {
                thread::yield_now();
            }
            running.end_soon();
            assert!(!again.join().unwrap());
        });
        assert_eq!(busy(&turns), 2, "who asks has not ended");
    }

    #[test]
    fn none_starts_while_output_is_behind_and_none_waits_for_it_in_the_end() {
        let turns = Turns::new(Duration::ZERO, Memory::new(Some(Floor::Off)));
        for number in [1, 2] {
            turns.add(Job { number, words: Vec::new(), tag: None });
        }
        let running = Running::default();
        assert!(matches!(turns.ask(&running, true, false), Turn::Wait(READER_WAIT)));
        let first = turns.ask(&running, false, true);
        assert!(matches!(first, Turn::Now(Job { number: 1, .. })));
        running.end_soon();
        let second = turns.ask(&running, true, false);
        assert!(matches!(second, Turn::LeftOut(Job { number: 2, .. })));
        assert_eq!(busy(&turns), 1);
    }

    /// Hundreds may be known, for hours.
    #[test]
    fn one_asks_again_for_all_that_wait() {
        let turns = Turns::new(Duration::from_secs(600), Memory::new(Some(Floor::Off)));
        for number in 0..5 {
            turns.add(Job { number, words: Vec::new(), tag: None });
        }
        let running = Running::default();
        assert!(matches!(turns.ask(&running, false, false), Turn::Now(_)));
        assert!(!turns.next());
        assert!(matches!(turns.ask(&running, false, false), Turn::Wait(_)));
        for _ in 0..2 {
            assert!(matches!(turns.ask(&running, false, false), Turn::Never));
        }
        assert!(matches!(turns.ask(&running, false, true), Turn::Wait(_)), "it is still that one");
        turns.line().next_start = Instant::now();
        assert!(matches!(turns.ask(&running, false, true), Turn::Now(_)));
        assert!(turns.next());
        assert!(matches!(turns.ask(&running, false, false), Turn::Wait(_)), "the next asks now");
        running.end_soon();
        assert!(matches!(turns.ask(&running, false, true), Turn::LeftOut(_)));
        assert!(turns.next());
        assert!(matches!(turns.ask(&running, false, false), Turn::LeftOut(_)));
        assert!(!turns.next(), "none has given up that was not asked to come back");
    }

    #[test]
    fn none_is_left_out_while_a_younger_one_starts() {
        for _ in 0..200 {
            let (started, left_out) = ask(200);
            assert_eq!(started.len() + left_out.len(), 800);
            let youngest = started.iter().max().expect("they are asked for before the end");
            let oldest = left_out.iter().min().copied().unwrap_or(u64::MAX);
            assert!(*youngest < oldest, "{oldest} was left out, and {youngest} started");
        }
    }
}
