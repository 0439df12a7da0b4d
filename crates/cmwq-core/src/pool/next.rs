//! Out of the pool: what a worker does next, and what finishing an item means.

use core::ptr::NonNull;

use super::{Effects, Kick, Left, PoolState, Rule, bucket};
use crate::barrier::Passed;
use crate::ids::{Nanos, WorkerId};
use crate::list::{self, Node};
use crate::policy;
use crate::work::WorkItem;
use crate::worker::{Claim, Current, Next, Phase};

impl PoolState {
    /// What worker `id` must do now. Called by the worker itself: when it starts, when it was
    /// woken, after [`finish`](Self::finish), after it created a worker. `now` is read only when
    /// the worker goes idle or thinks of creating another.
    ///
    /// KERNEL: `worker_thread` — same order. Differs: items that wait first, failed creations.
    #[inline]
    pub fn next(&mut self, id: WorkerId, now: impl Fn() -> Nanos) -> Next {
        let asking_is_running = self.keeps(Rule::AskingIsRunning);
        // What a helper has taken along is older than what waits.
        self.assert_caught_up();
        loop {
            let worker = self.worker(id);
            debug_assert!(worker.current.is_none(), "asked for more before finishing");
            if (worker.sleeping || worker.cpu_intensive) && asking_is_running {
                // The worker was reported between `finish` and now. It is running, since it asks,
                // and must count while it runs the next item.
                self.update(id, |w| {
                    w.sleeping = false;
                    w.cpu_intensive = false;
                });
                continue;
            }
            match worker.phase {
                Phase::Working => {
                    let scheduled = worker.scheduled.pop_front();
                    let Some(node) = scheduled.or_else(|| self.keep_working(id)) else {
                        self.update(id, |w| w.phase = Phase::Prep);
                        continue;
                    };
                    let mut claim = self.start(id, node);
                    if scheduled.is_none() {
                        self.take_along(id, &mut claim);
                    }
                    return Next::Run(claim);
                }
                Phase::Idle | Phase::Prep => {
                    if let Some(next) = self.recheck(id, &now) {
                        return next;
                    }
                    self.update(id, |w| w.phase = Phase::Working);
                    self.assert_standby();
                }
            }
        }
    }

    /// The outer loop: `None` means start working.
    #[inline(never)]
    fn recheck(&mut self, id: WorkerId, now: &impl Fn() -> Nanos) -> Option<Next> {
        self.is_asked_to_help = false;
        self.has_come();
        let worker = self.worker(id);
        if worker.phase == Phase::Idle {
            self.leave_idle(id);
        }
        if self.worker(id).die {
            self.forget(id);
            return Some(Next::Exit);
        }
        if !self.need_more_worker() && !self.begins_anyway(id) {
            self.enter_idle(id, now());
            return Some(Next::Sleep { work_waits: self.work_waits() });
        }
        if policy::may_start_working(self.nr_idle) || self.manager.is_some() {
            return None;
        }
        if now() < self.no_create_before && self.keeps(Rule::FailureIsBorne) {
            // Creation has just failed. The kernel's manager would sleep; ours works without a
            // standby, because it may be the only worker that can make progress.
            return None;
        }
        if !self.keeps(Rule::LastIdleManages) {
            return None;
        }
        self.manager = Some(id);
        Some(Next::Manage)
    }

    /// The inner loop: the next chain that is this worker's to run. A chain whose item another
    /// worker is running goes to that worker instead (non-reentrance).
    #[inline]
    fn keep_working(&mut self, id: WorkerId) -> Option<Node> {
        // Whether work waits `first_to_start` says.
        while policy::keep_working(true, self.nr_running, self.config.concurrency)
            || self.items_wait_first()
            || self.begins_anyway(id)
        {
            let node = self.first_to_start()?;
            if self.assign(node, id) {
                return Some(node);
            }
        }
        None
    }

    /// KERNEL: `assign_work` — same. `true`: worker `id` has to start `node` now. `node` is on no
    /// list any more, and the barriers linked to it are on the worker's scheduled list.
    #[inline]
    pub(super) fn assign(&mut self, node: Node, id: WorkerId) -> bool {
        // SAFETY: `node` is linked on the worklist.
        let (item, func, linked) = unsafe {
            let item = WorkItem::of_node(node);
            (item, item.as_ref().func(), item.as_ref().word().is_linked())
        };
        let runner = self.find_executing(item.as_ptr() as usize, func);
        let to = runner.filter(|_| self.keeps(Rule::NoReentrance)).unwrap_or(id);
        // An item that `id` starts at once is unlinked here and linked nowhere else.
        // Most have no barriers, so that is all.
        let chain = if to != id {
            Some(node)
        } else {
            let moves_all = linked && self.keeps(Rule::ChainsMoveTogether);
            let barriers = if moves_all { self.worklist.after(node) } else { None };
            // SAFETY: linked, (locked) by `&mut self`.
            unsafe { list::unlink(node) };
            barriers
        };
        if let Some(first) = chain {
            self.schedule_chain(first, to);
        }
        self.fix_cursors();
        to == id
    }

    /// Moves a chain from the worklist to a worker's scheduled list.
    fn schedule_chain(&mut self, first: Node, to: WorkerId) {
        // SAFETY: `first` is linked on the worklist; each node comes unlinked, (alive).
        unsafe { self.move_chain(first, |pool, node| pool.scheduled_mut(to).push_back(node)) };
    }

    /// Claims `node`, which is on no list, for `id`: from here on the item belongs to its function.
    ///
    /// KERNEL: `process_one_work` up to the unlock — same order: counts, kick, then `PENDING` is
    /// cleared.
    #[inline(always)]
    pub(super) fn start(&mut self, id: WorkerId, node: Node) -> Claim {
        // SAFETY: `node` belongs to an item that this pool still owns.
        let item: NonNull<WorkItem> = unsafe { WorkItem::of_node(node) };
        // SAFETY: the link of such an item is the pool's.
        debug_assert!(!unsafe { list::is_linked(node) }, "an item on a list was started");
        // SAFETY: the item is alive until `start` below publishes it.
        let (word, func) = unsafe { (item.as_ref().word(), item.as_ref().func()) };
        let at = word.pwq().expect("a listed item is not queued");
        let addr = item.as_ptr() as usize;
        let pwq = self.pwq(at.pwq);
        pwq.counts.count_started();
        let (wq, cpu_intensive) = (pwq.wq, pwq.cpu_intensive);
        let behind = self.busy[bucket(addr)].replace(id);
        let worker = self.worker(id);
        worker.hash_next = behind;
        worker.current = Some(Current {
            addr,
            func,
            pwq: at.pwq,
            color: word.color(),
            // Nothing else begins while it has no slot.
            is_barrier: word.is_inactive(),
        });
        worker.seq += 1;
        worker.begins_anyway = false;
        let seq = worker.seq;
        if worker.cpu_intensive != cpu_intensive {
            self.update(id, |w| w.cpu_intensive = cpu_intensive);
        }
        self.nr_started += 1;
        let kick = if self.keeps(Rule::KickBehindStart) { self.kick() } else { Kick::None };
        // SAFETY: the last touch; after it the item may be queued again, run elsewhere, or be freed
        // by `func`.
        unsafe { item.as_ref() }.start(self.idle_word);
        let item = item.as_ptr();
        // A barrier's function never waits, which says nothing about items.
        let is_to_wait = !word.is_inactive() && self.items_wait_first();
        Claim { item, func, wq, pwq: at.pwq, seq, kick, is_to_wait, more: 0, is_along: false }
    }

    /// The function of the claimed item returned (or unwound).
    ///
    /// KERNEL: `process_one_work` after the function — same; `pwq_dec_nr_in_flight` is last.
    #[inline(always)]
    pub fn finish(&mut self, id: WorkerId) -> Effects {
        if self.has_batch_out() {
            self.end_batch(id);
        }
        let worker = self.worker(id);
        let current = worker.current.take().expect("finished without running");
        worker.last_func = Some(current.func);
        let is_reported = worker.cpu_intensive || worker.sleeping;
        let behind = worker.hash_next.take();
        self.leave_bucket(id, current.addr, behind);
        if is_reported && self.keeps(Rule::FinishCorrects) {
            self.update(id, |w| {
                w.cpu_intensive = false;
                // The worker is back, whatever was reported of it: the counts are right again.
                w.sleeping = false;
            });
        }
        self.dec_in_flight(current.pwq, current.color, current.is_barrier, Left::Finished)
    }

    /// Ends the barrier that worker `id` would run next, if its next scheduled item is a barrier
    /// behind the one that it has just [finished](Self::finish). `None`: there is none. To be
    /// called until `None`, between two items of a worker of this pool; the lock may be dropped in
    /// between.
    ///
    /// KERNEL: none; `process_one_work` runs `wq_barrier_func` as any other function.
    #[inline(always)]
    pub fn pass_barrier(&mut self, id: WorkerId) -> Option<Passed> {
        let scheduled = &self.worker(id).scheduled;
        let node = scheduled.first()?;
        // Nothing is added while the worker runs no item: barriers and other chains come to an item
        // that is run.
        let is_last = scheduled.after(node).is_none();
        // SAFETY: `node` is linked on a list of this pool, and so a member of an item.
        let barrier = unsafe { WorkItem::of_node(node) };
        // SAFETY: the item is alive until the thread that waits for it is woken.
        let word = unsafe { barrier.as_ref() }.word();
        let at = word.pwq().filter(|_| word.is_inactive())?;
        if self.has_batch_out() {
            self.call_back();
        }
        // SAFETY: linked, (locked) by `&mut self`.
        unsafe { list::unlink(node) };
        self.nr_started += 1;
        // SAFETY: as above.
        unsafe { barrier.as_ref() }.set_own(self.idle_word);
        let effects = self.dec_in_flight(at.pwq, word.color(), true, Left::Passed);
        Some(Passed { barrier, is_last, effects })
    }
}
