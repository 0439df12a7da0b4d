//! A workqueue: a cheap front-end that leads to pools.
//!
//! An idle queue has a name, flags and one pointer; what it needs per pool (a [`Link`] to its pwq
//! there) is made when the first item goes that way. Queueing reads one published pointer and takes
//! one lock.
//!
//! Lock: WQ ([`State`]), outside of the pools' locks.

use std::fmt;
use std::ptr::NonNull;

use cmwq_core::{
    Enqueued, FlushState, FlushTarget, Grab, Kick, NodeSlots, PwqConfig, PwqId, PwqRef, Start,
    WorkItem, WorkWord, WqKey,
};

use crate::countdown::Countdown;
use crate::current;
use crate::limit::NodeLimits;
use crate::park::Event;
use crate::pool::Pool;
use crate::published::Published;
use crate::runtime::Runtime;
use crate::sync::{self, Arc, Mutex, OnceLock, lock};

/// What kind of pools a queue leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Percpu,
    Unbound,
    Managed,
    /// Unbound, one pool, one item at a time, in order.
    Ordered,
}

/// What a queue was asked to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    pub(crate) highpri: bool,
    pub(crate) cpu_intensive: bool,
    pub(crate) max_active: u32,
}

/// A queue's way into one pool.
pub(crate) struct Link {
    pub(crate) pool: &'static Pool,
    pub(crate) pwq: PwqId,
}

/// See the module header.
pub(crate) struct Wq {
    pub(crate) key: WqKey,
    pub(crate) name: Box<str>,
    pub(crate) spec: Spec,
    pub(crate) runtime: &'static Runtime,
    /// One slot per CPU or pod; allocated with the first item.
    slots: OnceLock<Box<[Published<Link>]>>,
    limits: OnceLock<NodeLimits>,
    state: Mutex<State>,
    pwqs_to_flush: Countdown,
}

/// Lock: WQ.
#[derive(Debug)]
struct State {
    flush: FlushState<u64>,
    flushers: Vec<(u64, Arc<Event>)>,
    next_flusher: u64,
    links: Vec<PwqRef>,
}

/// A barrier of `flush_work`, on the flusher's stack.
#[repr(C)]
struct Barrier {
    item: WorkItem,
    done: Arc<Event>,
}

unsafe extern "C" fn barrier_fn(item: *mut WorkItem) {
    // SAFETY: the item of a barrier is its first member, and the flusher waits for `set`.
    let done = unsafe { Arc::clone(&(*item.cast::<Barrier>()).done) };
    done.set();
}

impl Wq {
    pub(crate) fn new(key: WqKey, name: &str, spec: Spec, runtime: &'static Runtime) -> Self {
        Self {
            key,
            name: name.into(),
            spec,
            runtime,
            slots: OnceLock::new(),
            limits: OnceLock::new(),
            state: Mutex::new(State {
                flush: FlushState::new(),
                flushers: Vec::new(),
                next_flusher: 0,
                links: Vec::new(),
            }),
            pwqs_to_flush: Countdown::at_end(),
        }
    }

    /// The way for an item that was queued for `cpu`, or from here.
    #[inline]
    pub(crate) fn link(&self, cpu: Option<u32>) -> &Link {
        let slots = self.slots.get_or_init(|| {
            let count = self.runtime.nr_slots(self.spec.kind);
            (0..count).map(|_| Published::nothing()).collect()
        });
        let index = if slots.len() == 1 { 0 } else { self.runtime.slot(self.spec.kind, cpu) };
        match slots[index].get() {
            Some(link) => link,
            None => self.make_link(&slots[index], index),
        }
    }

    #[cold]
    fn make_link<'a>(&self, slot: &'a Published<Link>, index: usize) -> &'a Link {
        let mut state = lock(&self.state);
        if let Some(link) = slot.get() {
            return link;
        }
        let pool = self.runtime.pool_for(self.spec, index);
        let limits = self.limits.get_or_init(|| self.runtime.limits(self.spec));
        let (max_active, node) = limits.of(index);
        let pwq = pool.lock_only().core.add_pwq(PwqConfig {
            wq: self.key,
            max_active,
            node: node.map(|node| node as Arc<dyn NodeSlots>),
            cpu_intensive: self.spec.cpu_intensive,
            work_color: state.flush.work_color(),
        });
        state.links.push(PwqRef { pool: pool.id, pwq });
        slot.publish(Box::new(Link { pool, pwq }))
    }

    // ---- queueing

    /// Queues an item. `false`: it was pending already, or is disabled.
    ///
    /// KERNEL: `queue_work_on`, `__queue_work` — same; an idle item whose last pool is the chosen
    /// one is claimed and queued by one atomic operation under the pool's lock.
    ///
    /// # Safety
    /// `item` must be valid with the provenance of the object that holds it, and stay where it is
    /// until its function is entered, if the result is `true`.
    #[inline]
    pub(crate) unsafe fn queue_item(&self, cpu: Option<u32>, item: NonNull<WorkItem>) -> bool {
        // SAFETY: valid by the caller's promise.
        let seen = unsafe { item.as_ref() }.word();
        let Link { pool, pwq } = *self.link(cpu);
        let is_at_home = seen.pool().is_none_or(|last| last == pool.id);
        if is_at_home && !seen.is_pending() && seen.disable_depth() == 0 {
            // SAFETY: passed on to the caller.
            if unsafe { self.queue_at_home(pool, pwq, item, seen) } {
                return true;
            }
        }
        // SAFETY: as above.
        let was = unsafe { item.as_ref() }.claim();
        if was.is_pending() {
            return false;
        }
        if was.disable_depth() != 0 {
            // SAFETY: valid by the caller's promise.
            self.release_item(unsafe { item.as_ref() }, was);
            return false;
        }
        // SAFETY: PENDING is ours now.
        unsafe { self.queue_claimed(cpu, item) };
        true
    }

    /// Queues an item whose last pool is the chosen one. `false`: its word has changed meanwhile.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item).
    #[inline]
    unsafe fn queue_at_home(
        &self,
        pool: &'static Pool,
        pwq: PwqId,
        item: NonNull<WorkItem>,
        seen: WorkWord,
    ) -> bool {
        if pool.inbox.is_saturated() {
            // SAFETY: valid by the caller's promise.
            if !unsafe { item.as_ref() }.claim_for(seen, pool.id) {
                return false;
            }
            // SAFETY: PENDING is ours, and the word names the pool.
            if !unsafe { pool.inbox.push(item, pwq) } {
                pool.unlock(pool.lock(), Kick::None);
            }
            return true;
        }
        let mut guard = pool.lock();
        // SAFETY: passed on to the caller.
        let queued = unsafe { guard.core.enqueue_idle(pwq, item, seen) };
        let (queued, kick) = match queued {
            Enqueued::Queued(kick) => (true, kick),
            Enqueued::Changed => (false, Kick::None),
        };
        pool.unlock(guard, kick);
        queued
    }

    /// Queues an item whose PENDING the caller owns.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item).
    pub(crate) unsafe fn queue_claimed(&self, cpu: Option<u32>, item: NonNull<WorkItem>) {
        // SAFETY: valid by the caller's promise.
        let (last, func) = unsafe { (item.as_ref().word().pool(), item.as_ref().func()) };
        let link = self.link(cpu);
        let (mut pool, mut pwq) = (link.pool, link.pwq);
        // Non-reentrance: a pool that still runs the item for this queue runs it again.
        let elsewhere = last.filter(|&last| last != pool.id && self.spec.kind != Kind::Ordered);
        let mut guard = None;
        if let Some(other) = elsewhere.and_then(|last| self.runtime.pool(last)) {
            let locked = other.lock();
            if let Some(same) = locked.core.executing_on(item.as_ptr() as usize, func, self.key) {
                (pool, pwq) = (other, same);
                guard = Some(locked);
            } else {
                other.unlock(locked, Kick::None);
            }
        }
        let mut guard = guard.unwrap_or_else(|| pool.lock());
        // SAFETY: PENDING is owned by the caller.
        let kick = unsafe { guard.core.enqueue(pwq, item) };
        pool.unlock(guard, kick);
    }

    /// Gives up the ownership of PENDING of an item that is not queued.
    #[cold]
    pub(crate) fn release_item(&self, item: &WorkItem, word: WorkWord) {
        item.release(word);
    }

    // ---- waiting

    /// Waits until everything queued before has finished. KERNEL: `flush_workqueue` — same.
    pub(crate) fn flush(&self) {
        let done = Arc::new(Event::new());
        let mut state = lock(&self.state);
        let me = state.next_flusher;
        state.next_flusher += 1;
        let State { flush, flushers, links, .. } = &mut *state;
        flushers.push((me, Arc::clone(&done)));
        let start = flush.start(me, &mut |flush, color| self.prep_pwqs(links, flush, color));
        if start == Start::Done {
            state.forget_flusher(me);
            return;
        }
        drop(state);
        current::blocking(|| done.wait(None));
        self.hand_over(me);
    }

    /// The woken flusher leaves; the first one takes care of the others.
    fn hand_over(&self, me: u64) {
        let mut state = lock(&self.state);
        state.forget_flusher(me);
        if !state.flush.is_first(me) {
            return;
        }
        let mut finished = Vec::new();
        let State { flush, links, .. } = &mut *state;
        flush.cascade(&mut |flush, color| self.prep_pwqs(links, flush, color), |flusher| {
            finished.push(flusher)
        });
        let events: Vec<_> =
            state.flushers.iter().filter(|(id, _)| finished.contains(id)).cloned().collect();
        drop(state);
        for (_, event) in events {
            event.set();
        }
    }

    /// Arms the queue's pwqs. KERNEL: `flush_workqueue_prep_pwqs` — same.
    fn prep_pwqs(&self, links: &[PwqRef], flush: Option<u8>, color: Option<u8>) -> bool {
        // Without a colour to flush only that of new items changes, and a flush may be counting.
        if flush.is_some() {
            self.pwqs_to_flush.restart();
        }
        for link in links {
            let Some(pool) = self.runtime.pool(link.pool) else { continue };
            let mut guard = pool.lock();
            if guard.core.flush_prep(link.pwq, flush, color) {
                self.pwqs_to_flush.add();
            }
            pool.unlock(guard, Kick::None);
        }
        flush.is_some() && !self.pwqs_to_flush.done()
    }

    /// One pwq has nothing of the flushed colour left.
    pub(crate) fn flush_pwq_done(&self) {
        if !self.pwqs_to_flush.done() {
            return;
        }
        let state = lock(&self.state);
        let first = state.flush.first();
        let event = first.and_then(|first| state.flushers.iter().find(|(id, _)| *id == first));
        let event = event.map(|(_, event)| Arc::clone(event));
        drop(state);
        if let Some(event) = event {
            event.set();
        }
    }

    /// Whether anything is queued or running.
    pub(crate) fn is_busy(&self) -> bool {
        let links = lock(&self.state).links.clone();
        links.iter().any(|link| {
            self.runtime.pool(link.pool).is_some_and(|pool| {
                let guard = pool.lock();
                let is_busy = guard.core.pwq_load(link.pwq).is_some_and(|load| load.2);
                pool.unlock(guard, Kick::None);
                is_busy
            })
        })
    }

    /// Waits until nothing is queued or running, newcomers included, then leaves all pools.
    ///
    /// KERNEL: `destroy_workqueue` — differs: it waits for a busy queue instead of leaking it.
    pub(crate) fn destroy(&self) {
        while self.is_busy() {
            self.flush();
        }
        let mut state = lock(&self.state);
        let was_used = !state.links.is_empty();
        for link in state.links.drain(..) {
            let Some(pool) = self.runtime.pool(link.pool) else { continue };
            // Refused while a slot of the node is on its way here, which comes and goes at once.
            while pool.lock_only().core.remove_pwq(link.pwq).is_none() {
                rest();
            }
        }
        drop(state);
        if !was_used {
            return;
        }
        // Another queue may get the key, whose name the threads that showed this one's must show.
        for thread in self.runtime.pools().flat_map(Pool::threads) {
            thread.title.forget(self.key);
        }
    }
}

/// Waits for the last queueing of `item`: `true` if it had to. KERNEL: `flush_work` — same.
pub(crate) fn flush_item(runtime: &'static Runtime, item: &WorkItem) -> bool {
    let done = Arc::new(Event::new());
    let barrier = Barrier { item: WorkItem::new(barrier_fn), done: Arc::clone(&done) };
    let target = NonNull::from(item);
    loop {
        let Some(id) = item.word().pool() else { return false };
        let Some(pool) = runtime.pool(id) else { return false };
        let mut guard = pool.lock();
        if item.word().pool() != Some(id) {
            pool.unlock(guard, Kick::None);
            continue;
        }
        // SAFETY: the target is borrowed; the barrier stays on this stack until `done`.
        let found = unsafe { guard.core.insert_barrier(target, NonNull::from(&barrier).cast()) };
        pool.unlock(guard, Kick::None);
        if found == FlushTarget::Idle {
            return false;
        }
        current::blocking(|| done.wait(None));
        return true;
    }
}

/// Takes a queued item back: `true` if it was queued. It is idle then, and does not wait for a run
/// in progress. KERNEL: `cancel_work` — same, for items without a timer.
pub(crate) fn cancel_item(runtime: &'static Runtime, item: &WorkItem) -> bool {
    loop {
        let word = item.word();
        if !word.is_pending() {
            return false;
        }
        if let Some(pool) = word.pool().and_then(|id| runtime.pool(id)) {
            let mut guard = pool.lock();
            // SAFETY: borrowed, hence valid.
            let grab = unsafe { guard.core.try_grab(NonNull::from(item)) };
            let Grab::Taken(effects) = grab else {
                pool.unlock(guard, Kick::None);
                rest();
                continue;
            };
            pool.unlock(guard, effects.kick);
            item.release(item.word());
            pool.act_effects(effects.flush_done, effects.grant);
            return true;
        }
        rest();
    }
}

/// Somebody is between claiming an item and queueing it, or a timer has it. He may be preempted: no
/// spinning.
fn rest() {
    sync::sleep(crate::worker::SHORT_REST);
}

impl State {
    fn forget_flusher(&mut self, me: u64) {
        self.flushers.retain(|(id, _)| *id != me);
    }
}

/// What keeps a queue in being: the last one to go drains the queue and takes it down.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Owner>);

struct Owner {
    wq: Arc<Wq>,
    /// The thread that drops it has more to do than to wait.
    is_hurried: bool,
}

impl Handle {
    pub(crate) fn new(wq: Arc<Wq>) -> Self {
        Self(Arc::new(Owner { wq, is_hurried: false }))
    }

    pub(crate) fn wq(&self) -> &Wq {
        &self.0.wq
    }

    /// Drops it without waiting: if it is the last one, others take the queue down.
    pub(crate) fn drop_later(self) {
        if let Some(mut owner) = Arc::into_inner(self.0) {
            owner.is_hurried = true;
        }
    }
}

impl std::ops::Deref for Handle {
    type Target = Wq;

    fn deref(&self) -> &Wq {
        self.wq()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let wq = Arc::clone(&self.wq);
        if self.is_hurried || current::current_wq() == Some(wq.key) {
            // An item must not wait for itself; somebody else does.
            wq.runtime.destroy_later(wq);
        } else {
            wq.destroy();
            wq.runtime.forget_wq(wq.key);
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.wq(), f)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PwqRef { pool: self.pool.id, pwq: self.pwq }.fmt(f)
    }
}

impl fmt::Debug for Wq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workqueue").field("name", &self.name).field("spec", &self.spec).finish()
    }
}
