use std::fs;

use cmwq::{AffinityScope, CpuSet, Detect};

use crate::doctor::confinement::container;
use crate::doctor::{ChosenBy, Confinement, diagnose};

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
