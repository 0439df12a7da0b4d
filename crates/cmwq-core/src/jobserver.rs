//! How many jobs of a build may run at once, where its tools ask for a token before each: one more
//! whenever a CPU has nothing to do, one less when more can run than there are CPUs.
//!
//! KERNEL: none. It is what `nr_running` and its concurrency are to workers, for processes that
//! take and give back by themselves and cannot be asked.

/// LIMIT: tokens for each CPU, of builds whose jobs wait most of the time.
pub const TOKENS_PER_CPU: usize = 16;
/// So many looks in a row that found too many at work end a token.
const CROWDED_LOOKS: u32 = 3;

/// What a look at a build finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// Threads of it that can run.
    pub runnable: usize,
    /// All of them.
    pub threads: usize,
    /// Tokens that nobody has taken.
    pub unread: usize,
}

/// The tokens of a build, from look to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Those there are, taken or not. Kept by the driver when it puts one out or takes one in.
    pub count: usize,
    /// Those that nobody can hold any more, so far.
    pub lost: usize,
    /// Looks in a row that found too many at work.
    crowded: u32,
}

/// What follows from a look.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAct {
    /// Nothing.
    Nothing,
    /// A token more.
    Put,
    /// One less, if one can be had.
    Take,
}

impl Tokens {
    /// What to do after a look, on so many CPUs. A token that is held belongs to a job, and a job
    /// has a thread: more of them are with jobs that died.
    pub fn after(&mut self, seen: Build, cpus: usize) -> TokenAct {
        let held = self.count.saturating_sub(seen.unread);
        let lost = held.saturating_sub(seen.threads);
        self.count -= lost;
        self.lost += lost;
        let is_crowded = seen.runnable > cpus;
        self.crowded = if is_crowded { self.crowded + 1 } else { 0 };
        if seen.runnable < cpus && seen.unread == 0 && self.count < TOKENS_PER_CPU * cpus {
            return TokenAct::Put;
        }
        // One that nobody wants is there for when somebody does, as long as a CPU is idle.
        let spare = usize::from(seen.runnable < cpus);
        if self.crowded >= CROWDED_LOOKS || seen.unread > spare {
            TokenAct::Take
        } else {
            TokenAct::Nothing
        }
    }
}
