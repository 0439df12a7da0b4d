//! What the tests share: a pool with boxed items, and random numbers that can be repeated.

use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::boxed::Box;
use std::vec::Vec;

use crate::{
    Claim, Effects, FlushTarget, Grab, Inbox, Kick, Lend, Nanos, Next, PoolConfig, PoolId,
    PoolState, PwqConfig, PwqId, Reading, WorkFn, WorkItem, WorkerId, WqKey,
};

pub(super) type ItemPtr = NonNull<WorkItem>;

/// A work item embedded the way users embed it.
#[repr(C)]
pub(super) struct Item {
    work: WorkItem,
    runs: Cell<u32>,
    other_runs: Cell<u32>,
}

/// The usual function: counts.
pub(super) unsafe extern "C" fn count(work: *mut WorkItem) {
    // SAFETY: every item of a fixture is the first member of an `Item`.
    let item = unsafe { &*work.cast::<Item>() };
    item.runs.set(item.runs.get() + 1);
}

/// Another function, with a body of its own so that the compiler cannot merge the two.
pub(super) unsafe extern "C" fn count_other(work: *mut WorkItem) {
    // SAFETY: as above.
    let item = unsafe { &*work.cast::<Item>() };
    item.other_runs.set(item.other_runs.get() + 100);
}

/// A boxed item; the caller frees it with [`free_item`].
pub(super) fn new_item(func: WorkFn) -> ItemPtr {
    let item = Item { work: WorkItem::new(func), runs: Cell::new(0), other_runs: Cell::new(0) };
    NonNull::from(Box::leak(Box::new(item))).cast()
}

/// # Safety
/// `item` must come from [`new_item`] and be on no list.
pub(super) unsafe fn free_item(item: ItemPtr) {
    // SAFETY: made by `Box` in `new_item`; the caller vouches for the rest.
    drop(unsafe { Box::from_raw(item.cast::<Item>().as_ptr()) });
}

pub(super) fn work<'a>(item: ItemPtr) -> &'a WorkItem {
    // SAFETY: tests free items only at their end, or never look at them again.
    unsafe { item.as_ref() }
}

pub(super) fn pwq_config(wq: u32, max_active: u32) -> PwqConfig {
    PwqConfig {
        wq: WqKey(wq),
        max_active,
        node: None,
        cpu_intensive: false,
        rescuer: false,
        work_color: 0,
    }
}

/// One pool, its items, and a clock. Checks every invariant after each call.
pub(super) struct Fixture {
    pool: ManuallyDrop<PoolState>,
    pub(super) inbox: Inbox,
    items: Vec<ItemPtr>,
    pub(super) now: Nanos,
}

impl Fixture {
    /// A pool with that concurrency and `workers` idle workers.
    pub(super) fn new(concurrency: u32, workers: usize) -> (Self, Vec<WorkerId>) {
        Self::with(PoolConfig::new(PoolId(0), concurrency), workers)
    }

    pub(super) fn with(config: PoolConfig, workers: usize) -> (Self, Vec<WorkerId>) {
        let pool = ManuallyDrop::new(PoolState::new(config));
        let mut fixture = Self { pool, inbox: Inbox::new(), items: Vec::new(), now: 1000 };
        let workers = (0..workers).map(|_| fixture.worker()).collect();
        (fixture, workers)
    }

    /// The usual per-CPU pool: two idle workers, one pwq.
    pub(super) fn per_cpu() -> (Self, PwqId, [WorkerId; 2]) {
        let (mut fixture, workers) = Self::new(1, 2);
        let pwq = fixture.pwq(256);
        (fixture, pwq, [workers[0], workers[1]])
    }

    /// The pool, to look at.
    pub(super) fn look(&self) -> Reading<'_> {
        self.pool.reading(&self.inbox)
    }

    pub(super) fn is_executing(&self, item: ItemPtr) -> bool {
        self.look().is_executing(work(item))
    }

    pub(super) fn pwq(&mut self, max_active: u32) -> PwqId {
        self.pool.add_pwq(pwq_config(1, max_active))
    }

    /// An idle worker more.
    pub(super) fn worker(&mut self) -> WorkerId {
        let id = self.pool.worker_new();
        let _ = self.born(id, None);
        id
    }

    /// A registered worker's thread is there.
    pub(super) fn born(&mut self, id: WorkerId, manager: Option<WorkerId>) -> Kick {
        let kick = self.pool.worker_created(id, manager, self.now);
        self.pool.check();
        kick
    }

    /// A registered worker's thread could not be had.
    pub(super) fn birth_fails(&mut self, id: WorkerId, manager: Option<WorkerId>) {
        self.pool.create_failed(id, manager, self.now);
        self.pool.check();
    }

    pub(super) fn item(&mut self) -> ItemPtr {
        self.item_with(count)
    }

    pub(super) fn item_with(&mut self, func: WorkFn) -> ItemPtr {
        let item = new_item(func);
        self.items.push(item);
        item
    }

    /// `queue_work`: the item must be idle.
    pub(super) fn queue(&mut self, pwq: PwqId, item: ItemPtr) -> Kick {
        assert!(!work(item).claim().is_pending(), "queued twice");
        // SAFETY: boxed until the fixture is dropped; PENDING was just won.
        let kick = unsafe { self.pool.enqueue(pwq, item) };
        self.pool.check();
        kick
    }

    /// Queues a fresh item and forgets about the kick.
    pub(super) fn queue_new(&mut self, pwq: PwqId) -> ItemPtr {
        let item = self.item();
        let _ = self.queue(pwq, item);
        item
    }

    pub(super) fn next(&mut self, id: WorkerId) -> Next {
        let now = self.now;
        let next = self.pool.next(id, || now);
        self.pool.check();
        next
    }

    /// The worker must run something now.
    pub(super) fn claim(&mut self, id: WorkerId) -> Claim {
        match self.next(id) {
            Next::Run(claim) => claim,
            other => panic!("{id:?} should run something, not {other:?}"),
        }
    }

    /// The worker must run `item` now. Returns whom it kicks.
    pub(super) fn runs(&mut self, id: WorkerId, item: ItemPtr) -> Kick {
        let claim = self.claim(id);
        assert_eq!(claim.item, item.as_ptr(), "{id:?} runs another item");
        claim.kick
    }

    /// The worker must go to sleep. Returns `watch`.
    pub(super) fn sleeps(&mut self, id: WorkerId) -> bool {
        match self.next(id) {
            Next::Sleep { work_waits } => work_waits,
            other => panic!("{id:?} should sleep, not {other:?}"),
        }
    }

    /// The worker must become manager.
    pub(super) fn manages(&mut self, id: WorkerId) {
        let next = self.next(id);
        assert!(matches!(next, Next::Manage), "{id:?} should manage, not {next:?}");
    }

    /// The worker must leave.
    pub(super) fn exits(&mut self, id: WorkerId) {
        let next = self.next(id);
        assert!(matches!(next, Next::Exit), "{id:?} should exit, not {next:?}");
    }

    pub(super) fn finish(&mut self, id: WorkerId) -> Effects {
        let effects = self.pool.finish(id);
        self.pool.check();
        effects
    }

    /// The worker passes this barrier now.
    pub(super) fn passes(&mut self, id: WorkerId, barrier: ItemPtr) -> Effects {
        let passed = self.pool.pass_barrier(id).expect("no barrier comes next");
        self.pool.check();
        assert_eq!(passed.barrier, barrier, "{id:?} passes another one");
        assert!(!work(barrier).is_pending(), "it is not given up");
        passed.effects
    }

    /// No queue leads here: those leave, in this order, and no others.
    pub(super) fn close_and_dismiss(&mut self, expected: &[WorkerId]) {
        assert!(self.pool.close_if_unused());
        let dismissed: Vec<_> = std::iter::from_fn(|| self.pool.dismiss_one()).collect();
        self.pool.check();
        assert_eq!(dismissed, expected);
    }

    /// The run in which `id` is.
    pub(super) fn seq(&self, id: WorkerId) -> u64 {
        self.pool.worker_view(id).expect("no such worker").seq
    }

    /// The run in which `id`, which is bound to its pool's CPUs, may help another pool.
    pub(super) fn lends(&mut self, id: WorkerId) -> Option<u64> {
        match self.pool.lend(id, false) {
            Lend::Lent(seq) => Some(seq),
            Lend::No => None,
            Lend::Rebind => panic!("{id:?} is bound"),
        }
    }

    /// Reports `id` blocked in its present run.
    pub(super) fn blocks(&mut self, id: WorkerId) -> Kick {
        let seq = self.seq(id);
        let kick = self.pool.worker_blocked(id, seq);
        self.pool.check();
        kick
    }

    /// Reports `id` back in its present run, by a look.
    pub(super) fn resumes(&mut self, id: WorkerId) {
        let seq = self.seq(id);
        let _ = self.pool.worker_resumed(id, seq);
        self.pool.check();
    }

    pub(super) fn barrier(&mut self, target: ItemPtr, barrier: ItemPtr) -> FlushTarget {
        // SAFETY: both are boxed until the fixture is dropped; the barrier is idle.
        let found = unsafe { self.pool.insert_barrier(target, barrier) };
        self.pool.check();
        found
    }

    /// `cancel_work` up to the point where the caller owns `PENDING`.
    pub(super) fn grab(&mut self, item: ItemPtr) -> Grab {
        // SAFETY: boxed until the fixture is dropped.
        let grab = unsafe { self.pool.try_grab(item) };
        self.pool.check();
        grab
    }

    /// The whole of `cancel_work` on a queued item.
    pub(super) fn cancel(&mut self, item: ItemPtr) -> (Kick, Effects) {
        match self.grab(item) {
            Grab::Taken(kick, effects) => {
                work(item).publish_idle(work(item).word().with_pending(false));
                (kick, effects)
            }
            Grab::NotHere => panic!("nothing to cancel"),
        }
    }
}

impl Deref for Fixture {
    type Target = PoolState;

    fn deref(&self) -> &PoolState {
        &self.pool
    }
}

impl DerefMut for Fixture {
    fn deref_mut(&mut self) -> &mut PoolState {
        &mut self.pool
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A second panic, from the lists' own checks, would hide the first.
            return;
        }
        for &item in &self.items {
            // SAFETY: still boxed.
            let _ = unsafe { self.pool.try_grab(item) };
        }
        // SAFETY: dropped once, before the items, which nothing refers to any more.
        unsafe { ManuallyDrop::drop(&mut self.pool) };
        for &item in &self.items {
            // SAFETY: off all lists now.
            unsafe { free_item(item) };
        }
    }
}

/// A pool in which somebody always comes when kicked, so that everything that may start has
/// started.
pub(super) struct Crowd {
    pub(super) f: Fixture,
    /// Who runs what.
    pub(super) busy: Vec<(WorkerId, ItemPtr)>,
    /// Everything that was started, in order.
    pub(super) started: Vec<ItemPtr>,
}

impl Crowd {
    pub(super) fn new(config: PoolConfig) -> Self {
        let (f, _) = Fixture::with(config, 1);
        Self { f, busy: Vec::new(), started: Vec::new() }
    }

    pub(super) fn act(&mut self, kick: Kick) {
        self.f.check();
        if let Kick::Wake(id) = kick {
            self.look(id);
        }
    }

    fn look(&mut self, id: WorkerId) {
        match self.f.next(id) {
            Next::Run(claim) => {
                let item = NonNull::new(claim.item).expect("an item");
                self.started.push(item);
                self.busy.push((id, item));
                self.act(claim.kick);
            }
            Next::Manage => {
                let new = self.f.worker_new();
                let kick = self.f.born(new, Some(id));
                self.look(id);
                self.act(kick);
            }
            Next::Sleep { .. } | Next::Exit => {}
        }
    }

    pub(super) fn queue(&mut self, pwq: PwqId) -> ItemPtr {
        let item = self.f.item();
        let kick = self.f.queue(pwq, item);
        self.act(kick);
        item
    }

    pub(super) fn is_running(&self, item: ItemPtr) -> bool {
        self.busy.iter().any(|&(_, busy)| busy == item)
    }

    /// Finishes a running item; its worker looks for more only after `effects` were acted on.
    pub(super) fn finish(&mut self, item: ItemPtr, effects: impl FnOnce(Effects)) {
        let at = self.busy.iter().position(|&(_, busy)| busy == item).expect("not running");
        let (id, _) = self.busy.swap_remove(at);
        effects(self.f.finish(id));
        self.look(id);
    }
}

/// xorshift64*: enough for tests, and nothing to depend on.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give neighbouring sequences, and the state must not be 0.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len())]) }
    }
}

/// Runs `test` with `seeds` fixed seeds (fewer under Miri) and with `CMWQ_SEED`.
#[expect(clippy::print_stderr, reason = "the harness shows it if the test fails, to replay it")]
pub(super) fn with_seeds(seeds: u64, test: impl Fn(&mut Rng)) {
    let seeds = if cfg!(miri) { seeds.min(2) } else { seeds };
    let given = std::env::var("CMWQ_SEED").ok().map(|seed| {
        seed.parse().unwrap_or_else(|_| panic!("CMWQ_SEED={seed} is not a number; give one"))
    });
    for seed in (0..seeds).chain(given) {
        std::eprintln!("replay with CMWQ_SEED={seed}");
        test(&mut Rng::new(seed));
    }
}

/// How long a random test is: `steps`, or as many as Miri can do in a second or two.
pub(super) const fn steps(steps: usize, under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { steps }
}
