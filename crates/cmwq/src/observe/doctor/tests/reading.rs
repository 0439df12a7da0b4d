use std::fs;

use crate::detect::method::Detect;
use crate::engine::params::Params;
use crate::observe::doctor::confinement::container;
use crate::observe::doctor::{ChosenBy, Confinement, diagnose, settings};
use crate::os::topo::{AffinityScope, CpuSet};

#[test]
fn privileges_and_filters() {
    let found = Confinement::of_status(
        "Name:\tx\nCapPrm:\tffffffffffffffff\nCapEff:\t0000004001004000\n\
         Seccomp:\t2\nSeccomp_filters:\t0\n",
    );
    assert_eq!(found.is_filtered, Some(true));
    // Bits 14, 24 and 38.
    let expected = vec!["CAP_IPC_LOCK", "CAP_SYS_RESOURCE", "CAP_PERFMON"];
    assert_eq!(found.capabilities, Some(expected));
    assert_eq!(Confinement::of_status("Seccomp:\t0").is_filtered, Some(false));
    assert_eq!(Confinement::of_status(""), Confinement::default(), "nothing can be told");
}

#[test]
fn containers_by_their_traces() {
    let root = std::env::temp_dir().join(format!("cmwq-doctor-{}", std::process::id()));
    fs::create_dir_all(root.join("run/systemd")).unwrap();
    let nothing_set = |_: &str| None;
    assert_eq!(container(&root, nothing_set), None);
    let nspawn = |name: &str| (name == "container").then(|| "systemd-nspawn".to_owned());
    assert_eq!(container(&root, nspawn).as_deref(), Some("systemd-nspawn"));
    fs::write(root.join("run/systemd/container"), "lxc\n").unwrap();
    assert_eq!(container(&root, nothing_set).as_deref(), Some("lxc"));
    fs::write(root.join(".dockerenv"), "").unwrap();
    assert_eq!(container(&root, nothing_set).as_deref(), Some("docker"));
    fs::write(root.join("run/.containerenv"), "engine=\"podman\"\n").unwrap();
    assert_eq!(container(&root, nothing_set).as_deref(), Some("podman"));
    let pod = |name: &str| (name == "KUBERNETES_SERVICE_HOST").then(|| "10.0.0.1".to_owned());
    assert_eq!(container(&root, pod).as_deref(), Some("kubernetes"));
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn settings_tell_what_was_set() {
    let (params, complaints) = Params::parse(
        Some("default_affinity_scope=numa idle_timeout=0.5 stack_size=128 cache_shard_size=8"),
        Some("tick"),
    );
    assert_eq!(complaints, Vec::<String>::new());
    let settings = settings::list(&params);
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
             idle_timeout=7.25 idle_ratio=9 max_workers=7 stack_size=64 inspect=0 control=/run/s",
        ),
        Some("inline"),
    );
    let listed = settings::list(&odd);
    assert!(listed.iter().all(|setting| !setting.is_default), "{listed:?}");
    let (last, params) = listed.split_last().unwrap();
    let text: Vec<_> = params.iter().map(|it| format!("{}={}", it.name, it.value)).collect();
    let (back, complaints) = Params::parse(Some(&text.join(" ")), Some(&last.value));
    assert_eq!(complaints, Vec::<String>::new());
    assert_eq!(settings::list(&back), listed);
}

#[test]
fn this_machine() {
    let diagnosis = diagnose().unwrap();
    let machine = &diagnosis.machine;
    assert!(!machine.allowed.is_empty());
    assert!(machine.kernel.starts_with(|first: char| first.is_ascii_digit()), "{machine:?}");
    if let Some(online) = &machine.online {
        assert!(machine.allowed.is_subset(online), "{machine:?}");
        assert!(machine.possible.as_ref().is_none_or(|it| online.is_subset(it)), "{machine:?}");
    }
    assert!((1..=machine.allowed.count()).contains(&(machine.granted as usize)));
    assert!((1..=machine.allowed.count()).contains(&machine.nr_cores));
    assert!((1..=machine.nr_cores).contains(&machine.nr_caches));
    assert_eq!(machine.has_smt, machine.nr_cores < machine.allowed.count());

    let scopes: Vec<_> = machine.pods.iter().map(|pods| pods.scope).collect();
    assert_eq!(scopes, AffinityScope::ALL);
    for pods in machine.pods.iter().map(|pods| &pods.pods).chain([&machine.pods_in_use]) {
        let all = pods.iter().fold(CpuSet::new(), |all, pod| all.or(pod));
        assert_eq!(all, machine.allowed, "pods leave no CPU out: {pods:?}");
        let counts: usize = pods.iter().map(CpuSet::count).sum();
        assert_eq!(counts, machine.allowed.count(), "pods do not overlap: {pods:?}");
    }

    let inline = diagnosis.sources.iter().find(|source| source.detect == Detect::Inline).unwrap();
    assert!(inline.availability.is_usable());
    if diagnosis.chosen_by == ChosenBy::Trying {
        let perf = diagnosis.sources.iter().find(|it| it.detect == Detect::Perf).unwrap();
        assert_eq!(diagnosis.detect == Detect::Perf, perf.availability.is_usable());
    }
    let limits = &diagnosis.limits;
    for limit in [limits.nproc, limits.nofile, limits.memlock, limits.nice, limits.rtprio] {
        assert!(limit.soft.unwrap_or(u64::MAX) <= limit.hard.unwrap_or(u64::MAX), "{limits:?}");
    }
    assert!(limits.open_files.is_none_or(|open| open > 0));
}
