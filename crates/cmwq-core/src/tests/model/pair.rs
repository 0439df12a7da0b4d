//! The pool and the naive one, and everything that may happen to both.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::Coverage;
use super::naive::{self, At, Naive, Pwq, Step};
use crate::consts::IDLE_WORKER_TIMEOUT_NS;
use crate::policy::UNMANAGED;
use crate::tests::support::{Fixture, ItemPtr, Rng, pwq_config, work};
use crate::{Effects, Grab, Kick, Nanos, Next, PwqId, WorkerId, WqKey};

/// The time stamp of a worker whose thread is not there yet.
pub(super) const UNBORN: Nanos = Nanos::MAX;

/// The pool, and the naive one beside it.
pub(super) struct Pair {
    pub(super) f: Fixture,
    pub(super) naive: Naive,
    pub(super) pwqs: Vec<PwqId>,
    pub(super) items: Vec<ItemPtr>,
    /// Items whose `PENDING` a canceller holds.
    pub(super) held: Vec<usize>,
    /// Barriers are items that are never queued or cancelled.
    pub(super) barriers: usize,
    pub(super) lent: Vec<WorkerId>,
    /// A worker could not be created since the last one was: no standby is promised.
    pub(super) is_short: bool,
    pub(super) cover: Coverage,
}

impl Pair {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let concurrency = [1, 1, 2, 3, UNMANAGED][rng.below(5)];
        let (mut f, _) = Fixture::new(concurrency, 0);
        let (mut pwqs, mut models) = (Vec::new(), Vec::new());
        for n in 0..3 {
            let (max_active, is_hog) = (1 + rng.below(4), n == 2);
            let mut config = pwq_config(n, max_active as u32);
            config.cpu_intensive = is_hog;
            pwqs.push(f.add_pwq(config));
            models.push(Pwq {
                max_active,
                active: 0,
                inactive: Default::default(),
                color: 0,
                flushing: None,
                in_flight: Vec::new(),
                is_hog,
            });
        }
        let naive = Naive {
            concurrency: concurrency as usize,
            pwqs: models,
            worklist: Default::default(),
            workers: BTreeMap::new(),
            idle: Vec::new(),
            manager: None,
            no_create_before: 0,
            timeout: IDLE_WORKER_TIMEOUT_NS,
        };
        let barriers = 6;
        let items = (0..barriers + 24).map(|_| f.item()).collect();
        Self {
            f,
            naive,
            pwqs,
            items,
            held: Vec::new(),
            barriers,
            lent: Vec::new(),
            is_short: false,
            cover: Coverage::new(),
        }
    }

    pub(super) fn note(&mut self, what: &'static str) {
        *self.cover.entry(what).or_default() += 1;
    }

    pub(super) fn note_kick(&mut self, kick: Kick) {
        self.note(match kick {
            Kick::None => "kick: none",
            Kick::Wake(_) => "kick: wake",
            Kick::Watch => "kick: watch",
            Kick::NeedFirst => "kick: need first",
        });
    }

    pub(super) fn same_kick(&mut self, real: Kick, naive: Kick) {
        assert_eq!(real, naive);
        self.note_kick(real);
    }

    pub(super) fn is_idle_item(&self, item: usize) -> bool {
        self.naive.queued(item).is_none() && !self.held.contains(&item)
    }

    pub(super) fn number_of(&self, item: *mut crate::WorkItem) -> usize {
        self.items.iter().position(|other| other.as_ptr() == item).expect("an item of ours")
    }

    pub(super) fn pick_worker(
        &self,
        rng: &mut Rng,
        fits: impl Fn(&naive::Worker) -> bool,
    ) -> Option<WorkerId> {
        let fitting: Vec<WorkerId> = self
            .naive
            .workers
            .iter()
            .filter(|&(id, worker)| !self.lent.contains(id) && fits(worker))
            .map(|(&id, _)| id)
            .collect();
        rng.pick(&fitting)
    }

    // ---- what may happen

    pub(super) fn queue(&mut self, rng: &mut Rng) {
        let item = self.barriers + rng.below(self.items.len() - self.barriers);
        let pwq = rng.below(3);
        let was = work(self.items[item]).claim();
        assert_eq!(was.is_pending(), !self.is_idle_item(item), "item {item}");
        if was.is_pending() {
            return self.note(if self.held.contains(&item) {
                "queue: held"
            } else {
                "queue: refused"
            });
        }
        // An item that runs must go where it runs; the driver's part of non-reentrance.
        let runner = self.naive.runner(item).and_then(|id| self.naive.workers[&id].running);
        let pwq = runner.map_or(pwq, |entry| entry.pwq);
        // SAFETY: the fixture keeps its items; PENDING was just won.
        let real = unsafe { self.f.enqueue(self.pwqs[pwq], self.items[item]) };
        let naive = self.naive.queue(item, pwq);
        self.same_kick(real, naive);
    }

    /// A worker looks for work, whether it was called or not.
    pub(super) fn look(&mut self, rng: &mut Rng) {
        let managing = self.naive.manager;
        let mut candidates = Vec::new();
        for (&id, worker) in &self.naive.workers {
            let may_ask = worker.running.is_none() && !worker.guest && worker.since != UNBORN;
            // Those that were called come sooner than others.
            let weight = if worker.at == At::Idle && !worker.told { 1 } else { 10 };
            if may_ask && managing != Some(id) && !self.lent.contains(&id) {
                candidates.extend([id].repeat(weight));
            }
        }
        if let Some(id) = rng.pick(&candidates) {
            self.look_as(id);
        }
    }

    pub(super) fn look_as(&mut self, id: WorkerId) {
        let now = self.f.now;
        let was_at_work = self.naive.workers[&id].at == At::Work;
        let naive = self.naive.next(id, now);
        let real = match self.f.next(id) {
            Next::Run(claim) => Step::Run(self.number_of(claim.item), claim.kick),
            Next::Manage => Step::Manage,
            Next::Sleep { work_waits } => Step::Sleep { work_waits },
            Next::Exit => Step::Exit,
        };
        assert_eq!(real, naive, "{id:?}");
        match real {
            Step::Run(_, kick) => {
                self.note(if was_at_work { "next: kept working" } else { "next: started" });
                self.note_kick(kick);
            }
            Step::Manage => self.note("next: manage"),
            Step::Sleep { work_waits: true } => self.note("next: sleep and watch"),
            Step::Sleep { work_waits: false } => self.note("next: sleep"),
            Step::Exit => self.note("next: exit"),
        }
    }

    pub(super) fn finish(&mut self, rng: &mut Rng) {
        let Some(id) = self.pick_worker(rng, |worker| worker.running.is_some()) else { return };
        let entry = self.naive.workers[&id].running.expect("picked for it");
        let real = self.f.finish(id);
        let flush_done = self.naive.finish(id).then_some(WqKey(entry.pwq as u32));
        assert_eq!(real, Effects { flush_done, ..Effects::NONE });
        if flush_done.is_some() {
            self.note("flush: done by finish");
        }
    }

    /// A worker that has finished an item passes a barrier, if one comes next.
    pub(super) fn pass(&mut self, rng: &mut Rng) {
        let is_between = |worker: &naive::Worker| {
            worker.at == At::Work && worker.running.is_none() && !worker.guest
        };
        let Some(id) = self.pick_worker(rng, is_between) else { return };
        let entry = self.naive.workers[&id].scheduled.front().copied();
        let naive = self.naive.pass(id).map(|(item, flushed)| {
            let flush_done = entry.filter(|_| flushed).map(|entry| WqKey(entry.pwq as u32));
            (item, Effects { flush_done, ..Effects::NONE })
        });
        let passed = self.f.pass_barrier(id);
        if let Some(passed) = &passed {
            assert_eq!(passed.is_last, self.naive.workers[&id].scheduled.is_empty(), "{id:?}");
        }
        let real = passed.map(|passed| (self.number_of(passed.barrier.as_ptr()), passed.effects));
        assert_eq!(real, naive, "{id:?}");
        if naive.is_some() {
            self.note("barrier: passed");
        }
    }

    pub(super) fn block(&mut self, rng: &mut Rng) {
        let Some((id, seq)) = self.pick_report(rng) else { return };
        let (real, naive) = (self.f.worker_blocked(id, seq), self.naive.blocked(id, seq));
        self.same_kick(real, naive);
        self.note("blocked");
    }

    pub(super) fn resume(&mut self, rng: &mut Rng) {
        let Some((id, seq)) = self.pick_report(rng) else { return };
        let (real, naive) = (self.f.worker_resumed(id, seq), self.naive.resumed(id, seq));
        self.same_kick(real, naive);
    }

    /// Mostly about the present run of a running worker, sometimes about anything.
    pub(super) fn pick_report(&self, rng: &mut Rng) -> Option<(WorkerId, u64)> {
        let anything = rng.percent(20);
        let ids: Vec<WorkerId> = self
            .naive
            .workers
            .iter()
            .filter(|(_, worker)| anything || worker.at == At::Work)
            .map(|(&id, _)| id)
            .collect();
        let id = rng.pick(&ids)?;
        let late = u64::from(rng.percent(20));
        Some((id, self.naive.workers[&id].seq.saturating_sub(late)))
    }

    /// The manager is done, or somebody creates a worker from outside.
    pub(super) fn create(&mut self, rng: &mut Rng) {
        let unborn = self.pick_worker(rng, |worker| worker.since == UNBORN);
        let outside = self.naive.workers.len() < 3 || rng.percent(8);
        match unborn {
            Some(id) => self.deliver(rng, id),
            None if self.naive.manager.is_some() || outside => {
                let id = self.f.worker_new();
                self.naive.add_worker(id, false);
                self.naive.worker(id).since = UNBORN;
            }
            None => {}
        }
    }

    pub(super) fn deliver(&mut self, rng: &mut Rng, id: WorkerId) {
        let (now, manager) = (self.f.now, self.naive.manager);
        if rng.percent(20) {
            self.note("birth failed");
            self.f.birth_fails(id, manager);
            self.naive.birth_fails(id, manager, now);
            self.is_short = true;
            return;
        }
        let (real, naive) = (self.f.born(id, manager), self.naive.born(id, manager, now));
        self.same_kick(real, naive);
        self.is_short = false;
    }

    pub(super) fn cancel(&mut self, rng: &mut Rng) {
        let item = self.barriers + rng.below(self.items.len() - self.barriers);
        let wq = self.naive.queued(item).map(|entry| WqKey(entry.pwq as u32));
        let naive = self.naive.cancel(item);
        let real = self.f.grab(self.items[item]);
        let expected = naive.map_or(Grab::NotHere, |(kick, flushed)| {
            let flush_done = wq.filter(|_| flushed);
            Grab::Taken(kick, Effects { flush_done, ..Effects::NONE })
        });
        assert_eq!(real, expected, "item {item}");
        if naive.is_some() {
            self.note("cancelled");
            self.held.push(item);
        }
    }

    /// A canceller gives `PENDING` back.
    pub(super) fn publish(&mut self, rng: &mut Rng) {
        if !self.held.is_empty() {
            let item = self.held.swap_remove(rng.below(self.held.len()));
            let item = work(self.items[item]);
            item.release(item.word());
        }
    }

    pub(super) fn flush_item(&mut self, rng: &mut Rng) {
        let idle = |&barrier: &usize| {
            self.naive.queued(barrier).is_none() && self.naive.runner(barrier).is_none()
        };
        let Some(barrier) = (0..self.barriers).find(idle) else { return };
        // Also of a barrier: it is an item like any other.
        let target = rng.below(self.items.len());
        if target == barrier {
            return;
        }
        let real = self.f.barrier(self.items[target], self.items[barrier]);
        assert_eq!(real, self.naive.insert_barrier(target, barrier));
        self.note(match real {
            crate::FlushTarget::Idle => "barrier: idle",
            crate::FlushTarget::Queued => "barrier: queued",
            crate::FlushTarget::Running(_) => "barrier: running",
        });
    }

    pub(super) fn flush_queue(&mut self, rng: &mut Rng) {
        let pwq = rng.below(3);
        let now = self.naive.pwqs[pwq].color;
        let flush = (self.naive.pwqs[pwq].flushing.is_none() && rng.percent(70)).then_some(now);
        let color = crate::flush::next_color(now);
        let real = self.f.flush_prep(self.pwqs[pwq], flush, Some(color));
        assert_eq!(real, self.naive.flush_prep(pwq, flush, color));
    }

    pub(super) fn set_max_active(&mut self, rng: &mut Rng) {
        let (pwq, max_active) = (rng.below(3), [0, 1, 2, 3, 5, 8][rng.below(6)]);
        let real = self.f.set_max_active(self.pwqs[pwq], max_active as u32);
        self.naive.pwqs[pwq].max_active = max_active;
        self.naive.activate(pwq);
        let naive = self.naive.kick();
        self.same_kick(real, naive);
    }

    pub(super) fn set_concurrency(&mut self, rng: &mut Rng) {
        let concurrency = [1, 2, 3, UNMANAGED][rng.below(4)];
        let real = self.f.set_concurrency(concurrency);
        self.naive.concurrency = concurrency as usize;
        let naive = self.naive.kick();
        self.same_kick(real, naive);
    }

    pub(super) fn pass_time(&mut self, rng: &mut Rng) {
        self.f.now += rng.below(200) as Nanos * 1_000_000_000;
    }

    pub(super) fn cull(&mut self, _: &mut Rng) {
        let now = self.f.now;
        assert_eq!(self.f.cull_at(), self.naive.cull_at());
        let real = self.f.cull_one(now);
        assert_eq!(real, self.naive.cull(now));
        if real.is_some() {
            self.note("culled");
        }
    }

    pub(super) fn guest(&mut self, rng: &mut Rng) {
        match self.pick_worker(rng, |worker| worker.guest && worker.running.is_none()) {
            None if rng.percent(30) => {
                let id = self.f.guest_enter();
                self.naive.add_worker(id, true);
            }
            None => {}
            Some(id) => {
                let real = self.f.guest_next(id, false).map(|claim| (claim.item, claim.kick));
                let real = real.map(|(item, kick)| (self.number_of(item), kick));
                assert_eq!(real, self.naive.guest_next(id));
                match real {
                    Some(_) => self.note("guest: runs"),
                    None => {
                        assert!(self.f.guest_may_leave(id));
                        let real = self.f.guest_leave(id);
                        self.naive.workers.remove(&id);
                        let naive = self.naive.kick();
                        self.same_kick(real, naive);
                    }
                }
            }
        }
    }

    pub(super) fn lend(&mut self, rng: &mut Rng) {
        match self.lent.pop() {
            None => {
                let (real, naive) = (self.f.kick_to_help(), self.naive.kick_to_help());
                self.same_kick(real, naive);
                let Some(id) = self.pick_worker(rng, |worker| !worker.guest) else { return };
                let real = self.f.lends(id);
                assert_eq!(real, self.naive.lend(id));
                if real.is_some() {
                    self.note("lent");
                    self.lent.push(id);
                }
            }
            Some(id) if rng.percent(30) => {
                let worker = self.naive.worker(id);
                (worker.blocked, worker.seq) = (false, worker.seq + 1);
                let seq = worker.seq;
                assert_eq!(self.f.lend_again(id), seq);
                self.lent.push(id);
            }
            Some(id) => {
                self.f.lend_end(id);
                self.naive.worker(id).blocked = false;
                self.look_as(id);
            }
        }
    }

    /// All queues leave, the pool is closed, some workers look and leave, and the queues are back.
    pub(super) fn close_and_reopen(&mut self, rng: &mut Rng) {
        if self.naive.pwqs.iter().any(|pwq| !pwq.in_flight.is_empty()) {
            return;
        }
        for pwq in core::mem::take(&mut self.pwqs) {
            assert!(!self.f.close_if_unused(), "a queue leads here");
            assert!(self.f.remove_pwq(pwq).is_ok(), "nothing is in flight");
        }
        assert!(self.f.close_if_unused());
        self.note("closed");
        for _ in 0..rng.below(6) {
            if rng.percent(30) {
                self.look(rng);
                continue;
            }
            let real = self.f.dismiss_one();
            assert_eq!(real, self.naive.dismiss_one());
            self.note(if real.is_some() { "dismissed" } else { "dismissed: none" });
            self.f.check();
        }
        let is_vacant = self.naive.workers.is_empty() && self.naive.worklist.is_empty();
        assert_eq!(self.f.renew(), is_vacant, "whoever is left keeps it as it is");
        assert_eq!(self.f.is_closed(), !is_vacant);
        self.note(if is_vacant { "renewed" } else { "not renewed" });
        for n in 0..3 {
            let naive = &self.naive.pwqs[n as usize];
            let mut config = pwq_config(n, naive.max_active as u32);
            (config.cpu_intensive, config.work_color) = (naive.is_hog, naive.color);
            self.pwqs.push(self.f.add_pwq(config));
        }
        assert!(!self.f.is_closed());
    }
}
