//! How many jobs of a build may run at once, where its tools take a token for each: as many as
//! there are CPUs, one more when CPUs have had nothing to do for some time, one fewer when threads
//! have had to wait for a CPU.
//!
//! KERNEL: none. The tokens are to processes, which take and give them back by themselves, what
//! `nr_running` and concurrency are to workers.

use crate::Nanos;

/// LIMIT: tokens for each CPU, of builds whose jobs wait most of the time.
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

/// What a look at a build finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// Its threads that can run.
    pub runnable: usize,
    /// All its threads.
    pub threads: usize,
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
        let held = self.count.saturating_sub(seen.unread);
        let lost = held.saturating_sub(seen.threads);
        self.count -= lost;
        self.lost += lost;
        let surplus = seen.unread.saturating_sub(self.count);
        if surplus > 0 {
            return TokenAct::TakeSurplus(surplus);
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

        let of_cpus = of_cpus(cpus);
        if nr_unused > 0 {
            if self.count < of_cpus {
                return TokenAct::Put(nr_unused.min(of_cpus - self.count));
            }
            let room = (TOKENS_PER_CPU * cpus).saturating_sub(self.count);
            if self.idle == idle_limit && room > 0 {
                self.idle = 0;
                return TokenAct::Put(nr_unused.div_ceil(IDLE_PART).min(room));
            }
        }
        // Of those for the CPUs what nobody wants may stay. Of more than these one may, while a CPU
        // is idle, for the next job.
        let is_over = self.count > of_cpus && seen.unread > usize::from(nr_idle > 0);
        if self.crowded == crowded_limit || is_over { TokenAct::Take } else { TokenAct::Nothing }
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
