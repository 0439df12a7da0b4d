//! Workers, guests and rescuers between two lock holds, and what is reported of them.

use cmwq_core::consts::{MANY_FIRST_WAITS, MANY_SOON_PROCESSES, WAITS_FIRST_NS};
use cmwq_core::help;
use cmwq_core::{
    Claim, Finding, Found, Kick, Lend, LockFor, Nanos, Next, Passed, PoolId, PoolState, PwqRef,
    Rescue, RescueVisit, Waited, WorkerId,
};

use super::{At, Exec, Micro, Named, Progress, Run, SERVICE, Tid, Todo, Who, World};

impl World<'_> {
    /// A worker's step, when it runs nothing and has nothing left to do.
    pub(super) fn work(&mut self, tid: Tid, pool: u8, id: WorkerId) -> Progress {
        match self.thread(tid).at {
            At::Parked => {
                if !std::mem::take(&mut self.thread(tid).token) {
                    return Progress::Blocked;
                }
                self.ask(tid, pool, id);
            }
            At::Awake => self.ask(tid, pool, id),
            At::Looking => self.thread(tid).at = At::Parked,
            At::Lending(busy) => self.lend(tid, pool, id, busy),
            At::Serving(busy) => self.serve(tid, busy),
            At::Returning => {
                self.pools[usize::from(pool)].core.lend_end(id);
                self.unlock(tid, pool, Kick::None);
                self.thread(tid).at = At::Awake;
            }
        }
        Progress::Moved
    }

    fn ask(&mut self, tid: Tid, pool: u8, id: WorkerId) {
        if let Some(passed) = self.pools[usize::from(pool)].core.pass_barrier(id) {
            return self.pass(tid, &passed);
        }
        let p = &mut self.pools[usize::from(pool)];
        p.take_inbox_after_item();
        let now = p.now;
        match p.core.next(id, || now) {
            Next::Run(claim) => self.begin(tid, pool, id, &claim),
            Next::Manage => {
                self.unlock(tid, pool, Kick::None);
                let thread = self.thread(tid);
                thread.at = At::Awake;
                thread.todo.push(Todo::Manage(pool, id));
            }
            Next::Sleep { work_waits } => {
                let is_closed = p.core.is_closed();
                p.is_watched &= work_waits || !p.has_inbox;
                self.unlock(tid, pool, if work_waits { Kick::Watch } else { Kick::None });
                let looks = self.left.lending && !work_waits;
                let thread = self.thread(tid);
                thread.at = if looks { At::Looking } else { At::Parked };
                if is_closed {
                    thread.todo.push(Todo::Dismiss(pool));
                }
            }
            Next::Exit => {
                self.unlock(tid, pool, Kick::None);
                self.threads[tid] = None;
            }
        }
    }

    /// Who waits behind a barrier is told, without the lock: others come in between.
    fn pass(&mut self, tid: Tid, passed: &Passed) {
        let Named::Barrier(waiter) = self.name_of(passed.barrier.as_ptr() as usize) else {
            unreachable!("an item was passed")
        };
        self.thread(usize::from(waiter)).event = true;
        let _ = self.put_off(tid, &passed.effects);
        self.thread(tid).at = At::Awake;
    }

    /// A claimed item's function is entered.
    fn begin(&mut self, tid: Tid, pool: u8, id: WorkerId, claim: &Claim) {
        self.unlock(tid, pool, claim.kick);
        let what = self.name_of(claim.item as usize);
        let p = &self.pools[usize::from(pool)].core;
        let counts = p.worker_view(id).is_some_and(|view| view.running);
        let own = self.threads[tid].as_ref().is_some_and(|t| t.who == Who::Worker(pool, id));
        let is_intensive = self.scope.queues[claim.wq.0 as usize].cpu_intensive;
        assert!(!own || counts != is_intensive, "who starts {what:?} counts: {counts}");
        self.ledger.start(what, PwqRef { pool: PoolId(pool.into()), pwq: claim.pwq });
        let thread = self.thread(tid);
        thread.run = Some(Run { what, pool, id, at: claim.pwq });
        thread.more = claim.more;
        thread.exec = Exec::default();
    }

    pub(crate) fn name_of(&self, addr: usize) -> Named {
        let (number, items) = (self.items.number(addr), self.scope.items.len());
        if number < items {
            return Named::Item(number as u8);
        }
        Named::Barrier((number - items) as u8)
    }

    /// The function goes on, or has returned.
    pub(super) fn run_on(&mut self, tid: Tid) -> Progress {
        if let Some(op) = self.op(tid) {
            return self.exec(tid, op);
        }
        let thread = self.thread(tid);
        let Some(run) = thread.run else { return Progress::Blocked };
        if let (Who::Worker(home, id), true) = (thread.who, thread.guest.is_some()) {
            self.after_guests_item(tid, run, (home, id));
        } else if !self.begin_next(tid) {
            // As all guests.
            if matches!(self.thread(tid).who, Who::Rescuer(_)) {
                self.lock_all(LockFor::Decide);
            }
            self.finish(tid, run);
        }
        Progress::Moved
    }

    fn after_guests_item(&mut self, tid: Tid, run: Run, (home, id): (u8, WorkerId)) {
        if self.thread(tid).exec.micro != Micro::Start {
            self.lock_all(LockFor::Decide);
            return self.finish(tid, run);
        }
        let own = &self.pools[usize::from(home)];
        let was_blocked = own.core.worker_view(id).is_some_and(|view| view.sleeping);
        let (is_crowded, is_empty) = (own.core.is_crowded(), own.inbox.is_empty());
        let has_backlog = || own.core.has_backlog();
        let may_begin =
            help::may_begin_next(was_blocked, is_crowded, is_empty, has_backlog, || false);
        if !(may_begin && self.begin_next(tid)) {
            self.thread(tid).more = 0;
            self.lock_all(LockFor::Decide);
            self.turn_home(tid, home, id);
        }
    }

    /// What is counted after an item.
    fn finish(&mut self, tid: Tid, run: Run) {
        if let Named::Barrier(waiter) = run.what {
            self.thread(usize::from(waiter)).event = true;
        }
        let core = &mut self.pools[usize::from(run.pool)].core;
        let effects = core.finish(run.id);
        let is_back = core.worker_view(run.id).is_some_and(|view| !view.sleeping);
        assert!(is_back, "whose item has ended is believed blocked");
        self.ledger.end(run.what);
        let thread = self.thread(tid);
        thread.run = None;
        thread.exec = Exec::default();
        match (thread.who, thread.guest) {
            (Who::Worker(pool, id), None) => {
                if self.put_off(tid, &effects) {
                    self.thread(tid).at = At::Awake;
                } else {
                    // Under the same lock hold.
                    self.ask(tid, pool, id);
                }
            }
            (Who::Worker(..), Some(_)) => {
                if !self.put_off(tid, &effects) {
                    self.serve(tid, run.pool);
                }
            }
            _ => {
                self.unlock(tid, run.pool, Kick::None);
                let _ = self.put_off(tid, &effects);
            }
        }
    }

    // ---- guests

    fn lend(&mut self, tid: Tid, pool: u8, id: WorkerId, busy: u8) {
        let lend = self.pools[usize::from(pool)].core.lend(id, false);
        let is_lent = matches!(lend, Lend::Lent(_));
        self.unlock(tid, pool, if is_lent { Kick::Watch } else { Kick::None });
        self.thread(tid).at = if is_lent { At::Serving(busy) } else { At::Parked };
    }

    /// Between two items for another pool: its own pool is told, and asked.
    fn turn_home(&mut self, tid: Tid, home: u8, id: WorkerId) {
        let p = &mut self.pools[usize::from(home)].core;
        let _ = p.lend_again(id);
        let is_wanted = p.wants_back(|| false);
        self.unlock(tid, home, Kick::None);
        let thread = self.thread(tid);
        thread.is_wanted = is_wanted;
        thread.exec.micro = Micro::Held;
    }

    /// A guest takes the next item, or leaves.
    fn serve(&mut self, tid: Tid, busy: u8) {
        let (known, is_wanted) = (self.thread(tid).guest, self.thread(tid).is_wanted);
        let batch = match self.thread(tid).who {
            Who::Worker(home, id) => self.pools[usize::from(home)].core.batch_for(id),
            _ => None,
        };
        let p = &mut self.pools[usize::from(busy)].core;
        let guest = known.unwrap_or_else(|| p.helper_enter(batch));
        self.thread(tid).guest = Some(guest);
        let p = &mut self.pools[usize::from(busy)].core;
        if !(is_wanted && p.guest_may_leave(guest))
            && let Some(claim) = p.guest_next(guest, false)
        {
            self.begin(tid, busy, guest, &claim);
            return;
        }
        let kick = p.guest_leave(guest);
        self.unlock(tid, busy, kick);
        let thread = self.thread(tid);
        thread.guest = None;
        thread.is_wanted = false;
        thread.at = At::Returning;
    }

    /// An idle worker that looks around finds that `busy` has a backlog.
    pub(crate) fn look_around(&mut self, tid: Tid, busy: u8) -> Progress {
        let thread = self.threads[tid].as_mut();
        let Some(thread) = thread.filter(|thread| thread.at == At::Looking) else {
            return Progress::Blocked;
        };
        let Who::Worker(home, _) = thread.who else { return Progress::Blocked };
        let is_busy = self.pools[usize::from(busy)].core.has_backlog();
        let has_enough = self.left.visits == Some(0);
        if home == busy || !is_busy || !thread.todo.is_empty() || has_enough {
            return Progress::Blocked;
        }
        self.left.visits = self.left.visits.map(|left| left - 1);
        thread.at = At::Lending(busy);
        thread.todo.push(Todo::Spare(home));
        Progress::Moved
    }

    /// Another pool's backlog calls for a worker of this one.
    pub(crate) fn ask_to_help(&mut self, pool: u8) -> Progress {
        if !self.others_wait(usize::from(pool)) {
            return Progress::Blocked;
        }
        match self.pools[usize::from(pool)].core.ask_to_help() {
            Kick::None => return Progress::Blocked,
            // No work waits there, so nobody would create its first worker.
            Kick::NeedFirst => {
                self.unlock(SERVICE, pool, Kick::None);
                self.thread(SERVICE).todo.extend([Todo::Spare(pool), Todo::Call(pool)]);
            }
            kick => self.unlock(SERVICE, pool, kick),
        }
        Progress::Moved
    }

    /// A worker was created to be called, or could not be.
    pub(super) fn call_created(&mut self, tid: Tid, pool: u8) {
        let kick = self.pools[usize::from(pool)].core.ask_to_help();
        self.unlock(tid, pool, if kick == Kick::NeedFirst { Kick::None } else { kick });
    }

    // ---- rescuers

    pub(super) fn rescue(&mut self, tid: Tid, queue: u8) -> Progress {
        let (pool, visit) = match self.thread(tid).visit.take() {
            Some(visit) => (self.visited_pool(tid), visit),
            None => match self.answer(tid, queue) {
                None => return Progress::Blocked,
                Some(None) => return Progress::Moved,
                Some(Some(begun)) => begun,
            },
        };
        self.go_on_rescuing(tid, (pool, queue), visit);
        Progress::Moved
    }

    fn visited_pool(&mut self, tid: Tid) -> u8 {
        match self.thread(tid).at {
            At::Serving(pool) => pool,
            _ => unreachable!("a visit without a pool"),
        }
    }

    /// The next call; `Some(None)`: that pwq has gone.
    fn answer(&mut self, tid: Tid, queue: u8) -> Option<Option<(u8, RescueVisit)>> {
        let q = &mut self.queues[usize::from(queue)];
        if q.called.is_empty() {
            return None;
        }
        let at = q.called.remove(0);
        let pool = at.pool.0 as u8;
        let key = cmwq_core::WqKey(u32::from(queue));
        let visit = self.pools[usize::from(pool)].core.rescue_begin(at.pwq, key);
        if visit.is_none() {
            self.unlock(tid, pool, Kick::None);
        }
        Some(visit.map(|visit| (pool, visit)))
    }

    fn go_on_rescuing(&mut self, tid: Tid, (pool, queue): (u8, u8), mut visit: RescueVisit) {
        let others_wait = !self.queues[usize::from(queue)].called.is_empty();
        let p = &mut self.pools[usize::from(pool)].core;
        let is_called_again = match p.rescue_next(&mut visit, others_wait) {
            Rescue::Run(claim) => {
                self.thread(tid).at = At::Serving(pool);
                let id = visit.worker();
                self.thread(tid).visit = Some(visit);
                self.begin(tid, pool, id, &claim);
                return;
            }
            Rescue::CallAgain => true,
            Rescue::Leave => false,
        };
        let pwq = visit.pwq();
        let kick = p.rescue_end(visit);
        let has_drained = p.has_drained(pwq);
        self.unlock(tid, pool, kick);
        self.thread(tid).at = At::Parked;
        if is_called_again {
            let at = cmwq_core::PwqRef { pool: cmwq_core::PoolId(u32::from(pool)), pwq };
            self.queues[usize::from(queue)].called.push(at);
        }
        if has_drained {
            self.thread(tid).todo.push(Todo::Retired(queue));
        }
    }

    // ---- reports

    /// A detector tells the pool that this worker is blocked.
    pub(crate) fn report_blocked(&mut self, tid: Tid) -> Progress {
        let Some((pool, id)) = self.watched_worker(tid) else { return Progress::Blocked };
        let p = &mut self.pools[usize::from(pool)].core;
        let Some(view) = p.worker_view(id).filter(|view| !view.sleeping) else {
            return Progress::Blocked;
        };
        self.report_look(pool, &mut [Finding::new(id, view.seq, Found::Blocked)], None);
        Progress::Moved
    }

    /// What one look has found, and who is woken for it. Fills in what is news. `by`: the idle
    /// worker that looked itself.
    fn report_look(&mut self, pool: u8, findings: &mut [Finding], by: Option<(Tid, WorkerId)>) {
        let others_wait = self.others_wait(usize::from(pool));
        let is_watched = self.pools[usize::from(pool)].is_watched;
        let core = &mut self.pools[usize::from(pool)].core;
        let had_backlog = core.has_backlog();
        let (tid, me) = by.map_or((SERVICE, None), |(tid, me)| (tid, Some(me)));
        let room = core.report_look(findings, me, || 0);
        let has_posted = self.left.lending && core.has_backlog() && !had_backlog;
        let replace = |kick| core.replace_blocked(kick, has_posted, || false, || others_wait);
        let kick = room.map_or(Kick::None, replace);
        let kick = kick.or(core.watch_when_full(is_watched));
        assert!(me.is_none_or(|me| kick != Kick::Wake(me)), "who looked itself is woken for it");
        self.unlock(tid, pool, kick);
    }

    /// What is found of a worker that is reported blocked, or back if it was blocked.
    fn finding(&self, tid: Tid) -> Option<(u8, Finding)> {
        let (pool, id) = self.watched_worker(tid)?;
        let view = self.pools[usize::from(pool)].core.worker_view(id)?;
        Some((pool, Finding::new(id, view.seq, Found::of(!view.sleeping))))
    }

    /// One look finds both workers blocked, or back.
    pub(crate) fn report_both(&mut self, one: Tid, other: Tid) -> Progress {
        match (self.finding(one), self.finding(other)) {
            (Some((pool, one)), Some((of_other, other))) if pool == of_other => {
                self.report_look(pool, &mut [one, other], None);
                Progress::Moved
            }
            _ => Progress::Blocked,
        }
    }

    /// The sentinel wakes an idle worker, which looks itself and finds another one blocked, or
    /// back; or it begins another item at once. It asks for work right afterwards, under another
    /// hold of the lock. That it was woken the core does not know, so it makes no difference when
    /// that was.
    pub(crate) fn alarm(&mut self, looks: Tid, other: Tid) -> Progress {
        let Some((pool, finding)) = self.finding(other) else { return Progress::Blocked };
        let thread = self.threads[looks].as_mut().filter(|thread| thread.is_parked());
        let Some(thread) = thread else { return Progress::Blocked };
        let Who::Worker(home, me) = thread.who else { return Progress::Blocked };
        if home != pool || !self.pools[usize::from(pool)].is_watched {
            return Progress::Blocked;
        }
        (thread.token, thread.at) = (false, At::Awake);
        if self.pools[usize::from(pool)].core.begins_on_alarm(me, || 0) {
            self.unlock(looks, pool, Kick::None);
        } else {
            self.report_look(pool, &mut [finding], Some((looks, me)));
        }
        Progress::Moved
    }

    /// A report comes twice, and one about an earlier run.
    pub(crate) fn report_late(&mut self, tid: Tid) -> Progress {
        let Some((pool, id)) = self.watched_worker(tid) else { return Progress::Blocked };
        let p = &mut self.pools[usize::from(pool)].core;
        let Some(view) = p.worker_view(id) else { return Progress::Blocked };
        let earlier = p.worker_blocked(id, view.seq.wrapping_sub(1));
        let twice = if view.sleeping { p.worker_blocked(id, view.seq) } else { Kick::None };
        assert_eq!((earlier, twice), (Kick::None, Kick::None), "a stray report woke somebody");
        assert_eq!(p.worker_resumed(id, view.seq.wrapping_sub(1)), Kick::None);
        assert_eq!(Some(view), p.worker_view(id), "a stray report changed the counts");
        Progress::Moved
    }

    /// A detector tells the pool that this worker runs again.
    pub(crate) fn report_resumed(&mut self, tid: Tid) -> Progress {
        let Some((pool, id)) = self.watched_worker(tid) else { return Progress::Blocked };
        let p = &mut self.pools[usize::from(pool)].core;
        let Some(view) = p.worker_view(id).filter(|view| view.sleeping) else {
            return Progress::Blocked;
        };
        self.report_look(pool, &mut [Finding::new(id, view.seq, Found::Back)], None);
        Progress::Moved
    }

    /// A worker begins (`stands`) or ends to stand for a process, which it waits for meanwhile.
    pub(super) fn stand_for_process(&mut self, tid: Tid, stands: bool) -> Progress {
        if let Some((pool, id)) = self.watched_worker(tid) {
            let p = &mut self.pools[usize::from(pool)].core;
            let counted = |p: &PoolState| p.worker_view(id).map(|view| (view.seq, view.running));
            if let Some((seq, _)) = counted(p) {
                p.worker_stands_for_process(id, seq, stands, 0);
                let before = counted(p);
                if stands {
                    assert_eq!(p.worker_waits(id, seq), Kick::None, "a wait for a process wakes");
                }
                assert_eq!(counted(p), before, "a wait for a process that runs made room");
            }
            self.unlock(tid, pool, Kick::None);
        }
        self.done(tid)
    }

    /// A detector tells the pool that this worker hogs its CPU.
    pub(crate) fn report_hog(&mut self, tid: Tid) -> Progress {
        let Some((pool, id)) = self.watched_worker(tid) else { return Progress::Blocked };
        let p = &self.pools[usize::from(pool)].core;
        let Some(view) = p.worker_view(id) else { return Progress::Blocked };
        if p.room_for_hogs() == 0 {
            return Progress::Blocked;
        }
        let mut hog = Finding::new(id, view.seq, Found::Hog);
        self.report_look(pool, std::slice::from_mut(&mut hog), None);
        if hog.is_news { Progress::Moved } else { Progress::Blocked }
    }

    /// What a pool has learnt of its items changes. In the runtime it learns from each item that
    /// ends; what it believes depends on times that the search does not have, so here it may change
    /// whenever it likes.
    pub(crate) fn believe(&mut self, pool: u8) -> Progress {
        let Some(left) = self.left.beliefs.checked_sub(1) else { return Progress::Blocked };
        let p = &mut self.pools[usize::from(pool)].core;
        self.left.beliefs = left;
        if !p.config().is_managed() {
            let after = (p.value().soon_processes < MANY_SOON_PROCESSES).then_some(0);
            (0..MANY_SOON_PROCESSES).for_each(|_| p.process_waited(after));
        } else if p.value().first_waits >= MANY_FIRST_WAITS {
            p.learn_wait(None, false);
        } else {
            let soon = Waited { before: WAITS_FIRST_NS, after: Nanos::MAX };
            (0..MANY_FIRST_WAITS).for_each(|_| p.learn_wait(Some(soon), true));
        }
        Progress::Moved
    }

    /// The tick has come: one more item may begin. What it finds of the workers are events of
    /// their own.
    pub(crate) fn tick(&mut self, pool: u8) -> Progress {
        match self.pools[usize::from(pool)].core.begin_another() {
            Kick::None => Progress::Blocked,
            kick => {
                self.unlock(SERVICE, pool, kick);
                Progress::Moved
            }
        }
    }

    /// Nobody comes for what waits, for several ticks.
    pub(crate) fn starve(&mut self, pool: u8) -> Progress {
        let Some(left) = self.left.starvations.checked_sub(1) else { return Progress::Blocked };
        let p = &mut self.pools[usize::from(pool)].core;
        if !p.work_waits() || p.is_at_capacity() || !p.config().is_managed() {
            return Progress::Blocked;
        }
        self.left.starvations = left;
        let mut kick = Kick::None;
        while !p.is_starved() {
            kick = kick.or(p.tick());
        }
        self.unlock(SERVICE, pool, kick);
        Progress::Moved
    }

    /// A worker in its inner loop, and its own pool: there it can be reported, if only wrongly.
    fn watched_worker(&self, tid: Tid) -> Option<(u8, WorkerId)> {
        let thread = self.threads[tid].as_ref()?;
        match thread.who {
            Who::Worker(pool, id) if thread.run.is_some() || thread.is_between() => {
                Some((pool, id))
            }
            _ => None,
        }
    }

    /// A worker wakes up that nobody woke.
    pub(crate) fn wake_for_nothing(&mut self, tid: Tid) -> Progress {
        let thread = self.threads[tid].as_mut();
        let sleeper = thread.filter(|thread| thread.at == At::Parked && !thread.token);
        let Some(thread) = sleeper.filter(|thread| matches!(thread.who, Who::Worker(..))) else {
            return Progress::Blocked;
        };
        thread.token = true;
        Progress::Moved
    }
}
