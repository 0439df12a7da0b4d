//! A worker pool as one would explain it on a blackboard: numbered items, plain lists, everything
//! counted by looking. Slow, and short enough to be believed.

use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

use crate::{Kick, Nanos, WorkerId};

/// An item, or a barrier, that is queued or running.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) item: usize,
    pub(super) pwq: usize,
    pub(super) color: u8,
    /// It holds one of the pwq's slots.
    pub(super) holds_slot: bool,
}

/// An item with its barriers behind it; the barriers alone once the item was cancelled.
pub(super) type Chain = Vec<Entry>;

#[derive(Debug)]
pub(super) struct Pwq {
    pub(super) max_active: usize,
    pub(super) active: usize,
    pub(super) inactive: VecDeque<Chain>,
    pub(super) color: u8,
    pub(super) flushing: Option<u8>,
    pub(super) in_flight: Vec<u8>,
    pub(super) is_hog: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// On the idle list.
    Idle,
    /// Being created, told to leave, or about to look for work.
    Awake,
    /// Working, or lent.
    Work,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) at: At,
    pub(super) running: Option<Entry>,
    pub(super) scheduled: VecDeque<Entry>,
    pub(super) blocked: bool,
    pub(super) seq: u64,
    pub(super) leaves: bool,
    /// Woken from idle, and not here yet.
    pub(super) told: bool,
    pub(super) since: Nanos,
    pub(super) guest: bool,
}

/// What `next` says, with the item's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Run(usize, Kick),
    Manage,
    Sleep { work_waits: bool },
    Exit,
}

#[derive(Debug)]
pub(super) struct Naive {
    pub(super) concurrency: usize,
    pub(super) pwqs: Vec<Pwq>,
    pub(super) worklist: VecDeque<Chain>,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    /// The most recent last.
    pub(super) idle: Vec<WorkerId>,
    pub(super) manager: Option<WorkerId>,
    pub(super) no_create_before: Nanos,
    pub(super) timeout: Nanos,
}

impl Naive {
    pub(super) fn counts(&self, worker: &Worker) -> bool {
        let hogs = worker.running.is_some_and(|entry| self.pwqs[entry.pwq].is_hog);
        worker.at == At::Work && !worker.blocked && !worker.guest && !hogs
    }

    pub(super) fn nr_running(&self) -> usize {
        self.workers.values().filter(|worker| self.counts(worker)).count()
    }

    /// Own workers that stay.
    pub(super) fn nr_staying(&self) -> usize {
        self.workers.values().filter(|worker| !worker.guest && !worker.leaves).count()
    }

    pub(super) fn need_more(&self) -> bool {
        !self.worklist.is_empty() && self.nr_running() < self.concurrency
    }

    pub(super) fn worker(&mut self, id: WorkerId) -> &mut Worker {
        self.workers.get_mut(&id).expect("a worker")
    }

    pub(super) fn add_worker(&mut self, id: WorkerId, guest: bool) {
        let worker = Worker {
            at: if guest { At::Work } else { At::Awake },
            running: None,
            scheduled: VecDeque::new(),
            blocked: false,
            seq: 0,
            leaves: false,
            told: false,
            since: 0,
            guest,
        };
        assert!(self.workers.insert(id, worker).is_none(), "{id:?} exists");
    }

    fn tell(&mut self, id: WorkerId) -> Kick {
        if core::mem::replace(&mut self.worker(id).told, true) {
            Kick::None
        } else {
            Kick::Wake(id)
        }
    }

    pub(super) fn kick(&mut self) -> Kick {
        match self.idle.last() {
            _ if self.worklist.is_empty() => Kick::None,
            _ if self.nr_running() >= self.concurrency => Kick::Watch,
            Some(&id) => self.tell(id),
            None if self.nr_staying() == 0 && self.manager.is_none() => Kick::NeedFirst,
            None => Kick::None,
        }
    }

    pub(super) fn kick_to_help(&mut self) -> Kick {
        match self.idle.last() {
            _ if !self.has_spare_cpu() => Kick::None,
            Some(&id) => self.tell(id),
            None if self.nr_staying() == 0 && self.manager.is_none() => Kick::NeedFirst,
            None => Kick::None,
        }
    }

    pub(super) fn has_spare_cpu(&self) -> bool {
        self.worklist.is_empty() && self.nr_running() < self.concurrency
    }

    pub(super) fn go_idle(&mut self, id: WorkerId, now: Nanos) {
        let worker = self.worker(id);
        (worker.at, worker.since, worker.told) = (At::Idle, now, false);
        self.idle.push(id);
    }

    fn leave_idle(&mut self, id: WorkerId) {
        self.idle.retain(|&other| other != id);
        let worker = self.worker(id);
        (worker.at, worker.told) = (At::Awake, false);
    }

    // ---- items

    pub(super) fn queue(&mut self, item: usize, pwq: usize) -> Kick {
        let p = &mut self.pwqs[pwq];
        let holds_slot = p.inactive.is_empty() && p.active < p.max_active;
        let entry = Entry { item, pwq, color: p.color, holds_slot };
        p.in_flight.push(p.color);
        if !holds_slot {
            p.inactive.push_back(Vec::from([entry]));
            return Kick::None;
        }
        p.active += 1;
        self.worklist.push_back(Vec::from([entry]));
        self.kick()
    }

    pub(super) fn activate(&mut self, pwq: usize) {
        let p = &mut self.pwqs[pwq];
        while p.active < p.max_active {
            let Some(mut chain) = p.inactive.pop_front() else { return };
            chain[0].holds_slot = true;
            p.active += 1;
            self.worklist.push_back(chain);
        }
    }

    /// An item is done or cancelled. Whether a flush is.
    fn leave(&mut self, entry: Entry) -> bool {
        let p = &mut self.pwqs[entry.pwq];
        let at = p.in_flight.iter().position(|&color| color == entry.color).expect("in flight");
        p.in_flight.swap_remove(at);
        let flushed = p.flushing == Some(entry.color) && !p.in_flight.contains(&entry.color);
        if flushed {
            p.flushing = None;
        }
        if entry.holds_slot {
            p.active -= 1;
            self.activate(entry.pwq);
        }
        flushed
    }

    /// Every list with chains, and where in it `item` is.
    fn find_chain(lists: &mut VecDeque<Chain>, item: usize) -> Option<(usize, usize)> {
        lists.iter().enumerate().find_map(|(at, chain)| {
            chain.iter().position(|entry| entry.item == item).map(|place| (at, place))
        })
    }

    /// `(kick, flush done)`, or `None` if it is not queued.
    pub(super) fn cancel(&mut self, item: usize) -> Option<(Kick, bool)> {
        let entry = self.unlink(item)?;
        let flushed = self.leave(entry);
        Some((self.kick(), flushed))
    }

    fn unlink(&mut self, item: usize) -> Option<Entry> {
        if let Some((at, place)) = Self::find_chain(&mut self.worklist, item) {
            let entry = self.worklist[at].remove(place);
            if self.worklist[at].is_empty() {
                self.worklist.remove(at);
            }
            return Some(entry);
        }
        for p in &mut self.pwqs {
            if let Some((at, place)) = Self::find_chain(&mut p.inactive, item) {
                // Its barriers must not wait for a slot that it will never take.
                let mut chain = p.inactive.remove(at).expect("just found");
                let entry = chain.remove(place);
                if !chain.is_empty() {
                    self.worklist.push_back(chain);
                }
                return Some(entry);
            }
        }
        for worker in self.workers.values_mut() {
            if let Some(at) = worker.scheduled.iter().position(|entry| entry.item == item) {
                return worker.scheduled.remove(at);
            }
        }
        None
    }

    /// Who runs the item.
    pub(super) fn runner(&self, item: usize) -> Option<WorkerId> {
        let runs = |worker: &Worker| worker.running.is_some_and(|entry| entry.item == item);
        self.workers.iter().find(|(_, worker)| runs(worker)).map(|(&id, _)| id)
    }

    /// The queued entry of an item, and whether it is the first of its chain.
    pub(super) fn queued(&self, item: usize) -> Option<Entry> {
        let inactive = self.pwqs.iter().flat_map(|p| &p.inactive);
        let chained = inactive.chain(&self.worklist).flatten();
        let scheduled = self.workers.values().flat_map(|worker| &worker.scheduled);
        chained.chain(scheduled).find(|entry| entry.item == item).copied()
    }

    /// Whether the barrier was put behind the queued target, or before what its runner has
    /// scheduled.
    pub(super) fn insert_barrier(&mut self, target: usize, barrier: usize) -> crate::FlushTarget {
        let runner = self.runner(target);
        let running = runner.and_then(|id| self.workers[&id].running);
        let Some(of) = self.queued(target).or(running) else { return crate::FlushTarget::Idle };
        let entry = Entry { item: barrier, holds_slot: false, ..of };
        self.pwqs[of.pwq].in_flight.push(of.color);
        let inactive = self.pwqs.iter_mut().map(|p| &mut p.inactive);
        for lists in inactive.chain([&mut self.worklist]) {
            if let Some((at, place)) = Self::find_chain(lists, target) {
                lists[at].insert(place + 1, entry);
                return crate::FlushTarget::Queued;
            }
        }
        for worker in self.workers.values_mut() {
            if let Some(at) = worker.scheduled.iter().position(|entry| entry.item == target) {
                worker.scheduled.insert(at + 1, entry);
                return crate::FlushTarget::Queued;
            }
        }
        let runner = runner.expect("it is neither queued nor idle");
        self.worker(runner).scheduled.push_front(entry);
        crate::FlushTarget::Running(runner)
    }

    pub(super) fn flush_prep(&mut self, pwq: usize, flush: Option<u8>, color: u8) -> bool {
        let p = &mut self.pwqs[pwq];
        p.color = color;
        let waits = flush.is_some_and(|flush| p.in_flight.contains(&flush));
        if waits {
            p.flushing = flush;
        }
        waits
    }

    // ---- workers

    pub(super) fn next(&mut self, id: WorkerId, now: Nanos) -> Step {
        self.worker(id).blocked = false;
        loop {
            if self.worker(id).at == At::Work {
                if let Some((item, kick)) = self.work(id) {
                    return Step::Run(item, kick);
                }
                self.worker(id).at = At::Awake;
            }
            self.leave_idle(id);
            if self.worker(id).leaves {
                self.workers.remove(&id);
                return Step::Exit;
            }
            if !self.need_more() {
                self.go_idle(id, now);
                return Step::Sleep { work_waits: !self.worklist.is_empty() };
            }
            if self.idle.is_empty() && self.manager.is_none() && now >= self.no_create_before {
                self.manager = Some(id);
                return Step::Manage;
            }
            self.worker(id).at = At::Work;
        }
    }

    fn work(&mut self, id: WorkerId) -> Option<(usize, Kick)> {
        if self.worker(id).scheduled.is_empty() {
            while !self.worklist.is_empty() && self.nr_running() <= self.concurrency {
                if self.take_head(id) {
                    break;
                }
            }
        }
        self.start(id)
    }

    /// The first chain goes to whoever runs its item, else to `id`: whether it did the latter.
    fn take_head(&mut self, id: WorkerId) -> bool {
        let chain = self.worklist.pop_front().expect("work waits");
        let to = self.runner(chain[0].item).unwrap_or(id);
        self.worker(to).scheduled.extend(chain);
        to == id
    }

    fn start(&mut self, id: WorkerId) -> Option<(usize, Kick)> {
        let worker = self.worker(id);
        let entry = worker.scheduled.pop_front()?;
        worker.running = Some(entry);
        worker.seq += 1;
        Some((entry.item, self.kick()))
    }

    pub(super) fn finish(&mut self, id: WorkerId) -> bool {
        let worker = self.worker(id);
        worker.blocked = false;
        let entry = worker.running.take().expect("it runs something");
        self.leave(entry)
    }

    /// The first that the worker has scheduled is over, if it is a barrier: which, and whether that
    /// ends a flush.
    pub(super) fn pass(&mut self, id: WorkerId) -> Option<(usize, bool)> {
        let worker = self.worker(id);
        let entry = *worker.scheduled.front().filter(|entry| !entry.holds_slot)?;
        worker.scheduled.pop_front();
        Some((entry.item, self.leave(entry)))
    }

    pub(super) fn guest_next(&mut self, id: WorkerId) -> Option<(usize, Kick)> {
        while self.worker(id).scheduled.is_empty()
            && !self.worklist.is_empty()
            && self.nr_running() >= self.concurrency
        {
            self.take_head(id);
        }
        self.start(id)
    }

    pub(super) fn lend(&mut self, id: WorkerId) -> Option<u64> {
        if !self.has_spare_cpu() || self.idle.len() < 2 || !self.idle.contains(&id) {
            return None;
        }
        self.leave_idle(id);
        let worker = self.worker(id);
        worker.at = At::Work;
        worker.seq += 1;
        Some(worker.seq)
    }

    pub(super) fn blocked(&mut self, id: WorkerId, seq: u64) -> Kick {
        let worker = self.worker(id);
        if worker.seq != seq || worker.at != At::Work || worker.blocked {
            return Kick::None;
        }
        worker.blocked = true;
        self.kick()
    }

    pub(super) fn resumed(&mut self, id: WorkerId, seq: u64) -> Kick {
        let worker = self.worker(id);
        if worker.seq != seq || !worker.blocked {
            return Kick::None;
        }
        worker.blocked = false;
        let is_full = self.nr_running() >= self.concurrency;
        if is_full && !self.worklist.is_empty() { Kick::Watch } else { Kick::None }
    }

    pub(super) fn born(&mut self, id: WorkerId, manager: Option<WorkerId>, now: Nanos) -> Kick {
        self.no_create_before = 0;
        self.manager = self.manager.filter(|&m| Some(m) != manager);
        let one_comes = self.idle.last().is_some_and(|standby| self.workers[standby].told);
        self.go_idle(id, now);
        // A manager starts the item itself, and so does who was told.
        if manager.is_some() || one_comes { Kick::None } else { self.kick() }
    }

    pub(super) fn birth_fails(&mut self, id: WorkerId, manager: Option<WorkerId>, now: Nanos) {
        self.workers.remove(&id);
        self.no_create_before = now + crate::consts::CREATE_COOLDOWN_NS;
        self.manager = self.manager.filter(|&m| Some(m) != manager);
    }

    /// Whoever was told to come is not taken for idle.
    fn oldest(&self) -> Option<WorkerId> {
        self.idle.iter().copied().find(|id| !self.workers[id].told)
    }

    pub(super) fn cull_at(&self) -> Option<Nanos> {
        let idle = self.idle.len() + usize::from(self.manager.is_some());
        let busy = self.nr_staying().saturating_sub(idle);
        let too_many = idle > 2 && (idle - 2) * 4 >= busy;
        let oldest = self.oldest().filter(|_| too_many)?;
        Some(self.workers[&oldest].since + self.timeout)
    }

    pub(super) fn cull(&mut self, now: Nanos) -> Option<WorkerId> {
        let oldest = self.oldest();
        self.cull_at().filter(|&at| at <= now).and(oldest).inspect(|&id| self.dismiss(id))
    }

    pub(super) fn dismiss(&mut self, id: WorkerId) {
        self.leave_idle(id);
        self.worker(id).leaves = true;
    }

    /// Of a closed pool: all who are idle may go, but one while anybody else stays.
    pub(super) fn dismiss_one(&mut self) -> Option<WorkerId> {
        let may_go = match self.idle.len() {
            _ if !self.worklist.is_empty() => false,
            1 => self.nr_staying() == 1,
            _ => true,
        };
        let oldest = self.idle.first().copied();
        oldest.filter(|_| may_go).inspect(|&id| self.dismiss(id))
    }
}
