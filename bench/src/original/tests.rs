use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::*;

fn queues(name: &str) -> [Workqueue; 2] {
    let name = |kind: &str| format!("{name}-{kind}");
    let multi = Workqueue::multi_threaded(&name("mt"));
    [multi.unwrap(), Workqueue::single_threaded(&name("st")).unwrap()]
}

/// An item that says that it has started and then blocks until it is told to go on (or until the
/// other side is gone).
fn blocker() -> (Work, Receiver<()>, Sender<()>) {
    let (started, has_started) = channel();
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let work = Work::new(move || {
        started.send(()).unwrap();
        let _ = released.lock().unwrap().recv();
    });
    (work, has_started, release)
}

/// Items that note their number.
fn numbered(count: usize) -> (Vec<Work>, Arc<Mutex<Vec<usize>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let work = |number| {
        let seen = Arc::clone(&seen);
        Work::new(move || seen.lock().unwrap().push(number))
    };
    ((0..count).map(work).collect(), seen)
}

fn some_cpu() -> u32 {
    sys::allowed_cpus().unwrap()[0]
}

/// Threads of this process whose names begin so.
fn threads_named(prefix: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let names = tasks.filter_map(|task| name(task.ok()?));
    names.filter(|name| name.starts_with(prefix)).count()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        thread::yield_now();
    }
}

/// A thread has its name a moment after it was started.
fn wait_for_threads(prefix: &str, count: usize) {
    wait_until("the number of threads", || threads_named(prefix) == count);
}

#[test]
fn a_queue_has_a_thread_on_each_cpu_or_one_for_all() {
    let cpus = sys::allowed_cpus().unwrap();
    let many: Vec<_> = (0..5).map(|_| Workqueue::multi_threaded("owq-m").unwrap()).collect();
    let single: Vec<_> = (0..5).map(|_| Workqueue::single_threaded("owq-s").unwrap()).collect();
    wait_for_threads("owq-m/", 5 * cpus.len());
    wait_for_threads("owq-s", 5);
    drop((many, single));
    // The kernel may show a thread for a moment after it was joined.
    wait_for_threads("owq-", 0);
}

#[test]
fn items_of_one_cpu_run_in_the_order_of_queueing() {
    for queue in queues("order") {
        let (works, seen) = numbered(100);
        for work in works.iter().rev() {
            assert!(queue.queue_work_on(some_cpu(), work));
        }
        queue.flush();
        assert_eq!(*seen.lock().unwrap(), (0..100).rev().collect::<Vec<_>>());
    }
}

#[test]
fn a_blocked_item_holds_up_its_cpu_and_no_other_queue() {
    for (queue, other) in queues("block").into_iter().zip(queues("other")) {
        let (blocker, has_started, release) = blocker();
        let (works, seen) = numbered(1);
        queue.queue_work_on(some_cpu(), &blocker);
        has_started.recv().unwrap();
        queue.queue_work_on(some_cpu(), &works[0]);
        let (others, elsewhere) = numbered(1);
        other.queue_work_on(some_cpu(), &others[0]);
        other.flush();
        assert_eq!(*elsewhere.lock().unwrap(), [0], "each queue has its own threads");
        assert!(seen.lock().unwrap().is_empty(), "behind a blocked item");
        drop(release);
        queue.flush();
        assert_eq!(*seen.lock().unwrap(), [0]);
    }
}

#[test]
fn at_most_one_item_of_a_cpu_runs() {
    for queue in queues("alone") {
        let running = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let works: Vec<Work> = (0..20)
            .map(|_| {
                let (running, most) = (Arc::clone(&running), Arc::clone(&most));
                Work::new(move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_micros(300));
                    running.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        works.iter().for_each(|work| assert!(queue.queue_work_on(some_cpu(), work)));
        queue.flush();
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn cpus_do_not_wait_for_each_other() {
    let cpus = sys::allowed_cpus().unwrap();
    let queue = Workqueue::multi_threaded("apart").unwrap();
    let blockers: Vec<_> = cpus.iter().map(|&cpu| (cpu, blocker())).collect();
    for (cpu, (work, ..)) in &blockers {
        queue.queue_work_on(*cpu, work);
    }
    // Every one starts though none has ended.
    blockers.iter().for_each(|(_, (_, has_started, _))| has_started.recv().unwrap());
    drop(blockers);
}

#[test]
fn an_item_runs_on_the_cpu_it_was_queued_on() {
    let queue = Workqueue::multi_threaded("place").unwrap();
    for cpu in sys::allowed_cpus().unwrap() {
        let (send, receive) = channel();
        let work = Work::new(move || send.send(sys::current_cpu()).unwrap());
        queue.queue_work_on(cpu, &work);
        assert_eq!(receive.recv(), Ok(cpu));
        queue.queue_delayed_work_on(cpu, &work, Duration::from_millis(1));
        assert_eq!(receive.recv(), Ok(cpu), "delayed");
    }
}

#[test]
fn an_item_is_pending_once_and_may_queue_itself() {
    for queue in queues("pending") {
        let queue = Arc::new(queue);
        let (blocker, has_started, release) = blocker();
        assert!(queue.queue_work_on(some_cpu(), &blocker));
        has_started.recv().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let itself: Arc<std::sync::OnceLock<Work>> = Arc::default();
        let work = Work::new({
            let (queue, runs) = (Arc::downgrade(&queue), Arc::clone(&runs));
            let itself = Arc::downgrade(&itself);
            move || {
                if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                    let (queue, itself) = (queue.upgrade().unwrap(), itself.upgrade().unwrap());
                    assert!(queue.queue_work_on(some_cpu(), itself.get().unwrap()));
                }
            }
        });
        assert!(itself.set(work.clone()).is_ok());
        assert!(queue.queue_work_on(some_cpu(), &work));
        assert!(!queue.queue_work_on(some_cpu(), &work), "it is pending");
        assert!(!queue.queue_delayed_work(&work, Duration::from_secs(600)), "it is pending");
        drop(release);
        // The item that queues itself is done after it has, so a second flush waits for its
        // second run.
        queue.flush();
        queue.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn flushing_waits_for_what_was_inserted_before_and_for_nothing_later() {
    for queue in queues("flush") {
        let (first, first_started, release_first) = blocker();
        let (second, _second_started, release_second) = blocker();
        queue.queue_work_on(some_cpu(), &first);
        first_started.recv().unwrap();
        thread::scope(|scope| {
            let flusher = scope.spawn(|| queue.flush());
            wait_until("the flusher waits", || queue.lane(some_cpu()).lock().flushers == 1);
            queue.queue_work_on(some_cpu(), &second);
            assert!(!flusher.is_finished(), "the first item has not ended");
            drop(release_first);
            flusher.join().unwrap();
        });
        // The second one has been blocking all the while.
        drop(release_second);
        queue.flush();
    }
}

#[test]
fn flushing_does_not_wait_for_timers() {
    for queue in queues("timer") {
        let (works, seen) = numbered(2);
        assert!(queue.queue_delayed_work_on(some_cpu(), &works[0], Duration::from_secs(600)));
        assert!(queue.queue_delayed_work_on(some_cpu(), &works[1], Duration::ZERO));
        queue.flush();
        assert_eq!(*seen.lock().unwrap(), [1], "no delay is no timer");
    }
}

#[test]
fn flushing_from_an_item_of_the_queue_runs_what_is_behind_it() {
    for queue in queues("self") {
        let queue = Arc::new(queue);
        let (works, seen) = numbered(3);
        let (send, receive) = channel();
        let (go, may_go) = channel::<()>();
        let may_go = Mutex::new(may_go);
        let flusher = Work::new({
            let (queue, seen) = (Arc::downgrade(&queue), Arc::clone(&seen));
            move || {
                let _ = may_go.lock().unwrap().recv();
                queue.upgrade().unwrap().flush();
                send.send(seen.lock().unwrap().clone()).unwrap();
            }
        });
        queue.queue_work_on(some_cpu(), &flusher);
        works.iter().for_each(|work| assert!(queue.queue_work_on(some_cpu(), work)));
        drop(go);
        assert_eq!(receive.recv().unwrap(), [0, 1, 2]);
        queue.flush();
    }
}

#[test]
fn destroying_runs_what_is_queued() {
    for queue in queues("destroy") {
        let (works, seen) = numbered(50);
        for (turn, work) in works.iter().enumerate() {
            let cpus = sys::allowed_cpus().unwrap();
            queue.queue_work_on(cpus[turn % cpus.len()], work);
        }
        drop(queue);
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
    }
}
