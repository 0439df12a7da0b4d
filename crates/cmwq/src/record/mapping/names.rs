//! What numbers in the mapping stand for.

use std::fmt;

/// Defines an enumeration whose places are numbers in the mapping. New ones come behind.
macro_rules! names {
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $text:literal),* $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// One that a newer version of this library knows.
            Unknown,
        }

        impl $name {
            const ALL: &[Self] = &[$(Self::$variant),*];

            /// What the number stands for.
            #[doc(hidden)]
            #[must_use]
            pub fn from_word(word: u64) -> Self {
                let place = usize::try_from(word).ok();
                place.and_then(|place| Self::ALL.get(place)).copied().unwrap_or(Self::Unknown)
            }

            /// Its name in texts and in JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Unknown => "unknown",
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

names! {
    /// What a pool is for.
    PoolKind {
        /// Pinned to one CPU.
        Cpu = "percpu",
        /// Served by a CPU's BH context.
        Bh = "bh",
        /// Serves a pod, every active item at once.
        Unbound = "unbound",
        /// Serves a pod, as many running workers as it has CPUs.
        Managed = "managed",
    }
}

names! {
    /// What kind of pools a queue leads to.
    QueueKind {
        /// A pool per CPU.
        Percpu = "percpu",
        /// Per CPU, in the BH contexts.
        Bh = "bh",
        /// The pools of its attributes.
        Unbound = "unbound",
        /// Managed pools.
        Managed = "managed",
        /// One item at a time.
        Ordered = "ordered",
    }
}

names! {
    /// Why a pool did, or did not, put another worker to work.
    Reason {
        /// An idle worker was woken for waiting work.
        WokeIdle = "woke an idle worker",
        /// Work waits, and as many workers run as may.
        AtCapacity = "as many workers run as may",
        /// Work waits, and there is no idle worker: one is being created, or creation has just
        /// failed.
        NoIdle = "no idle worker",
        /// Work waits, and there is no worker at all: the first is created.
        NoWorker = "no worker at all",
        /// An item was queued behind its queue's `max_active`.
        MaxActive = "max_active reached",
        /// A worker was seen blocked, or said so.
        Blocked = "a worker blocked",
        /// A worker was seen to hog the CPU, and does not count any more.
        Hog = "a worker hogs the CPU",
        /// A worker was created.
        Created = "created a worker",
        /// No thread could be had.
        CreationFailed = "creation failed",
        /// A worker was idle for too long, and left.
        Culled = "dismissed an idle worker",
        /// A rescuer was called.
        Mayday = "called the rescuer",
        /// A worker was lent to another pool, which had more work than CPUs.
        Lent = "lent a worker",
    }
}
