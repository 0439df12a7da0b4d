//! When to look which CPUs there are.

use crate::ids::Nanos;

/// The CPUs are looked at no more often: a second.
pub const RESCAN_EVERY_NS: Nanos = 1_000_000_000;

/// When the CPUs were last looked at, by a thread that is not woken only for that.
#[derive(Clone, Copy, Debug)]
pub struct Rescan {
    due: Nanos,
}

impl Rescan {
    /// They are known at `now`.
    #[must_use]
    pub const fn begin(now: Nanos) -> Self {
        Self { due: now.saturating_add(RESCAN_EVERY_NS) }
    }

    /// Whether a thread that is awake at `now` is to look.
    #[must_use]
    pub const fn is_due(self, now: Nanos) -> bool {
        now >= self.due
    }

    /// When to look for the sake of who has been found on a wrong CPU at `asked`: one who is
    /// displaced again and again waits for his turn.
    #[must_use]
    pub const fn at(self, asked: Nanos) -> Nanos {
        if asked > self.due { asked } else { self.due }
    }
}
