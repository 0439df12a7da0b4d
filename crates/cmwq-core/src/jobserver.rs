//! How many jobs of a build may run at once, where its tools take a token for each: one more
//! whenever a CPU has nothing to do, one fewer when more threads can run than there are CPUs.
//!
//! KERNEL: none. The tokens are to processes, which take and give them back by themselves, what
//! `nr_running` and concurrency are to workers.

/// LIMIT: tokens for each CPU, of builds whose jobs wait most of the time.
pub const TOKENS_PER_CPU: usize = 16;
/// After so many looks in a row that found too many runnable threads a token is taken in.
const CROWDED_LOOKS: u32 = 3;

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
    /// Looks in a row that found too many runnable threads.
    crowded: u32,
}

/// What follows from a look.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAct {
    /// Nothing.
    Nothing,
    /// Put out another token.
    Put,
    /// Take one in, if one is left.
    Take,
    /// Take in so many that were never put out, and are not in [`Tokens::count`]: a job has written
    /// more than it had taken.
    TakeSurplus(usize),
}

impl Tokens {
    /// What to do after a look, on so many CPUs. A token that is held belongs to a job, and a job
    /// has a thread: if more tokens than threads are held, jobs have died with theirs.
    pub fn after(&mut self, seen: Build, cpus: usize) -> TokenAct {
        let held = self.count.saturating_sub(seen.unread);
        let lost = held.saturating_sub(seen.threads);
        self.count -= lost;
        self.lost += lost;
        let surplus = seen.unread.saturating_sub(self.count);
        if surplus > 0 {
            return TokenAct::TakeSurplus(surplus);
        }
        let is_crowded = seen.runnable > cpus;
        self.crowded = if is_crowded { self.crowded + 1 } else { 0 };
        if seen.runnable < cpus && seen.unread == 0 && self.count < TOKENS_PER_CPU * cpus {
            return TokenAct::Put;
        }
        // While a CPU is idle, one unused token stays out for the next job.
        let spare = usize::from(seen.runnable < cpus);
        if self.crowded >= CROWDED_LOOKS || seen.unread > spare {
            TokenAct::Take
        } else {
            TokenAct::Nothing
        }
    }
}
