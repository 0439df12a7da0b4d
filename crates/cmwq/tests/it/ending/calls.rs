//! What is called before, in the middle of and after a shutdown, and what each call must say.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Waker};
use std::time::Duration;

use cmwq::{
    Config, DelayedWork, IteratorOn, JoinError, JoinHandle, Periodic, RcuWork, Work, Workqueue,
    system, watchdog,
};

use crate::support::eventually;
use crate::support::wait::{PATIENCE, block_on};

/// When a call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    Open,
    /// A shutdown waits for an item of another queue.
    Closing,
    Closed,
}

pub(super) type Call = (&'static str, fn(&Scenery));

/// A queue, and things made for it before the shutdown.
pub(super) struct Scenery {
    pub(super) wq: Workqueue,
    pub(super) when: When,
    /// Whether the system's queues were made before the shutdown.
    pub(super) has_system: bool,
    /// The calls are made by an item.
    pub(super) is_in_item: bool,
    work: Work,
    delayed: DelayedWork,
    rcu: RcuWork,
    periodic: Periodic,
    /// Closures whose time has not come.
    handles: Mutex<Vec<JoinHandle<()>>>,
}

const FAR: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(1);

impl Scenery {
    pub(super) fn new(wq: Workqueue, has_system: bool) -> Self {
        let (work, delayed) = (Work::new(|| ()), DelayedWork::deferrable(|| ()));
        assert!(wq.queue_delayed_work(&delayed, FAR));
        Self {
            when: When::Open,
            is_in_item: false,
            has_system,
            work,
            delayed,
            rcu: RcuWork::new(|| ()),
            periodic: Periodic::every(SOON).start(&wq, |_| ()),
            handles: Mutex::new((0..64).map(|_| wq.queue_delayed(|| (), FAR)).collect()),
            wq,
        }
    }

    fn is_open(&self) -> bool {
        self.when == When::Open
    }

    /// A closure's handle: of one that runs while the queue is open, and else of one from before.
    fn handle(&self) -> JoinHandle<()> {
        if self.is_open() {
            return self.wq.queue(|| ());
        }
        self.handles.lock().unwrap().pop().expect("more were made than are used")
    }

    /// A closure's end: it ran, or whoever waits is told that it does not.
    fn told(&self, outcome: &Result<(), JoinError>) {
        match outcome {
            Ok(()) => assert!(self.is_open(), "it has run"),
            Err(error) => assert!(!self.is_open() && error.is_refused(), "{error}"),
        }
    }

    /// What is documented to panic once the queue takes nothing in.
    fn panics_when(&self, must_panic: bool, what: impl FnOnce()) {
        let has_panicked = catch_unwind(AssertUnwindSafe(what)).is_err();
        assert_eq!(has_panicked, must_panic, "whether it panicked");
    }

    fn panics_unless_open(&self, what: impl FnOnce()) {
        self.panics_when(!self.is_open(), what);
    }

    fn system(&self, what: fn() -> &'static Workqueue) {
        self.panics_when(!self.has_system && !self.is_open(), || {
            self.told(&what().queue(|| ()).join());
        });
    }

    /// An item that was queued, or not: nothing is pending for ever.
    fn settled(&self, work: &Work) {
        work.flush();
        assert!(!work.is_pending());
    }

    fn delayed_settled(&self, work: &DelayedWork) {
        work.flush();
        assert!(!work.is_pending());
    }
}

fn poll_once<F: Future + Unpin>(mut future: F) {
    let _ = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
}

/// Values: none of their calls asks the runtime.
pub(super) const VALUES: &[&str] = &[
    "AffinityScope",
    "Attribute",
    "AttributeError",
    "Attrs",
    "Builder",
    "Busy",
    "Config",
    "CpuSet",
    "Error",
    "Histogram",
    "ItemPanic",
    "JoinError",
    "Mode",
    "PeriodicBuilder",
    "Refusal",
    "Refused",
    "Report",
    "Sched",
    "ShutdownError",
    "Stats",
    "Stall",
    "Tick",
    "Times",
    "TryQueueError",
    "WorkId",
    "WorkerThread",
    "RcuHead",
    "GlobalAttribute",
    "Detect",
    "Frame",
    "Stack",
    "Place",
    "RunningItem",
    "WaitingItems",
    "ErrorKind",
];

/// Calls that are not made here, with the reason.
pub(super) const ELSEWHERE: &[(&str, &str)] = &[
    ("set_grace_periods", "writes a cell once, and asks no queue; it takes an unsafe trait"),
    ("GracePeriods::rcu_barrier", "the program's own"),
    ("GracePeriods::call_rcu", "the program's own"),
];

/// Every public call that is not one of a value.
pub(super) const CALLS: &[Call] = &[
    ("AbortOnDrop::cancel", |s| {
        if let Some(handle) = s.handle().abort_on_drop().cancel() {
            s.told(&handle.join());
        }
    }),
    ("AbortOnDrop::cancel_sync", |s| {
        if let Some(outcome) = s.handle().abort_on_drop().cancel_sync() {
            s.told(&outcome);
        }
    }),
    ("AbortOnDrop::drop", |s| drop(s.handle().abort_on_drop())),
    ("AbortOnDrop::into_handle", |s| s.told(&s.handle().abort_on_drop().into_handle().join())),
    ("AbortOnDrop::is_finished", |s| {
        let _ = s.handle().abort_on_drop().is_finished();
    }),
    ("AbortOnDrop::join", |s| s.told(&s.handle().abort_on_drop().join())),
    ("AbortOnDrop::join_timeout", |s| {
        s.told(&s.handle().abort_on_drop().join_timeout(PATIENCE).unwrap());
    }),
    ("AbortOnDrop::poll", |s| s.told(&block_on(s.handle().abort_on_drop()))),
    ("Builder::build", |s| {
        let made = Workqueue::builder("made").unbound().mem_reclaim().build();
        assert_eq!(made.is_ok(), s.is_open());
    }),
    ("Config::install", |_| {
        // Too late since the first use, and to be answered at any time.
        assert!(Config::builder().max_workers(500).install().is_err());
    }),
    ("DelayedWork::busy", |s| {
        // Timers are disarmed soon after the queue has closed.
        eventually("it is disarmed", || s.is_open() || s.delayed.busy().is_idle());
    }),
    ("DelayedWork::cancel", |s| {
        s.wq.queue_delayed_work(&s.delayed, FAR);
        assert_eq!(s.delayed.cancel(), s.is_open());
    }),
    ("DelayedWork::cancel_sync", |s| {
        s.wq.queue_delayed_work(&s.delayed, FAR);
        assert_eq!(s.delayed.cancel_sync(), s.is_open());
    }),
    ("DelayedWork::deferrable", |s| {
        let work = DelayedWork::deferrable(|| ());
        s.wq.queue_delayed_work(&work, SOON);
        s.delayed_settled(&work);
    }),
    ("DelayedWork::deferrable_cyclic", |s| {
        let work = DelayedWork::deferrable_cyclic(|_| || ());
        s.wq.queue_delayed_work(&work, SOON);
        s.delayed_settled(&work);
    }),
    ("DelayedWork::disable", |s| {
        s.delayed.disable();
        assert!(!s.wq.queue_delayed_work(&s.delayed, SOON));
        s.delayed.enable();
    }),
    ("DelayedWork::disable_sync", |s| {
        s.delayed.disable_sync();
        assert!(s.delayed.enable());
    }),
    ("DelayedWork::downgrade", |s| drop(s.delayed.downgrade())),
    ("DelayedWork::enable", |s| {
        s.delayed.disable();
        s.delayed.enable();
    }),
    ("DelayedWork::flush", |s| {
        s.wq.queue_delayed_work(&s.delayed, FAR);
        s.delayed_settled(&s.delayed);
    }),
    ("DelayedWork::id", |s| {
        let _ = s.delayed.id();
    }),
    ("DelayedWork::is_pending", |s| {
        eventually("it is disarmed", || s.is_open() || !s.delayed.is_pending());
    }),
    ("DelayedWork::new", |s| {
        let work = DelayedWork::new(|| ());
        s.wq.queue_delayed_work(&work, SOON);
        s.delayed_settled(&work);
    }),
    ("DelayedWork::new_cyclic", |s| {
        let work = DelayedWork::new_cyclic(|_| || ());
        s.wq.queue_delayed_work(&work, SOON);
        s.delayed_settled(&work);
    }),
    ("Entry::attributes", |s| assert_ne!(s.wq.sysfs().attributes().count(), 0)),
    ("Entry::is_registered", |s| {
        let _ = s.wq.sysfs().is_registered();
    }),
    ("Entry::mode", |s| {
        let entry = s.wq.sysfs();
        assert!(entry.attributes().all(|(attribute, mode)| entry.mode(attribute) == Some(mode)));
    }),
    ("Entry::name", |s| assert_eq!(s.wq.sysfs().name(), s.wq.name())),
    ("Entry::register", |s| {
        let _ = s.wq.sysfs().register();
    }),
    ("Entry::show", |s| {
        let entry = s.wq.sysfs();
        for (attribute, _) in entry.attributes() {
            let _ = entry.show(attribute);
        }
    }),
    ("Entry::store", |s| {
        let entry = s.wq.sysfs();
        for (attribute, _) in entry.attributes() {
            if let Ok(text) = entry.show(attribute) {
                let _ = entry.store(attribute, &text);
            }
        }
    }),
    ("IteratorOn::for_each_on", |s| {
        s.panics_unless_open(|| (0..9).for_each_on(&s.wq, 2, |_| ()));
    }),
    ("IteratorOn::map_on", |s| {
        s.panics_unless_open(|| assert_eq!((0..9).map_on(&s.wq, 2, |n| n).count(), 9));
    }),
    ("IteratorOn::map_unordered_on", |s| {
        s.panics_unless_open(|| assert_eq!((0..9).map_unordered_on(&s.wq, 2, |n| n).count(), 9));
    }),
    ("JoinHandle::abort_on_drop", |s| drop(s.handle().abort_on_drop())),
    ("JoinHandle::cancel", |s| {
        if let Some(handle) = s.handle().cancel() {
            s.told(&handle.join());
        }
    }),
    ("JoinHandle::cancel_sync", |s| {
        if let Some(outcome) = s.handle().cancel_sync() {
            s.told(&outcome);
        }
    }),
    ("JoinHandle::drop", |s| drop(s.handle())),
    ("JoinHandle::is_finished", |s| {
        let _ = s.handle().is_finished();
    }),
    ("JoinHandle::join", |s| s.told(&s.handle().join())),
    ("JoinHandle::join_timeout", |s| s.told(&s.handle().join_timeout(PATIENCE).unwrap())),
    ("JoinHandle::poll", |s| s.told(&block_on(s.handle()))),
    ("OutsideBacklog::drop", |s| drop(s.wq.outside_backlog())),
    ("OutsideBacklog::set", |s| s.wq.outside_backlog().set(7)),
    ("Periodic::detach", |s| {
        // One that would go on for ever: the shutdown ends it.
        Periodic::every(SOON).start(&s.wq, |_| ()).detach();
    }),
    ("Periodic::drop", |s| drop(Periodic::every(SOON).start(&s.wq, |_| ()))),
    ("Periodic::every", |s| Periodic::every(SOON).start(&s.wq, |_| ()).stop_sync()),
    ("Periodic::is_active", |s| {
        let _ = s.periodic.is_active();
    }),
    ("Periodic::stop", |s| Periodic::every(SOON).start(&s.wq, |_| ()).stop()),
    ("Periodic::stop_sync", |s| {
        // The one from before goes on until the shutdown.
        let periodic = Periodic::every(SOON).start(&s.wq, |_| ());
        periodic.stop_sync();
        assert!(!periodic.is_active());
        if !s.is_open() {
            s.periodic.stop_sync();
            assert!(!s.periodic.is_active());
        }
    }),
    ("PeriodicBuilder::start", |s| drop(Periodic::every(SOON).start(&s.wq, |_| ()))),
    ("ProcessWatch::drop", |_| drop(cmwq::watch_children())),
    ("ProcessWatch::is_effective", |_| {
        let _ = cmwq::watch_children().is_effective();
    }),
    ("RcuReadGuard::drop", |_| drop(cmwq::rcu_read_lock())),
    ("RcuWork::busy", |s| {
        let _ = s.rcu.busy();
    }),
    ("RcuWork::flush", |s| {
        s.wq.queue_rcu_work(&s.rcu);
        s.rcu.flush();
        assert!(!s.rcu.is_pending());
    }),
    ("RcuWork::id", |s| {
        let _ = s.rcu.id();
    }),
    ("RcuWork::is_pending", |s| {
        let _ = s.rcu.is_pending();
    }),
    ("RcuWork::new", |s| {
        let work = RcuWork::new(|| ());
        s.wq.queue_rcu_work(&work);
        work.flush();
        assert!(!work.is_pending());
    }),
    ("Scope::queue", |s| {
        s.panics_unless_open(|| s.wq.scope(|scope| drop(scope.queue(|| ()))));
    }),
    ("Scope::queue_on", |s| {
        s.panics_unless_open(|| s.wq.scope(|scope| drop(scope.queue_on(0, || ()))));
    }),
    ("ScopedJoinHandle::drop", |s| {
        s.panics_unless_open(|| {
            s.wq.scope(|scope| drop(scope.queue(|| ())));
        })
    }),
    ("ScopedJoinHandle::is_finished", |s| {
        s.panics_unless_open(|| {
            s.wq.scope(|scope| {
                let _ = scope.queue(|| ()).is_finished();
            });
        });
    }),
    ("ScopedJoinHandle::join", |s| {
        let outcome = s.wq.scope(|scope| scope.queue(|| 5).join().ok());
        assert_eq!(outcome.is_some(), s.is_open());
    }),
    ("Waiting::drop", |s| {
        drop((s.wq.flush_async(), s.wq.drain_async()));
        // That drains on.
        eventually("it is drained", || !s.is_open() || s.wq.queue(|| ()).join().is_ok());
    }),
    ("Waiting::is_over", |s| {
        let _ = s.wq.flush_async().is_over();
    }),
    ("Waiting::poll", |s| {
        poll_once(s.wq.flush_async());
        block_on(s.wq.flush_async());
    }),
    ("Waiting::wait", |s| s.wq.flush_async().wait()),
    ("Waiting::wait_timeout", |s| s.wq.flush_async().wait_timeout(PATIENCE).unwrap()),
    ("WeakDelayedWork::upgrade", |s| assert!(s.delayed.downgrade().upgrade().is_some())),
    ("WeakWork::upgrade", |s| assert!(s.work.downgrade().upgrade().is_some())),
    ("Work::busy", |s| {
        let _ = s.work.busy();
    }),
    ("Work::cancel", |s| {
        s.wq.queue_work(&s.work);
        s.work.cancel();
        s.settled(&s.work);
    }),
    ("Work::cancel_sync", |s| {
        s.wq.queue_work(&s.work);
        s.work.cancel_sync();
        assert!(!s.work.is_pending());
    }),
    ("Work::disable", |s| {
        s.work.disable();
        assert!(!s.wq.queue_work(&s.work));
        assert!(s.work.enable());
    }),
    ("Work::disable_sync", |s| {
        s.work.disable_sync();
        assert!(s.work.enable());
    }),
    ("Work::downgrade", |s| drop(s.work.downgrade())),
    ("Work::enable", |s| {
        s.work.disable();
        assert!(s.work.enable());
    }),
    ("Work::flush", |s| {
        s.wq.queue_work(&s.work);
        s.settled(&s.work);
    }),
    ("Work::id", |s| {
        let _ = s.work.id();
    }),
    ("Work::is_pending", |s| {
        let _ = s.work.is_pending();
    }),
    ("Work::new", |s| {
        let work = Work::new(|| ());
        s.wq.queue_work(&work);
        s.settled(&work);
    }),
    ("Work::new_cyclic", |s| {
        let work = Work::new_cyclic(|_| || ());
        s.wq.queue_work(&work);
        s.settled(&work);
    }),
    ("Workqueue::apply_attrs", |s| {
        let _ = s.wq.apply_attrs(&s.wq.attrs());
    }),
    ("Workqueue::attrs", |s| {
        let _ = s.wq.attrs();
    }),
    ("Workqueue::builder", |_| drop(Workqueue::builder("never built"))),
    ("Workqueue::close", |s| {
        if s.is_open() {
            Workqueue::new("to close").unwrap().close().wait();
        } else {
            s.wq.clone().close().wait();
            block_on(s.wq.clone().close());
        }
    }),
    ("Workqueue::drain", |s| s.wq.drain()),
    ("Workqueue::drain_async", |s| s.wq.drain_async().wait()),
    ("Workqueue::enable_and_queue_work", |s| {
        s.work.disable();
        s.wq.enable_and_queue_work(&s.work);
        s.settled(&s.work);
    }),
    ("Workqueue::flush", |s| s.wq.flush()),
    ("Workqueue::flush_async", |s| s.wq.flush_async().wait()),
    ("Workqueue::flush_work", |s| {
        s.wq.queue_work(&s.work);
        s.wq.flush_work(&s.work);
        s.settled(&s.work);
    }),
    ("Workqueue::is_closed", |s| assert_eq!(s.wq.is_closed(), !s.is_open())),
    ("Workqueue::is_congested", |s| {
        let _ = s.wq.is_congested(None);
    }),
    ("Workqueue::max_active", |s| assert_ne!(s.wq.max_active(), 0)),
    ("Workqueue::max_queued", |s| {
        let _ = s.wq.max_queued();
    }),
    ("Workqueue::min_active", |s| {
        let _ = s.wq.min_active();
    }),
    ("Workqueue::mod_delayed_work", |s| {
        s.wq.mod_delayed_work(&s.delayed, SOON);
        s.delayed_settled(&s.delayed);
    }),
    ("Workqueue::mod_delayed_work_on", |s| {
        s.wq.mod_delayed_work_on(0, &s.delayed, SOON);
        s.delayed_settled(&s.delayed);
    }),
    ("Workqueue::name", |s| assert!(!s.wq.name().is_empty())),
    ("Workqueue::new", |s| assert_eq!(Workqueue::new("new").is_ok(), s.is_open())),
    ("Workqueue::outside_backlog", |s| drop(s.wq.outside_backlog())),
    ("Workqueue::queue", |s| s.told(&s.wq.queue(|| ()).join())),
    ("Workqueue::queue_delayed", |s| s.told(&s.wq.queue_delayed(|| (), SOON).join())),
    ("Workqueue::queue_delayed_on", |s| s.told(&s.wq.queue_delayed_on(0, || (), SOON).join())),
    ("Workqueue::queue_delayed_work", |s| {
        s.wq.queue_delayed_work(&s.delayed, SOON);
        s.delayed_settled(&s.delayed);
    }),
    ("Workqueue::queue_delayed_work_on", |s| {
        s.wq.queue_delayed_work_on(0, &s.delayed, SOON);
        s.delayed_settled(&s.delayed);
    }),
    ("Workqueue::queue_on", |s| s.told(&s.wq.queue_on(0, || ()).join())),
    ("Workqueue::queue_rcu_work", |s| {
        s.wq.queue_rcu_work(&s.rcu);
        s.rcu.flush();
        assert!(!s.rcu.is_pending());
    }),
    ("Workqueue::queue_work", |s| {
        s.wq.queue_work(&s.work);
        s.settled(&s.work);
    }),
    ("Workqueue::queue_work_node", |s| {
        s.wq.queue_work_node(0, &s.work);
        s.settled(&s.work);
    }),
    ("Workqueue::queue_work_on", |s| {
        s.wq.queue_work_on(0, &s.work);
        s.settled(&s.work);
    }),
    ("Workqueue::run", |s| s.told(&s.wq.run(|| ()))),
    ("Workqueue::scope", |s| s.wq.scope(|_| ())),
    ("Workqueue::set_max_active", |s| {
        let _ = s.wq.set_max_active(s.wq.max_active());
    }),
    ("Workqueue::set_min_active", |s| {
        let _ = s.wq.set_min_active(s.wq.min_active());
    }),
    ("Workqueue::stats", |s| {
        let _ = s.wq.stats();
    }),
    ("Workqueue::sysfs", |s| drop(s.wq.sysfs())),
    ("Workqueue::times", |s| {
        let _ = s.wq.times();
    }),
    ("Workqueue::try_queue", |s| match s.wq.try_queue(|| ()) {
        Ok(handle) => s.told(&handle.join()),
        Err(error) => assert!(!s.is_open() && error.is_closed()),
    }),
    ("Workqueue::try_queue_on", |s| match s.wq.try_queue_on(0, || ()) {
        Ok(handle) => s.told(&handle.join()),
        Err(error) => assert!(!s.is_open() && error.is_closed()),
    }),
    ("Workqueue::update_attrs", |s| {
        let _ = s.wq.update_attrs(|attrs| attrs.affinity_strict = false);
    }),
    ("blocking", |_| cmwq::blocking(|| ())),
    ("control::listen", |_| {
        let name = format!("cmwq-it-ending-{}.sock", std::process::id());
        let _ = cmwq::control::listen(Some(&std::env::temp_dir().join(name)));
        cmwq::control::stop();
    }),
    ("control::path", |_| drop(cmwq::control::path())),
    ("control::stop", |_| cmwq::control::stop()),
    ("current_is_mem_reclaim", |s| assert!(!cmwq::current_is_mem_reclaim() || s.is_in_item)),
    ("current_is_rescuer", |s| assert!(!cmwq::current_is_rescuer() || s.is_in_item)),
    ("current_work", |s| assert_eq!(cmwq::current_work().is_some(), s.is_in_item)),
    ("default_affinity_scope", |_| {
        let _ = cmwq::default_affinity_scope();
    }),
    ("dump_on_signal", |_| {
        let _ = cmwq::dump_on_signal(10);
    }),
    ("execute_in_process_context", |_| {
        cmwq::execute_in_process_context(|| ());
    }),
    ("freeze", |_| {
        cmwq::freeze();
        cmwq::thaw();
    }),
    ("freeze_busy", |_| {
        let _ = cmwq::freeze_busy();
    }),
    ("legacy::create_freezable_workqueue", |s| {
        assert_eq!(cmwq::legacy::create_freezable_workqueue("a").is_ok(), s.is_open());
    }),
    ("legacy::create_singlethread_workqueue", |s| {
        assert_eq!(cmwq::legacy::create_singlethread_workqueue("a").is_ok(), s.is_open());
    }),
    ("legacy::create_workqueue", |s| {
        assert_eq!(cmwq::legacy::create_workqueue("a").is_ok(), s.is_open());
    }),
    ("metrics::describe", |_| {
        #[cfg(feature = "metrics")]
        cmwq::metrics::describe();
    }),
    ("metrics::record", |_| {
        #[cfg(feature = "metrics")]
        cmwq::metrics::record();
    }),
    ("notices", |_| drop(cmwq::notices())),
    ("param", |_| drop(cmwq::param("watchdog_thresh"))),
    ("rcu_read_lock", |_| drop(cmwq::rcu_read_lock())),
    ("report", |_| drop(cmwq::report())),
    ("rescan_cpus", |_| {
        let _ = cmwq::rescan_cpus();
    }),
    ("schedule_on_each_cpu", |s| s.panics_unless_open(|| cmwq::schedule_on_each_cpu(|| ()))),
    ("set_default_affinity_scope", |_| {
        if let Ok(scope) = cmwq::default_affinity_scope() {
            let _ = cmwq::set_default_affinity_scope(scope);
        }
    }),
    ("set_item_panic_handler", |_| cmwq::set_item_panic_handler(|_| ())),
    ("set_panic_handler", |_| cmwq::set_panic_handler(|_| ())),
    ("set_param", |_| {
        if let Some(value) = cmwq::param("watchdog_thresh") {
            let _ = cmwq::set_param("watchdog_thresh", &value);
        }
    }),
    ("set_unbound_cpumask", |_| {
        if let Ok(cpus) = cmwq::unbound_cpumask() {
            let _ = cmwq::set_unbound_cpumask(&cpus);
        }
    }),
    ("set_watchdog_handler", |_| cmwq::set_watchdog_handler(|_| ())),
    ("set_worker_desc", |_| cmwq::set_worker_desc("nobody's")),
    ("show_all_workqueues", |_| cmwq::show_all_workqueues()),
    ("show_freezable_workqueues", |_| cmwq::show_freezable_workqueues()),
    ("show_one_workqueue", |s| cmwq::show_one_workqueue(&s.wq)),
    ("shutdown", |s| {
        if s.when == When::Closed {
            cmwq::shutdown(Duration::ZERO).unwrap();
        } else if s.when == When::Closing {
            cmwq::shutdown(Duration::ZERO).unwrap_err();
        } else if s.is_in_item {
            cmwq::shutdown(Duration::MAX).unwrap_err();
        }
    }),
    ("sysfs::entries", |_| drop(cmwq::sysfs::entries())),
    ("sysfs::find", |s| drop(cmwq::sysfs::find(s.wq.name()))),
    ("sysfs::show_global", |_| drop(global())),
    ("sysfs::store_global", |_| {
        for (attribute, text) in global() {
            let _ = cmwq::sysfs::store_global(attribute, &text);
        }
    }),
    ("system::bh", |s| s.system(system::bh)),
    ("system::bh_highpri", |s| s.system(system::bh_highpri)),
    ("system::freezable", |s| s.system(system::freezable)),
    ("system::freezable_power_efficient", |s| s.system(system::freezable_power_efficient)),
    ("system::highpri", |s| s.system(system::highpri)),
    ("system::long", |s| s.system(system::long)),
    ("system::managed", |s| s.system(system::managed)),
    ("system::percpu", |s| s.system(system::percpu)),
    ("system::power_efficient", |s| s.system(system::power_efficient)),
    ("system::unbound", |s| s.system(system::unbound)),
    ("system::unbound_long", |s| s.system(system::unbound_long)),
    ("thaw", |_| cmwq::thaw()),
    ("unbound_cpumask", |_| {
        let _ = cmwq::unbound_cpumask();
    }),
    ("leave_cpu", |_| cmwq::leave_cpu()),
    ("watch_children", |_| drop(cmwq::watch_children())),
    ("watch_process", |_| drop(cmwq::watch_process(std::process::id()))),
    ("watchdog::clear_handler", |_| watchdog::clear_handler()),
    ("watchdog::dump_on_signal", |_| {
        let _ = watchdog::dump_on_signal(10);
    }),
    ("watchdog::set_handler", |_| watchdog::set_handler(|_| ())),
    ("watchdog::set_panic_on_stall", |_| {
        let _ = watchdog::set_panic_on_stall(0, Duration::ZERO);
    }),
    ("watchdog::set_thresh", |_| {
        let _ = watchdog::set_thresh(watchdog::thresh());
    }),
    ("watchdog::thresh", |_| {
        let _ = watchdog::thresh();
    }),
    ("watchdog::touch", |_| watchdog::touch(None)),
    ("work_on_cpu", |s| s.panics_unless_open(|| assert_eq!(cmwq::work_on_cpu(0, || 5), 5))),
];

fn global() -> Vec<(cmwq::sysfs::GlobalAttribute, String)> {
    use cmwq::sysfs::{GlobalAttribute, show_global};
    GlobalAttribute::ALL
        .iter()
        .filter_map(|&attribute| Some((attribute, show_global(attribute).ok()?)))
        .collect()
}
