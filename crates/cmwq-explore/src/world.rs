//! The driver of the search: pools, queues and threads between two lock holds.
//!
//! Everything that decides is the core's. What is here is what the runtime does with its outcomes,
//! cut at each place where it drops a lock: one [`step`](World::step) of a thread is one lock hold
//! (or what happens between two), and between any two steps any other thread may take any of its
//! own. So a thread is little more than a list of what it has to do next ([`Todo`]).
//!
//! | here | in the runtime |
//! |---|---|
//! | `threads` | a worker's loop, guests, rescuers |
//! | `creating` | making workers; [`Todo`], what an outcome demands after the lock |
//! | `queueing` | queueing, grabbing, waiting for one item |
//! | `running_here` | an item that is run in place of waiting for it |
//! | `queues` | flushes, attributes, destroying |

use std::cell::Cell;
use std::mem;
use std::ops::DerefMut;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use cmwq_core::limit::{Count, Line};
use cmwq_core::place::PoolKind;
use cmwq_core::{
    Closed, Effects, FlushState, Inbox, Kick, Limits, LockFor, NodeLimits, NodeMemory, NodeSlots,
    PoolConfig, PoolId, PoolState, PwqConfig, PwqId, PwqRef, PwqStats, Pwqs, Rule, WorkerId, WqKey,
};

use crate::ledger::Ledger;
use crate::scope::{Faults, Kind, Op, Room, Scope};

mod creating;
mod inbox;
mod items;
mod queueing;
mod queues;
mod running_here;
mod thread;
mod threads;

pub(crate) use creating::Todo;
use items::Items;
pub(crate) use thread::{At, Exec, Look, Micro, Named, Run, Thread, Who};

/// A thread's number. The service thread is the first.
pub(crate) type Tid = usize;
pub(crate) const SERVICE: Tid = 0;

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It was taken.
    Moved,
    /// The thread has nothing to do, or waits for another.
    Blocked,
}

/// A pool as its driver has it.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) core: PoolState,
    pub(crate) now: u64,
    /// Work waits that may not start, and detectors know.
    pub(crate) is_watched: bool,
    /// Somebody will look whether rescuers have to be called.
    pub(crate) mayday: bool,
    /// A creation failed, and the service will try again.
    pub(crate) retry: bool,
    /// It has one, in this scope.
    pub(crate) has_inbox: bool,
    pub(crate) inbox: Inbox,
    /// What is in it, oldest first.
    pub(crate) pushed: Vec<(u8, PwqId)>,
    /// What emptying it demands.
    pub(crate) kick: Kick,
}

/// The memory of a node's limit, as its driver has it.
#[derive(Debug)]
pub(crate) struct Memory {
    /// `None`: of pools that lie on no single node, or of all.
    pub(crate) node: Option<u32>,
    counts: [AtomicU64; 3],
    line: Mutex<Line>,
}

impl Memory {
    fn new(node: Option<u32>) -> Self {
        Self { node, counts: Default::default(), line: Mutex::default() }
    }
}

impl NodeMemory for Memory {
    fn count(&self, which: Count) -> &AtomicU64 {
        &self.counts[which as usize]
    }

    fn line(&self) -> impl DerefMut<Target = Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue as its driver has it.
#[derive(Debug)]
pub(crate) struct Queue {
    /// It is there.
    pub(crate) is_alive: bool,
    /// Why only its own items may queue.
    pub(crate) closed: Closed,
    /// The pwq behind each slot.
    pub(crate) slots: Vec<usize>,
    /// All pwqs there ever were, by number.
    pub(crate) made: Vec<PwqRef>,
    pub(crate) pwqs: Pwqs,
    /// Counters of those that are gone.
    pub(crate) removed: PwqStats,
    pub(crate) flush_state: FlushState<u8>,
    /// Pwqs that will report, and one for the starter.
    pub(crate) countdown: Cell<u32>,
    /// Who holds the queue's lock (WQ) from step to step.
    pub(crate) lock: Option<Tid>,
    pub(crate) limits: Limits,
    /// The limits that pwqs share.
    pub(crate) shared: NodeLimits<Memory>,
    /// For which the rescuer was called.
    pub(crate) called: Vec<PwqRef>,
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct World<'s> {
    pub(crate) scope: &'s Scope,
    pub(crate) pools: Vec<Pool>,
    pub(crate) queues: Vec<Queue>,
    /// The items, then one barrier for each thread.
    pub(crate) items: Items,
    pub(crate) threads: Vec<Option<Thread>>,
    pub(crate) timers: Vec<Option<Op>>,
    /// After a shutdown: no timer comes any more.
    pub(crate) service_has_left: bool,
    pub(crate) left: Faults,
    /// The rule that is taken out.
    pub(crate) without: Option<Rule>,
    pub(crate) ledger: Ledger,
}

/// LIMIT: threads of a world. A scope in which there is no end of new workers comes to it.
pub(crate) const THREADS: usize = 24;

impl<'s> World<'s> {
    pub(crate) fn new(scope: &'s Scope, without: Option<Rule>) -> Self {
        let mut world = Self {
            scope,
            pools: Vec::new(),
            queues: Vec::new(),
            items: Items::new(scope.items.len() + THREADS),
            threads: vec![Some(Thread::new(Who::Service))],
            timers: vec![None; scope.items.len()],
            service_has_left: false,
            left: scope.faults,
            without,
            ledger: Ledger::new(scope),
        };
        let clients = (0..scope.clients.len()).map(|n| Who::Client(n as u8));
        world.threads.extend(clients.map(|who| Some(Thread::new(who))));
        for (n, spec) in scope.pools.iter().enumerate() {
            let (id, has_others) = (PoolId(n as u32), scope.pools.len() > 1);
            let has_inbox = scope.inboxes.is_some() && spec.kind != PoolKind::Unbound;
            let mut config = PoolConfig::of_kind(id, spec.kind, spec.concurrency(true), has_others);
            // When a worker went idle does not matter: its time may be up at once.
            config.idle_timeout = 0;
            // How calm a pool has to be does not matter either.
            config.batches = config.batches.and(scope.inboxes).map(|_| 0);
            let room = scope.inboxes.unwrap_or(Room::AMPLE);
            config.arrived_max = room.arrived;
            config.may_saturate = has_inbox;
            let mut core = PoolState::new(config);
            if let Some(rule) = without {
                core.take_out(rule);
            }
            world.pools.push(Pool {
                core,
                now: 1,
                is_watched: false,
                mayday: false,
                retry: false,
                has_inbox,
                inbox: Inbox::with_depth_max(room.inbox),
                pushed: Vec::with_capacity(scope.items.len()),
                kick: Kick::None,
            });
            for _ in 0..spec.workers {
                world.add_first_worker(n);
            }
        }
        for (n, spec) in scope.queues.iter().enumerate() {
            world.queues.push(Queue::new(spec.limits()));
            if spec.rescuer {
                world.threads.push(Some(Thread::new(Who::Rescuer(n as u8))));
            }
            if !starts_later(scope, n as u8) {
                world.open_queue(n as u8, &spec.slots);
            }
        }
        world
    }

    fn add_first_worker(&mut self, pool: usize) {
        let id = self.pools[pool].core.worker_new();
        let _ = self.pools[pool].core.worker_created(id, None, 1);
        self.add_thread(Who::Worker(pool as u8, id));
    }

    pub(crate) fn add_thread(&mut self, who: Who) {
        match self.threads.iter().position(Option::is_none) {
            Some(free) => self.threads[free] = Some(Thread::new(who)),
            None => self.threads.push(Some(Thread::new(who))),
        }
        assert!(self.threads.len() <= THREADS, "more threads than a world may have");
    }

    /// Makes a queue's pwqs, one for each slot.
    pub(crate) fn open_queue(&mut self, queue: u8, slots: &[u8]) {
        let spec = &self.scope.queues[usize::from(queue)];
        let fresh = Queue::new(spec.limits());
        self.queues[usize::from(queue)] = Queue { is_alive: true, ..fresh };
        for &pool in slots {
            let cpu_pwq = self.lead(queue, pool);
            self.queues[usize::from(queue)].slots.push(cpu_pwq);
        }
    }

    /// Makes a pwq in `pool`; its number.
    pub(crate) fn lead(&mut self, queue: u8, pool: u8) -> usize {
        let spec = &self.scope.queues[usize::from(queue)];
        let q = &mut self.queues[usize::from(queue)];
        let node = Some(self.scope.pools[usize::from(pool)].node);
        let shared = q.shared.of(&q.limits, node, false, self.scope.cpus(), Memory::new);
        let config = PwqConfig {
            wq: WqKey(u32::from(queue)),
            max_active: q.limits.own(false),
            node: shared.map(|limit| limit as Arc<dyn NodeSlots>),
            cpu_intensive: spec.cpu_intensive,
            rescuer: spec.rescuer,
            work_color: q.flush_state.work_color(),
        };
        let p = &mut self.pools[usize::from(pool)];
        // As for a queue that wants workers of another kind.
        let _is_renewed = p.core.renew();
        let pwq = p.core.add_pwq(config);
        if q.pwqs.begins_plugged(spec.kind == Kind::Ordered) {
            p.core.plug_pwq(pwq);
        }
        let at = PwqRef { pool: PoolId(u32::from(pool)), pwq };
        q.pwqs.add(at);
        q.made.push(at);
        q.made.len() - 1
    }

    // ---- what a lock hold ends with

    pub(crate) fn thread(&mut self, tid: Tid) -> &mut Thread {
        self.threads[tid].as_mut().expect("a thread that is gone took a step")
    }

    /// Drops a pool's lock and acts on the decision.
    pub(crate) fn unlock(&mut self, tid: Tid, pool: u8, kick: Kick) {
        let p = &mut self.pools[usize::from(pool)];
        p.update_saturation();
        let kick = kick.or(mem::replace(&mut p.kick, Kick::None));
        match kick {
            Kick::None => p.mayday |= p.core.needs_rescuer(),
            Kick::Wake(id) => self.wake(pool, id),
            Kick::Watch => {
                p.is_watched = true;
                p.update_saturation();
            }
            Kick::NeedFirst => self.thread(tid).todo.push(Todo::First(pool)),
        }
    }

    pub(crate) fn wake(&mut self, pool: u8, id: WorkerId) {
        let who = Who::Worker(pool, id);
        let sleeper = self.threads.iter_mut().flatten().find(|thread| thread.who == who);
        sleeper.expect("somebody was woken who is not there").token = true;
    }

    /// What an item's end demands, to be done outside of the lock. `false`: nothing.
    pub(crate) fn put_off(&mut self, tid: Tid, effects: &Effects) -> bool {
        let todo = &mut self.thread(tid).todo;
        let before = todo.len();
        todo.extend(effects.grant.map(Todo::Grant));
        todo.extend(effects.flush_done.map(|wq| Todo::FlushDone(wq.0 as u8)));
        todo.extend(effects.retired.map(|wq| Todo::Retired(wq.0 as u8)));
        todo.len() > before
    }

    /// One step of a thread.
    pub(crate) fn step(&mut self, tid: Tid) -> Progress {
        if !self.thread(tid).todo.is_empty() {
            match self.thread(tid).todo[0] {
                Todo::Created(..) | Todo::Grant(_) => self.lock_all(LockFor::Decide),
                // Without a pool's lock.
                Todo::HandOver(..) => {}
                _ => self.lock_all(LockFor::Find),
            }
            return self.do_first(tid);
        }
        if self.thread(tid).run.is_some() {
            return self.run_on(tid);
        }
        match self.thread(tid).who {
            Who::Service | Who::Client(_) => match self.op(tid) {
                Some(op) => self.exec(tid, op),
                None => Progress::Blocked,
            },
            Who::Rescuer(queue) => {
                self.lock_all(LockFor::Find);
                self.rescue(tid, queue)
            }
            Who::Worker(pool, id) => {
                self.lock_all(LockFor::Decide);
                self.work(tid, pool, id)
            }
        }
    }

    /// The operation that a thread is in or comes to.
    pub(crate) fn op(&self, tid: Tid) -> Option<Op> {
        self.op_of(self.threads[tid].as_ref()?)
    }

    pub(crate) fn op_of(&self, thread: &Thread) -> Option<Op> {
        let pc = usize::from(thread.exec.pc);
        match (thread.run.map(|run| run.what), thread.who) {
            (Some(Named::Item(item)), _) => {
                let op = self.scope.items[usize::from(item)].get(pc).copied();
                match op {
                    Some(Op::Again(..)) if self.ledger.has_settled(item) => None,
                    Some(Op::Again(queue, slot)) => Some(Op::Queue(item, queue, slot)),
                    Some(Op::Rearm(queue, slot)) => Some(Op::Arm(item, queue, slot)),
                    op => op,
                }
            }
            (Some(Named::Barrier(_)), _) => None,
            (None, Who::Client(client)) => self.scope.clients[usize::from(client)].get(pc).copied(),
            (None, Who::Service) => thread.fired,
            (None, _) => None,
        }
    }

    /// Nobody watches where nothing waits: that is the worst that detectors may do, and all of them
    /// get there.
    pub(crate) fn rest_detectors(&mut self) {
        let others_wait: Vec<bool> = (0..self.pools.len()).map(|n| self.others_wait(n)).collect();
        for (pool, others_wait) in self.pools.iter_mut().zip(others_wait) {
            // Who has said that pushing is enough goes on watching.
            pool.is_watched &=
                pool.core.has_to_watch(|| false, || others_wait) || pool.inbox.is_saturated();
        }
    }

    /// Whether another pool than this one has more work than it may run, and would be helped.
    pub(crate) fn others_wait(&self, pool: usize) -> bool {
        let mut others = self.pools.iter().enumerate().filter(|(other, _)| *other != pool);
        self.left.lending && others.any(|(_, other)| other.core.has_backlog())
    }

    /// Whether everything that was asked for is done, and everybody rests.
    pub(crate) fn is_done(&self) -> bool {
        let rests = |tid: Tid, thread: &Thread| {
            let is_idle = thread.run.is_none() && thread.todo.is_empty() && !thread.token;
            is_idle && thread.at == At::Parked && self.op(tid).is_none() && thread.visit.is_none()
        };
        let mut threads =
            self.threads.iter().enumerate().filter_map(|(tid, t)| Some((tid, t.as_ref()?)));
        threads.all(|(tid, thread)| rests(tid, thread))
            && self.timers.iter().all(Option::is_none)
            && self.ledger.is_settled()
            && self.pools.iter().all(|pool| !pool.core.work_waits() && pool.pushed.is_empty())
    }
}

impl Queue {
    fn new(limits: Limits) -> Self {
        Self {
            is_alive: false,
            closed: Closed::NOT,
            slots: Vec::new(),
            made: Vec::new(),
            pwqs: Pwqs::new(),
            removed: PwqStats::default(),
            flush_state: FlushState::new(),
            countdown: Cell::new(0),
            lock: None,
            limits,
            shared: NodeLimits::new(),
            called: Vec::new(),
        }
    }
}

/// Whether a client makes the queue before anybody uses it: the first thing said of it.
fn starts_later(scope: &Scope, queue: u8) -> bool {
    let about = |op: &&Op| matches!(op, Op::Destroy(q) | Op::Create(q, _) if *q == queue);
    let first = scope.clients.iter().flatten().find(about);
    matches!(first, Some(Op::Create(..)))
}
