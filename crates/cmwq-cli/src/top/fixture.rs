//! A process for tests: two looks at it, a second apart.

use cmwq_observe::inspect::Reason;

use super::model::Model;
use super::sample::{Activity, Decision, Pool, Process, Queue, Sample, Sched, Thread, Worker};

const MS: u64 = 1_000_000;
pub(super) const S: u64 = 1_000 * MS;
/// The time of the second look.
pub(super) const NOW: u64 = 1_000 * S;

pub(super) fn queue(key: u32, name: &str, kind: &'static str) -> Queue {
    Queue { key, name: name.to_owned(), kind, max_active: 16, min_active: 8, ..Queue::default() }
}

fn decision(reason: Reason, count: u64, first_ago: u64, last_ago: u64) -> Decision {
    Decision { reason, count, first_ns: NOW - first_ago, last_ns: NOW - last_ago }
}

fn worker(tid: u32, name: &str, pool: u32, state: Sched) -> Worker {
    let thread = Some(Thread { state, cpu_ns: 5 * S, wait_ns: S });
    Worker { tid, name: name.to_owned(), pool: Some(pool), thread, ..Worker::default() }
}

fn runs(worker: Worker, function: &str, queue: u32, ago: u64) -> Worker {
    let activity = Activity { function: function.into(), queue, since_ns: NOW - ago };
    Worker { activity: Some(activity), runs: 7, ..worker }
}

fn pools() -> Vec<Pool> {
    let common = Pool { nice: 0, created: 3, progress_ns: NOW - 500 * MS, ..Pool::default() };
    vec![
        Pool {
            id: 0,
            cpus: "0".to_owned(),
            kind: "percpu",
            nr_workers: 3,
            nr_idle: 1,
            concurrency: Some(1),
            decisions: vec![
                decision(Reason::Created, 3, 84 * S, 83 * S),
                decision(Reason::Blocked, 4, 83 * S, 20 * S),
                decision(Reason::MaxActive, 17, 60 * S, 2 * S),
            ],
            ..common.clone()
        },
        Pool {
            id: 2,
            cpus: "0-1".to_owned(),
            kind: "managed",
            nr_workers: 6,
            nr_idle: 1,
            nr_running: 2,
            concurrency: Some(2),
            work_waits: true,
            decisions: vec![
                decision(Reason::WokeIdle, 1_000_000, 90 * S, 700 * MS),
                decision(Reason::Hog, 1, 800 * MS, 800 * MS),
                decision(Reason::AtCapacity, 120, 10 * S, 300 * MS),
            ],
            ..common.clone()
        },
        Pool {
            id: 3,
            cpus: "0-1".to_owned(),
            kind: "unbound",
            nice: -20,
            nr_workers: 1,
            failed: 2,
            errno: libc::EAGAIN,
            decisions: vec![
                decision(Reason::NoIdle, 2, 3 * S, 2 * S),
                decision(Reason::CreationFailed, 2, 3 * S, 2 * S),
            ],
            ..common.clone()
        },
        Pool { id: 4, cpus: "1".to_owned(), kind: "bh", progress_ns: 0, created: 0, ..common },
    ]
}

fn workers() -> Vec<Worker> {
    let long = "a_program::with::long::paths::fetch_everything::{{closure}}";
    vec![
        runs(worker(101, "kworker/u8:0", 2, Sched::OnCpu), long, 1, 12 * MS),
        runs(worker(102, "kworker/u8:1", 2, Sched::Preempted), "fetch", 1, 40 * MS),
        Worker {
            is_blocked: true,
            ..runs(worker(103, "kworker/0:0", 0, Sched::Sleeps), "render_page", 2, 83 * S)
        },
        runs(worker(104, "kworker/0:1", 0, Sched::SleepsHard), "render_page", 2, 20 * S),
        Worker { idle_since_ns: NOW - 4 * S, ..worker(105, "kworker/0:2", 0, Sched::Sleeps) },
        Worker {
            is_hog: true,
            ..runs(worker(106, "kworker/u8:2", 2, Sched::OnCpu), "spin", 1, 5 * S)
        },
        Worker { thread: None, ..worker(0, "kworker/u9:1", 3, Sched::Sleeps) },
    ]
}

pub(super) fn sample() -> Sample {
    let fetch = Queue {
        started: 1_234,
        completed: 1_222,
        cpu_ns: 2 * S,
        cm_wakeup: 77,
        cpu_intensive: 1,
        nr_active: 12,
        pools: vec![2],
        ..queue(1, "fetch", "managed")
    };
    let render = Queue {
        max_active: 4,
        started: 40,
        completed: 36,
        nr_active: 4,
        is_mem_reclaim: true,
        mayday: 1,
        rescued: 2,
        pools: vec![0, 3],
        behind: vec![0],
        ..queue(2, "render", "percpu")
    };
    Sample {
        taken_ns: NOW,
        born_ns: NOW - 90 * S,
        pid: 4711,
        command: "program".to_owned(),
        process: Process::Runs,
        cpus: 2,
        detect: "perf",
        hog_thresh_ns: 10 * MS,
        is_frozen: false,
        is_shut: false,
        queues: vec![
            fetch,
            render,
            queue(3, "a_queue_whose_name_is_longer_than_its_column", "unbound"),
        ],
        pools: pools(),
        workers: workers(),
        not_shown: 0,
    }
}

/// The look before: less of everything that grows.
pub(super) fn before() -> Sample {
    let mut before = sample();
    before.taken_ns -= S;
    before.queues[0].started = 1_000;
    before.queues[0].cpu_ns = 3 * S / 2;
    let mut used = |worker: usize, cpu: u64, wait: u64| {
        if let Some(thread) = &mut before.workers[worker].thread {
            thread.cpu_ns -= cpu;
            thread.wait_ns -= wait;
        }
    };
    used(0, 900 * MS, 50 * MS);
    used(1, 100 * MS, 900 * MS);
    used(5, 990 * MS, 0);
    before.pools[1].decisions[2].count = 20;
    before.pools[2].decisions.pop();
    before
}

pub(super) fn model() -> Model {
    let mut model = Model::new(before());
    model.push(sample());
    model
}
