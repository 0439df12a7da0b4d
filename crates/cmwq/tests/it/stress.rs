//! Everything at once, at random, against counters: what was queued ran or was cancelled.
//!
//! `CMWQ_SEED=N` plays a seed again, as far as threads allow; `CMWQ_STRESS_SECS=N` goes on for
//! longer.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cmwq::{DelayedWork, Work, Workqueue};

use crate::support::load::{Random, burn};
use crate::support::{sys, within};

const THREADS: u64 = 6;

/// A reusable item with its counts. Always queued on the same queue.
struct Subject {
    wq: usize,
    item: Item,
    queued: AtomicU64,
    cancelled: AtomicU64,
    runs: Arc<AtomicU64>,
}

enum Item {
    Plain(Work),
    Delayed(DelayedWork),
}

/// Closures are counted together.
#[derive(Default)]
struct Closures {
    queued: AtomicU64,
    runs: Arc<AtomicU64>,
}

fn queues() -> Vec<Workqueue> {
    let builder = || Workqueue::builder("stress");
    let builders = [
        builder().managed(),
        builder().managed().max_active(3),
        builder().percpu(),
        builder().percpu().max_active(2),
        builder().percpu().highpri(),
        builder().percpu().cpu_intensive(),
        builder().unbound().max_active(4),
        builder().ordered(),
    ];
    builders.into_iter().map(|builder| builder.build().unwrap()).collect()
}

/// What an item does: mostly nothing, sometimes compute or block.
fn body(n: u64) {
    match n % 31 {
        0 => thread::sleep(Duration::from_micros(n % 400)),
        1 => burn(Duration::from_micros(n % 50)),
        2 => cmwq::blocking(|| thread::sleep(Duration::from_micros(50))),
        3 => thread::yield_now(),
        _ => {}
    }
}

fn subject(wq: usize, is_delayed: bool) -> Subject {
    let runs = Arc::new(AtomicU64::new(0));
    let inside = AtomicBool::new(false);
    let counted = Arc::clone(&runs);
    let func = move || {
        assert!(!inside.swap(true, Ordering::SeqCst), "entered while it runs");
        body(counted.load(Ordering::Relaxed));
        inside.store(false, Ordering::SeqCst);
        counted.fetch_add(1, Ordering::SeqCst);
    };
    let item = match is_delayed {
        true => Item::Delayed(DelayedWork::new(func)),
        false => Item::Plain(Work::new(func)),
    };
    Subject { wq, item, queued: AtomicU64::new(0), cancelled: AtomicU64::new(0), runs }
}

impl Subject {
    fn queue(&self, queues: &[Workqueue], random: &mut Random) {
        let (wq, cpu) = (&queues[self.wq], random.below(4) as u32);
        let delay = Duration::from_micros(random.next() % 3_000);
        let is_mine = match &self.item {
            Item::Plain(work) if cpu == 3 => wq.queue_work(work),
            Item::Plain(work) => wq.queue_work_on(cpu, work),
            Item::Delayed(work) if cpu == 3 => wq.queue_delayed_work(work, Duration::ZERO),
            Item::Delayed(work) => wq.queue_delayed_work_on(cpu, work, delay),
        };
        self.queued.fetch_add(u64::from(is_mine), Ordering::SeqCst);
    }

    fn cancel(&self) {
        let is_mine = match &self.item {
            Item::Plain(work) => work.cancel(),
            Item::Delayed(work) => work.cancel(),
        };
        self.cancelled.fetch_add(u64::from(is_mine), Ordering::SeqCst);
    }

    fn flush(&self) -> bool {
        match &self.item {
            Item::Plain(work) => work.flush(),
            Item::Delayed(work) => work.flush(),
        }
    }
}

impl Closures {
    /// A closure that may queue more, and may wait for them if that cannot be for itself.
    fn queue(&self, queues: &[Workqueue], random: &mut Random) {
        let (n, cpu) = (random.next(), random.below(4) as u32);
        let wq = &queues[random.below(queues.len())];
        let runs = Arc::clone(&self.runs);
        let func = move || {
            body(n);
            runs.fetch_add(1, Ordering::SeqCst);
        };
        self.queued.fetch_add(1, Ordering::SeqCst);
        match n % 5 {
            0 => wq.queue(func).join().unwrap(),
            1 => drop(wq.queue_delayed(func, Duration::from_micros(n % 2_000))),
            2 => drop(wq.queue_on(cpu, func)),
            3 => wq.scope(|s| drop(s.queue(func))),
            _ => drop(wq.queue(func)),
        }
    }

    /// A queue of its own that lives for a few items.
    fn short_lived(&self, random: &mut Random) {
        let wq = match random.below(3) {
            0 => Workqueue::builder("short").percpu(),
            1 => Workqueue::builder("short").managed(),
            _ => Workqueue::builder("short").ordered(),
        };
        let wq = wq.build().unwrap();
        for _ in 0..random.below(5) {
            let (n, runs) = (random.next(), Arc::clone(&self.runs));
            self.queued.fetch_add(1, Ordering::SeqCst);
            let own = (n % 3 == 0).then(|| wq.clone());
            drop(wq.queue_delayed(
                move || {
                    body(n);
                    runs.fetch_add(1, Ordering::SeqCst);
                    drop(own);
                },
                Duration::from_micros(n % 2 * (n % 1_000)),
            ));
        }
    }
}

fn act(seed: u64, end: Instant, queues: &[Workqueue], subjects: &[Subject], closures: &Closures) {
    let mut random = Random(seed);
    while Instant::now() < end {
        let subject = &subjects[random.below(subjects.len())];
        match random.below(100) {
            0..45 => subject.queue(queues, &mut random),
            45..60 => subject.cancel(),
            60..66 => _ = subject.flush(),
            66..68 => queues[random.below(queues.len())].flush(),
            68..98 => closures.queue(queues, &mut random),
            _ => closures.short_lived(&mut random),
        }
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "the seed is what one needs to play it again")]
fn what_is_queued_runs_or_is_cancelled() {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("CMWQ_SEED").unwrap_or(now.as_nanos() as u64);
    eprintln!("CMWQ_SEED={seed}");
    let time = Duration::from_secs(number("CMWQ_STRESS_SECS").unwrap_or(3));
    let queues = queues();
    let subjects: Arc<Vec<_>> =
        Arc::new((0..queues.len() * 4).map(|n| subject(n / 4, n % 2 == 0)).collect());
    let closures = Arc::new(Closures::default());
    let end = Instant::now() + time;
    let actors: Vec<_> = (0..THREADS)
        .map(|n| {
            let (queues, subjects, closures) =
                (queues.clone(), Arc::clone(&subjects), Arc::clone(&closures));
            thread::spawn(move || act(seed ^ n << 56, end, &queues, &subjects, &closures))
        })
        .collect();
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(50));
    }
    within("the actors", move || actors.into_iter().for_each(|actor| actor.join().unwrap()));
    // What is left is flushed, timers are cancelled; dropping the queues waits for the closures
    // that are delayed.
    subjects
        .iter()
        .filter(|subject| matches!(subject.item, Item::Delayed(_)))
        .for_each(Subject::cancel);
    for subject in subjects.iter() {
        subject.flush();
    }
    within("the queues", move || drop(queues));
    crate::support::eventually("all closures have run", || {
        closures.runs.load(Ordering::SeqCst) == closures.queued.load(Ordering::SeqCst)
    });
    for (n, subject) in subjects.iter().enumerate() {
        let [queued, cancelled, runs] = [&subject.queued, &subject.cancelled, &*subject.runs]
            .map(|count| count.load(Ordering::SeqCst));
        assert_eq!(queued, runs + cancelled, "item {n} of {} CPUs", sys::allowed_cpus().len());
    }
}
