//! What must hold after each step.

use super::naive::{self, At};
use super::pair::{Pair, UNBORN};
use crate::policy::UNMANAGED;
use crate::tests::support::{Rng, work};
use crate::{WorkerId, WqKey};

impl Pair {
    pub(super) fn compare(&self) {
        self.f.check();
        let own = self.naive.workers.values().filter(|worker| !worker.guest).count();
        assert_eq!(self.f.nr_workers() as usize, own);
        assert_eq!(self.f.nr_idle() as usize, self.naive.idle.len());
        assert_eq!(self.f.nr_running() as usize, self.naive.nr_running());
        assert_eq!(self.f.work_waits(), !self.naive.worklist.is_empty());
        assert_eq!(self.f.need_more_worker(), self.naive.need_more());
        assert_eq!(self.f.has_spare_cpu(), self.naive.has_spare_cpu());
        assert_eq!(self.f.standby(), self.naive.idle.last().copied());
        assert_eq!(self.f.has_manager(), self.naive.manager.is_some());
        assert_eq!(self.f.workers().count(), self.naive.workers.len());
        for view in self.f.workers() {
            let worker = &self.naive.workers[&view.id];
            let idle = worker.at == At::Idle;
            let wq = worker.running.map(|entry| WqKey(entry.pwq as u32));
            let running = self.naive.counts(worker);
            assert_eq!(
                (view.idle, view.sleeping, view.running, view.seq, view.wq),
                (idle, worker.blocked, running, worker.seq, wq)
            );
        }
        for (&pwq, naive) in self.pwqs.iter().zip(&self.naive.pwqs) {
            let expected =
                (naive.active as u32, !naive.inactive.is_empty(), !naive.in_flight.is_empty());
            assert_eq!(self.f.pwq_load(pwq), Some(expected));
        }
        self.compare_items();
    }

    pub(super) fn compare_items(&self) {
        for (number, &item) in self.items.iter().enumerate() {
            let (word, queued) = (work(item).word(), self.naive.queued(number));
            assert_eq!(word.is_pending(), queued.is_some() || self.held.contains(&number));
            assert_eq!(word.pwq().map(|at| at.pwq), queued.map(|entry| self.pwqs[entry.pwq]));
            if let Some(entry) = queued {
                assert_eq!((word.color(), word.is_inactive()), (entry.color, !entry.holds_slot));
            }
            let runs = self.naive.runner(number).is_some();
            assert_eq!(self.f.is_executing(item), runs, "item {number}");
        }
    }

    /// If a worker ought to come, one is on its way, or there is none to come.
    pub(super) fn nothing_stalls(&self) {
        if self.naive.idle.is_empty() || !self.naive.need_more() {
            return;
        }
        let on_its_way = |(id, worker): (&WorkerId, &naive::Worker)| {
            worker.at != At::Idle
                && worker.running.is_none()
                && !worker.leaves
                && worker.since != UNBORN
                && !self.lent.contains(id)
        };
        let told = self.naive.idle.iter().any(|id| self.naive.workers[id].told);
        assert!(told || self.naive.workers.iter().any(on_its_way), "work waits for nobody");
    }

    /// Whoever runs has a standby, or somebody to create one.
    pub(super) fn somebody_stands_by(&self) {
        let busy = self.naive.workers.values().any(|w| w.at == At::Work && !w.guest);
        let unborn = self.naive.workers.values().any(|w| w.since == UNBORN);
        let standby = !self.naive.idle.is_empty() || self.naive.manager.is_some() || unborn;
        assert!(!busy || standby || self.is_short, "no standby");
    }

    /// Lets everything end, and counts.
    pub(super) fn settle(&mut self, rng: &mut Rng) {
        let _ = self.f.set_concurrency(UNMANAGED);
        self.naive.concurrency = UNMANAGED as usize;
        for (pwq, &id) in self.pwqs.clone().iter().enumerate() {
            let _ = self.f.set_max_active(id, 1000);
            self.naive.pwqs[pwq].max_active = 1000;
            self.naive.activate(pwq);
        }
        let _ = (self.f.kick(), self.naive.kick());
        while !self.held.is_empty() {
            self.publish(rng);
        }
        let is_busy = |pair: &Self| pair.naive.pwqs.iter().any(|p| !p.in_flight.is_empty());
        for _ in 0..10_000 {
            if !is_busy(self) && self.lent.is_empty() {
                break;
            }
            let op = [Self::look, Self::finish, Self::create, Self::guest, Self::lend];
            op[rng.below(op.len())](self, rng);
            if !cfg!(miri) {
                self.compare();
            }
            self.nothing_stalls();
        }
        assert!(!is_busy(self), "something never ends");
        for &pwq in &self.pwqs {
            let stats = self.f.pwq_stats(pwq).expect("the pwq");
            assert_eq!(stats.started, stats.completed);
            assert_eq!(self.f.pwq_load(pwq), Some((0, false, false)));
        }
    }
}
