//! Parameters by name, from within the program: what `CMWQ_PARAMS` does from outside.

use crate::detect::method::Detect;
use crate::engine::process::watch_forks;
use crate::engine::runtime::Runtime;
use crate::engine::tools::params::Params;
use crate::engine::tools::params::early::lock_early;
use crate::engine::tools::params::settings;
use crate::observe::watchdog;
use crate::os::error::Error;

/// Sets a parameter as `CMWQ_PARAMS="name=value"` does, with or without the prefix `workqueue.`,
/// and overrides it. Parameters are read when the library is first used; from then on
/// only `default_affinity_scope`, `unbound_cpus`, `watchdog_thresh`, `panic_on_stall` and
/// `panic_on_stall_time` can be set.
///
/// | parameter | value | default |
/// |---|---|---|
/// | `default_affinity_scope` | `cpu`, `smt`, `cache`, `cache_shard`, `numa` or `system` | `cache_shard` |
/// | `managed_affinity_scope` | `cpu` or `system` | `cpu` |
/// | `cache_shard_size` | cores, from 1 | 8 |
/// | `unbound_cpus` | a list, such as `0-3,8`; not empty | all |
/// | `power_efficient`, `inspect` | 0 or 1 | 0, 1 |
/// | `control` | 0, 1 or a socket's absolute path | 0 |
/// | `max_workers` | a number; 0: any | 0 |
/// | `stack_size` | KiB, from 64 to 1048576 | 2048 |
/// | `idle_timeout` | seconds, with fractions, from 0 to 1e9 | 300 |
/// | `idle_ratio` | busy workers, from 1; above 65536 is taken as that | 4 |
/// | `cpu_intensive_thresh_us` | microseconds; 0: never | 10000, up to 1000000 on slow machines |
/// | `cpu_intensive_warning_thresh` | times; 0: never | 4 |
/// | `watchdog_thresh` | seconds, with fractions, from 0 (never) to 1e9 | 30 |
/// | `watchdog_signal` | a signal, by number or name; 0: none | a free one |
/// | `dump_signal` | a signal, by number or name | none |
/// | `panic_on_stall` | reports; 0: never | 0 |
/// | `panic_on_stall_time` | seconds, with fractions, from 0 (never) to 1e9 | 0 |
/// | `debug_force_rr_cpu` | 0 or 1 | 0 |
/// | `debug_pretend_cpus` | CPUs, up to 4096; 0: those that there are | 0 |
///
/// KERNEL: a write to `/sys/module/workqueue/parameters` — same, for the parameters that can be
/// changed.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): no such parameter, or not such a value; the
/// message has what there is. [`Unavailable`](crate::ErrorKind::Unavailable): it cannot be changed
/// any more.
///
/// ```standalone_crate
/// cmwq::set_param("idle_timeout", "5")?;
/// assert_eq!(cmwq::param("idle_timeout").unwrap(), "5");
/// assert!(cmwq::set_param("idle_timeout", "soon").is_err());
/// let wq = cmwq::Workqueue::new("first")?;
/// assert!(cmwq::set_param("idle_timeout", "6").is_err(), "it was read");
/// cmwq::set_param("default_affinity_scope", "numa")?;
/// # Ok::<(), cmwq::Error>(())
/// ```
pub fn set_param(name: &str, value: &str) -> Result<(), Error> {
    let name = name.strip_prefix("workqueue.").unwrap_or(name);
    // What a value must be is asked first, whatever is done with it.
    let mut tried = Params::default();
    tried.set(name, value).map_err(Error::invalid)?;
    watch_forks();
    let mut early = lock_early();
    if !early.were_read {
        early.set(name, value.to_owned());
        return Ok(());
    }
    drop(early);
    match (name, &tried.unbound_cpus) {
        ("default_affinity_scope", _) => {
            crate::set_default_affinity_scope(tried.default_affinity_scope)
        }
        ("unbound_cpus", Some(cpus)) => crate::set_unbound_cpumask(cpus),
        ("watchdog_thresh" | "panic_on_stall" | "panic_on_stall_time", _) => {
            watchdog::set_param(name, &tried)
        }
        _ => Err(Error::unavailable(format!(
            "{name} was read when the library was first used, and cannot be changed any more"
        ))),
    }
}

/// A parameter as it is, or before the library was first used, as it would be: as text that
/// [`set_param`] takes, but that `unbound_cpus` may be empty for all. `None`: no such parameter.
#[must_use]
pub fn param(name: &str) -> Option<String> {
    let name = name.strip_prefix("workqueue.").unwrap_or(name);
    match (name, Runtime::existing()) {
        ("default_affinity_scope", Some(_)) => {
            crate::default_affinity_scope().ok().map(|scope| scope.name().to_owned())
        }
        ("unbound_cpus", Some(_)) => crate::unbound_cpumask().ok().map(|cpus| cpus.to_string()),
        ("watchdog_thresh" | "panic_on_stall" | "panic_on_stall_time", Some(runtime)) => {
            settings::text(&runtime.watchdog.as_params(&runtime.params), name)
        }
        (_, Some(runtime)) => settings::text(&runtime.params, name),
        (_, None) => {
            watch_forks();
            let early = lock_early();
            let mut params = Params::try_env().0;
            early.apply(&mut params);
            settings::text(&params, name)
        }
    }
}

/// Sets several parameters, and whatever `then` does, before the parameters are read. Once.
pub(crate) fn configure(
    settings: Vec<(&'static str, String)>,
    detect: Option<Detect>,
    then: impl FnOnce(),
) -> Result<(), Error> {
    let mut tried = Params::default();
    for (name, value) in &settings {
        tried.set(name, value).map_err(Error::invalid)?;
    }
    watch_forks();
    let mut early = lock_early();
    if early.were_read || early.is_configured {
        return Err(Error::unavailable(
            "a configuration is installed once, before the library is first used",
        ));
    }
    for (name, value) in settings {
        early.set(name, value);
    }
    early.detect = detect;
    early.is_configured = true;
    then();
    Ok(())
}
