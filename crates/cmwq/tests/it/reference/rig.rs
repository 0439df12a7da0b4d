//! Operations on the library itself, each compared with what the model says of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{Attrs, DelayedWork, Work, Workqueue};

use super::model::{Answer, Delay, Inside, Model, Op};
use super::sequence::{ITEMS, fresh_model, kinds};
use crate::support::{Gate, joined, procfs, sys};

const FAR: Duration = Duration::from_secs(3_600);
const SOON: Duration = Duration::from_micros(300);

#[derive(Clone)]
enum Subject {
    Plain(Work),
    Delayed(DelayedWork),
}

/// Where the runs of an item wait: the n-th goes on when n were let go.
#[derive(Default)]
struct Turnstile {
    entered: AtomicU32,
    inside: AtomicU32,
    overlapped: AtomicBool,
    let_go: Mutex<u32>,
    more: Condvar,
    /// What the run that is let go does before it returns, which waits.
    errand: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// The thread that does it.
    on_errand: AtomicI32,
}

impl Turnstile {
    fn pass(&self) {
        let overlaps = self.inside.fetch_add(1, Ordering::SeqCst) > 0;
        self.overlapped.fetch_or(overlaps, Ordering::SeqCst);
        let run = self.entered.fetch_add(1, Ordering::SeqCst) + 1;
        drop(self.more.wait_while(self.let_go.lock().unwrap(), |let_go| *let_go < run).unwrap());
        let errand = self.errand.lock().unwrap().take();
        if let Some(errand) = errand {
            self.on_errand.store(sys::gettid(), Ordering::SeqCst);
            errand();
            self.on_errand.store(0, Ordering::SeqCst);
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn let_go(&self, run: u32) {
        let mut let_go = self.let_go.lock().unwrap();
        *let_go = run.max(*let_go);
        self.more.notify_all();
    }
}

/// A call that waits, on a thread of its own.
struct Waiter {
    op: Op,
    expected: Answer,
    thread: thread::JoinHandle<Answer>,
}

pub(super) struct Rig {
    model: Model,
    patience: Duration,
    cpu: u32,
    queues: Vec<Option<Workqueue>>,
    works: Vec<(Subject, Arc<Turnstile>)>,
    /// Of the pool that can be held.
    obstacle: Workqueue,
    hold: Option<(Gate, cmwq::JoinHandle<()>)>,
    waiters: BTreeMap<usize, Waiter>,
}

impl Rig {
    pub(super) fn new(patience: Duration) -> Self {
        let works = ITEMS.iter().map(|&is_delayed| {
            let turnstile = Arc::new(Turnstile::default());
            let theirs = Arc::clone(&turnstile);
            let func = move || theirs.pass();
            let work = if is_delayed {
                Subject::Delayed(DelayedWork::new(func))
            } else {
                Subject::Plain(Work::new(func))
            };
            (work, turnstile)
        });
        Self {
            model: fresh_model(),
            patience,
            cpu: sys::allowed_cpus()[0],
            queues: (0..kinds().len())
                .map(|wq| (!kinds()[wq].0.is_brief).then(|| made(wq)))
                .collect(),
            works: works.collect(),
            obstacle: Workqueue::builder("obstacle").percpu().build().unwrap(),
            hold: None,
            waiters: BTreeMap::new(),
        }
    }

    pub(super) fn play(mut self, ops: &[Op]) {
        for (at, &op) in ops.iter().enumerate() {
            self.step(op, &format!("operation {at}, {op:?}, of {ops:?}"));
        }
        while let Some(op) = self.model.last_op() {
            self.step(op, &format!("{op:?}, at the end of {ops:?}"));
        }
        assert!(self.waiters.is_empty(), "somebody still waits after {ops:?}");
        self.assert_sound(ops);
    }

    /// Every item runs once more, on every queue that may have it.
    fn assert_sound(&mut self, ops: &[Op]) {
        for (item, &is_delayed) in ITEMS.iter().enumerate() {
            for wq in
                (0..self.queues.len()).filter(|&wq| self.queues[wq].is_some()).collect::<Vec<_>>()
            {
                let queue = if is_delayed {
                    Op::QueueDelayed(item, wq, Delay::Zero)
                } else {
                    Op::Queue(item, wq)
                };
                for op in [queue, Op::Finish(item)] {
                    self.step(op, &format!("{op:?}, after the end of {ops:?}"));
                }
            }
        }
    }

    fn step(&mut self, op: Op, what: &str) {
        let (expected, wait) = self.model.apply(op);
        if let Some(number) = wait {
            self.begin(number, op, expected);
        } else {
            let answer = self.operate(op);
            assert_eq!(answer, expected, "what was returned by {what}");
        }
        self.settle(what);
        for number in self.model.ended_waits() {
            self.end(number, what);
        }
        self.settle(what);
        for waiter in self.waiters.values() {
            assert!(!waiter.thread.is_finished(), "{:?} returned early: {what}", waiter.op);
        }
    }

    /// Waits until everything is as the model says.
    fn settle(&self, what: &str) {
        let start = Instant::now();
        let mut looks = 0_u32;
        loop {
            let difference = self.difference();
            let Some(difference) = difference else { return };
            assert!(start.elapsed() < self.patience, "{difference} after {what}");
            looks += 1;
            if looks < 50 {
                thread::yield_now();
            } else {
                thread::sleep(Duration::from_micros(50));
            }
        }
    }

    fn difference(&self) -> Option<String> {
        for (item, (work, turnstile)) in self.works.iter().enumerate() {
            let busy = match work {
                Subject::Plain(work) => work.busy(),
                Subject::Delayed(work) => work.busy(),
            };
            let is = (turnstile.entered.load(Ordering::SeqCst), busy.pending, busy.running);
            let should = (
                self.model.items[item].runs,
                self.model.is_pending(item),
                self.model.is_running(item),
            );
            if is != should {
                return Some(format!(
                    "item {item} (runs, pending, running) is {is:?}, not {should:?}"
                ));
            }
            assert!(!turnstile.overlapped.load(Ordering::SeqCst), "item {item} ran twice at once");
        }
        for (wq, queue) in self.queues.iter().enumerate() {
            let Some((queue, should)) = queue.as_ref().zip(self.model.is_congested(wq)) else {
                continue;
            };
            let is = queue.is_congested(Some(self.cpu));
            if is != should {
                return Some(format!("queue {wq} is congested: {is}, not {should}"));
            }
        }
        let (is, should) = (cmwq::freeze_busy(), self.model.is_freeze_busy());
        (is != should).then(|| format!("freeze_busy is {is}, not {should}"))
    }

    // ---- calls

    fn operate(&mut self, op: Op) -> Answer {
        let cpu = self.cpu;
        match op {
            Op::SetMaxActive(wq, limit) => {
                let queue = there(&self.queues, wq);
                queue.set_max_active(limit).unwrap();
                // Machines with several nodes would split it.
                let _of_percpu = queue.set_min_active(limit);
            }
            Op::Make(wq) => self.queues[wq] = Some(made(wq)),
            Op::Attrs(wq, n) => {
                let attrs = Attrs::new().nice(sys::nicer([0, 3, 6][n]));
                there(&self.queues, wq).apply_attrs(&attrs).unwrap();
            }
            Op::WaitFor(item, other, inside) => self.send_on_errand(item, other, inside),
            Op::Freeze => cmwq::freeze(),
            Op::Thaw => cmwq::thaw(),
            Op::Hold => {
                let (begun, gate) = (Gate::new(), Gate::new());
                let theirs = (begun.clone(), gate.clone());
                let item = self.obstacle.queue_on(cpu, move || {
                    theirs.0.open();
                    theirs.1.spin();
                });
                begun.pass();
                self.hold = Some((gate, item));
            }
            Op::Release => {
                let (gate, item) = self.hold.take().expect("it is held");
                gate.open();
                joined(item);
            }
            Op::Finish(item) => {
                let turnstile = &self.works[item].1;
                let so_far = *turnstile.let_go.lock().unwrap();
                turnstile.let_go(so_far + 1);
            }
            op => return call(&self.queues, &self.works, cpu, op),
        }
        Answer::Nothing
    }

    /// The function of `item` waits for another one, and must go to sleep for it.
    fn send_on_errand(&self, item: usize, other: usize, inside: Inside) {
        let (work, turnstile) = (self.works[other].0.clone(), &self.works[item].1);
        *turnstile.errand.lock().unwrap() = Some(Box::new(move || match (inside, work) {
            (Inside::Flush, Subject::Plain(work)) => _ = work.flush(),
            (Inside::Flush, Subject::Delayed(work)) => _ = work.flush(),
            (Inside::CancelSync, Subject::Plain(work)) => _ = work.cancel_sync(),
            (Inside::CancelSync, Subject::Delayed(work)) => _ = work.cancel_sync(),
        }));
        let so_far = *turnstile.let_go.lock().unwrap();
        turnstile.let_go(so_far + 1);
        let start = Instant::now();
        let sleeps = || match turnstile.on_errand.load(Ordering::SeqCst) {
            0 => false,
            tid => procfs::waits(tid),
        };
        while !sleeps() {
            assert!(start.elapsed() < self.patience, "item {item} does not wait for item {other}");
            thread::yield_now();
        }
    }

    /// A call that must wait: on a thread of its own, which must go to sleep.
    fn begin(&mut self, number: usize, op: Op, expected: Answer) {
        let tid = Arc::new(AtomicI32::new(0));
        let works: Vec<_> = self.works.clone();
        // Of a queue that is dropped nobody has another handle.
        let queues: Vec<_> = (0..self.queues.len())
            .map(|wq| match op {
                Op::Drop(dropped) if wq == dropped => self.queues[wq].take(),
                Op::FlushQueue(waited) | Op::Drain(waited) if wq == waited => {
                    self.queues[wq].clone()
                }
                _ => None,
            })
            .collect();
        let (cpu, theirs) = (self.cpu, Arc::clone(&tid));
        let thread = thread::spawn(move || {
            theirs.store(sys::gettid(), Ordering::SeqCst);
            match op {
                Op::Drop(_) => {
                    drop(queues);
                    Answer::Nothing
                }
                op => call(&queues, &works, cpu, op),
            }
        });
        let start = Instant::now();
        let sleeps = || match tid.load(Ordering::SeqCst) {
            0 => false,
            tid => procfs::waits(tid),
        };
        while !thread.is_finished() && !sleeps() {
            assert!(start.elapsed() < self.patience, "{op:?} neither waits nor returns");
            thread::yield_now();
        }
        self.waiters.insert(number, Waiter { op, expected, thread });
    }

    fn end(&mut self, number: usize, what: &str) {
        let Waiter { op, expected, thread } = self.waiters.remove(&number).expect("it waits");
        let start = Instant::now();
        while !thread.is_finished() {
            assert!(start.elapsed() < self.patience, "{op:?} does not return after {what}");
            thread::yield_now();
        }
        assert_eq!(thread.join().unwrap(), expected, "what {op:?} returned after {what}");
    }
}

impl Drop for Rig {
    /// After a failure nothing must be in the way of anybody, nor be waited for.
    fn drop(&mut self) {
        if thread::panicking() {
            std::mem::forget((std::mem::take(&mut self.queues), self.obstacle.clone()));
        }
        if let Some((gate, _)) = self.hold.take() {
            gate.open();
        }
        cmwq::thaw();
        for (_, turnstile) in &self.works {
            turnstile.let_go(u32::MAX);
        }
    }
}

fn made(wq: usize) -> Workqueue {
    kinds().swap_remove(wq).1.build().unwrap()
}

fn there(queues: &[Option<Workqueue>], wq: usize) -> &Workqueue {
    queues[wq].as_ref().expect("the model knows which queues there are")
}

/// Calls `f` while this thread is there.
fn on_cpu<T>(cpu: u32, f: impl FnOnce() -> T) -> T {
    let before = sys::allowed_cpus();
    sys::confine(0, &[cpu]).unwrap();
    let value = f();
    sys::confine(0, &before).unwrap();
    value
}

/// A call that both kinds of item have.
macro_rules! both {
    ($works:expr, $item:expr, $call:ident) => {
        match &$works[$item].0 {
            Subject::Plain(work) => work.$call(),
            Subject::Delayed(work) => work.$call(),
        }
    };
}

/// The calls that any thread may make.
fn call(
    queues: &[Option<Workqueue>],
    works: &[(Subject, Arc<Turnstile>)],
    cpu: u32,
    op: Op,
) -> Answer {
    let queue = |wq| there(queues, wq);
    let time = |delay| match delay {
        Delay::Zero => Duration::ZERO,
        Delay::Soon => SOON,
        Delay::Far => FAR,
    };
    let is = match op {
        Op::FlushQueue(wq) => {
            queue(wq).flush();
            return Answer::Nothing;
        }
        Op::Drain(wq) => {
            queue(wq).drain();
            return Answer::Nothing;
        }
        Op::Queue(item, wq) => match &works[item].0 {
            Subject::Plain(work) => queue(wq).queue_work_on(cpu, work),
            Subject::Delayed(_) => unreachable!("{op:?}"),
        },
        Op::EnableAndQueue(item, wq) => match &works[item].0 {
            // The only one without a form that names the CPU.
            Subject::Plain(work) => on_cpu(cpu, || queue(wq).enable_and_queue_work(work)),
            Subject::Delayed(_) => unreachable!("{op:?}"),
        },
        Op::QueueDelayed(item, wq, delay) => match &works[item].0 {
            Subject::Plain(_) => unreachable!("{op:?}"),
            Subject::Delayed(work) => queue(wq).queue_delayed_work_on(cpu, work, time(delay)),
        },
        Op::Mod(item, wq, delay) => match &works[item].0 {
            Subject::Plain(_) => unreachable!("{op:?}"),
            Subject::Delayed(work) => queue(wq).mod_delayed_work_on(cpu, work, time(delay)),
        },
        Op::Cancel(item) => both!(works, item, cancel),
        Op::Disable(item) => both!(works, item, disable),
        Op::Enable(item) => both!(works, item, enable),
        Op::CancelSync(item) => both!(works, item, cancel_sync),
        Op::DisableSync(item) => both!(works, item, disable_sync),
        Op::Flush(item) => both!(works, item, flush),
        op => unreachable!("{op:?}"),
    };
    Answer::Is(is)
}
