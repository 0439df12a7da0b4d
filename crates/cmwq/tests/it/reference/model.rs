//! What items and queues do, as plainly as it can be said.
//!
//! Functions wait at gates, so everything that may start does, and nothing ends by itself: after
//! each operation there is one state to come to. The model knows neither pools' lists nor workers
//! nor threads; an item is somewhere, and a queue has slots.

use std::collections::VecDeque;

/// One queueing of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    id: u64,
    wq: usize,
}

/// Where an item that is pending is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Idle,
    Timer(usize),
    Queued(Instance),
}

#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) is_delayed: bool,
    pub(super) depth: u32,
    place: Place,
    running: Option<Instance>,
    /// How often its function was entered.
    pub(super) runs: u32,
}

/// A kind of queue, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) limit: u32,
    pub(super) has_limit: bool,
    pub(super) is_freezable: bool,
    pub(super) has_attrs: bool,
    /// It is made and dropped; at first there is none.
    pub(super) is_brief: bool,
    /// Queues with the same one are served by the same pool.
    pub(super) pool: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Absent,
    There,
    /// Dropped, and not done yet.
    Going,
}

#[derive(Clone, Debug)]
struct Queue {
    kind: Kind,
    /// As it is made.
    first_limit: u32,
    life: Life,
    /// Its attributes have changed since it was empty: it has items in two pools.
    is_moved: bool,
    /// Instances that have a slot, running or not, and the item of each.
    active: Vec<(u64, usize)>,
    /// Those that wait for one.
    inactive: VecDeque<(u64, usize)>,
    nr_drainers: u32,
}

/// When an item with a timer is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    Zero,
    /// After a moment, during which nothing else is done.
    Soon,
    /// Never.
    Far,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Queue(usize, usize),
    QueueDelayed(usize, usize, Delay),
    Mod(usize, usize, Delay),
    Cancel(usize),
    Disable(usize),
    Enable(usize),
    EnableAndQueue(usize, usize),
    CancelSync(usize),
    DisableSync(usize),
    Flush(usize),
    FlushQueue(usize),
    Drain(usize),
    SetMaxActive(usize, u32),
    Freeze,
    Thaw,
    /// An item of the pool [`HELD`] computes: nothing else starts there.
    Hold,
    Release,
    /// The gate at which an item waits opens.
    Finish(usize),
    /// It opens, but before the function returns it waits for another item: flushes it, or cancels
    /// it.
    WaitFor(usize, usize, Inside),
    Make(usize),
    Drop(usize),
    /// Other attributes, by number.
    Attrs(usize, usize),
}

/// How an item waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    Flush,
    CancelSync,
}

/// The pool that an item which computes can hold up.
pub(super) const HELD: usize = 0;
const MOST_WAITS: usize = 4;

/// Somebody waits until all of these instances are gone.
#[derive(Clone, Debug)]
struct Wait {
    number: usize,
    item: Option<usize>,
    wq: Option<usize>,
    /// The item whose function waits.
    by: Option<usize>,
    instances: Vec<u64>,
    then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    Enable(usize),
    /// And whatever else is in that queue.
    Undrain(usize),
    Gone(usize),
}

/// What a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Nothing,
    Is(bool),
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) items: Vec<Item>,
    queues: Vec<Queue>,
    is_frozen: bool,
    pub(super) is_held: bool,
    last_id: u64,
    waits: Vec<Wait>,
    nr_waits: usize,
}

impl Model {
    pub(super) fn new(kinds: &[Kind], delayed: &[bool]) -> Self {
        let queue = |&kind: &Kind| Queue {
            kind,
            first_limit: kind.limit,
            life: if kind.is_brief { Life::Absent } else { Life::There },
            is_moved: false,
            active: Vec::new(),
            inactive: VecDeque::new(),
            nr_drainers: 0,
        };
        let item = |&is_delayed: &bool| Item {
            is_delayed,
            depth: 0,
            place: Place::Idle,
            running: None,
            runs: 0,
        };
        Self {
            items: delayed.iter().map(item).collect(),
            queues: kinds.iter().map(queue).collect(),
            is_frozen: false,
            is_held: false,
            last_id: 0,
            waits: Vec::new(),
            nr_waits: 0,
        }
    }

    // ---- what can be seen

    pub(super) fn is_pending(&self, item: usize) -> bool {
        self.items[item].place != Place::Idle
    }

    pub(super) fn is_running(&self, item: usize) -> bool {
        self.items[item].running.is_some()
    }

    pub(super) fn is_there(&self, wq: usize) -> bool {
        self.queues[wq].life == Life::There
    }

    /// `None`: only half of what it has is asked for, or nothing.
    pub(super) fn is_congested(&self, wq: usize) -> Option<bool> {
        let queue = &self.queues[wq];
        (self.is_there(wq) && !queue.is_moved).then_some(!queue.inactive.is_empty())
    }

    /// Whether a freezable queue has an active item.
    pub(super) fn is_freeze_busy(&self) -> bool {
        self.queues.iter().any(|queue| queue.kind.is_freezable && !queue.active.is_empty())
    }

    // ---- operations

    /// Does `op`: what it returns, and, if it has to wait, the number of that wait.
    pub(super) fn apply(&mut self, op: Op) -> (Answer, Option<usize>) {
        let before = self.nr_waits;
        let answer = self.answer(op);
        self.start_all();
        while self.end_inner_wait() {
            self.start_all();
        }
        let is_call = !matches!(op, Op::WaitFor(..));
        (answer, (is_call && self.nr_waits > before).then_some(self.nr_waits))
    }

    /// An item whose wait is over returns.
    fn end_inner_wait(&mut self) -> bool {
        let ended = self.waits.iter().position(|wait| wait.by.is_some() && self.has_ended(wait));
        let Some(at) = ended else { return false };
        let wait = self.waits.remove(at);
        self.after(&wait);
        let run = wait.by.and_then(|item| self.items[item].running.take());
        self.leave(run.expect("an item waits while it runs"));
        true
    }

    fn answer(&mut self, op: Op) -> Answer {
        match op {
            Op::Queue(item, wq) => Answer::Is(self.queue(item, wq)),
            Op::QueueDelayed(item, wq, delay) => Answer::Is(self.queue_delayed(item, wq, delay)),
            Op::Mod(item, wq, delay) => {
                let was_pending = self.take(item);
                self.queue_delayed(item, wq, delay);
                Answer::Is(was_pending)
            }
            Op::Cancel(item) => Answer::Is(self.take(item)),
            Op::Disable(item) => Answer::Is(self.disable(item)),
            Op::Enable(item) => Answer::Is(self.enable(item)),
            Op::EnableAndQueue(item, wq) => Answer::Is(self.enable_and_queue(item, wq)),
            Op::CancelSync(item) => {
                let was_pending = self.disable(item);
                if !self.wait_for_run(item, Then::Enable(item)) {
                    self.enable(item);
                }
                Answer::Is(was_pending)
            }
            Op::DisableSync(item) => {
                let was_pending = self.disable(item);
                self.wait_for_run(item, Then::Nothing);
                Answer::Is(was_pending)
            }
            Op::Flush(item) => Answer::Is(self.flush(item)),
            Op::FlushQueue(wq) => self.wait_for_queue(wq, Then::Nothing),
            Op::Drain(wq) => {
                self.queues[wq].nr_drainers += 1;
                self.wait_for_queue(wq, Then::Undrain(wq))
            }
            Op::SetMaxActive(wq, limit) => {
                self.queues[wq].kind.limit = limit;
                self.activate(wq);
                Answer::Nothing
            }
            Op::Freeze | Op::Thaw => {
                self.is_frozen = op == Op::Freeze;
                (0..self.queues.len()).for_each(|wq| self.activate(wq));
                Answer::Nothing
            }
            Op::Hold | Op::Release => {
                self.is_held = op == Op::Hold;
                Answer::Nothing
            }
            Op::Finish(item) => {
                let run = self.items[item].running.take().expect("it runs");
                self.leave(run);
                Answer::Nothing
            }
            Op::WaitFor(item, other, inside) => {
                self.wait_inside(item, other, inside);
                Answer::Nothing
            }
            Op::Make(wq) => {
                self.make(wq);
                Answer::Nothing
            }
            Op::Drop(wq) => {
                self.queues[wq].life = Life::Going;
                self.wait_for_queue(wq, Then::Gone(wq))
            }
            Op::Attrs(wq, _) => {
                self.queues[wq].is_moved = !self.is_empty(wq);
                Answer::Nothing
            }
        }
    }

    /// `item`, which runs, waits for the run of `other`.
    fn wait_inside(&mut self, item: usize, other: usize, inside: Inside) {
        let then = match inside {
            Inside::Flush => Then::Nothing,
            Inside::CancelSync => {
                self.disable(other);
                Then::Enable(other)
            }
        };
        self.wait_for_run(other, then);
        self.waits.last_mut().expect("the other item runs").by = Some(item);
    }

    fn enable_and_queue(&mut self, item: usize, wq: usize) -> bool {
        let is_enabled = self.enable(item);
        if is_enabled {
            self.queue(item, wq);
        }
        is_enabled
    }

    fn make(&mut self, wq: usize) {
        let queue = &mut self.queues[wq];
        queue.kind.limit = queue.first_limit;
        queue.is_moved = false;
        queue.life = Life::There;
    }

    fn queue(&mut self, item: usize, wq: usize) -> bool {
        if self.is_pending(item) || self.items[item].depth > 0 {
            return false;
        }
        if self.queues[wq].nr_drainers == 0 {
            self.last_id += 1;
            self.items[item].place = Place::Queued(Instance { id: self.last_id, wq });
            self.queues[wq].inactive.push_back((self.last_id, item));
            self.activate(wq);
        }
        true
    }

    fn queue_delayed(&mut self, item: usize, wq: usize, delay: Delay) -> bool {
        if delay != Delay::Far {
            return self.queue(item, wq);
        }
        if self.is_pending(item) || self.items[item].depth > 0 {
            return false;
        }
        self.items[item].place = Place::Timer(wq);
        true
    }

    fn disable(&mut self, item: usize) -> bool {
        let was_pending = self.take(item);
        self.items[item].depth += 1;
        was_pending
    }

    fn enable(&mut self, item: usize) -> bool {
        self.take(item);
        let depth = &mut self.items[item].depth;
        *depth = depth.saturating_sub(1);
        *depth == 0
    }

    /// Takes it from wherever it is pending.
    fn take(&mut self, item: usize) -> bool {
        match std::mem::replace(&mut self.items[item].place, Place::Idle) {
            Place::Idle => false,
            Place::Timer(_) => true,
            Place::Queued(instance) => {
                self.leave(instance);
                true
            }
        }
    }

    /// The last queueing is what is waited for.
    fn flush(&mut self, item: usize) -> bool {
        if let Place::Timer(wq) = self.items[item].place {
            self.items[item].place = Place::Idle;
            self.queue(item, wq);
        }
        if let Place::Queued(instance) = self.items[item].place {
            self.wait((Some(item), None), vec![instance.id], Then::Nothing);
            return true;
        }
        self.wait_for_run(item, Then::Nothing)
    }

    fn wait_for_run(&mut self, item: usize, then: Then) -> bool {
        let Some(run) = self.items[item].running else { return false };
        self.wait((Some(item), None), vec![run.id], then);
        true
    }

    fn wait_for_queue(&mut self, wq: usize, then: Then) -> Answer {
        let Queue { active, inactive, .. } = &self.queues[wq];
        let all: Vec<u64> = active.iter().chain(inactive).map(|(id, _)| *id).collect();
        self.wait((None, Some(wq)), all, then);
        Answer::Nothing
    }

    fn wait(
        &mut self,
        (item, wq): (Option<usize>, Option<usize>),
        instances: Vec<u64>,
        then: Then,
    ) {
        self.nr_waits += 1;
        self.waits.push(Wait { number: self.nr_waits, item, wq, by: None, instances, then });
    }

    // ---- slots

    /// An instance is gone: it has run, or was taken back.
    fn leave(&mut self, instance: Instance) {
        let Queue { active, inactive, .. } = &mut self.queues[instance.wq];
        active.retain(|(id, _)| *id != instance.id);
        inactive.retain(|(id, _)| *id != instance.id);
        if self.is_empty(instance.wq) {
            self.queues[instance.wq].is_moved = false;
        }
        self.activate(instance.wq);
    }

    /// Gives slots to whoever waits longest.
    fn activate(&mut self, wq: usize) {
        let Queue { kind, active, inactive, .. } = &mut self.queues[wq];
        let is_frozen = self.is_frozen && kind.is_freezable;
        let limit = if is_frozen { 0 } else { kind.limit as usize };
        while active.len() < limit {
            let Some(next) = inactive.pop_front() else { return };
            active.push(next);
        }
    }

    /// Whatever has a slot starts, unless its item runs, or its pool's CPU is taken.
    fn start_all(&mut self) {
        for wq in 0..self.queues.len() {
            if self.is_held && self.queues[wq].kind.pool == HELD {
                continue;
            }
            for (id, item) in self.queues[wq].active.clone() {
                let item = &mut self.items[item];
                let instance = Instance { id, wq };
                if item.running.is_none() && item.place == Place::Queued(instance) {
                    item.place = Place::Idle;
                    item.running = Some(instance);
                    item.runs += 1;
                }
            }
        }
    }

    // ---- waits

    /// The numbers of the waits that end now.
    pub(super) fn ended_waits(&mut self) -> Vec<usize> {
        let is_over = |wait: &Wait| wait.by.is_none() && self.has_ended(wait);
        let (ended, left): (Vec<Wait>, _) = self.waits.clone().into_iter().partition(is_over);
        self.waits = left;
        ended.iter().for_each(|wait| self.after(wait));
        ended.iter().map(|wait| wait.number).collect()
    }

    fn after(&mut self, wait: &Wait) {
        match wait.then {
            Then::Nothing => {}
            Then::Enable(item) => self.items[item].depth -= 1,
            Then::Undrain(wq) => self.queues[wq].nr_drainers -= 1,
            Then::Gone(wq) => self.queues[wq].life = Life::Absent,
        }
    }

    fn is_empty(&self, wq: usize) -> bool {
        self.queues[wq].active.is_empty() && self.queues[wq].inactive.is_empty()
    }

    fn has_ended(&self, wait: &Wait) -> bool {
        let is_here = |id: &u64| {
            let all =
                self.queues.iter().flat_map(|queue| queue.active.iter().chain(&queue.inactive));
            all.into_iter().any(|(here, _)| here == id)
        };
        let others = match wait.then {
            Then::Undrain(wq) | Then::Gone(wq) => self.is_empty(wq),
            Then::Nothing | Then::Enable(_) => true,
        };
        others && !wait.instances.iter().any(is_here)
    }

    // ---- what is decided by semantics

    /// Whether the outcome of `op` does not depend on time.
    pub(super) fn allows(&self, op: Op) -> bool {
        let is_waited_for = |item| self.waits.iter().any(|wait| wait.item == Some(item));
        let can_wait = self.waits.len() < MOST_WAITS;
        let is_armed = |item: usize| matches!(self.items[item].place, Place::Timer(_));
        match op {
            Op::Queue(item, wq) => self.takes(item, wq),
            Op::QueueDelayed(item, wq, delay) => self.allows_delay(item, wq, delay),
            Op::Mod(item, wq, delay) => {
                !is_waited_for(item)
                    && self.allows_delay(item, wq, delay)
                    // It must not come to nothing, or to somewhere else, before the delay is over.
                    && (delay != Delay::Soon || !matches!(self.items[item].place, Place::Queued(_)))
            }
            Op::Cancel(item) | Op::Disable(item) => !is_waited_for(item),
            // The plain form waits for an armed timer to expire.
            Op::Enable(item) => !is_waited_for(item) && !is_armed(item),
            Op::EnableAndQueue(item, wq) => {
                !is_waited_for(item) && !self.items[item].is_delayed && self.takes(item, wq)
            }
            Op::CancelSync(item) | Op::DisableSync(item) => can_wait && !is_waited_for(item),
            Op::Flush(_) => can_wait,
            Op::FlushQueue(wq) | Op::Drain(wq) => can_wait && self.is_there(wq),
            Op::SetMaxActive(wq, limit) => {
                self.is_there(wq) && self.queues[wq].kind.has_limit && limit > 0
            }
            Op::Freeze => !self.is_frozen,
            Op::Thaw => self.is_frozen,
            Op::Hold => {
                !self.is_held
                    && !self.has_followers()
                    && self.waits.iter().all(|wait| wait.by.is_none())
            }
            Op::Release => self.is_held,
            Op::Finish(item) => self.can_finish(item),
            Op::WaitFor(item, other, inside) => {
                can_wait
                    && item != other
                    && self.can_finish(item)
                    // It ends whatever else does, and what is waited for is this run.
                    && self.is_running(other)
                    && !self.waits_inside(other)
                    && !self.is_pending(other)
                    && (inside == Inside::Flush || !is_waited_for(other))
            }
            Op::Make(wq) => self.queues[wq].kind.is_brief && self.queues[wq].life == Life::Absent,
            Op::Drop(wq) => {
                can_wait
                    && self.queues[wq].kind.is_brief
                    && self.is_there(wq)
                    // Others have no handle: neither a call nor a timer.
                    && self.waits.iter().all(|wait| wait.wq != Some(wq))
                    && self.items.iter().all(|item| item.place != Place::Timer(wq))
            }
            Op::Attrs(wq, _) => {
                let queue = &self.queues[wq];
                self.is_there(wq) && queue.kind.has_attrs && queue.inactive.is_empty()
            }
        }
    }

    fn waits_inside(&self, item: usize) -> bool {
        self.waits.iter().any(|wait| wait.by == Some(item))
    }

    fn can_finish(&self, item: usize) -> bool {
        let is_held = |run: Instance| self.is_held && self.queues[run.wq].kind.pool == HELD;
        self.items[item].running.is_some_and(|run| !is_held(run)) && !self.waits_inside(item)
    }

    /// Of a queue with items in two pools, which of several that wait for a slot gets it is not
    /// said.
    fn takes(&self, item: usize, wq: usize) -> bool {
        let queue = &self.queues[wq];
        self.is_there(wq)
            && self.is_same_pool(item, wq)
            && (!queue.is_moved || queue.inactive.is_empty())
    }

    /// On another pool it would run at once, twice at the same time.
    fn is_same_pool(&self, item: usize, wq: usize) -> bool {
        let pool = |wq: usize| self.queues[wq].kind.pool;
        self.items[item].running.is_none_or(|run| pool(run.wq) == pool(wq))
    }

    fn allows_delay(&self, item: usize, wq: usize, delay: Delay) -> bool {
        let Item { is_delayed, depth, running, .. } = self.items[item];
        let queue = &self.queues[wq];
        let is_frozen = self.is_frozen && queue.kind.is_freezable;
        let starts = depth == 0
            && running.is_none()
            && queue.nr_drainers == 0
            && !is_frozen
            && (queue.active.len() as u32) < queue.kind.limit
            && !(self.is_held && queue.kind.pool == HELD);
        is_delayed && self.takes(item, wq) && (delay != Delay::Soon || starts)
    }

    /// Whether the pool that can be held has given an item to the worker that runs it: that worker
    /// would go on with it.
    fn has_followers(&self) -> bool {
        self.items.iter().any(|item| item.running.is_some() && item.place != Place::Idle)
    }

    // ---- the end

    /// What ends a sequence: one operation after the other until nothing is left.
    pub(super) fn last_op(&self) -> Option<Op> {
        let items = || 0..self.items.len();
        let runs = |item: &usize| self.allows(Op::Finish(*item));
        let armed = |item: &usize| matches!(self.items[*item].place, Place::Timer(_));
        let thaw = self.is_frozen.then_some(Op::Thaw);
        let release = || self.is_held.then_some(Op::Release);
        let finish = || items().find(runs).map(Op::Finish);
        let cancel = || items().find(armed).map(Op::Cancel);
        let enable = || items().find(|item| self.items[*item].depth > 0).map(Op::Enable);
        thaw.or_else(release).or_else(finish).or_else(cancel).or_else(enable)
    }
}
