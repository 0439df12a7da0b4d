//! What may happen next.

use std::fmt;

use cmwq_core::{LockFor, WorkerId};

use crate::scope::Scope;
use crate::world::{At, Named, Progress, SERVICE, Tid, Who, World};

/// One event. A history is a sequence of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event(u16);

/// What an event is about; the number is a thread's, a pool's or an item's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A thread takes its next step.
    Step,
    /// A thread cannot be had.
    CreationFails,
    /// The process has as many workers as it may.
    CreationRefused,
    /// A worker that is blocked is reported.
    Blocked,
    /// A worker that runs is reported blocked.
    FalselyBlocked,
    /// A worker that is back is reported.
    Resumed,
    /// One look finds two workers blocked, or back: 32 times the one thread, and the other.
    Both,
    /// An idle worker is woken by the sentinel of its CPU, looks itself, and finds another one
    /// blocked, or back: 32 times the thread that looks, and the other.
    Alarm,
    /// Reports about an earlier run, and twice the same.
    LateReports,
    /// A worker hogs its CPU.
    Hog,
    /// A worker wakes up that nobody woke.
    Spurious,
    /// A worker finds another pool's backlog: 16 pools times the thread.
    FindsBacklog,
    /// An idle worker is called to be lent.
    AskedToHelp,
    /// Creation is tried again.
    Retry,
    /// The pause after a failed creation is over.
    TimePasses,
    /// Rescuers are called.
    Mayday,
    /// A surplus worker is told to leave.
    Cull,
    /// A timer expires.
    Fire,
    /// A managed pool begins to believe that its items wait first, or stops believing it.
    Believes,
    /// The tick has come to a pool that is watched.
    Tick,
    /// Several ticks have come, and found that nobody comes for what waits.
    Starves,
}

const ALL: [What; 21] = [
    What::Step,
    What::CreationFails,
    What::CreationRefused,
    What::Blocked,
    What::FalselyBlocked,
    What::Resumed,
    What::Both,
    What::Alarm,
    What::LateReports,
    What::Hog,
    What::Spurious,
    What::FindsBacklog,
    What::AskedToHelp,
    What::Retry,
    What::TimePasses,
    What::Mayday,
    What::Cull,
    What::Fire,
    What::Believes,
    What::Tick,
    What::Starves,
];

impl Event {
    pub(crate) const fn new(what: What, number: usize) -> Self {
        Self((what as u16) << 11 | number as u16)
    }

    pub(crate) fn what(self) -> What {
        ALL[usize::from(self.0 >> 11)]
    }

    pub(crate) const fn number(self) -> usize {
        (self.0 & 0x7ff) as usize
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.what(), self.number())
    }
}

/// Whether an event may be relied on: what it does happens some time, as long as it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fairness {
    Fair,
    Optional,
}

impl World<'_> {
    pub(crate) fn apply(&mut self, event: Event) -> Progress {
        let n = event.number();
        match event.what() {
            What::Step => {}
            What::Blocked
            | What::FalselyBlocked
            | What::Resumed
            | What::Both
            | What::Alarm
            | What::LateReports
            | What::Hog
            | What::CreationFails
            | What::CreationRefused
            | What::Tick
            | What::Starves => self.lock_all(LockFor::Decide),
            _ => self.lock_all(LockFor::Find),
        }
        let progress = match event.what() {
            What::Step => self.step(n),
            What::CreationFails => self.creation_fails(n),
            What::CreationRefused => self.creation_refused(n),
            What::Blocked => self.report_blocked(n),
            What::FalselyBlocked => {
                let Some(left) = self.left.false_reports.checked_sub(1) else {
                    return Progress::Blocked;
                };
                self.left.false_reports = left;
                self.report_blocked(n)
            }
            What::Resumed => self.report_resumed(n),
            What::Both => self.report_both(n / 32, n % 32),
            What::Alarm => self.alarm(n / 32, n % 32),
            What::LateReports => self.report_late(n),
            What::Hog => {
                let Some(left) = self.left.hogs.checked_sub(1) else { return Progress::Blocked };
                self.left.hogs = left;
                self.report_hog(n)
            }
            What::Spurious => {
                let Some(left) = self.left.spurious_wakes.checked_sub(1) else {
                    return Progress::Blocked;
                };
                self.left.spurious_wakes = left;
                self.wake_for_nothing(n)
            }
            What::FindsBacklog => self.look_around(n / 16, (n % 16) as u8),
            What::AskedToHelp => self.ask_to_help(n as u8),
            What::Retry => self.retry(n as u8),
            What::TimePasses => self.pass_time(n as u8),
            What::Mayday => self.mayday(n as u8),
            What::Cull => self.cull(n as u8),
            What::Fire => self.fire(n as u8),
            What::Believes => self.believe(n as u8),
            What::Tick => self.tick(n as u8),
            What::Starves => self.starve(n as u8),
        };
        self.drop_locks(match event.what() {
            What::Step => n,
            What::Alarm => n / 32,
            _ => SERVICE,
        });
        self.rest_detectors();
        progress
    }

    /// Whether a thread certainly has nothing to do. Spares trying.
    pub(crate) fn rests(&self, tid: Tid) -> bool {
        self.threads[tid].as_ref().is_none_or(|thread| {
            let is_worker = matches!(thread.who, Who::Worker(..));
            let sleeps = is_worker && thread.at == At::Parked && !thread.token;
            let is_free = thread.todo.is_empty() && thread.run.is_none();
            let has_ended = matches!(thread.who, Who::Client(_) | Who::Service);
            is_free && (sleeps || (has_ended && self.op(tid).is_none()))
        })
    }

    /// Events other than steps that may happen, and whether they may be relied on. `is_stuck`:
    /// threads whose step is not possible.
    pub(crate) fn others(&self, is_stuck: &[bool], out: &mut Vec<(Event, Fairness)>) {
        for (tid, thread) in self.threads.iter().enumerate() {
            let Some(thread) = thread else { continue };
            if self.is_creating(tid) && (self.left.failed_creations > 0 || self.left.outage) {
                let fairness = if self.left.outage { Fairness::Fair } else { Fairness::Optional };
                out.push((Event::new(What::CreationFails, tid), fairness));
            }
            if self.is_creating(tid) && self.left.refusals > 0 {
                out.push((Event::new(What::CreationRefused, tid), Fairness::Optional));
            }
            let Who::Worker(home, _) = thread.who else { continue };
            if thread.run.is_some() || thread.is_between() {
                self.reports(tid, home, is_stuck[tid], out);
            } else if self.left.spurious_wakes > 0 && thread.at == At::Parked && !thread.token {
                out.push((Event::new(What::Spurious, tid), Fairness::Optional));
            }
            if thread.at == At::Looking {
                for pool in 0..self.pools.len() {
                    let event = Event::new(What::FindsBacklog, tid * 16 + pool);
                    out.push((event, Fairness::Optional));
                }
            }
        }
        self.pairs(is_stuck, out);
        if self.left.alarms {
            self.alarms(is_stuck, out);
        }
        let serves = self.threads[SERVICE].as_ref().is_some_and(|thread| thread.todo.is_empty());
        for pool in (0..self.pools.len()).filter(|_| serves) {
            out.extend([
                (Event::new(What::Retry, pool), Fairness::Fair),
                (Event::new(What::TimePasses, pool), Fairness::Fair),
                (Event::new(What::Mayday, pool), Fairness::Fair),
                (Event::new(What::Cull, pool), Fairness::Optional),
                (Event::new(What::AskedToHelp, pool), Fairness::Optional),
            ]);
            if self.left.beliefs > 0 {
                out.push((Event::new(What::Believes, pool), Fairness::Optional));
            }
            if self.pools[pool].is_watched {
                out.push((Event::new(What::Tick, pool), Fairness::Optional));
                if self.left.starvations > 0 {
                    out.push((Event::new(What::Starves, pool), Fairness::Optional));
                }
            }
        }
        for item in (0..self.timers.len()).filter(|&item| self.timers[item].is_some()) {
            out.push((Event::new(What::Fire, item), Fairness::Fair));
        }
    }

    /// What one look may find of two workers of a pool that is watched.
    fn pairs(&self, is_stuck: &[bool], out: &mut Vec<(Event, Fairness)>) {
        let found: Vec<_> = self.suspects(is_stuck).collect();
        for (index, &(one, home)) in found.iter().enumerate() {
            let others = found[index + 1..].iter().filter(|other| other.1 == home);
            let both = others.map(|other| Event::new(What::Both, one * 32 + other.0));
            out.extend(both.map(|both| (both, Fairness::Optional)));
        }
    }

    /// Workers of pools that are watched, and the pools, whose state has changed since it was last
    /// reported.
    fn suspects(&self, is_stuck: &[bool]) -> impl Iterator<Item = (Tid, u8)> {
        let of = move |tid: Tid| {
            let thread = self.threads[tid].as_ref()?;
            let Who::Worker(home, id) = thread.who else { return None };
            let pool = &self.pools[usize::from(home)];
            let view = pool.core.worker_view(id).filter(|_| pool.is_watched)?;
            (thread.run.is_some() && view.sleeping != is_stuck[tid]).then_some((tid, home))
        };
        (0..self.threads.len()).filter_map(of)
    }

    /// What an idle worker may find that the sentinel wakes. It wakes who stands by, or did some
    /// time ago.
    fn alarms(&self, is_stuck: &[bool], out: &mut Vec<(Event, Fairness)>) {
        for (other, home) in self.suspects(is_stuck) {
            for (looks, id) in self.sleepers(home) {
                let stands_by = self.pools[usize::from(home)].core.standby() == Some(id);
                let is_fair = stands_by && is_stuck[other];
                let fairness = if is_fair { Fairness::Fair } else { Fairness::Optional };
                out.push((Event::new(What::Alarm, looks * 32 + other), fairness));
            }
        }
    }

    /// Workers of a pool that are parked.
    fn sleepers(&self, of: u8) -> impl Iterator<Item = (Tid, WorkerId)> {
        self.threads.iter().enumerate().filter_map(move |(tid, thread)| {
            let thread = thread.as_ref().filter(|thread| thread.is_parked())?;
            let Who::Worker(pool, id) = thread.who else { return None };
            (pool == of).then_some((tid, id))
        })
    }

    fn is_creating(&self, tid: Tid) -> bool {
        let first = self.threads[tid].as_ref().and_then(|thread| thread.todo.first());
        matches!(first, Some(crate::world::Todo::Created(..)))
    }

    fn reports(&self, tid: Tid, home: u8, is_stuck: bool, out: &mut Vec<(Event, Fairness)>) {
        let is_watched = self.pools[usize::from(home)].is_watched;
        let strays = self.left.stray_reports;
        let runs = self.threads[tid].as_ref().is_some_and(|thread| thread.run.is_some());
        if runs && is_stuck && (is_watched || strays) {
            // Where somebody stands by whom the sentinel wakes, that alone is to be enough.
            let has_alarm = self.left.alarms && self.sleepers(home).next().is_some();
            let is_fair = is_watched && !has_alarm;
            let fairness = if is_fair { Fairness::Fair } else { Fairness::Optional };
            out.push((Event::new(What::Blocked, tid), fairness));
        }
        if !is_stuck && self.left.false_reports > 0 {
            out.push((Event::new(What::FalselyBlocked, tid), Fairness::Optional));
        }
        if strays {
            out.push((Event::new(What::LateReports, tid), Fairness::Optional));
            if !is_stuck {
                out.push((Event::new(What::Resumed, tid), Fairness::Optional));
            }
        }
        if self.left.hogs > 0 {
            out.push((Event::new(What::Hog, tid), Fairness::Optional));
        }
    }
}

/// What a thread is called in a report.
pub(crate) fn name_of(world: &World<'_>, tid: Tid) -> String {
    match world.threads[tid].as_ref().map(|thread| thread.who) {
        None => format!("thread {tid}"),
        Some(Who::Service) => "service".into(),
        Some(Who::Client(n)) => format!("client {n}"),
        Some(Who::Rescuer(queue)) => format!("rescuer of queue {queue}"),
        Some(Who::Worker(pool, id)) => format!("pool{pool}/{id:?}"),
    }
}

/// What an item is called in a report.
pub(crate) fn item_name(_: &Scope, what: Named) -> String {
    match what {
        Named::Item(item) => char::from(b'a' + item).to_string(),
        Named::Barrier(waiter) => format!("barrier of thread {waiter}"),
    }
}
