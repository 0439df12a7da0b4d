//! Workers that stand for processes. An item that starts a process and waits for it is blocked, but
//! the process has the CPU. Such a worker *stands for* the process: it counts as running while the
//! process runs.
//!
//! Reports ([`PoolState::worker_blocked`], [`PoolState::worker_resumed`]) are then about both: the
//! worker is blocked when neither its own thread nor the process uses a CPU, see
//! [`evidence::state_for`](crate::detect::evidence::state_for). The worker's own report of its wait
//! makes no room.
//!
//! Whether a process runs is dear to find out, and two looks of three that an alarm causes find
//! nobody who waits: a process is just being started, or Linux has put two on one CPU. So while a
//! pool's processes *wait soon* after they were started, the last four of them, and whoever runs
//! has just begun, the idle CPU itself is enough: who was woken by the alarm begins another item,
//! and nobody is looked at. The ticks find who waits. If those processes compute after all, more
//! run than there are CPUs, until some of them wait or end. So there is a limit; at it an alarm
//! causes a look.
//!
//! KERNEL: no twin. There a worker that waits for a process of user space
//! (`call_usermodehelper_exec_work`) does not count while it waits.
//!
//! Why: docs/decisions/descendants-by-proc.md

use super::{Kick, PoolState, Rule};
use crate::consts::{ALARM_LIMIT_FACTOR, MANY_SOON_PROCESSES, PROCESS_WAITS_SOON_NS};
use crate::ids::{Nanos, WorkerId};
use crate::worker::{Phase, Worker};

impl PoolState {
    /// Worker `id`, in run `seq`, begins (`stands`) or ends to stand for processes, at `now`. The
    /// worker itself reports that, so it runs now. It ends with the run at the latest; then the
    /// pool learns nothing.
    pub fn worker_stands_for_process(&mut self, id: WorkerId, seq: u64, stands: bool, now: Nanos) {
        if self.workers.get(id.0).is_none_or(|worker| worker.seq != seq) {
            return;
        }
        let worker = self.worker(id);
        let was_standing = worker.stands_for_process();
        if !stands {
            if worker.process_since.take().is_some() && was_standing {
                self.process_waited(None);
            }
        } else if !was_standing {
            // One more process changes nothing: the first one's time counts.
            worker.process_since = Some(now);
        }
        self.update(id, |w| {
            w.process_in = if stands { seq } else { 0 };
            w.sleeping = false;
        });
    }

    /// Whether worker `id` stands for processes in run `seq`.
    #[must_use]
    pub fn stands_for_process(&self, id: WorkerId, seq: u64) -> bool {
        self.workers.get(id.0).is_some_and(|w| w.seq == seq && w.stands_for_process())
    }

    /// Worker `id` reports in run `seq` that it is about to wait, as
    /// [`worker_blocked`](Self::worker_blocked). Changes nothing if it stands for processes: looks
    /// at these find out when they wait, too.
    pub fn worker_waits(&mut self, id: WorkerId, seq: u64) -> Kick {
        if self.stands_for_process(id, seq) && self.keeps(Rule::WaitersStandForProcesses) {
            return Kick::None;
        }
        self.worker_blocked(id, seq)
    }

    /// Worker `id` was found blocked, at `now`.
    pub(super) fn process_found_waiting(&mut self, id: WorkerId, now: impl FnOnce() -> Nanos) {
        let worker = self.worker(id);
        if worker.stands_for_process()
            && let Some(since) = worker.process_since.take()
        {
            self.process_waited(Some(now().saturating_sub(since)));
        }
    }

    /// A process was found waiting for the first time, so long `after` its worker began to stand
    /// for it, in nanoseconds; `None`: it has ended and was never found waiting, maybe since nobody
    /// looked. The pool learns that by itself; for searches, which have no times.
    pub fn process_waited(&mut self, after: Option<Nanos>) {
        let is_soon = after.is_some_and(|after| after < PROCESS_WAITS_SOON_NS);
        self.soon_processes = if is_soon { self.soon_processes.saturating_add(1) } else { 0 };
    }

    /// Whether the pool's processes wait soon after they were started.
    pub(super) const fn processes_wait_soon(&self) -> bool {
        self.soon_processes >= MANY_SOON_PROCESSES
    }

    /// Worker `me` was woken by an alarm: a CPU idles. Whether it begins another item, although the
    /// pool believes that enough workers run. It asks for work right afterwards, and nobody is to
    /// be looked at. `now` is read only while the pool's processes wait soon.
    pub fn begins_on_alarm(&mut self, me: WorkerId, now: impl FnOnce() -> Nanos) -> bool {
        let most = self.config.concurrency.saturating_mul(ALARM_LIMIT_FACTOR);
        let is_wanted = self.processes_wait_soon() && self.may_begin_another();
        if !is_wanted || self.nr_running >= most || !self.have_all_just_begun(now()) {
            return false;
        }
        let me = self.worker(me);
        // Who was told to leave does so.
        me.begins_anyway = me.phase == Phase::Idle && !me.die;
        me.begins_anyway
    }

    /// Whether those that run stand for processes of which nobody knows yet whether they wait soon.
    /// Who stands for none is cheap to look at; who computes for longer, or is back, computes.
    fn have_all_just_begun(&self, now: Nanos) -> bool {
        let is_soon = |since: Nanos| now.saturating_sub(since) < PROCESS_WAITS_SOON_NS;
        let has_begun = |worker: &Worker| {
            worker.stands_for_process() && worker.process_since.is_some_and(is_soon)
        };
        let mut running = self.workers.iter().filter(|(_, worker)| worker.is_counted());
        running.all(|(_, worker)| worker.is_about_to_look() || has_begun(worker))
    }
}
