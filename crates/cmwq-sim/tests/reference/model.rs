//! What a plan comes to, as plainly as it can be said.
//!
//! Items only block and nothing costs anything, so whatever may start does at once. The model knows
//! neither pools nor workers nor colours: an item is somewhere, a lane (a queue, or its part on one
//! CPU) gets slots, and whoever waits has a list of queueings to wait for.

use std::collections::{BTreeMap, VecDeque};

use cmwq_core::TICK_NS;
use cmwq_sim::event::Ticket;
use cmwq_sim::plan::{ItemId, Op, Plan, QueueId};
use cmwq_sim::scenario::Flag;
use cmwq_sim::{Nanos, Scope};

/// What happens to a queueing of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Armed(Nanos),
    Queued,
    Cancelled,
    /// On this CPU, if its queue has a lane on each.
    Started(Option<u32>),
    Finished,
}

/// A call that waits: the so-many-th for an item or a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waiter {
    Item(usize),
    Queue(usize),
}

/// All that is to be seen of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// In their order, but starts of one moment by CPU: see [`Course::sort`].
    pub(super) steps: Vec<(Nanos, ItemId, Ticket, Step)>,
    /// Who returned when; those of one moment return in any order.
    pub(super) returns: Vec<(Nanos, Waiter)>,
}

impl Course {
    /// Slots that become free on several CPUs at one moment are taken in any order, and whoever
    /// waits for the same thing returns in any.
    pub(super) fn sort(&mut self) {
        let start_of = |step| if let Step::Started(cpu) = step { Some(cpu) } else { None };
        let is_alike = |a: &(_, _, _, Step), b: &(_, _, _, Step)| {
            a.0 == b.0 && start_of(a.3).is_some() && start_of(b.3).is_some()
        };
        for starts in self.steps.chunk_by_mut(is_alike) {
            starts.sort_by_key(|start| start_of(start.3));
        }
        self.returns.sort_unstable();
    }
}

/// How a queue is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lanes {
    One,
    /// One for each CPU, with a limit each.
    PerCpu,
    /// One for each CPU; they share the limit.
    Shared,
}

impl Lanes {
    pub(super) fn of(plan: &Plan, queue: QueueId) -> Self {
        let queue = &plan.queues[queue];
        match queue.scope {
            _ if queue.flags.has(Flag::Percpu) => Self::PerCpu,
            Some(Scope::Cpu) => Self::Shared,
            _ => Self::One,
        }
    }
}

/// A queue, and the CPU if it has several lanes (else 0).
type LaneId = (QueueId, u32);

#[derive(Default)]
struct Lane {
    /// Queueings that have a slot, running or not, and the item of each.
    active: Vec<(Ticket, ItemId)>,
    /// Those that wait for one.
    inactive: VecDeque<(Ticket, ItemId)>,
}

/// Where an item that is pending is.
#[derive(Clone, Copy)]
enum Place {
    Timer { due: Nanos, cpu: u32 },
    Queued(LaneId),
}

#[derive(Clone, Copy)]
struct Run {
    ticket: Ticket,
    lane: LaneId,
    /// The next step of its script.
    pc: usize,
}

struct Item {
    pending: Option<(Ticket, Place)>,
    running: Option<Run>,
    /// How many items its runs may still queue.
    budget: u32,
}

struct Wait {
    who: Waiter,
    tickets: Vec<Ticket>,
}

/// Why something happens at a moment. Each moment has one cause.
#[derive(Clone, Copy)]
enum Cause {
    Call(Op),
    Timer(ItemId),
    Wake(ItemId),
}

struct Model<'a> {
    plan: &'a Plan,
    now: Nanos,
    agenda: BTreeMap<Nanos, Cause>,
    has_tie: bool,
    limits: Vec<usize>,
    /// For each queue with a shared limit, whose turn it is to get a slot, and who is next.
    turns: Vec<VecDeque<u32>>,
    lanes: BTreeMap<LaneId, Lane>,
    items: Vec<Item>,
    last_ticket: Ticket,
    waits: Vec<Wait>,
    nr_item_waits: usize,
    nr_flushes: usize,
    course: Course,
}

/// What `plan` comes to. `None`: two things happen at one moment, and which of them is first is not
/// decided by what calls mean.
pub(super) fn predict(plan: &Plan) -> Option<Course> {
    let item = |item: &cmwq_sim::plan::Item| Item {
        pending: None,
        running: None,
        budget: item.nr_queueings,
    };
    let limit = |queue: &cmwq_sim::scenario::QueueSpec| {
        if queue.flags.has(Flag::Ordered) { 1 } else { queue.max_active as usize }
    };
    let mut model = Model {
        plan,
        now: 0,
        agenda: BTreeMap::new(),
        has_tie: false,
        limits: plan.queues.iter().map(limit).collect(),
        turns: plan.queues.iter().map(|_| VecDeque::new()).collect(),
        lanes: BTreeMap::new(),
        items: plan.items.iter().map(item).collect(),
        last_ticket: 0,
        waits: Vec::new(),
        nr_item_waits: 0,
        nr_flushes: 0,
        course: Course::default(),
    };
    plan.calls.iter().for_each(|call| model.plan_cause(call.at, Cause::Call(call.op)));
    while let Some((now, cause)) = model.agenda.pop_first() {
        model.now = now;
        match cause {
            Cause::Call(op) => model.apply(op),
            Cause::Timer(item) => model.expire(item),
            Cause::Wake(item) => model.go_on(item),
        }
        model.start_all();
        model.end_waits();
    }
    model.course.sort();
    (!model.has_tie).then_some(model.course)
}

impl Model<'_> {
    fn plan_cause(&mut self, at: Nanos, cause: Cause) {
        self.has_tie |= self.agenda.insert(at, cause).is_some();
    }

    fn note(&mut self, item: ItemId, ticket: Ticket, step: Step) {
        self.course.steps.push((self.now, item, ticket, step));
    }

    // ---- calls

    fn apply(&mut self, op: Op) {
        match op {
            Op::Queue { item, cpu } => self.queue(item, cpu.expect("a CPU")),
            Op::QueueDelayed { item, cpu, delay } => {
                self.queue_delayed(item, cpu.expect("a CPU"), delay);
            }
            Op::ModDelayed { item, cpu, delay } => {
                self.cancel(item);
                self.queue_delayed(item, cpu.expect("a CPU"), delay);
            }
            Op::Cancel(item) => self.cancel(item),
            Op::FlushItem(item) => self.flush(item),
            Op::FlushDelayed(item) => {
                if let Some((_, Place::Timer { due, .. })) = self.items[item].pending {
                    self.agenda.remove(&due);
                    self.expire(item);
                }
                self.flush(item);
            }
            Op::CancelSync(item) => {
                // What is queued meanwhile is let in: nothing is disabled here.
                self.cancel(item);
                self.flush(item);
            }
            Op::FlushQueue(queue) => self.flush_queue(queue),
            Op::SetMaxActive { queue, max_active } => {
                self.limits[queue] = max_active as usize;
                let lanes: Vec<_> = self.lanes.keys().copied().collect();
                lanes.into_iter().filter(|id| id.0 == queue).for_each(|id| self.activate(id));
            }
            _ => unreachable!("not in these plans"),
        }
    }

    fn queue(&mut self, item: ItemId, cpu: u32) {
        if self.items[item].pending.is_none() {
            self.last_ticket += 1;
            self.enqueue(item, self.last_ticket, cpu);
        }
    }

    fn queue_delayed(&mut self, item: ItemId, cpu: u32, delay: Nanos) {
        if self.items[item].pending.is_none() {
            self.last_ticket += 1;
            let due = self.now + delay;
            self.note(item, self.last_ticket, Step::Armed(due));
            // Never early, and no finer than a tick.
            let due = due.next_multiple_of(TICK_NS);
            self.items[item].pending = Some((self.last_ticket, Place::Timer { due, cpu }));
            self.plan_cause(due, Cause::Timer(item));
        }
    }

    fn expire(&mut self, item: ItemId) {
        if let Some((ticket, Place::Timer { cpu, .. })) = self.items[item].pending {
            self.enqueue(item, ticket, cpu);
        }
    }

    /// An item that runs is queued where it does, so that it cannot run twice at once.
    fn enqueue(&mut self, item: ItemId, ticket: Ticket, cpu: u32) {
        let queue = self.plan.items[item].queue;
        let lane = (queue, if self.lanes_of(queue) == Lanes::One { 0 } else { cpu });
        let lane = self.items[item].running.map_or(lane, |run| run.lane);
        self.items[item].pending = Some((ticket, Place::Queued(lane)));
        self.lanes.entry(lane).or_default().inactive.push_back((ticket, item));
        if self.lanes_of(queue) == Lanes::Shared && !self.turns[queue].contains(&lane.1) {
            self.turns[queue].push_back(lane.1);
        }
        self.note(item, ticket, Step::Queued);
        self.activate(lane);
    }

    fn lanes_of(&self, queue: QueueId) -> Lanes {
        Lanes::of(self.plan, queue)
    }

    fn cancel(&mut self, item: ItemId) {
        let Some((ticket, place)) = self.items[item].pending.take() else { return };
        self.note(item, ticket, Step::Cancelled);
        match place {
            Place::Timer { due, .. } => drop(self.agenda.remove(&due)),
            Place::Queued(lane) => {
                let had_slot = self.lanes[&lane].active.contains(&(ticket, item));
                self.leave(lane, ticket);
                // One that had a slot was lined up behind the run of the same item. Whoever waits
                // for it keeps that place.
                if let Some(run) = self.items[item].running.filter(|_| had_slot) {
                    let all = self.waits.iter_mut().flat_map(|wait| &mut wait.tickets);
                    all.filter(|waited| **waited == ticket).for_each(|to| *to = run.ticket);
                }
            }
        }
    }

    /// The last queueing is what is waited for; a timer is not.
    fn flush(&mut self, item: ItemId) {
        let ticket = match (self.items[item].pending, self.items[item].running) {
            (Some((ticket, Place::Queued(_))), _) => ticket,
            (_, Some(run)) => run.ticket,
            _ => return,
        };
        self.waits.push(Wait { who: Waiter::Item(self.nr_item_waits), tickets: vec![ticket] });
        self.nr_item_waits += 1;
    }

    fn flush_queue(&mut self, queue: QueueId) {
        let lanes = self.lanes.iter().filter(|((of, _), _)| *of == queue);
        let all = lanes.flat_map(|(_, lane)| lane.active.iter().chain(&lane.inactive));
        let tickets = all.map(|(ticket, _)| *ticket).collect();
        self.waits.push(Wait { who: Waiter::Queue(self.nr_flushes), tickets });
        self.nr_flushes += 1;
    }

    // ---- slots

    /// A queueing is gone: it has run, or was taken back.
    fn leave(&mut self, id: LaneId, ticket: Ticket) {
        let lane = self.lanes.entry(id).or_default();
        lane.active.retain(|(here, _)| *here != ticket);
        lane.inactive.retain(|(here, _)| *here != ticket);
        self.activate(id);
    }

    /// Gives slots to whoever waits longest.
    fn activate(&mut self, id: LaneId) {
        if self.lanes_of(id.0) == Lanes::Shared {
            return self.activate_in_turn(id.0);
        }
        let lane = self.lanes.entry(id).or_default();
        while lane.active.len() < self.limits[id.0] {
            let Some(next) = lane.inactive.pop_front() else { return };
            lane.active.push(next);
        }
    }

    /// Each lane gets one slot, then it is the next one's turn. A lane of which all was taken back
    /// keeps its turn for what comes until then.
    fn activate_in_turn(&mut self, queue: QueueId) {
        while self.nr_active(queue) < self.limits[queue] {
            let Some(turn) = self.turns[queue].pop_front() else { return };
            let lane = self.lanes.entry((queue, turn)).or_default();
            lane.active.extend(lane.inactive.pop_front());
            if !lane.inactive.is_empty() {
                self.turns[queue].push_back(turn);
            }
        }
    }

    fn nr_active(&self, queue: QueueId) -> usize {
        let lanes = self.lanes.iter().filter(|((of, _), _)| *of == queue);
        lanes.map(|(_, lane)| lane.active.len()).sum()
    }

    /// Whatever has a slot starts, unless its item runs.
    fn start_all(&mut self) {
        let all = self.lanes.iter();
        let all = all.flat_map(|(id, lane)| lane.active.iter().map(|&(t, item)| (*id, t, item)));
        for (lane, ticket, item) in all.collect::<Vec<_>>() {
            if self.items[item].running.is_none() {
                self.items[item].pending = None;
                self.items[item].running = Some(Run { ticket, lane, pc: 0 });
                let cpu = (self.lanes_of(lane.0) != Lanes::One).then_some(lane.1);
                self.note(item, ticket, Step::Started(cpu));
                self.go_on(item);
            }
        }
    }

    /// The item's script, to where it blocks or ends.
    fn go_on(&mut self, item: ItemId) {
        while let Some(run) = &mut self.items[item].running {
            let op = self.plan.items[item].ops.get(run.pc).copied();
            run.pc += 1;
            let run = *run;
            match op {
                Some(Op::Sleep(ns) | Op::Announced(ns)) => {
                    return self.plan_cause(self.now + ns, Cause::Wake(item));
                }
                Some(op @ (Op::Queue { .. } | Op::QueueDelayed { .. } | Op::ModDelayed { .. })) => {
                    if self.items[item].budget > 0 {
                        self.items[item].budget -= 1;
                        self.apply(op);
                    }
                }
                Some(op) => self.apply(op),
                None => {
                    self.items[item].running = None;
                    self.note(item, run.ticket, Step::Finished);
                    self.leave(run.lane, run.ticket);
                }
            }
        }
    }

    fn end_waits(&mut self) {
        let lanes = self.lanes.values();
        let here = lanes.flat_map(|lane| lane.active.iter().chain(&lane.inactive));
        let here: Vec<Ticket> = here.map(|(ticket, _)| *ticket).collect();
        self.waits.retain(|wait| {
            let is_over = !wait.tickets.iter().any(|ticket| here.contains(ticket));
            if is_over {
                self.course.returns.push((self.now, wait.who));
            }
            !is_over
        });
    }
}
