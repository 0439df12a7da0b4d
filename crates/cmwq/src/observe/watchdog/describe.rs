//! From what stands still to what one is told of it: names, durations, stacks.

use std::collections::HashMap;
use std::time::Duration;

use cmwq_core::{BusyWorker, Nanos, PoolId, PoolReport, PwqId, Waiting, WorkFn, WorkerId, WqKey};

use super::look::{Runs, Still};
use super::{Frame, Place, RunningItem, Stack, Stall, WaitingItems};
use crate::engine::pool::{Pool, PoolKind};
use crate::engine::runtime::Runtime;
use crate::engine::tools::thread::Thread;
use crate::engine::tools::watchdog::{Wait, WaitFor};
use crate::observe::stacks::{self, Stacks};
use crate::os::sync::{Arc, lock};
use crate::record::symbol;

/// LIMIT: so many items of one stall are told of, those that do not sleep first.
const MOST_ITEMS: usize = 16;

/// For all stalls of one look.
pub(super) struct Describer<'a> {
    runtime: &'static Runtime,
    runs: &'a Runs,
    now: Nanos,
    stacks: Stacks,
    threads: HashMap<(PoolId, WorkerId), Arc<Thread>>,
    waits: Vec<Wait>,
}

/// What a pool held, of which we need a part.
struct Held {
    pool: &'static Pool,
    report: PoolReport,
    create_failed: bool,
}

impl<'a> Describer<'a> {
    pub(super) fn new(runtime: &'static Runtime, runs: &'a Runs, now: Nanos) -> Self {
        let stacks = Stacks::begin(&runtime.params);
        let waits = runtime.watchdog.waits.all();
        Self { runtime, runs, now, stacks, threads: threads(runtime), waits }
    }

    pub(super) fn describe(&mut self, still: &Still) -> Stall {
        match still {
            Still::Pool(pool, time) => self.pool(pool, *time),
            Still::Queue(key, time) => self.queue(*key, *time),
            Still::Circle(waits, time) => self.circle(waits, *time),
        }
    }

    fn pool(&mut self, pool: &'static Pool, time: Nanos) -> Stall {
        let held = Held::of(pool);
        let spec = &pool.spec();
        let mut running = Vec::new();
        let cut = self.running(&held, |_| true, &mut running);
        let hint = if held.create_failed {
            Some("no worker could be created".to_owned())
        } else if held.report.busy.is_empty() {
            Some("no worker has come for it: are its CPUs taken by others?".to_owned())
        } else {
            cut
        };
        Stall {
            place: Place::Pool { id: pool.id.0, cpus: spec.cpus.clone(), nice: spec.priority.nice },
            duration: Duration::from_nanos(time),
            running,
            waiting: self.waiting(&held, [&held.report.worklist]),
            hint,
        }
    }

    fn queue(&mut self, key: WqKey, time: Nanos) -> Stall {
        let wq = self.runtime.wq(key);
        let pwqs = wq.as_ref().map(|wq| lock(&wq.state).pwqs.clone()).unwrap_or_default();
        let (mut running, mut waiting, mut hint) = (Vec::new(), Vec::new(), None);
        for at in pwqs.iter() {
            let Some(pool) = self.runtime.pool(at.pool) else { continue };
            let held = Held::of(pool);
            hint = hint.or(self.running(&held, |pwq| pwq == at.pwq, &mut running));
            let pwqs = held.report.pwqs.iter().filter(|pwq| pwq.id == at.pwq);
            waiting.extend(self.waiting(&held, pwqs.map(|pwq| &pwq.inactive)));
        }
        let name = self.name(key);
        Stall {
            place: Place::Queue { name },
            duration: Duration::from_nanos(time),
            running,
            waiting,
            hint,
        }
    }

    fn circle(&mut self, waits: &[Wait], time: Nanos) -> Stall {
        let time = Duration::from_nanos(time);
        let running = waits.iter().map(|wait| {
            let stack = self.stacks.of(&wait.thread);
            RunningItem {
                workqueue: self.name(wait.wq),
                function: function_of(&stack, wait.func),
                worker: wait.thread.comm.base().to_owned(),
                tid: wait.thread.comm.tid(),
                running_for: time,
                is_blocked: true,
                waits_for: Some(self.what(wait.what)),
                stack,
            }
        });
        Stall {
            place: Place::Circle,
            duration: time,
            running: running.collect(),
            waiting: Vec::new(),
            hint: None,
        }
    }

    /// The items that run in a pool and came by these pwqs. `Some`: those are not all.
    fn running(
        &mut self,
        held: &Held,
        is_wanted: impl Fn(PwqId) -> bool,
        into: &mut Vec<RunningItem>,
    ) -> Option<String> {
        let mut busy: Vec<_> = held.report.busy.iter().filter(|busy| is_wanted(busy.pwq)).collect();
        busy.sort_by_key(|busy| busy.is_blocked);
        let room = MOST_ITEMS.saturating_sub(into.len());
        let left_out = busy.len().saturating_sub(room);
        for busy in busy.into_iter().take(room) {
            into.push(self.item(held, busy));
        }
        (left_out > 0).then(|| format!("and {left_out} more items run there"))
    }

    fn item(&mut self, held: &Held, busy: &BusyWorker) -> RunningItem {
        let at = (held.pool.id, busy.id);
        let thread = self.threads.get(&at).cloned();
        let since = self.runs.get(&at).map_or(self.now, |(_, since)| *since);
        let stack = match &thread {
            Some(thread) => self.stacks.of(thread),
            None => Stack::Missing("not a worker's thread".to_owned()),
        };
        let function = function_of(&stack, busy.func as *const () as usize);
        let is_bh = matches!(held.pool.kind, PoolKind::Bh(_));
        let nameless = if is_bh { "a BH context" } else { "the thread that called Workqueue::run" };
        let is_its =
            |wait: &&Wait| thread.as_ref().is_some_and(|thread| Arc::ptr_eq(thread, &wait.thread));
        RunningItem {
            workqueue: self.queue_of(held, busy.pwq),
            function,
            worker: thread.as_ref().map_or(nameless, |thread| thread.comm.base()).to_owned(),
            tid: thread.as_ref().and_then(|thread| thread.comm.tid()),
            running_for: Duration::from_nanos(self.now.saturating_sub(since)),
            is_blocked: busy.is_blocked,
            waits_for: self.waits.iter().find(is_its).map(|wait| self.what(wait.what)),
            stack,
        }
    }

    fn waiting<'b>(
        &self,
        held: &Held,
        lists: impl IntoIterator<Item = &'b Waiting>,
    ) -> Vec<WaitingItems> {
        let items = lists.into_iter().flat_map(|list| &list.items);
        let items = items.filter(|items| !items.are_barriers);
        items
            .map(|items| WaitingItems {
                workqueue: self.queue_of(held, items.pwq),
                function: name_of(items.func),
                count: items.count,
            })
            .collect()
    }

    fn queue_of(&self, held: &Held, pwq: PwqId) -> String {
        let known = held.report.pwqs.iter().find(|known| known.id == pwq);
        known.map(|known| self.name(known.wq)).unwrap_or_default()
    }

    fn name(&self, key: WqKey) -> String {
        self.runtime.wq_name(key).unwrap_or_default()
    }

    fn what(&self, what: WaitFor) -> String {
        match what {
            WaitFor::Flush(key, _) => format!("workqueue '{}'", self.name(key)),
            WaitFor::Item(item) => format!("item {item:#x}"),
        }
    }
}

impl Held {
    fn of(pool: &'static Pool) -> Self {
        let (report, create_failed) =
            pool.read(|core, locked| (core.report(), locked.core.create_retry_at().is_some()));
        Self { pool, report, create_failed }
    }
}

/// The threads of all workers, by what they are in which pool: of lent ones and rescuers, where
/// they are.
fn threads(runtime: &'static Runtime) -> HashMap<(PoolId, WorkerId), Arc<Thread>> {
    let mut threads = HashMap::new();
    for pool in runtime.pools() {
        let own = pool.read(|_, locked| locked.threads.clone());
        for (id, thread) in (0..).map(WorkerId).zip(own) {
            let Some(thread) = thread else { continue };
            let at = thread.guest().unwrap_or((pool.id, id));
            threads.insert(at, thread);
        }
    }
    for rescuer in runtime.wqs().iter().filter_map(|wq| wq.rescuer.get()) {
        let thread = &rescuer.thread;
        if let Some(at) = thread.guest() {
            threads.insert(at, Arc::clone(thread));
        }
    }
    threads
}

/// What waits is named by what will be called, and for reusable items that is ours.
fn name_of(func: WorkFn) -> String {
    match function_at(func as *const () as usize) {
        frame if frame.is_called("cmwq::") => "a reusable item".to_owned(),
        frame => frame.to_string(),
    }
}

/// What an item runs, with the place that its stack tells.
fn function_of(stack: &Stack, func: usize) -> Frame {
    let on_stack = stack.item_function().cloned();
    match symbol::closures::name(func) {
        Some(closure) => {
            let place = on_stack.unwrap_or(Frame { address: func as u64, ..Frame::default() });
            Frame { function: Some(closure.to_owned()), ..place }
        }
        None => on_stack.unwrap_or_else(|| function_at(func)),
    }
}

/// A function's name and place.
fn function_at(address: usize) -> Frame {
    let known = stacks::function_at(address).filter(|frame| frame.function.is_some());
    let is_closure = symbol::closures::name(address).is_some();
    known.filter(|_| !is_closure).unwrap_or_else(|| {
        let function = Some(symbol::short(address));
        Frame { address: address as u64, function, ..Frame::default() }
    })
}
