//! Parameters as text.

use std::time::Duration;

use super::Params;
use crate::detect::hog;

/// A setting from `CMWQ_PARAMS` or `CMWQ_DETECT`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Its value, as it would be set.
    pub value: String,
    /// Whether this is the default value.
    pub is_default: bool,
}

/// All settings.
pub(crate) fn list(params: &Params) -> Vec<Setting> {
    let defaults = values(&Params::default());
    let pair =
        |((name, value), (_, default))| Setting { name, is_default: value == default, value };
    values(params).into_iter().zip(defaults).map(pair).collect()
}

fn seconds(nanos: u64) -> String {
    Duration::from_nanos(nanos).as_secs_f64().to_string()
}

/// Empty: the library chooses a signal, or uses none.
fn number(signal: Option<i32>) -> String {
    signal.as_ref().map_or_else(String::new, ToString::to_string)
}

/// One of `CMWQ_PARAMS`, as it would be set.
pub(crate) fn text(params: &Params, name: &str) -> Option<String> {
    let values = values(params).into_iter().filter(|(known, _)| *known != "CMWQ_DETECT");
    values.into_iter().find_map(|(known, value)| (known == name).then_some(value))
}

fn values(params: &Params) -> Vec<(&'static str, String)> {
    // Without `..`, so that no new setting is forgotten here.
    let Params {
        default_affinity_scope,
        managed_affinity_scope,
        cache_shard_size,
        power_efficient,
        unbound_cpus,
        debug_force_rr_cpu,
        debug_pretend_cpus,
        cpu_intensive_thresh_us,
        cpu_intensive_warning_thresh,
        watchdog_thresh_ns,
        watchdog_signal,
        panic_on_stall,
        panic_on_stall_time_ns,
        dump_signal,
        idle_timeout_ns,
        idle_ratio,
        max_workers,
        stack_size,
        control,
        inspect,
        detect,
    } = params;
    vec![
        ("default_affinity_scope", default_affinity_scope.name().to_owned()),
        ("managed_affinity_scope", managed_affinity_scope.name().to_owned()),
        ("cache_shard_size", cache_shard_size.to_string()),
        ("power_efficient", u8::from(*power_efficient).to_string()),
        ("unbound_cpus", unbound_cpus.as_ref().map_or_else(String::new, ToString::to_string)),
        ("debug_force_rr_cpu", u8::from(*debug_force_rr_cpu).to_string()),
        ("debug_pretend_cpus", debug_pretend_cpus.unwrap_or(0).to_string()),
        (
            "cpu_intensive_thresh_us",
            cpu_intensive_thresh_us.unwrap_or_else(hog::default_thresh_us).to_string(),
        ),
        ("cpu_intensive_warning_thresh", cpu_intensive_warning_thresh.to_string()),
        ("watchdog_thresh", seconds(*watchdog_thresh_ns)),
        ("watchdog_signal", number(*watchdog_signal)),
        ("panic_on_stall", panic_on_stall.to_string()),
        ("panic_on_stall_time", seconds(*panic_on_stall_time_ns)),
        ("dump_signal", number(*dump_signal)),
        ("idle_timeout", seconds(*idle_timeout_ns)),
        ("idle_ratio", idle_ratio.to_string()),
        ("max_workers", max_workers.to_string()),
        ("stack_size", (stack_size >> 10).to_string()),
        (
            "control",
            match control.as_deref() {
                None => "0".to_owned(),
                Some("") => "1".to_owned(),
                Some(path) => path.to_owned(),
            },
        ),
        ("inspect", u8::from(*inspect).to_string()),
        ("CMWQ_DETECT", detect.map_or("", |detect| detect.name()).to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_tell_what_was_set() {
        let (params, complaints) = Params::parse(
            Some("default_affinity_scope=numa idle_timeout=0.5 stack_size=128 cache_shard_size=8"),
            Some("tick"),
        );
        assert_eq!(complaints, Vec::<String>::new());
        let settings = list(&params);
        let value = |name| {
            let setting = settings.iter().find(|setting| setting.name == name).unwrap();
            (setting.value.as_str(), setting.is_default)
        };
        assert_eq!(value("default_affinity_scope"), ("numa", false));
        assert_eq!(value("idle_timeout"), ("0.5", false));
        assert_eq!(value("stack_size"), ("128", false));
        assert_eq!(value("CMWQ_DETECT"), ("tick", false));
        assert_eq!(value("cache_shard_size"), ("8", true), "set to what it is anyway");
        assert_eq!(value("power_efficient"), ("0", true));
    }

    /// What is shown can be set.
    #[test]
    fn settings_can_be_read_back() {
        let (odd, _) = Params::parse(
            Some(
                "default_affinity_scope=smt managed_affinity_scope=system \
                 cache_shard_size=3 power_efficient=1 \
                 unbound_cpus=0,2-3 debug_force_rr_cpu=1 debug_pretend_cpus=64 \
                 cpu_intensive_thresh_us=123 cpu_intensive_warning_thresh=5 watchdog_thresh=12.5 \
                 watchdog_signal=0 \
                 panic_on_stall=3 panic_on_stall_time=90 dump_signal=USR1 \
                 idle_timeout=7.25 idle_ratio=9 max_workers=7 stack_size=64 inspect=0 \
                 control=/run/s",
            ),
            Some("inline"),
        );
        let listed = list(&odd);
        assert!(listed.iter().all(|setting| !setting.is_default), "{listed:?}");
        let (last, params) = listed.split_last().unwrap();
        let text: Vec<_> = params.iter().map(|it| format!("{}={}", it.name, it.value)).collect();
        let (back, complaints) = Params::parse(Some(&text.join(" ")), Some(&last.value));
        assert_eq!(complaints, Vec::<String>::new());
        assert_eq!(list(&back), listed);
    }
}
