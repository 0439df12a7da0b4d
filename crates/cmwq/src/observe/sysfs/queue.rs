//! The attributes of a queue.

use super::error::{AttributeError, Refusal};
use super::{Attribute, Mode, text};
use crate::engine::runtime::Runtime;
use crate::engine::tools::attrs::{Attrs, Priority, Sched};
use crate::engine::wq::{Kind, Wq};
use crate::os::topo::{self, CpuSet};

/// KERNEL: `wq_sysfs_is_visible` and the groups of attributes — same; a managed queue, which the
/// kernel does not have, has of the unbound ones only its nice level, fixed when it was made.
pub(super) fn mode(kind: Kind, attribute: Attribute) -> Option<Mode> {
    match attribute {
        Attribute::PerCpu => Some(Mode::ReadOnly),
        Attribute::MaxActive if !kind.has_limit() => Some(Mode::ReadOnly),
        Attribute::MaxActive => Some(Mode::ReadWrite),
        Attribute::Nice if kind == Kind::Managed => Some(Mode::ReadOnly),
        _ if kind.is_replaceable() => Some(Mode::ReadWrite),
        _ => None,
    }
}

/// KERNEL: `per_cpu_show`, `max_active_show`, `wq_nice_show`, `wq_cpumask_show`,
/// `wq_affn_scope_show`, `wq_affinity_strict_show` — same, less the newline.
pub(super) fn show(wq: &Wq, attribute: Attribute) -> Result<String, AttributeError> {
    existing(wq, attribute)?;
    let attrs = wq.attrs();
    Ok(match attribute {
        Attribute::PerCpu => is(matches!(wq.spec.kind, Kind::Percpu | Kind::Bh)),
        Attribute::MaxActive => wq.max_active().to_string(),
        Attribute::Nice => attrs.nice.to_string(),
        Attribute::Cpumask => {
            // All, for who named none; the kernel, too, shows what was asked for.
            let cpus = attrs.cpumask.unwrap_or_else(|| possible(wq.runtime));
            cpus.to_mask(nr_cpu_ids(wq.runtime))
        }
        Attribute::AffinityScope => {
            text::show_scope(attrs.affinity_scope, wq.runtime.placement.now().scope)
        }
        Attribute::AffinityStrict => is(attrs.affinity_strict),
    })
}

/// KERNEL: `max_active_store`, `wq_nice_store`, `wq_cpumask_store`, `wq_affn_scope_store`,
/// `wq_affinity_strict_store` — same.
pub(super) fn store(wq: &Wq, attribute: Attribute, value: &str) -> Result<(), AttributeError> {
    let mode = existing(wq, attribute)?;
    let name = &wq.name;
    if !wq.is_in_sysfs() {
        return Err(AttributeError::new(
            Refusal::NotRegistered,
            format!(
                "workqueue '{name}' can be read only: it was not made with WQ_SYSFS \
                 (Builder::sysfs)"
            ),
        ));
    }
    if mode == Mode::ReadOnly {
        return Err(AttributeError::new(
            Refusal::ReadOnly,
            format!(
                "{attribute} of workqueue '{name}' can be read only{}",
                why_read_only(wq, attribute)
            ),
        ));
    }
    let number = || {
        let odd = || {
            AttributeError::invalid(format!(
                "{attribute} takes a number, not '{}'",
                text::shorten(value)
            ))
        };
        text::number(value).ok_or_else(odd)
    };
    match attribute {
        Attribute::PerCpu => {}
        Attribute::MaxActive => {
            let limit = u32::try_from(number()?).ok().filter(|limit| *limit > 0);
            let limit =
                limit.ok_or_else(|| AttributeError::invalid("max_active takes 1 to 2048"))?;
            wq.set_max_active(limit);
        }
        Attribute::Nice => {
            let nice = number()?;
            check_nice(wq, nice)?;
            wq.update_attrs(|attrs| attrs.nice = nice);
        }
        Attribute::Cpumask => {
            let cpus = text::cpumask(value, nr_cpu_ids(wq.runtime))?.and(&possible(wq.runtime));
            wq.update_attrs(|attrs| attrs.cpumask = Some(cpus));
        }
        Attribute::AffinityScope => {
            let scope = text::scope(value)?;
            wq.update_attrs(|attrs| attrs.affinity_scope = scope);
        }
        Attribute::AffinityStrict => {
            let is_strict = number()? != 0;
            wq.update_attrs(|attrs| attrs.affinity_strict = is_strict);
        }
    }
    Ok(())
}

fn is(yes: bool) -> String {
    u8::from(yes).to_string()
}

fn existing(wq: &Wq, attribute: Attribute) -> Result<Mode, AttributeError> {
    let (name, kind) = (&wq.name, wq.spec.kind);
    if !wq.is_own() {
        let what = format!("workqueue '{name}' is the parent process's");
        return Err(AttributeError::new(Refusal::Unavailable, what));
    }
    mode(kind, attribute).ok_or_else(|| {
        let kind = match kind {
            Kind::Managed => "a managed queue, which uses all CPUs",
            _ => "a per-CPU queue",
        };
        AttributeError::new(
            Refusal::Absent,
            format!("workqueue '{name}' has no {attribute}: it is {kind}"),
        )
    })
}

fn why_read_only(wq: &Wq, attribute: Attribute) -> &'static str {
    match (attribute, wq.spec.kind) {
        (Attribute::MaxActive, Kind::Ordered) => ": an ordered queue runs one item at a time",
        (Attribute::MaxActive, Kind::Bh) => ": a BH queue has no limit",
        (Attribute::Nice, _) => ": a managed queue keeps the priority it was made with",
        _ => "",
    }
}

fn check_nice(wq: &Wq, nice: i32) -> Result<(), AttributeError> {
    Attrs::new().nice(nice).check(&wq.name)?;
    if wq.attrs().sched != Sched::Normal {
        let what = format!("workqueue '{}' has a real-time policy, and no nice level", wq.name);
        return Err(AttributeError::invalid(what));
    }
    let priority = Priority::nice(nice);
    // What a high-priority queue has anyway is done without where it is refused.
    if priority != wq.spec.default_priority() {
        priority.probe(&wq.name, wq.runtime.base_policy, &possible(wq.runtime))?;
    }
    Ok(())
}

/// KERNEL: `cpu_possible_mask`: of this process.
pub(super) fn possible(runtime: &Runtime) -> CpuSet {
    runtime.machine.possible()
}

/// KERNEL: `nr_cpu_ids`: of the system, since that is how wide its masks are.
pub(super) fn nr_cpu_ids(runtime: &Runtime) -> u32 {
    let system = topo::possible_cpus(topo::SYS_ROOT.as_ref()).unwrap_or_default();
    let last = system.last().max(runtime.machine.cpus.last().copied());
    last.map_or(1, |last| last + 1)
}
