//! Who only looks wakes nobody, and lists nothing.

use std::ptr::NonNull;

use cmwq_core::{LockFor, Next, WorkItem, WorkerId};

use super::show::Report;
use super::stats::Stats;
use super::watchdog;
use crate::api::raw::{Whereabouts, find_in};
use crate::engine::item::flush::{self, Busy};
use crate::engine::pool::Pool;
use crate::engine::process::on_one_cpu;
use crate::engine::runtime::Runtime;
use crate::engine::tools::thread::Thread;
use crate::engine::wq::{Kind, Queueing, Spec, Wq};
use crate::os::park::Parker;
use crate::os::sync::Arc;

unsafe extern "C" fn nothing(_: *mut WorkItem) {}

/// A runtime of one CPU that cannot make threads.
fn runtime() -> &'static Runtime {
    let runtime = on_one_cpu();
    runtime.set_fault_no_threads(true);
    runtime
}

fn hire(pool: &'static Pool) -> (WorkerId, &'static Parker) {
    let thread = Arc::new(Thread::new("worker".into(), Default::default()));
    let parker = thread.parker;
    let mut guard = pool.lock(LockFor::Counts);
    let id = guard.core.worker_new();
    guard.set_thread(id, Some(thread));
    let _ = guard.core.worker_created(id, None, 0);
    (id, parker)
}

fn queue(wq: &Wq) -> &'static WorkItem {
    let item: &'static WorkItem = Box::leak(Box::new(WorkItem::new(nothing)));
    // SAFETY: it lives for ever.
    let queued = unsafe { wq.queue_item(Some(0), NonNull::from(item)) };
    assert_eq!(queued, Queueing::Queued);
    item
}

#[test]
fn looking_wakes_nobody_and_lists_nothing() {
    let runtime = runtime();
    let spec = Spec { max_active: 2, ..Spec::of(Kind::Percpu) };
    let wq = runtime.new_wq("looked at", spec).expect("it is not shut down");
    let pool = wq.cpu_pwq(Some(0)).pool;
    let workers = [hire(pool), hire(pool)];
    let running = queue(&wq);
    let Next::Run(_) = pool.lock(LockFor::Find).core.next(workers[1].0, || 0) else {
        panic!("it may start")
    };
    // As while it is watched.
    pool.inbox.saturate();
    let waiting = [(); 3].map(|()| queue(&wq));
    let nr_tokens = || workers.iter().filter(|(_, parker)| parker.take() != 0).count();
    let _before = nr_tokens();

    for _ in 0..2 {
        assert!(wq.is_congested(Some(0)) && !wq.is_idle());
        assert!(wq.any_pwq(|load| load.nr_active == 2 && load.has_inactive));
        let (waits, stats) = (wq.waiting(), Stats::new(wq.stats()));
        assert_eq!((waits.queued, waits.for_limit), (3, 2));
        assert_eq!((stats.started, stats.completed, wq.progress()), (1, 0, 1));
        let busy = |item| flush::busy(runtime, item);
        assert_eq!(busy(running), Busy { pending: false, running: true });
        assert_eq!(busy(waiting[2]), Busy { pending: true, running: false });
        let at = std::ptr::from_ref(waiting[1]) as usize;
        assert_eq!(find_in(runtime, at), Whereabouts::Queued("looked at".to_owned()));
        let dump = Report::collect(runtime, None).to_string();
        assert!(dump.contains("active=2/2") && dump.contains("inactive: 2*"), "{dump}");
        watchdog::look_once(runtime);
        let _ = format!("{pool:?} {}", pool.threads().len());

        let is_listed = pool.read(|_, locked| locked.core.work_waits());
        assert!(!pool.inbox.is_empty() && !is_listed, "somebody has listed what was in the inbox");
        assert_eq!(nr_tokens(), 0, "somebody was woken");
    }
}
