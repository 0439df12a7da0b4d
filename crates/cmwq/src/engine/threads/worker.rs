//! The worker thread: a short loop over what the core says.
//!
//! Between two lock holds it does exactly one of: run a function, create a worker, sleep, help
//! another pool, leave. The core says which. The life of an item here: [`Worker::run`] →
//! `PoolState::next` claims it → unlock → wake whom the claim says → the function → lock →
//! `PoolState::finish` → `next`, mostly under the same hold.

use std::cell::Cell;

use cmwq_core::detect::By;
use cmwq_core::{Batch, Claim, Creator, Kick, LockFor, Nanos, Next, Passed, WorkerId, WqKey};

use crate::detect::method::Detect;
use crate::engine::item::flush;
use crate::engine::pool::{Pool, PoolGuard};
use crate::engine::threads::current::{self, Context};
use crate::engine::threads::detection;
use crate::engine::threads::invoke;
use crate::engine::threads::running::{As, Server};
use crate::engine::threads::thread_hooks;
use crate::engine::tools::long_items::LongItems;
use crate::engine::tools::thread::{Senses, Thread};
use crate::os::IS_MODEL;
use crate::os::clock;
use crate::os::notice::{self, Notice};
use crate::os::park;
use crate::os::sense::{self, CpuClock, SwitchRecords};
use crate::os::sync::{Arc, leaves_out, without};
use crate::record::trace::{self, Kind};

mod helping;

/// A worker of a pool with one CPU looks where it is at its first run after a sleep, and then at
/// each so many: only who takes that CPU away moves it.
const RUNS_PER_LOOK: u8 = 8;

/// What the thread of a registered worker does.
pub(crate) fn main(pool: &'static Pool, id: WorkerId, thread: Arc<Thread>) {
    Worker::new(pool, id, thread).main();
}

/// A worker, or a rescuer while it serves a pool, as its own thread sees it.
pub(crate) struct Worker {
    pub(crate) pool: &'static Pool,
    pub(crate) id: WorkerId,
    pub(crate) thread: Arc<Thread>,
    long_items: LongItems,
    /// Where its batches are, if its pool makes any.
    batch: Option<Arc<Batch>>,
    /// So many runs are left until it looks where it is.
    runs_to_look: Cell<u8>,
}

impl Worker {
    pub(crate) fn new(pool: &'static Pool, id: WorkerId, thread: Arc<Thread>) -> Self {
        Self {
            pool,
            id,
            thread,
            long_items: LongItems::default(),
            batch: None,
            runs_to_look: Cell::new(0),
        }
    }

    fn main(mut self) {
        self.prepare();
        invoke::watch_thread();
        let _hooks = thread_hooks::begin(|| self.thread.comm.base().to_owned());
        let context = Context::new(self.pool, self.id, Arc::clone(&self.thread));
        let _entered = current::enter(&context);
        let tokens = self.wait_for_first_call();
        self.batch = self.pool.lock(LockFor::Counts).core.batch_for(self.id);
        self.thread.meter.begin();
        trace::worker(Kind::WorkerCreated, self.pool, self.thread.tid());
        self.pool.repatriate();
        self.look_if_told(tokens);
        self.run(&context);
    }

    /// Puts the thread where and how its pool wants it. What is refused is said once and done
    /// without.
    fn prepare(&self) {
        let (spec, runtime) = (self.pool.spec(), self.pool.runtime);
        self.pool.attach(&self.thread);
        sense::sched::set_timer_slack_ns(runtime.timer_slack_ns);
        self.thread.record_stack();
        spec.priority.assume_or_say(runtime.base_policy);
        self.thread.set_senses(self.open_senses());
    }

    /// Returns with what it was woken by; without, if it has found that it is needed.
    ///
    /// A late wake-up may be for the thread that had this parker before: the worker begins only
    /// when it is registered as created.
    fn wait_for_first_call(&self) -> u32 {
        let is_created = || self.pool.lock(LockFor::Counts).core.is_created(self.id);
        if self.finds_creator_blocked(is_created) {
            return 0;
        }
        loop {
            let tokens = self.thread.parker.park(None);
            if is_created() || without("worker.is_created") {
                return tokens;
            }
        }
    }

    /// Whether the worker that created this one, and had the CPU that it has now, has blocked. An
    /// alarm would come only once this one sleeps.
    ///
    /// PERF: it saves one of two switches for each new worker of a per-CPU pool, and 4 of 47 µs.
    fn finds_creator_blocked(&self, is_created: impl FnOnce() -> bool) -> bool {
        self.pool.is_looked_at()
            && self.pool.is_watched()
            && is_created()
            && detection::detect(self.pool, Some(self.id), By::Alarm).is_to_ask()
    }

    /// A worker that has just been created may be told, too.
    fn look_if_told(&self, tokens: u32) {
        if tokens & park::CHECK != 0 && !leaves_out("worker.check") {
            detection::on_alarm(self.pool, self.id);
        }
    }

    /// Opens what this thread is to be looked at with. Each may be refused; the detectors do with
    /// what is there.
    fn open_senses(&self) -> Senses {
        if IS_MODEL {
            return Senses::default();
        }
        let clock = CpuClock::of_current_thread().ok();
        let mut senses = Senses::new(self.thread.comm.tid().unwrap_or_default(), clock);
        if !self.pool.is_looked_at() {
            return senses;
        }
        if self.pool.runtime.detect == Detect::Perf {
            senses.switches = open_switch_records();
        }
        // PERF: opening it takes 7 of the 80 µs that a new worker costs, and where there are switch
        // records hardly any look needs it. But if it cannot be read, a pool's first worker says
        // so, and not a later look.
        if senses.switches.is_none() || self.id == WorkerId(0) {
            let _ = senses.stat();
        }
        senses
    }

    /// Takes the pool's lock, to ask it for work next.
    fn lock_to_ask(&self) -> PoolGuard<'static> {
        let mut guard = self.pool.lock(LockFor::Decide);
        guard.needs_no_wake_up(self.id);
        guard
    }

    fn run(&self, context: &Context) {
        let mut guard = self.lock_to_ask();
        loop {
            match guard.core.next(self.id, clock::now) {
                Next::Run(claim) => guard = self.run_claim(guard, context, claim),
                Next::Manage => {
                    self.thread.mirror.idle(clock::coarse);
                    self.pool.unlock(guard, Kick::None);
                    self.pool.create_worker(Creator::Manager(self.id));
                    guard = self.lock_to_ask();
                }
                Next::Sleep { work_waits } => {
                    self.sleep(guard, context, work_waits);
                    guard = self.lock_to_ask();
                }
                Next::Exit => {
                    self.thread.meter.charge(&mut guard.core);
                    self.thread.mirror.idle(clock::coarse);
                    guard.set_thread(self.id, None);
                    guard.refresh_standby(self.pool);
                    self.pool.unlock(guard, Kick::None);
                    trace::worker(Kind::WorkerCulled, self.pool, self.thread.tid());
                    self.pool.detach(&self.thread);
                    self.pool.runtime.headcount.leave();
                    return;
                }
            }
        }
    }

    /// The worker as one that serves a pool.
    #[inline(always)]
    pub(crate) fn server(&self, pool: &'static Pool, id: WorkerId, is: As) -> Server<'_> {
        Server { pool, id, is, meter: &self.thread.meter, mirror: &self.thread.mirror }
    }

    /// One claimed item, and what is behind it. Returns with the lock held, under which the worker
    /// asks for its next item.
    #[inline]
    fn run_claim(
        &self,
        guard: PoolGuard<'static>,
        context: &Context,
        claim: Claim,
    ) -> PoolGuard<'static> {
        let server = self.server(self.pool, self.id, As::Worker);
        let mut guard = server.run_item(guard, &claim, || {
            self.call_first(context, &claim, claim.seq);
            if claim.more > 0 {
                let _ = self.run_batch(context, &claim, self.pool, None);
            }
        });
        // If runs are traced, those of barriers are, too.
        if !trace::wants_runs() {
            guard = self.pass_barriers(guard);
        }
        guard.take_inbox_after_item(self.pool);
        guard
    }

    /// Wakes the threads that wait for the item that has just ended.
    #[inline]
    fn pass_barriers(&self, mut guard: PoolGuard<'static>) -> PoolGuard<'static> {
        while let Some(Passed { barrier, is_last, effects }) = guard.core.pass_barrier(self.id) {
            drop(guard);
            // First, so that a thread that was woken does not find the item running any more.
            self.thread.mirror.ended();
            // SAFETY: the core has just given it up.
            unsafe { flush::pass(barrier) };
            self.pool.act_effects(effects);
            guard = self.pool.lock(LockFor::Counts);
            if is_last {
                break;
            }
        }
        guard
    }

    /// The items of `pool` that were taken along with the first one, until they are called back.
    /// Returns how many these are. `lent`: for a helper, the run that its own pool knows of.
    #[inline(never)]
    fn run_batch(
        &self,
        context: &Context,
        first: &Claim,
        pool: &'static Pool,
        lent: Option<u64>,
    ) -> u32 {
        let (Some(batch), mut ran) = (&self.batch, 0) else { return 0 };
        let is_along = lent.is_none();
        let mut claim = Claim { is_to_wait: false, more: 0, is_along, kick: Kick::None, ..*first };
        while ran < first.more && (lent.is_none() || self.helper_may_begin_next()) {
            // SAFETY: the batch is this worker's, and the claim has at least so many items.
            let Some((item, func)) = (unsafe { batch.begin(pool.id) }) else { break };
            ran += 1;
            (claim.item, claim.func, claim.seq) = (item, func, claim.seq + 1);
            self.thread.mirror.started_next(&claim);
            if !is_along && trace::wants_activations() {
                trace::activate_along(pool, &claim);
            }
            self.enter(context, &claim, lent.unwrap_or(claim.seq));
        }
        if self.thread.was_blocked() {
            self.report_wait(None);
        }
        ran
    }

    /// Calls the function of the first item of a claim, with the thread's name and CPU set right;
    /// and reports to the worker's own pool whether the item has waited. The item must not be
    /// touched afterwards.
    #[inline(always)]
    pub(crate) fn call_first(&self, context: &Context, claim: &Claim, seq: u64) {
        if self.thread.comm.turn_to(Some(claim.wq)) {
            self.pool.runtime.service.write_comms_soon();
        }
        match self.runs_to_look.get() {
            0 => self.look_where_it_is(),
            runs => self.runs_to_look.set(runs - 1),
        }
        let sleeps = if claim.is_to_wait { sense::own_sleeps() } else { None };
        self.enter(context, claim, seq);
        if sleeps.is_some() || self.thread.was_blocked() {
            self.report_wait(sleeps);
        }
    }

    /// Notes which CPU the thread is on, and reports that it should be elsewhere.
    #[inline(never)]
    fn look_where_it_is(&self) {
        // Where a filter refuses the call, nobody is known to be misplaced.
        if let Some(cpu) = sense::sched::current_cpu() {
            if self.pool.is_misplaced(cpu) && !self.thread.is_unbound() {
                self.pool.runtime.service.rescan_soon();
            }
            self.thread.set_cpu(cpu);
        }
        if self.pool.has_lone_cpu() {
            self.runs_to_look.set(RUNS_PER_LOOK - 1);
        }
    }

    /// Reports to the core whether the item has waited. `sleeps`: how often the thread had slept
    /// before the item, if the core expected that the item would wait.
    #[cold]
    fn report_wait(&self, sleeps: Option<u64>) {
        let waited = self.thread.take_waited();
        let has_slept = sleeps.is_none_or(|before| sense::own_sleeps() != Some(before));
        self.pool.lock(LockFor::Counts).core.learn_wait(waited, has_slept);
    }

    /// Calls an item's function. The thread shows the queue's name already, and on which CPU it
    /// runs: [`call_first`](Self::call_first) sees to that, for a whole batch.
    #[inline(always)]
    fn enter(&self, context: &Context, claim: &Claim, seq: u64) {
        let (thread, begin) = (&*self.thread, self.long_items.begin());
        context.begin(claim, seq);
        thread.enter_function(seq);
        // SAFETY: the caller that queued the item has promised that its function may be called with
        // it, once.
        unsafe { invoke::call(self.pool, claim) };
        invoke::after_function(self.pool.runtime);
        thread.leave_function();
        context.end();
        if let Some(begin) = begin {
            self.report_length(begin, claim.wq);
        }
    }

    /// A measured item of the queue has ended, which began at the CPU time `begin`.
    #[cold]
    fn report_length(&self, begin: Nanos, wq: WqKey) {
        let Some(length) = self.long_items.end(begin) else { return };
        if let Some(wq) = self.pool.runtime.wq(wq) {
            wq.set_length(length);
        }
    }

    /// The worker is idle. Before it sleeps, it looks whether another pod has a backlog.
    fn sleep(&self, mut guard: PoolGuard<'static>, context: &Context, work_waits: bool) {
        let now = clock::coarse();
        self.thread.mirror.idle(|| now);
        guard.mirror.publish_ring(now);
        // The newest idle worker stands by: it is the one that would be woken.
        let has_to_watch = guard.has_to_watch(self.pool);
        if has_to_watch {
            guard.refresh_standby(self.pool);
        } else {
            guard.unwatch(self.pool);
        }
        let (cull, is_closed) = (guard.core.cull_at(), guard.core.is_closed());
        self.pool.unlock(guard, if has_to_watch { Kick::Watch } else { Kick::None });
        self.pool.runtime.service.cull_at(cull);
        if !work_waits && self.pool.pod.is_some() && self.help(context) {
            return;
        }
        if self.thread.comm.turn_to(None) {
            self.pool.runtime.service.write_comms_soon();
        }
        self.pool.runtime.service.wake_for_deferred();
        if is_closed {
            self.pool.dismiss_idle();
        }
        let tokens = self.thread.parker.park(None);
        self.look_if_told(tokens);
        if self.pool.pod.is_some() {
            self.long_items.slept();
        }
        if self.thread.is_unbound() {
            self.pool.rebind(&self.thread);
        }
        self.pool.repatriate();
        self.runs_to_look.set(0);
    }
}

fn open_switch_records() -> Option<SwitchRecords> {
    let refused = |refusal| {
        notice::once(Notice::PerfBudget, || {
            format!("no switch records for some workers ({refusal}); they are watched by the tick")
        });
    };
    SwitchRecords::open_current_thread().map_err(refused).ok()
}
