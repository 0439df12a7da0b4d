//! The adaptive tick: at which intervals the workers of pools whose work waits are looked at.
//!
//! KERNEL: no twin. The kernel's scheduler tells the pool (`wq_worker_sleeping`), so no look is
//! needed.
//!
//! Why: docs/decisions/short-tick.md

use core::ops::BitOrAssign;

use crate::ids::Nanos;

/// The tick begins with this interval, and returns to it when detection relies on the tick: 250 µs.
pub const TICK_FIRST_NS: Nanos = 250_000;
/// The shortest interval where the tick is the only source: 100 µs.
pub const TICK_SHORTEST_ALONE_NS: Nanos = 100_000;
/// The shortest interval where a better source is there, and comes late: 250 µs.
pub const TICK_SHORTEST_BEHIND_NS: Nanos = 250_000;
/// The shortest interval where workers wait for processes, since a look at a process is dear: 1 ms.
pub const TICK_SHORTEST_FOR_PROCESSES_NS: Nanos = 1_000_000;
/// The longest interval where the tick is the only source: 1 ms.
pub const TICK_LONGEST_ALONE_NS: Nanos = 1_000_000;
/// The longest interval where a better source tells of blocked workers first: 4 ms.
pub const TICK_LONGEST_BEHIND_NS: Nanos = 4_000_000;
/// The interval doubles after so many ticks in a row that let no worker start, where the tick is
/// the only source, or workers wait for processes.
pub const FRUITLESS_TICKS_ALONE: u32 = 8;
/// The same where a better source is there. Where other programs keep the CPUs busy, the sentinel
/// comes late and the tick finds the blocked workers, so the interval stays short: about a third of
/// the ticks find one.
pub const FRUITLESS_TICKS_BEHIND: u32 = 2;
/// After so many ticks in a row that let no worker start a better source is taken to tell first of
/// those that are blocked.
pub const TICKS_BEHIND: u32 = 16;
/// The tick looks at a pool so many more times after its last item has stopped waiting.
pub const QUIET_TICKS: u32 = 4;

/// Whether the tick is the only source of detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TickRole {
    /// It is the only source.
    #[default]
    Alone,
    /// The sentinel or switch records come first, and the tick finds what they miss.
    Behind,
}

impl TickRole {
    /// The longest interval of such a tick, in nanoseconds.
    #[must_use]
    pub const fn longest(self) -> Nanos {
        match self {
            Self::Alone => TICK_LONGEST_ALONE_NS,
            Self::Behind => TICK_LONGEST_BEHIND_NS,
        }
    }

    /// The shortest interval of such a tick, in nanoseconds.
    #[must_use]
    pub const fn shortest(self) -> Nanos {
        match self {
            Self::Alone => TICK_SHORTEST_ALONE_NS,
            Self::Behind => TICK_SHORTEST_BEHIND_NS,
        }
    }

    /// After how many ticks in a row that let no worker start the interval doubles.
    #[must_use]
    pub const fn fruitless(self) -> u32 {
        match self {
            Self::Alone => FRUITLESS_TICKS_ALONE,
            Self::Behind => FRUITLESS_TICKS_BEHIND,
        }
    }
}

/// What a tick has found, in all pools that are watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickFound {
    /// The tick found a blocked worker in whose place another one could start: no better source had
    /// reported it, so the tick matters.
    pub has_woken: bool,
    /// Workers wait for processes.
    pub has_processes: bool,
}

impl BitOrAssign for TickFound {
    /// What was found in another pool, too.
    fn bitor_assign(&mut self, other: Self) {
        self.has_woken |= other.has_woken;
        self.has_processes |= other.has_processes;
    }
}

/// The interval of the tick, from tick to tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    role: TickRole,
    /// Workers waited for processes at the last tick.
    has_processes: bool,
    interval: Nanos,
    /// Ticks in a row that let no worker start.
    fruitless: u32,
}

impl Tick {
    /// A tick that has not begun.
    #[must_use]
    pub const fn new(role: TickRole) -> Self {
        Self { role, has_processes: false, interval: TICK_FIRST_NS, fruitless: 0 }
    }

    /// The better source is not there: it was chosen, and the system refuses it.
    pub const fn turn_alone(&mut self) {
        self.role = TickRole::Alone;
        self.interval = min(self.interval, self.role.longest());
    }

    /// Work has begun to wait somewhere, or detection relies on the tick: after how many
    /// nanoseconds it comes.
    #[must_use]
    pub const fn begin(&mut self) -> Nanos {
        self.interval = max(TICK_FIRST_NS, self.shortest());
        self.interval
    }

    /// Whether the tick finds blocked workers before a better source tells of them: it does where
    /// other programs keep the CPUs busy.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.fruitless < TICKS_BEHIND
    }

    /// The tick has looked at all pools that are watched: after how many nanoseconds it comes
    /// again. The interval is halved and not reset, since now and then a tick is only a few
    /// microseconds faster than the sentinel.
    #[must_use]
    pub const fn after(&mut self, found: TickFound) -> Nanos {
        let TickFound { has_woken, has_processes } = found;
        self.has_processes = has_processes;
        self.fruitless = if has_woken { 0 } else { self.fruitless + 1 };
        if self.fruitless == 2 * TICKS_BEHIND {
            // More say nothing more; this, too, is a number at which the interval doubles.
            self.fruitless = TICKS_BEHIND;
        }
        self.interval = if has_woken {
            max(self.interval / 2, self.shortest())
        } else if self.fruitless.is_multiple_of(self.doubles_after()) {
            min(self.interval * 2, self.role.longest())
        } else {
            self.interval
        };
        self.interval
    }

    const fn shortest(&self) -> Nanos {
        if self.has_processes { TICK_SHORTEST_FOR_PROCESSES_NS } else { self.role.shortest() }
    }

    /// Ticks in a row that let no worker start.
    const fn doubles_after(&self) -> u32 {
        if self.has_processes { FRUITLESS_TICKS_ALONE } else { self.role.fruitless() }
    }
}

/// How long a pool that is on the tick's list has not been watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quiet {
    ticks: u32,
}

impl Quiet {
    /// Whether the pool stays on the list after this tick. `is_watched`: work waits there, or a CPU
    /// is in use there that other pods could use.
    #[must_use]
    pub const fn stays(&mut self, is_watched: bool) -> bool {
        self.ticks = if is_watched { 0 } else { self.ticks + 1 };
        self.ticks < QUIET_TICKS
    }
}

const fn min(one: Nanos, other: Nanos) -> Nanos {
    if one < other { one } else { other }
}

const fn max(one: Nanos, other: Nanos) -> Nanos {
    if one > other { one } else { other }
}
