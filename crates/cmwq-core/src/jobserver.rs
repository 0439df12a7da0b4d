//! How many jobs of a build may run at once, where its tools take a token for each: as many as
//! there are CPUs, one more when CPUs have had nothing to do for some time, one fewer when threads
//! have had to wait for a CPU. Where the build cannot be seen it is one for each CPU; while memory
//! is short none, so that only the first job goes on.
//!
//! KERNEL: none. The tokens are to processes, which take and give them back by themselves, what
//! `nr_running` and concurrency are to workers.

use core::cmp::Ordering;

use crate::Nanos;

/// LIMIT: tokens for each CPU, of builds whose jobs wait most of the time, with those that were
/// lost lately.
pub const TOKENS_PER_CPU: usize = 16;
/// For so long all CPUs may be idle, or twice as long half of them, beyond a part of the time,
/// before there are more tokens than one for each: jobs that end leave a gap behind them.
const IDLE_NS: Nanos = 5_000_000;
/// That part; and of idle CPUs the part for which there is another token then.
const IDLE_PART: usize = 8;
/// For so long a thread for each CPU may wait for one, or twice as long half as many, beyond a part
/// of the time, before a token is taken in.
const CROWDED_NS: Nanos = 5_000_000;
/// That part.
const CROWDED_PART: usize = 4;

/// Another token may come in place of one that was lost so long ago, on one CPU; a job that is out
/// of sight may hold it still.
const LOST_NS: Nanos = 10_000_000_000;

/// What a look at a build finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// Its threads that can run.
    pub runnable: usize,
    /// All its threads.
    pub threads: usize,
    /// Others may be out of sight, as where the system does not tell whose child a process is.
    pub is_hidden: bool,
    /// Jobs that start now might find no memory.
    pub is_memory_short: bool,
    /// Tokens that no job has taken.
    pub unread: usize,
}

/// The tokens of a build, from look to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All tokens, taken or not. The driver updates this when it puts a token out or takes one in.
    pub count: usize,
    /// Tokens that were lost with jobs that died, so far.
    pub lost: usize,
    /// Those of them that stand in the way of others.
    lost_lately: usize,
    /// What has passed of the time after which one of these does not.
    forgetting: Nanos,
    /// CPU time of all CPUs that was not used, less what may be.
    idle: Nanos,
    /// What threads that could run waited for a CPU, together, less what they may.
    crowded: Nanos,
}

/// What follows from a look.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAct {
    /// Nothing.
    Nothing,
    /// Put out so many more.
    Put(usize),
    /// Take one in, as soon as one is left.
    Take,
    /// Take in so many that were never put out, and are not in [`Tokens::count`]: a job has written
    /// more than it had taken.
    TakeSurplus(usize),
}

impl Tokens {
    /// Those of a build on so many CPUs that is about to start: one for each CPU, less the one that
    /// its first job does not need. All are to be put out.
    #[must_use]
    pub fn for_cpus(cpus: usize) -> Self {
        Self { count: of_cpus(cpus), ..Self::default() }
    }

    /// What to do after a look, on so many CPUs, so long after the one before. A token that is held
    /// belongs to a job, and a job has a thread: if more tokens than threads are held, jobs have
    /// died with theirs.
    pub fn after(&mut self, seen: Build, cpus: usize, elapsed: Nanos) -> TokenAct {
        self.forget(cpus, elapsed);
        if !seen.is_hidden {
            let held = self.count.saturating_sub(seen.unread);
            self.lose(held.saturating_sub(seen.threads));
        }
        let surplus = seen.unread.saturating_sub(self.count);
        if surplus > 0 {
            let found = surplus.min(self.lost_lately);
            self.lost_lately -= found;
            self.lost -= found;
            return TokenAct::TakeSurplus(surplus);
        }
        let of_cpus = of_cpus(cpus);
        let most = (TOKENS_PER_CPU * cpus).saturating_sub(self.lost_lately);
        let room = most.saturating_sub(self.count);
        if seen.is_memory_short || seen.is_hidden {
            // What CPUs did meanwhile, if that is known, says nothing of later.
            (self.idle, self.crowded) = (0, 0);
            let wanted = if seen.is_memory_short { 0 } else { of_cpus };
            return match self.count.cmp(&wanted) {
                Ordering::Greater => TokenAct::Take,
                Ordering::Less if seen.unread == 0 && room > 0 => {
                    TokenAct::Put(room.min(wanted - self.count))
                }
                Ordering::Less | Ordering::Equal => TokenAct::Nothing,
            };
        }
        let nr_idle = cpus.saturating_sub(seen.runnable);
        let nr_waiting = seen.runnable.saturating_sub(cpus);
        // While a token is left over, no job wants one more.
        let nr_unused = if seen.unread == 0 { nr_idle } else { 0 };
        let (idle_limit, crowded_limit) = (of_each(IDLE_NS, cpus), of_each(CROWDED_NS, cpus));
        let idle = grown(self.idle, nr_unused, elapsed, cpus, IDLE_PART);
        self.idle = idle.min(idle_limit);
        let crowded = grown(self.crowded, nr_waiting, elapsed, cpus, CROWDED_PART);
        self.crowded = crowded.min(crowded_limit);

        if nr_unused > 0 && room > 0 {
            if self.count < of_cpus {
                return TokenAct::Put(nr_unused.min(of_cpus - self.count).min(room));
            }
            if self.idle == idle_limit {
                self.idle = 0;
                return TokenAct::Put(nr_unused.div_ceil(IDLE_PART).min(room));
            }
        }
        // Of those for the CPUs what nobody wants may stay. Of more than these one may, while a CPU
        // is idle, for the next job.
        let is_over = self.count > of_cpus && seen.unread > usize::from(nr_idle > 0);
        if self.crowded == crowded_limit || is_over { TokenAct::Take } else { TokenAct::Nothing }
    }

    fn lose(&mut self, nr: usize) {
        self.count -= nr;
        self.lost += nr;
        self.lost_lately += nr;
    }

    fn forget(&mut self, cpus: usize, elapsed: Nanos) {
        self.forgetting = self.forgetting.saturating_add(of_each(elapsed, cpus));
        let forgotten = usize::try_from(self.forgetting / LOST_NS).unwrap_or(usize::MAX);
        self.forgetting %= LOST_NS;
        self.lost_lately = self.lost_lately.saturating_sub(forgotten);
    }

    /// As [`TokenAct::Take`] asked, one is in.
    pub fn taken(&mut self) {
        self.count = self.count.saturating_sub(1);
        self.crowded = 0;
    }
}

/// The first job needs none.
fn of_cpus(cpus: usize) -> usize {
    cpus.saturating_sub(1)
}

/// So much of each CPU.
fn of_each(time: Nanos, cpus: usize) -> Nanos {
    time.saturating_mul(cpus as Nanos)
}

/// What so many CPUs or threads lost in this time comes to, with what there was, if this part of
/// the time of all CPUs may be lost.
fn grown(before: Nanos, nr: usize, elapsed: Nanos, cpus: usize, part: usize) -> Nanos {
    let may_be = of_each(elapsed, cpus) / part as Nanos;
    before.saturating_add(of_each(elapsed, nr)).saturating_sub(may_be)
}
