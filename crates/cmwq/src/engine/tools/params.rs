//! Settings from the environment: `CMWQ_PARAMS` (the kernel's boot parameters) and `CMWQ_DETECT`.

pub(crate) mod early;
pub(crate) mod settings;

use cmwq_core::place::QueueKind;
use cmwq_core::{WATCHDOG_THRESH_NS, consts};

use crate::detect::method::Detect;
use crate::os::environment;
use crate::os::notice::{self, Notice};
use crate::os::sense::signal;
use crate::os::topo::{AffinityScope, CpuSet};

/// All settings with their defaults.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    /// Which CPUs share a pool of unbound queues.
    pub(crate) default_affinity_scope: AffinityScope,
    /// Which CPUs share a pool of managed queues: each has its own, or all share one.
    pub(crate) managed_affinity_scope: AffinityScope,
    /// Cores per shard of the `cache_shard` scope.
    pub(crate) cache_shard_size: u32,
    /// Power-efficient queues are unbound.
    pub(crate) power_efficient: bool,
    /// Unbound queues use no other CPUs.
    pub(crate) unbound_cpus: Option<CpuSet>,
    /// Items of unbound queues go to all CPUs in turn, and not to the queuer's: finds code that
    /// relies on where it runs.
    pub(crate) debug_force_rr_cpu: bool,
    /// Pretends that there are so many CPUs; threads run on the real ones. For measuring.
    pub(crate) debug_pretend_cpus: Option<u32>,
    /// CPU time in µs after which an item is CPU-intensive; 0: never. `None`: by the machine's
    /// speed.
    pub(crate) cpu_intensive_thresh_us: Option<u64>,
    /// After how many such items of a function it is reported; 0: never.
    pub(crate) cpu_intensive_warning_thresh: u32,
    /// How long work may wait without progress; 0: the watchdog is off.
    pub(crate) watchdog_thresh_ns: u64,
    /// The signal that asks threads for their stacks; 0: none. `None`: a free one.
    pub(crate) watchdog_signal: Option<i32>,
    /// The process ends at this report of stalls; 0: never.
    pub(crate) panic_on_stall: u32,
    /// The process ends at a stall of this length; 0: never.
    pub(crate) panic_on_stall_time_ns: u64,
    /// A dump of all queues is written at this signal.
    pub(crate) dump_signal: Option<i32>,
    /// When surplus idle workers leave.
    pub(crate) idle_timeout_ns: u64,
    /// Busy workers per tolerated idle worker above two.
    pub(crate) idle_ratio: u32,
    /// How many workers the process may have; 0: any number.
    pub(crate) max_workers: u32,
    /// Stack of a worker, in bytes.
    pub(crate) stack_size: usize,
    /// Other processes may change attributes: where the socket is, empty for the usual place.
    pub(crate) control: Option<String>,
    /// State and statistics are kept where tools can read them.
    pub(crate) inspect: bool,
    /// The source of detection, if not the best that works.
    pub(crate) detect: Option<Detect>,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            default_affinity_scope: AffinityScope::of_core(QueueKind::Unbound.default_scope()),
            managed_affinity_scope: AffinityScope::of_core(QueueKind::Managed.default_scope()),
            cache_shard_size: cmwq_core::place::SHARD_CORES,
            power_efficient: false,
            unbound_cpus: None,
            debug_force_rr_cpu: false,
            debug_pretend_cpus: None,
            cpu_intensive_thresh_us: None,
            cpu_intensive_warning_thresh: 4,
            watchdog_thresh_ns: WATCHDOG_THRESH_NS,
            watchdog_signal: None,
            panic_on_stall: 0,
            panic_on_stall_time_ns: 0,
            dump_signal: None,
            idle_timeout_ns: consts::IDLE_WORKER_TIMEOUT_NS,
            idle_ratio: consts::MAX_IDLE_WORKERS_RATIO,
            max_workers: 0,
            stack_size: 2 << 20,
            control: None,
            inspect: true,
            detect: None,
        }
    }
}

/// LIMIT: the largest `debug_pretend_cpus`.
const PRETENDED_MAX: u32 = 4096;

const NAMES: &str = "default_affinity_scope=cpu|smt|cache|cache_shard|numa|system \
                     managed_affinity_scope=cpu|system cache_shard_size=CORES \
     power_efficient=0|1 unbound_cpus=CPULIST debug_force_rr_cpu=0|1 debug_pretend_cpus=N \
     cpu_intensive_thresh_us=US \
     cpu_intensive_warning_thresh=N watchdog_thresh=SECONDS watchdog_signal=N panic_on_stall=N \
     panic_on_stall_time=SECONDS dump_signal=N|NAME idle_timeout=SECONDS \
     idle_ratio=N max_workers=N \
     stack_size=KIB inspect=0|1 \
     control=0|1|PATH";

impl Params {
    /// Reads the environment. A bad value is refused with a message and its default kept.
    pub(crate) fn from_env() -> Self {
        let (mut params, complaints) = Self::try_env();
        early::apply_early(&mut params);
        if !complaints.is_empty() {
            notice::once(Notice::Params, || complaints.join("; "));
        }
        params
    }

    /// What the environment says, and what is wrong with it.
    pub(crate) fn try_env() -> (Self, Vec<String>) {
        let var = environment::var;
        let (mut params, mut complaints) =
            Self::parse(var("CMWQ_PARAMS").as_deref(), var("CMWQ_DETECT").as_deref());
        if let Some(Err(wrong)) = var("CMWQ_CONTROL").map(|value| params.set("control", &value)) {
            complaints.push(format!("CMWQ_CONTROL: {wrong}"));
        }
        (params, complaints)
    }

    pub(crate) fn parse(params: Option<&str>, detect: Option<&str>) -> (Self, Vec<String>) {
        let mut parsed = Self::default();
        let mut complaints = Vec::new();
        for setting in params.unwrap_or_default().split_whitespace() {
            let setting = setting.strip_prefix("workqueue.").unwrap_or(setting);
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            if let Err(wrong) = parsed.set(name, value) {
                complaints.push(format!("CMWQ_PARAMS: {wrong}; this is left out"));
            }
        }
        if let Some(name) = detect.filter(|name| !name.is_empty()) {
            match name.parse() {
                Ok(detect) => parsed.detect = Some(detect),
                Err(wrong) => complaints.push(format!("CMWQ_DETECT: {wrong}; the best is chosen")),
            }
        }
        (parsed, complaints)
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let bad = |accepted: &str| format!("{name}={value}: {name} takes {accepted}");
        let number = |accepted| value.parse::<u32>().map_err(|_| bad(accepted));
        match name {
            "default_affinity_scope" | "managed_affinity_scope" | "cache_shard_size" => {
                return self.set_scope(name, value, bad);
            }
            "power_efficient" => {
                self.power_efficient = parse_bool(value).ok_or_else(|| bad("0 or 1"))?;
            }
            "cpu_intensive_thresh_us" => {
                let thresh = value.parse().map_err(|_| bad("microseconds, 0 for never"))?;
                self.cpu_intensive_thresh_us = Some(thresh);
            }
            "cpu_intensive_warning_thresh" => {
                self.cpu_intensive_warning_thresh = number("a number, 0 for never")?;
            }
            "unbound_cpus" => {
                let cpus: CpuSet = value.parse().map_err(|_| bad("a list of CPUs, as 0-3,8"))?;
                if cpus.is_empty() {
                    return Err(bad("at least one CPU"));
                }
                self.unbound_cpus = Some(cpus);
            }
            "debug_force_rr_cpu" => {
                self.debug_force_rr_cpu = parse_bool(value).ok_or_else(|| bad("0 or 1"))?;
            }
            "debug_pretend_cpus" => {
                let cpus = value.parse().ok().filter(|cpus| *cpus <= PRETENDED_MAX);
                let cpus = cpus.ok_or_else(|| bad("1 to 4096, or 0 for those that there are"))?;
                self.debug_pretend_cpus = (cpus != 0).then_some(cpus);
            }
            "idle_timeout" => {
                self.idle_timeout_ns =
                    parse_seconds(value).ok_or_else(|| bad("seconds from 0 to 1e9"))?;
            }
            "idle_ratio" => {
                let accepted = "a number from 1";
                let ratio = Some(number(accepted)?).filter(|ratio| *ratio != 0);
                self.idle_ratio = ratio.ok_or_else(|| bad(accepted))?.min(1 << 16);
            }
            "max_workers" => self.max_workers = number("a number, 0 for any")?,
            "stack_size" => {
                let kib: usize = value.parse().map_err(|_| bad("KiB"))?;
                if !(64..=1 << 20).contains(&kib) {
                    return Err(bad("64 to 1048576 KiB"));
                }
                self.stack_size = kib << 10;
            }
            "control" => {
                self.control = match value {
                    path if path.starts_with('/') => Some(path.to_owned()),
                    "" => None,
                    _ => parse_bool(value)
                        .ok_or_else(|| bad("0, 1 or an absolute path"))?
                        .then(String::new),
                };
            }
            "inspect" => self.inspect = parse_bool(value).ok_or_else(|| bad("0 or 1"))?,
            _ => return self.set_watchdog(name, value, bad),
        }
        Ok(())
    }

    fn set_scope(
        &mut self,
        name: &str,
        value: &str,
        bad: impl Fn(&str) -> String,
    ) -> Result<(), String> {
        match name {
            "default_affinity_scope" => {
                let scope = AffinityScope::parse_setting(value).ok().flatten();
                self.default_affinity_scope =
                    scope.ok_or_else(|| bad("cpu, smt, cache, cache_shard, numa or system"))?;
            }
            "managed_affinity_scope" => {
                let takes = |scope: &AffinityScope| {
                    QueueKind::Managed.takes_scope(scope.in_core(self.cache_shard_size))
                };
                let scope = AffinityScope::parse_setting(value).ok().flatten().filter(takes);
                self.managed_affinity_scope = scope.ok_or_else(|| bad("cpu or system"))?;
            }
            _ => {
                let size: u32 = value.parse().map_err(|_| bad("a number of cores"))?;
                self.cache_shard_size = size.max(1);
                if size == 0 {
                    return Err(format!("{name}=0: a shard has a core at least; 1 is taken"));
                }
            }
        }
        Ok(())
    }

    fn set_watchdog(
        &mut self,
        name: &str,
        value: &str,
        bad: impl Fn(&str) -> String,
    ) -> Result<(), String> {
        match name {
            "watchdog_thresh" => {
                self.watchdog_thresh_ns =
                    parse_seconds(value).ok_or_else(|| bad("seconds from 0, for never, to 1e9"))?;
            }
            "watchdog_signal" => {
                let signal = if value == "0" { Some(0) } else { signal::parse(value) };
                self.watchdog_signal = Some(signal.ok_or_else(|| bad("a signal, or 0 for none"))?);
            }
            "panic_on_stall" => {
                self.panic_on_stall = value.parse().map_err(|_| bad("a number, 0 for never"))?;
            }
            "panic_on_stall_time" => {
                self.panic_on_stall_time_ns =
                    parse_seconds(value).ok_or_else(|| bad("seconds from 0, for never, to 1e9"))?;
            }
            "dump_signal" => {
                let signal = signal::parse(value);
                self.dump_signal = Some(signal.ok_or_else(|| bad("a signal, as 10 or USR1"))?);
            }
            _ => return Err(format!("there is no parameter '{name}', but {NAMES}")),
        }
        Ok(())
    }
}

fn parse_seconds(value: &str) -> Option<u64> {
    let seconds: f64 = value.parse().ok()?;
    let is_sane = (0.0..=1e9).contains(&seconds);
    is_sane.then(|| std::time::Duration::from_secs_f64(seconds).as_nanos() as u64)
}

fn parse_bool(value: &str) -> Option<bool> {
    match value {
        "1" | "y" | "Y" | "on" | "true" => Some(true),
        "0" | "n" | "N" | "off" | "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_values_are_taken_and_bad_ones_named() {
        let (params, complaints) = Params::parse(
            Some(
                "default_affinity_scope=numa workqueue.idle_timeout=0.5 cache_shard_size=many \
                 nonsense=1",
            ),
            Some("tick"),
        );
        assert_eq!(params.default_affinity_scope, AffinityScope::Numa);
        assert_eq!(params.idle_timeout_ns, 500_000_000);
        assert_eq!(params.cache_shard_size, 8, "a bad value keeps the default");
        assert_eq!(params.detect, Some(Detect::Tick));
        assert_eq!(complaints.len(), 2);
        assert!(complaints[0].contains("takes a number of cores"), "{complaints:?}");
        assert!(complaints[1].contains("there is no parameter 'nonsense', but "), "{complaints:?}");
    }

    #[test]
    fn an_idle_worker_is_for_one_busy_worker_at_least() {
        let ratio = |text| {
            let (params, complaints) = Params::parse(Some(text), None);
            (params.idle_ratio, complaints)
        };
        assert_eq!(ratio("idle_ratio=1"), (1, vec![]));
        assert_eq!(ratio("idle_ratio=70000"), (1 << 16, vec![]));
        let (kept, complaints) = ratio("idle_ratio=0");
        assert_eq!((kept, complaints.len()), (4, 1), "{complaints:?}");
        assert!(complaints[0].contains("idle_ratio takes a number from 1"), "{complaints:?}");
    }

    #[test]
    fn hogs_have_a_threshold_of_ones_own_or_none() {
        let thresh = |text| {
            let (params, complaints) = Params::parse(Some(text), None);
            (params.cpu_intensive_thresh_us, params.cpu_intensive_warning_thresh, complaints.len())
        };
        assert_eq!(thresh(""), (None, 4, 0));
        assert_eq!(thresh("workqueue.cpu_intensive_thresh_us=0"), (Some(0), 4, 0));
        assert_eq!(
            thresh("cpu_intensive_thresh_us=30000 cpu_intensive_warning_thresh=1"),
            (Some(30_000), 1, 0)
        );
        assert_eq!(
            thresh("cpu_intensive_thresh_us=1ms cpu_intensive_warning_thresh=-1"),
            (None, 4, 2)
        );
    }

    #[test]
    fn the_watchdog_takes_seconds_and_signals() {
        let parse = |text| {
            let (params, complaints) = Params::parse(Some(text), None);
            let Params { watchdog_thresh_ns, watchdog_signal, dump_signal, .. } = params;
            (watchdog_thresh_ns, watchdog_signal, dump_signal, complaints.len())
        };
        assert_eq!(parse(""), (30_000_000_000, None, None, 0));
        assert_eq!(
            parse("workqueue.watchdog_thresh=0 watchdog_signal=0 dump_signal=SIGUSR2"),
            (0, Some(0), Some(libc::SIGUSR2), 0)
        );
        assert_eq!(
            parse("watchdog_thresh=0.25 watchdog_signal=40"),
            (250_000_000, Some(40), None, 0)
        );
        let bad = "watchdog_thresh=-1 watchdog_signal=x dump_signal=0 panic_on_stall=-1 \
                   panic_on_stall_time=ever";
        assert_eq!(parse(bad), (30_000_000_000, None, None, 5));
    }

    #[test]
    fn the_cpus_of_unbound_queues_are_a_list() {
        let (params, complaints) =
            Params::parse(Some("unbound_cpus=0-2,5 debug_force_rr_cpu=y cache_shard_size=0"), None);
        assert_eq!(params.unbound_cpus, Some([0, 1, 2, 5].into_iter().collect()));
        assert!(params.debug_force_rr_cpu);
        assert_eq!(params.cache_shard_size, 1);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        for bad in ["unbound_cpus=", "unbound_cpus=many", "debug_force_rr_cpu=2"] {
            let (params, complaints) = Params::parse(Some(bad), None);
            assert_eq!((params.unbound_cpus, complaints.len()), (None, 1), "{bad}");
            assert!(complaints[0].ends_with("; this is left out"), "{complaints:?}");
        }
    }

    #[test]
    fn managed_queues_have_a_pool_for_each_cpu_or_one() {
        let scope = |text: &str| {
            let (params, complaints) = Params::parse(Some(text), None);
            (params.managed_affinity_scope, complaints.len())
        };
        assert_eq!(scope(""), (AffinityScope::Cpu, 0));
        assert_eq!(scope("managed_affinity_scope=system"), (AffinityScope::System, 0));
        assert_eq!(scope("managed_affinity_scope=numa"), (AffinityScope::Cpu, 1));
    }

    #[test]
    fn control_is_asked_for_by_a_switch_or_a_path() {
        let control = |text: &str| {
            let (params, complaints) = Params::parse(Some(&format!("control={text}")), None);
            (params.control, complaints.len())
        };
        assert_eq!(Params::default().control, None);
        assert_eq!(control("1"), (Some(String::new()), 0));
        assert_eq!(control("/run/app.sock"), (Some("/run/app.sock".to_owned()), 0));
        assert_eq!(control("0"), (None, 0));
        assert_eq!(control("app.sock"), (None, 1));
    }

    #[test]
    fn default_is_refused_as_a_default() {
        let (_, complaints) = Params::parse(Some("default_affinity_scope=default"), None);
        assert_eq!(complaints.len(), 1);
    }
}
