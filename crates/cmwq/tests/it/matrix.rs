//! Every operation in every state of an item, cell by cell as a real kernel answered.
//!
//! The table was read off Linux 6.12 (see `docs/compat.md`): what the call returned, `w` if it
//! waited, `b` what `work_busy` said right after, `r` how often the function had run when all was
//! over. A dash is a cell that cannot be asked here: the plain forms of an item whose timer is
//! armed, for which the safe interface has no call.
//!
//! | state | how it is made |
//! |---|---|
//! | idle | never queued |
//! | apend | on the worklist, behind an item that computes |
//! | ipend | inactive, behind an item that has the only slot |
//! | timer | a timer far away is armed |
//! | running | its function waits at a gate |
//! | running+pending | and it was queued again |
//! | disabled | |

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use cmwq::{DelayedWork, Work, Workqueue};

use crate::support::scene::{Scene, Stage};
use crate::support::{Gate, eventually, percpu, procfs, sys};

pub(crate) const SCENES: &[Scene] = &[("matrix::play", play)];

const STATES: [&str; 7] =
    ["idle", "apend", "ipend", "timer", "running", "running+pending", "disabled"];

/// Of `queue_work_other_wq`, `mod_delayed_work_zero` on an armed timer, the kernel's runs were
/// counted before the item had had its turn; here they are counted at the end.
const TABLE: &str = "
queue_work              |1 b1 r1|0 b1 r1|0 b1 r1|0 b1 r0|1 b3 r2|0 b3 r2|0 b0 r0
queue_work_other_wq     |1 b1 r1|0 b1 r1|0 b1 r1|0 b1 r0|1 b1 r2|0 b3 r2|0 b0 r0
cancel_work             |0 b0 r0|1 b0 r0|1 b0 r0|-|0 b2 r1|1 b2 r1|0 b0 r0
cancel_work_sync        |0 b0 r0|1 b0 r0|1 b0 r0|-|0 w b0 r1|1 w b0 r1|0 b0 r0
flush_work              |0 r0|1 w r1|1 w r1|-|1 w r1|1 w r2|0 r0
flush_delayed_work      |0 r0|1 w r1|1 w r1|1 w r1|1 w r1|1 w r2|0 r0
queue_delayed_work      |1 b1 r0|0 b1 r1|0 b1 r1|0 b1 r0|1 b3 r1|0 b3 r2|0 b0 r0
queue_delayed_work_zero |1 b1 r1|0 b1 r1|0 b1 r1|0 b1 r0|1 b3 r2|0 b3 r2|0 b0 r0
mod_delayed_work        |0 b1 r0|1 b1 r0|1 b1 r0|1 b1 r0|0 b3 r1|1 b3 r1|0 b0 r0
mod_delayed_work_zero   |0 b1 r1|1 b1 r1|1 b1 r1|1 b1 r1|0 b3 r2|1 b3 r2|0 b0 r0
cancel_delayed_work     |0 b0 r0|1 b0 r0|1 b0 r0|1 b0 r0|0 b2 r1|1 b2 r1|0 b0 r0
cancel_delayed_work_sync|0 r0|1 r0|1 r0|1 r0|0 w r1|1 w r1|0 r0
disable_work            |0 b0 r0|1 b0 r0|1 b0 r0|-|0 b2 r1|1 b2 r1|-
disable_work_sync       |0 r0|1 r0|1 r0|-|0 w r1|1 w r1|-
disable_delayed_work    |0 b0 r0|1 b0 r0|1 b0 r0|1 b0 r0|0 b2 r1|1 b2 r1|-
disable_delayed_work_sync|0 r0|1 r0|1 r0|1 r0|0 w r1|1 w r1|-
";

/// No timer of these tests expires.
const FAR: Duration = Duration::from_secs(3600);

#[test]
fn every_operation_in_every_state_answers_as_linux_does() {
    // An item that computes for long must not be taken for a CPU hog, which lets others start.
    Stage::new("matrix::play").params("cpu_intensive_thresh_us=0").play();
}

fn play() {
    let mut cells = 0;
    for row in TABLE.trim().lines() {
        let mut columns = row.split('|');
        let op = columns.next().unwrap().trim();
        for (state, expected) in STATES.iter().zip(columns.by_ref()) {
            if expected.trim() != "-" {
                Cell::new(op, state).check(expected.trim());
                cells += 1;
            }
        }
        assert_eq!(columns.next(), None, "{row}");
    }
    assert_eq!(cells, 16 * 7 - 9);
}

#[derive(Clone)]
enum Item {
    Plain(Work),
    Delayed(DelayedWork),
}

/// One cell of the table: an item in a state, and everything around it.
struct Cell {
    op: &'static str,
    state: &'static str,
    wq: Workqueue,
    other: Workqueue,
    obstacle: Workqueue,
    cpu: u32,
    item: Item,
    runs: Arc<AtomicU32>,
    entered: Gate,
    /// Whatever is in the way goes on when it opens.
    release: Gate,
}

impl Cell {
    fn new(op: &'static str, state: &'static str) -> Self {
        let is_delayed = op.contains("delayed") || state == "timer";
        let (runs, entered, release) = (Arc::new(AtomicU32::new(0)), Gate::new(), Gate::new());
        let func = {
            let (runs, entered, release) = (Arc::clone(&runs), entered.clone(), release.clone());
            move || {
                entered.open();
                release.pass();
                runs.fetch_add(1, Ordering::SeqCst);
            }
        };
        let item = if is_delayed {
            Item::Delayed(DelayedWork::new(func))
        } else {
            Item::Plain(Work::new(func))
        };
        let max_active = u32::from(state == "ipend");
        let wq = Workqueue::builder("matrix").percpu().max_active(max_active).build().unwrap();
        let other = Workqueue::builder("other").ordered().build().unwrap();
        let cpu = *sys::allowed_cpus().last().unwrap();
        let obstacle = percpu("obstacle");
        let cell = Self { op, state, wq, other, obstacle, cpu, item, runs, entered, release };
        cell.obstruct();
        cell.bring_about();
        cell
    }

    /// Nothing that is queued starts before the release, so that it can be seen.
    fn obstruct(&self) {
        let blocker = self.release.clone();
        drop(self.other.queue(move || blocker.pass()));
        if self.state.starts_with("running") {
            return;
        }
        let (begun, release) = (Gate::new(), self.release.clone());
        let theirs = begun.clone();
        if self.state == "ipend" {
            drop(self.wq.queue_on(self.cpu, move || {
                theirs.open();
                release.pass();
            }));
        } else {
            drop(self.obstacle.queue_on(self.cpu, move || {
                theirs.open();
                release.spin();
            }));
        }
        begun.pass();
    }

    fn bring_about(&self) {
        match self.state {
            "idle" => {}
            "timer" => assert!(self.queue_far()),
            "disabled" => assert!(!self.disable()),
            "apend" | "ipend" => assert!(self.queue()),
            "running" | "running+pending" => {
                assert!(self.queue());
                self.entered.pass();
                assert!(self.state == "running" || self.queue());
            }
            other => unreachable!("state {other}"),
        }
    }

    fn queue(&self) -> bool {
        match &self.item {
            Item::Plain(work) => self.wq.queue_work_on(self.cpu, work),
            Item::Delayed(work) => self.wq.queue_delayed_work_on(self.cpu, work, Duration::ZERO),
        }
    }

    fn queue_far(&self) -> bool {
        let Item::Delayed(work) = &self.item else { unreachable!("no timer") };
        self.wq.queue_delayed_work_on(self.cpu, work, FAR)
    }

    fn disable(&self) -> bool {
        match &self.item {
            Item::Plain(work) => work.disable(),
            Item::Delayed(work) => work.disable(),
        }
    }

    fn busy(&self) -> u32 {
        let busy = match &self.item {
            Item::Plain(work) => work.busy(),
            Item::Delayed(work) => work.busy(),
        };
        u32::from(busy.pending) + 2 * u32::from(busy.running)
    }

    fn operate(&self) -> bool {
        match (&self.item, self.op) {
            (_, "queue_work") => self.queue(),
            (Item::Plain(work), "queue_work_other_wq") => self.other.queue_work(work),
            (Item::Plain(work), "cancel_work") => work.cancel(),
            (Item::Plain(work), "cancel_work_sync") => work.cancel_sync(),
            (Item::Plain(work), "flush_work") => work.flush(),
            (Item::Plain(work), "disable_work") => work.disable(),
            (Item::Plain(work), "disable_work_sync") => work.disable_sync(),
            (Item::Delayed(work), op) => self.operate_delayed(work, op),
            (_, op) => unreachable!("operation {op}"),
        }
    }

    fn operate_delayed(&self, work: &DelayedWork, op: &str) -> bool {
        let (wq, cpu) = (&self.wq, self.cpu);
        match op {
            "queue_work_other_wq" => self.other.queue_delayed_work(work, Duration::ZERO),
            "queue_delayed_work" => wq.queue_delayed_work_on(cpu, work, FAR),
            "queue_delayed_work_zero" => wq.queue_delayed_work_on(cpu, work, Duration::ZERO),
            "mod_delayed_work" => wq.mod_delayed_work_on(cpu, work, FAR),
            "mod_delayed_work_zero" => wq.mod_delayed_work_on(cpu, work, Duration::ZERO),
            "flush_delayed_work" => work.flush(),
            "cancel_delayed_work" => work.cancel(),
            "cancel_delayed_work_sync" => work.cancel_sync(),
            "disable_delayed_work" => work.disable(),
            "disable_delayed_work_sync" => work.disable_sync(),
            op => unreachable!("operation {op}"),
        }
    }

    fn check(self, expected: &str) {
        let words: Vec<&str> = expected.split(' ').collect();
        let answer = words[0] == "1";
        let number = |letter| {
            let word = words[1..].iter().find_map(|word| word.strip_prefix(letter));
            word.map(|word| word.parse::<u32>().unwrap())
        };
        let what = format!("{} of an item that is {}", self.op, self.state);
        let (op, state) = (self.op, self.state);
        let (answered, busy) = if words.contains(&"w") {
            self.operate_and_wait(&what)
        } else {
            (self.operate(), self.busy())
        };
        assert_eq!(answered, answer, "{what}: what it returned");
        if let Some(expected) = number('b') {
            assert_eq!(busy, expected, "{what}: work_busy right after");
        }
        self.release.open();
        self.wq.flush();
        self.other.flush();
        let runs = self.runs.load(Ordering::SeqCst);
        assert_eq!(runs, number('r').unwrap(), "{what}: runs in the end");
        self.assert_can_be_used_again(&what, op.starts_with("disable") || state == "disabled");
    }

    /// The operation must sleep until the release.
    fn operate_and_wait(&self, what: &str) -> (bool, u32) {
        thread::scope(|scope| {
            let tid = Arc::new(AtomicI32::new(0));
            let theirs = Arc::clone(&tid);
            let operation = scope.spawn(move || {
                theirs.store(sys::gettid(), Ordering::SeqCst);
                (self.operate(), self.release.is_open(), self.busy())
            });
            eventually("the operation waits", || {
                let tid = tid.load(Ordering::SeqCst);
                operation.is_finished() || (tid != 0 && procfs::waits(tid))
            });
            self.release.open();
            let (answered, was_released, busy) = operation.join().unwrap();
            assert!(was_released, "{what} did not wait");
            (answered, busy)
        })
    }

    /// Whatever was done to it, the item is sound: enabled once, it runs once more.
    fn assert_can_be_used_again(&self, what: &str, is_disabled: bool) {
        match &self.item {
            Item::Plain(work) => assert!(!work.cancel_sync(), "{what}: left something behind"),
            Item::Delayed(work) => drop(work.cancel_sync()),
        }
        let before = self.runs.load(Ordering::SeqCst);
        assert_eq!(self.queue(), !is_disabled, "{what}: queued again");
        if is_disabled {
            let is_enabled = match &self.item {
                Item::Plain(work) => work.enable(),
                Item::Delayed(work) => work.enable(),
            };
            assert!(is_enabled, "{what}: it was disabled once");
            assert!(self.queue(), "{what}: queued again");
        }
        self.wq.flush();
        assert_eq!(self.runs.load(Ordering::SeqCst), before + 1, "{what}: runs once more");
    }
}
