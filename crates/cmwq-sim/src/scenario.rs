//! Scenarios as data: workqueues, and works with scripts, to be run by the simulator or by real
//! threads.

use std::collections::HashSet;
use std::fmt;

use crate::Nanos;
use crate::names::named;
use crate::parse_error::ParseError;
use crate::script::Step;
use crate::topology::Scope;

/// The largest machine that a scenario or a simulation may ask for.
pub const MAX_CPUS: u32 = 4096;
/// The largest `max_active` (`WQ_MAX_ACTIVE`).
pub const MAX_ACTIVE: u32 = cmwq_core::consts::WQ_MAX_ACTIVE;

/// A small machine, its queues, and what is queued when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Virtual CPUs, or the first so many allowed ones in a real run.
    pub cpus: u32,
    /// The queues.
    pub workqueues: Vec<QueueSpec>,
    /// The works, in the order in which those of one moment are queued.
    pub works: Vec<WorkSpec>,
}

/// A workqueue of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSpec {
    /// Its name, unique in the scenario.
    pub name: String,
    /// Its flags.
    pub flags: Flags,
    /// Its limit; 0 means the default.
    pub max_active: u32,
    /// Which CPUs one pool of it serves, if it is unbound or managed; `None`: the run's default. A
    /// managed queue may have one here that no queue of a process can have, to see what that would
    /// be like.
    pub scope: Option<Scope>,
}

/// A work of a scenario: queued once, runs its script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkSpec {
    /// Its name, unique in the scenario.
    pub name: String,
    /// Which queue, as an index into [`Scenario::workqueues`].
    pub workqueue: usize,
    /// The CPU to queue it on; `None`: where the caller happens to run.
    pub cpu: Option<u32>,
    /// When it is queued.
    pub at_ns: Nanos,
    /// If not 0, it is queued as delayed work with this delay.
    pub delay_ns: Nanos,
    /// What it does.
    pub script: Vec<Step>,
}

named! {
    /// A flag of a queue, by the name it has in scenario files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Flag: "flag" {
        /// Workers pinned to the CPU the work was queued on (`WQ_PERCPU`).
        Percpu = "percpu",
        /// One pool per pod, every active item at once (`WQ_UNBOUND`).
        Unbound = "unbound",
        /// One pool per pod, as many running workers as it has CPUs.
        Managed = "managed",
        /// The high-priority pools (`WQ_HIGHPRI`).
        Highpri = "highpri",
        /// Items do not count as running (`WQ_CPU_INTENSIVE`).
        CpuIntensive = "cpu_intensive",
        /// Has a rescuer (`WQ_MEM_RECLAIM`).
        MemReclaim = "mem_reclaim",
        /// Takes part in freezing (`WQ_FREEZABLE`).
        Freezable = "freezable",
        /// One item at a time, in queueing order.
        Ordered = "ordered",
        /// Runs in order on the queueing CPU; functions must not sleep (`WQ_BH`).
        Bh = "bh",
    }
}

/// A set of flags.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);

    /// Whether `flag` is in the set.
    #[must_use]
    pub const fn has(self, flag: Flag) -> bool {
        self.0 & 1 << flag as u16 != 0
    }

    /// The set with `flag` added.
    #[must_use]
    pub const fn with(self, flag: Flag) -> Self {
        Self(self.0 | 1 << flag as u16)
    }

    /// The flags of the set, in the order of [`Flag::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Flag> {
        Flag::ALL.into_iter().map(|(flag, _)| flag).filter(move |&flag| self.has(flag))
    }
}

impl FromIterator<Flag> for Flags {
    fn from_iter<I: IntoIterator<Item = Flag>>(flags: I) -> Self {
        flags.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|flag| flag.to_string())).finish()
    }
}

/// What is wrong with a scenario, and what to do about it.
pub type ScenarioError = ParseError;

impl Scenario {
    /// Whether the scenario can be run.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        if !(1..=MAX_CPUS).contains(&self.cpus) {
            return fail(format!("cpus = {} is out of range: use 1 to {MAX_CPUS}", self.cpus));
        }
        unique("workqueue", self.workqueues.iter().map(|queue| &queue.name))?;
        unique("work", self.works.iter().map(|work| &work.name))?;
        for queue in &self.workqueues {
            queue.validate()?;
        }
        self.works.iter().try_for_each(|work| self.validate_work(work))
    }

    fn validate_work(&self, work: &WorkSpec) -> Result<(), ScenarioError> {
        let name = &work.name;
        let Some(queue) = self.workqueues.get(work.workqueue) else {
            return fail(format!("work '{name}' names a workqueue that does not exist"));
        };
        if let Some(cpu) = work.cpu.filter(|&cpu| cpu >= self.cpus) {
            return fail(format!(
                "work '{name}': cpu = {cpu}, but there are only CPUs 0 to {}",
                self.cpus - 1
            ));
        }
        let sleeps = work.script.iter().any(|step| matches!(step, Step::Sleep(_)));
        if sleeps && queue.flags.has(Flag::Bh) {
            return fail(format!(
                "work '{name}' sleeps on the bh queue '{}': burn only",
                queue.name
            ));
        }
        Ok(())
    }
}

impl QueueSpec {
    /// Whether flags and limit go together.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        let (name, flags) = (&self.name, self.flags);
        let kinds = [Flag::Percpu, Flag::Unbound, Flag::Managed];
        let chosen: Vec<_> = kinds.into_iter().filter(|&kind| flags.has(kind)).collect();
        if let [one, other, ..] = chosen[..] {
            return fail(format!("workqueue '{name}': {one} and {other} exclude each other"));
        }
        if flags.has(Flag::Bh) {
            let allowed = [Flag::Bh, Flag::Highpri, Flag::Percpu];
            if let Some(flag) = flags.iter().find(|flag| !allowed.contains(flag)) {
                return fail(format!("workqueue '{name}': bh goes with highpri only, not {flag}"));
            }
            if self.max_active != 0 {
                return fail(format!(
                    "workqueue '{name}': a bh queue has no max_active; leave it 0"
                ));
            }
        }
        if flags.has(Flag::Ordered) {
            if let Some(kind) = [Flag::Percpu, Flag::Managed].into_iter().find(|&k| flags.has(k)) {
                return fail(format!(
                    "workqueue '{name}': an ordered queue is unbound, not {kind}"
                ));
            }
            if self.max_active > 1 {
                return fail(format!(
                    "workqueue '{name}': an ordered queue runs one item at a time; leave \
                     max_active 0 or 1"
                ));
            }
        }
        if self.max_active > MAX_ACTIVE {
            return fail(format!(
                "workqueue '{name}': max_active = {} is out of range: use 0 to {MAX_ACTIVE}",
                self.max_active
            ));
        }
        Ok(())
    }
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), ScenarioError> {
    let mut seen = HashSet::new();
    for name in names {
        if name.is_empty() {
            return fail(format!("a {what} has no name"));
        }
        if !seen.insert(name) {
            return fail(format!("two {what}s are called '{name}': give each its own name"));
        }
    }
    Ok(())
}

fn fail(message: String) -> Result<(), ScenarioError> {
    Err(ScenarioError::new(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        Scenario {
            cpus: 2,
            workqueues: vec![QueueSpec {
                name: "q".into(),
                flags: Flags::NONE.with(Flag::Percpu),
                max_active: 0,
                scope: None,
            }],
            works: vec![WorkSpec { name: "w".into(), cpu: Some(1), ..WorkSpec::default() }],
        }
    }

    fn check_refused(change: impl FnOnce(&mut Scenario), word: &str) {
        let mut scenario = scenario();
        change(&mut scenario);
        let error = scenario.validate().unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }

    #[test]
    fn a_good_one_passes() {
        assert_eq!(scenario().validate(), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        check_refused(|s| s.cpus = 0, "cpus = 0");
        check_refused(|s| s.cpus = MAX_CPUS + 1, "1 to 4096");
        check_refused(|s| s.works[0].cpu = Some(2), "CPUs 0 to 1");
        check_refused(|s| s.works[0].workqueue = 1, "does not exist");
        check_refused(|s| s.workqueues.push(s.workqueues[0].clone()), "called 'q'");
        check_refused(|s| s.works[0].name.clear(), "no name");
        check_refused(|s| s.workqueues[0].max_active = 2049, "0 to 2048");
        let flags = |flags: &[Flag]| flags.iter().copied().collect::<Flags>();
        let with = |set: Flags| move |s: &mut Scenario| s.workqueues[0].flags = set;
        check_refused(with(flags(&[Flag::Percpu, Flag::Managed])), "percpu and managed");
        check_refused(with(flags(&[Flag::Bh, Flag::CpuIntensive])), "not cpu_intensive");
        check_refused(with(flags(&[Flag::Ordered, Flag::Percpu])), "unbound, not percpu");
        check_refused(
            |s| {
                s.workqueues[0].flags = Flags::NONE.with(Flag::Bh);
                s.works[0].script.push(Step::Sleep(1));
            },
            "sleeps on the bh queue",
        );
    }

    #[test]
    fn flags_have_names() {
        for (flag, name) in Flag::ALL {
            assert_eq!(name.parse(), Ok(flag));
            assert_eq!(flag.to_string(), name);
        }
        assert!("fast".parse::<Flag>().unwrap_err().to_string().contains("percpu, unbound"));
    }
}
