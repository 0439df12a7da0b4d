//! The end of a run: what must be left, and what is dropped.

use cmwq_core::{LockFor, Timer, Wheel, WorkItem};

use super::{Engine, Mode};
use crate::arena::Arena;
use crate::board::Board;
use crate::report::{Helping, Memory, Outcome, Stats};

impl Engine<'_> {
    /// No event is left: checks that all items are done and that the core has nothing left.
    pub(super) fn check_end(&mut self) {
        self.is_complete = self.outstanding == 0;
        if self.config.checks == crate::config::Checks::None {
            return;
        }
        let scene = crate::checkers::Scene {
            config: self.config,
            gauges: &self.gauges,
            machine: &self.machine,
        };
        if let Err(violation) = self.checkers.end(self.now, scene) {
            self.violation = Some(violation);
            return;
        }
        if !self.wheel.is_empty() {
            return self.complain("core", format!("{} timers were forgotten", self.wheel.len()));
        }
        for pool in 0..self.pools.list.len() {
            self.pools.list[pool].lock(LockFor::Find).check();
            let running = self.pools.list[pool].read().nr_running();
            if running != 0 {
                return self
                    .complain("core", format!("pool {pool} believes {running} workers running"));
            }
        }
        self.check_pwqs();
        self.check_helping();
    }

    /// What the core's structures take now.
    pub(super) fn measure(&mut self) {
        let item = size_of::<WorkItem>() + size_of::<Timer>();
        let mut memory =
            Memory { items: (self.plan.items.len() * item) as u64, ..Memory::default() };
        for pool in &self.pools.list {
            let footprint = pool.read().footprint();
            memory.pools += footprint.pool as u64;
            memory.workers += footprint.workers as u64;
            memory.pwqs += footprint.pwqs as u64;
            memory.nr_pwqs += footprint.nr_pwqs as u64;
        }
        self.memory = memory;
    }

    /// Whether helping cost no more than it may, however many pods there are.
    fn check_helping(&mut self) {
        let cost = self.helping_cost();
        if !cost.is_bounded() {
            self.complain("board", format!("pods look for each other too much: {cost:?}"));
        }
    }

    fn helping_cost(&self) -> Helping {
        let (reads, writes) = self
            .pools
            .boards
            .iter()
            .map(Board::cost)
            .fold((0, 0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1));
        Helping { reads, writes, ..self.helping }
    }

    fn check_pwqs(&mut self) {
        for queue in 0..self.queues.len() {
            for index in 0..self.queues[queue].cpu_pwqs.len() {
                let cpu_pwq = self.queues[queue].cpu_pwqs[index];
                if self.queues[queue].pwqs.is_retired(cpu_pwq.at()) {
                    let message =
                        format!("queue {queue} keeps a retired pwq at pool {}", cpu_pwq.pool);
                    return self.complain("core", message);
                }
                let core = self.pools.list[cpu_pwq.pool].lock(LockFor::Find);
                let load = core.pwq_load(cpu_pwq.pwq);
                if load != Some((0, false, false)) || core.remove_pwq(cpu_pwq.pwq).is_err() {
                    let message = format!("queue {queue} left {load:?} at pool {}", cpu_pwq.pool);
                    return self.complain("core", message);
                }
            }
        }
    }

    pub(super) fn outcome(&mut self) -> Outcome {
        let is_worker = |thread: &&super::Thread| {
            thread.is_worker() && !matches!(thread.mode, Mode::Foreign(_) | Mode::Issuer(_))
        };
        Outcome {
            digest: self.checkers.digest,
            violation: self.violation.take(),
            stats: Stats {
                queued: self.next_ticket - 1,
                pushed: self.nr_pushed,
                taken_along: self.nr_taken_along,
                steps: self.steps,
                events: self.checkers.nr_events,
                pools: self.pools.list.len() as u64,
                workers: self.threads.iter().filter(is_worker).count() as u64,
            },
            end: self.now,
            last_item: self.last_item,
            memory: self.memory,
            helping: self.helping_cost(),
            events: self.checkers.events.take().unwrap_or_default(),
            recent: std::mem::take(&mut self.checkers.recent),
        }
    }
}

impl Drop for Engine<'_> {
    /// A run that stopped early has items on lists, which the core rightly refuses to drop, and
    /// after a panic it may be inconsistent: then lists and items are leaked. They are worth a few
    /// kilobytes and a complaint.
    fn drop(&mut self) {
        let is_clean = self.is_complete && !std::thread::panicking();
        if !is_clean {
            std::mem::forget(std::mem::take(&mut self.pools.list));
            std::mem::forget(std::mem::replace(&mut self.wheel, Wheel::new(0)));
            std::mem::forget(std::mem::replace(&mut self.arena, Arena::new(0)));
        }
    }
}
