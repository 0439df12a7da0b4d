//! Trace events: what happens to items and workers, for `cmwq trace`, `CMWQ_TRACE`, the `tracing`
//! crate (feature `tracing`) and USDT probes (feature `usdt`).
//!
//! Compiled in and off: each hook here is one load of a static and a branch that is not taken.
//! Switched on, by a reader in this process or another, a hook writes an event of six words into a
//! ring of its own thread: no lock, no allocation, no system call, whatever the reader does. Hooks
//! under a core lock write only if the thread has its ring already; whoever is going to take such a
//! lock calls `ready` before.
//!
//! Here are the hooks. `control` has the switch and the file, `local` the thread's ring, `ring` the
//! protocol; `session` and `file` are the reader's side, which the command uses, too.
//!
//! KERNEL: `include/trace/events/workqueue.h` — the same four events with the same fields, and
//! more.
//!
//! Why: docs/decisions/trace-words.md

#[cfg(feature = "tracing")]
pub(crate) mod callers;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod control;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod destination;
mod event;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub mod file;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod flusher;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod layout;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod local;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod map;
mod outside;
#[cfg_attr(not(cmwq_loom), allow(dead_code, reason = "what only one of the builds uses"))]
pub(crate) mod ring;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod session;
#[cfg_attr(any(cmwq_loom, cmwq_shuttle), path = "trace/sink_model.rs")]
mod sink;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod stamp;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod turns;

use std::ptr::NonNull;

use cmwq_core::{Activation, Claim, WorkItem, WqKey};

pub(crate) use event::Moment;
pub use event::{ALL, ANY_CPU, Event, Kind, NAMES, Record, WORDS, unpack};
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub use session::{Round, Session, Tick};

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use sink::{
    FlusherGuard, RingsGuard, finish, leave_behind, lock_flusher, lock_rings, open,
};

pub(crate) use outside::queued;

use outside::probe;

use crate::os::IS_MODEL;
use crate::os::sync::Arc;
use crate::record::symbol::closures;

/// A pool, as far as events tell of it.
pub(crate) trait TracedPool {
    type Queue: TracedQueue;

    /// Its number.
    fn id(&self) -> u32;

    /// The CPU that it serves, if its kind serves one.
    fn cpu(&self) -> Option<u32>;

    /// One of the process's queues, while it is there.
    fn queue(&self, key: WqKey) -> Option<Arc<Self::Queue>>;
}

/// A queue, as far as events tell of it.
pub(crate) trait TracedQueue {
    /// Its number.
    fn key(&self) -> u32;

    fn name(&self) -> &str;

    /// Whether nobody has told this reader the queue's name yet.
    fn is_new_to(&self, session: u32) -> bool;

    /// Somebody has.
    fn is_named_to(&self, session: u32);
}

/// Whether events of the kind are wanted.
#[inline(always)]
pub(crate) fn is_on(kind: Kind) -> bool {
    sink::mask() & kind.bit() != 0
}

/// The queue of this key has gone: whoever gets the key has another name.
pub(crate) fn forget_queue(key: WqKey) {
    sink::forget_queue(key.0);
}

/// Sees to it that the calling thread may write under core locks, if anything is traced. Caller
/// holds none. Returns what [`wants_activations`] does, by the same look at the switch.
#[inline(always)]
pub(crate) fn ready() -> bool {
    let mask = sink::mask();
    if mask != 0 {
        get_ready();
    }
    ALWAYS_WANTS_ACTIVATIONS || mask & Kind::ActivateWork.bit() != 0
}

#[cold]
fn get_ready() {
    sink::ready();
}

/// What is made of runs.
const RUNS: u32 = Kind::ExecuteStart.bit() | Kind::ExecuteEnd.bit();
/// A probe, or a subscriber, does not know whether anybody looks.
const ALWAYS_WANTS_RUNS: bool = cfg!(any(feature = "tracing", feature = "usdt")) && !IS_MODEL;

/// Whether runs are traced at all.
#[inline(always)]
pub(crate) fn wants_runs() -> bool {
    ALWAYS_WANTS_RUNS || sink::mask() & RUNS != 0
}

/// Whether anything is traced of an item whose turn has come.
#[inline(always)]
pub(crate) fn wants_turns() -> bool {
    const TURNS: u32 = RUNS | Kind::ActivateWork.bit();
    ALWAYS_WANTS_RUNS || ALWAYS_WANTS_ACTIVATIONS || sink::mask() & TURNS != 0
}

/// Makes the events of a run around `call`, which calls the function of the claimed item. Caller
/// holds no core lock.
#[cold]
pub(crate) fn run(pool: &impl TracedPool, claim: &Claim, call: impl FnOnce()) {
    let mut told = 0;
    if sink::mask() != 0 {
        told = session();
        tell_names(pool, claim);
    }
    #[cfg(feature = "tracing")]
    let _span = outside::executing(pool, claim);
    emit_begin(pool, claim);
    call();
    probe_end(pool, claim);
    if is_on(Kind::ExecuteEnd) {
        emit_end(pool, claim, told);
    }
}

/// A function has returned that was called while no runs were traced: whoever has begun to look
/// since then knows of it, and is told of its end.
#[inline(always)]
pub(crate) fn has_run(pool: &impl TracedPool, claim: &Claim) {
    probe_end(pool, claim);
    if is_on(Kind::ExecuteEnd) {
        emit_late_end(pool, claim);
    }
}

#[cold]
fn emit_late_end(pool: &impl TracedPool, claim: &Claim) {
    emit_end(pool, claim, 0);
}

#[cfg_attr(not(feature = "usdt"), allow(unused_variables, reason = "there is nobody to tell"))]
#[inline(always)]
fn probe_end(pool: &impl TracedPool, claim: &Claim) {
    probe!(workqueue_execute_end, claim.item, claim.func as usize, claim.wq.0, pool.id());
}

/// KERNEL: `workqueue_execute_end` — same. The reader that was `told` the names may have gone, and
/// another one come: 0, nobody was.
#[inline(always)]
fn emit_end(pool: &impl TracedPool, claim: &Claim, told: u32) {
    if told != session() {
        tell_names(pool, claim);
    }
    let Some(moment) = sink::moment() else { return };
    sink::record_end(&event_of_run(Kind::ExecuteEnd, pool, claim), claim.seq, moment);
}

/// Number of the reader, while there is one.
#[inline]
pub(crate) fn session() -> u32 {
    sink::session()
}

/// Writes an event, now. Of what was switched on; the caller has looked. Inlined, so that the event
/// is made where it is written.
#[inline(always)]
fn record(event: &Event) {
    if let Some(moment) = sink::moment() {
        sink::record(event, moment);
    }
}

/// KERNEL: `workqueue_queue_work` — same. Where the pwq is chosen and nobody can start the item
/// yet.
#[inline(always)]
pub(crate) fn queue_work(
    wq: &impl TracedQueue,
    pool: &impl TracedPool,
    item: NonNull<WorkItem>,
    cpu: Option<u32>,
) {
    probe!(
        workqueue_queue_work,
        item.as_ptr(),
        // SAFETY: nobody can start the item yet, so it is valid.
        unsafe { item.as_ref() }.func() as usize,
        wq.name().as_ptr(),
        wq.name().len(),
        cpu.map_or(-1, i64::from),
        pool.id()
    );
    if is_on(Kind::QueueWork) {
        emit_queue_work(wq, pool, item, cpu);
    }
}

#[cold]
fn emit_queue_work(
    wq: &impl TracedQueue,
    pool: &impl TracedPool,
    item: NonNull<WorkItem>,
    cpu: Option<u32>,
) {
    // SAFETY: nobody can start the item yet, so it is valid.
    let func = unsafe { item.as_ref() }.func();
    sink::tell_queue(wq);
    sink::name_function(func as usize, closures::name);
    record(&Event {
        pool: pool.id(),
        wq: wq.key(),
        requested_cpu: cpu.and_then(|cpu| i32::try_from(cpu).ok()).unwrap_or(ANY_CPU),
        work: item.addr().get() as u64,
        func: func as usize as u64,
        pool_cpu: cpu_of(pool),
        ..Event::new(Kind::QueueWork)
    });
}

/// A probe does not know whether anybody looks.
const ALWAYS_WANTS_ACTIVATIONS: bool = cfg!(feature = "usdt") && !IS_MODEL;

/// Whether the moments at which items become active have to be recorded.
#[inline(always)]
pub(crate) fn wants_activations() -> bool {
    ALWAYS_WANTS_ACTIVATIONS || is_on(Kind::ActivateWork)
}

/// KERNEL: `workqueue_activate_work` — same. `moment` is when, once that has been looked up.
#[cold]
pub(crate) fn activate_work(
    pool: &impl TracedPool,
    activation: &Activation,
    moment: &mut Option<Option<Moment>>,
) {
    probe!(
        workqueue_activate_work,
        activation.addr,
        activation.func as usize,
        activation.wq.0,
        pool.id()
    );
    if !is_on(Kind::ActivateWork) {
        return;
    }
    let Some(moment) = *moment.get_or_insert_with(sink::moment) else { return };
    let event = Event {
        pool: pool.id(),
        wq: activation.wq.0,
        work: activation.addr as u64,
        func: activation.func as usize as u64,
        pool_cpu: cpu_of(pool),
        ..Event::new(Kind::ActivateWork)
    };
    sink::record(&event, moment);
}

/// A helper begins an item that it has taken along from another pool, in which it becomes active.
#[cold]
pub(crate) fn activate_along(pool: &impl TracedPool, claim: &Claim) {
    let activation = Activation { addr: claim.item.addr(), func: claim.func, wq: claim.wq };
    activate_work(pool, &activation, &mut None);
}

/// So many events could not be kept.
#[inline]
pub(crate) fn lose(count: u64) {
    if count > 0 {
        sink::lose(count);
    }
}

/// KERNEL: `workqueue_execute_start` — same. An item that was taken along becomes active and begins
/// as the one before ends, with its slot: one look at the clock will do for all of that.
#[inline(always)]
fn emit_begin(pool: &impl TracedPool, claim: &Claim) {
    let mut kinds = Kind::ExecuteStart.bit();
    if claim.is_along {
        probe!(workqueue_activate_work, claim.item, claim.func as usize, claim.wq.0, pool.id());
        kinds |= Kind::ActivateWork.bit();
    }
    probe!(workqueue_execute_start, claim.item, claim.func as usize, claim.wq.0, pool.id());
    kinds &= sink::mask();
    if kinds == 0 {
        return;
    }
    let before = if claim.is_along { sink::end_of_run(pool.id(), claim.seq - 1) } else { None };
    let Some(moment) = before.or_else(sink::moment) else { return };
    let begin = |kind| event_of_run(kind, pool, claim);
    match (Kind::ActivateWork.is_in(kinds), Kind::ExecuteStart.is_in(kinds)) {
        (true, true) => sink::record_begin(&begin(Kind::ExecuteStart), moment),
        (true, false) => sink::record(&begin(Kind::ActivateWork), moment),
        _ => sink::record(&begin(Kind::ExecuteStart), moment),
    }
}

/// What was queued before the reader came has told nobody its queue's name, or what its function is
/// for.
#[inline(always)]
fn tell_names(pool: &impl TracedPool, claim: &Claim) {
    if !sink::knows_names(claim.wq.0, claim.func as usize) {
        tell_new_names(pool, claim);
    }
}

#[cold]
fn tell_new_names(pool: &impl TracedPool, claim: &Claim) {
    sink::ready();
    sink::name_queue(claim.wq.0, || pool.queue(claim.wq));
    sink::name_function(claim.func as usize, closures::name);
}

#[inline(always)]
fn event_of_run(kind: Kind, pool: &impl TracedPool, claim: &Claim) -> Event {
    Event {
        pool: pool.id(),
        wq: claim.wq.0,
        work: claim.item.addr() as u64,
        func: claim.func as usize as u64,
        pool_cpu: cpu_of(pool),
        ..Event::new(kind)
    }
}

/// Worker `tid` of the pool was found to block, or to be back. Under the pool's lock.
#[cfg_attr(
    not(feature = "usdt"),
    allow(clippy::if_same_then_else, reason = "without probes there is nothing in either")
)]
#[inline(always)]
pub(crate) fn worker_turned(kind: Kind, pool: &impl TracedPool, tid: i32) {
    if kind == Kind::WorkerBlocked {
        probe!(worker_blocked, tid, pool.id());
    } else {
        probe!(worker_resumed, tid, pool.id());
    }
    if is_on(kind) {
        emit_worker(kind, pool, tid);
    }
}

/// Something about worker `tid` of the pool. Caller holds no core lock.
#[inline(always)]
pub(crate) fn worker(kind: Kind, pool: &impl TracedPool, tid: i32) {
    match kind {
        Kind::WorkerCreated => probe!(worker_created, tid, pool.id()),
        Kind::WorkerCulled => probe!(worker_culled, tid, pool.id()),
        _ => probe!(cpu_hog, tid, pool.id()),
    }
    #[cfg(feature = "tracing")]
    outside::told(kind.name(), pool.id(), tid);
    ready();
    if is_on(kind) {
        emit_worker(kind, pool, tid);
    }
}

#[cold]
fn emit_worker(kind: Kind, pool: &impl TracedPool, tid: i32) {
    record(&Event {
        pool: pool.id(),
        tid: u32::try_from(tid).unwrap_or_default(),
        pool_cpu: cpu_of(pool),
        ..Event::new(kind)
    });
}

/// The rescuer of the queue is called to the pool.
#[inline(always)]
pub(crate) fn mayday(pool: &impl TracedPool, wq: &impl TracedQueue) {
    probe!(mayday, wq.name().as_ptr(), wq.name().len(), pool.id());
    if is_on(Kind::Mayday) {
        emit_mayday(pool, wq);
    }
}

#[cold]
fn emit_mayday(pool: &impl TracedPool, wq: &impl TracedQueue) {
    sink::ready();
    sink::tell_queue(wq);
    let event =
        Event { pool: pool.id(), wq: wq.key(), pool_cpu: cpu_of(pool), ..Event::new(Kind::Mayday) };
    record(&event);
}

fn cpu_of(pool: &impl TracedPool) -> i32 {
    pool.cpu().map_or(-1, |cpu| cpu as i32)
}
