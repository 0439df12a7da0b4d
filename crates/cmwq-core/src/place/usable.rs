//! Which of a process's CPUs work may use that is bound to none.

/// What is known of a CPU that the process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// It was asked for, or nobody asked for any.
    pub is_requested: bool,
    /// The administrator keeps it free of such work.
    pub is_isolated: bool,
}

/// What can be heeded: something has to be left.
///
/// KERNEL: `wq_unbound_cpumask`, with `unbound_cpus` and isolated CPUs — same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usable {
    heeds_request: bool,
    spares_isolated: bool,
}

impl Usable {
    /// Of these CPUs of a process. If none of those that were asked for is there, all are taken as
    /// asked for; if all of these are isolated, they are used.
    #[must_use]
    pub fn of(cpus: impl Iterator<Item = Cpu> + Clone) -> Self {
        let heeds_request = cpus.clone().any(|cpu| cpu.is_requested);
        let all = Self { heeds_request, spares_isolated: false };
        let spares_isolated = cpus.clone().any(|cpu| all.has(cpu) && !cpu.is_isolated);
        Self { spares_isolated, ..all }
    }

    /// Whether this one is used.
    #[must_use]
    pub const fn has(self, cpu: Cpu) -> bool {
        (cpu.is_requested || !self.heeds_request) && !(cpu.is_isolated && self.spares_isolated)
    }
}
