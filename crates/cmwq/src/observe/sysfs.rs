//! The attributes of queues as text: what the kernel shows of a `WQ_SYSFS` queue in
//! `/sys/devices/virtual/workqueue`, with the same names, values and rules.
//!
//! Every queue can be read. A queue can be written once it is *registered*, by
//! [`Builder::sysfs`](crate::Builder::sysfs) or [`Entry::register`]; that also makes its name its
//! own among the registered ones. Other processes get here through
//! [`control`](crate::observe::control), if the program opts in.
//!
//! | attribute | queues | value |
//! |---|---|---|
//! | `per_cpu` | all | `1` or `0`, read only |
//! | `max_active` | all; read only for ordered and BH ones | 1 to 2048; what is above is clamped |
//! | `nice` | unbound, ordered; read only for managed ones | −20 to 19 |
//! | `cpumask` | unbound, ordered | hexadecimal mask, groups of 32 bits: `ff,00000000` |
//! | `affinity_scope` | unbound, ordered | `default`, `cpu`, `smt`, `cache`, `cache_shard`, `numa`, `system`; the default reads as `default (cache_shard)` |
//! | `affinity_strict` | unbound, ordered | `0` or `1`; any other number is taken as 1 |
//!
//! ```
//! use cmwq::sysfs::Attribute;
//! let wq = cmwq::Workqueue::builder("disk").unbound().sysfs().build()?;
//! wq.sysfs().store(Attribute::MaxActive, "4")?;
//! wq.sysfs().store(Attribute::AffinityScope, "numa\n")?;
//! assert_eq!(wq.sysfs().show(Attribute::MaxActive)?, "4");
//! assert_eq!(wq.sysfs().show(Attribute::AffinityScope)?, "numa");
//! assert_eq!(wq.sysfs().store(Attribute::Nice, "20").unwrap_err().errno(), libc::EINVAL);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *Does not* make files. KERNEL: `wq_sysfs_attrs`, `wq_sysfs_unbound_attrs`,
//! `wq_sysfs_cpumask_attrs` — same values; reading gives them without the newline at their end.

mod error;
mod global;
mod queue;
mod text;

use std::fmt;
use std::str::FromStr;

use crate::engine::runtime::Runtime;
use crate::engine::wq::Wq;
use crate::os::error::Error;
use crate::os::sync::Arc;

pub use error::{AttributeError, Refusal};
pub use global::{GlobalAttribute, show_global, store_global};

/// An attribute of a queue. See the [module](self) for their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Attribute {
    /// Whether items run on the CPU that queued them.
    PerCpu,
    /// How many items may be in execution at once.
    MaxActive,
    /// The workers' nice level.
    Nice,
    /// The CPUs that may run the queue's items.
    Cpumask,
    /// Which CPUs share workers.
    AffinityScope,
    /// Whether workers stay in their pod.
    AffinityStrict,
}

/// Whether an attribute can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// 0444.
    ReadOnly,
    /// 0644, while the queue is registered.
    ReadWrite,
}

impl Mode {
    /// `ro` or `rw`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "ro",
            Self::ReadWrite => "rw",
        }
    }
}

impl Attribute {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 6] = [
        Self::PerCpu,
        Self::MaxActive,
        Self::Nice,
        Self::Cpumask,
        Self::AffinityScope,
        Self::AffinityStrict,
    ];

    /// The kernel's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PerCpu => "per_cpu",
            Self::MaxActive => "max_active",
            Self::Nice => "nice",
            Self::Cpumask => "cpumask",
            Self::AffinityScope => "affinity_scope",
            Self::AffinityStrict => "affinity_strict",
        }
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads a name. Fails with [`Refusal::Absent`] if there is no such attribute.
impl FromStr for Attribute {
    type Err = AttributeError;

    fn from_str(name: &str) -> Result<Self, AttributeError> {
        let found = Self::ALL.into_iter().find(|attribute| attribute.name() == name);
        found.ok_or_else(|| error::no_such(name, "a queue", &Self::ALL.map(Self::name)))
    }
}

/// A queue's directory, so to speak. Holding one does not keep the queue alive; it then shows
/// what the queue had last.
#[derive(Clone)]
pub struct Entry(pub(crate) Arc<Wq>);

impl Entry {
    /// The queue's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether it can be written.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.0.is_in_sysfs()
    }

    /// Makes the queue writable, as [`Builder::sysfs`](crate::Builder::sysfs) does. For those who
    /// want to set attributes before others can.
    ///
    /// KERNEL: `workqueue_sysfs_register` — same.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) if it is registered, or another queue of
    /// its name is.
    #[doc(alias = "workqueue_sysfs_register")]
    pub fn register(&self) -> Result<(), Error> {
        self.0.runtime.enter_sysfs(&self.0)
    }

    /// The attributes that the queue has.
    pub fn attributes(&self) -> impl Iterator<Item = (Attribute, Mode)> + '_ {
        Attribute::ALL.into_iter().filter_map(|attribute| Some((attribute, self.mode(attribute)?)))
    }

    /// Whether the queue has this attribute, and can be written if it is registered.
    #[must_use]
    pub fn mode(&self, attribute: Attribute) -> Option<Mode> {
        queue::mode(self.0.spec.kind, attribute)
    }

    /// The value of an attribute, without a newline.
    ///
    /// # Errors
    /// [`Refusal::Absent`] if a queue of this kind does not have it.
    pub fn show(&self, attribute: Attribute) -> Result<String, AttributeError> {
        queue::show(&self.0, attribute)
    }

    /// Changes an attribute. `text` is read as the kernel reads it: white space around numbers does
    /// not matter, nor does what follows a number.
    ///
    /// Does not wait for items that run under the old value. A nice level that the process may not
    /// have is tried by a thread that ends at once.
    ///
    /// # Errors
    /// [`Refusal`] says which, [`errno`](AttributeError::errno) what a write to the kernel's file
    /// would have said. Nothing has changed then.
    pub fn store(&self, attribute: Attribute, text: &str) -> Result<(), AttributeError> {
        queue::store(&self.0, attribute, text)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name())
            .field("is_registered", &self.is_registered())
            .finish()
    }
}

/// All queues of the process in the order in which they were made (as far as places were not used
/// again), the library's own excepted. Empty if the library was not used yet.
#[must_use]
pub fn entries() -> Vec<Entry> {
    let Some(runtime) = Runtime::existing() else { return Vec::new() };
    runtime.users_wqs().into_iter().map(Entry).collect()
}

pub(crate) fn entries_named(name: &str) -> Vec<Entry> {
    let Some(runtime) = Runtime::existing() else { return Vec::new() };
    runtime.users_wqs_named(name).into_iter().map(Entry).collect()
}

/// The queue of this name: the registered one, or else the first that was made.
#[must_use]
pub fn find(name: &str) -> Option<Entry> {
    let mut named = entries_named(name);
    let registered = named.iter().position(Entry::is_registered);
    (!named.is_empty()).then(|| named.swap_remove(registered.unwrap_or(0)))
}
