//! The sections about CPUs and pods.

use cmwq::CpuSet;
use cmwq_observe::doctor::{Confinement, Machine};

use super::{Report, counted};

/// Pods that are listed by their CPUs; more of them are only counted.
const LISTED_PODS: usize = 12;

pub(super) fn write(report: &mut Report, machine: &Machine, confinement: &Confinement) {
    report.section("Machine");
    report.row("kernel", &machine.kernel);
    report.row("CPUs allowed", cpus(&machine.allowed));
    let known = |set: &Option<CpuSet>| set.as_ref().map_or("unknown".to_owned(), cpus);
    report.row("CPUs online", known(&machine.online));
    report.row("CPUs possible", known(&machine.possible));
    report.row("CPUs isolated", cpus(&machine.isolated));
    let quota = machine.quota.as_ref().map_or("none".to_owned(), |quota| {
        format!("{} CPUs ({})", quota.cpus, quota.file.display())
    });
    report.row("CPU quota", quota);
    report.row("CPUs granted", format_args!("{}: so many items compute at once", machine.granted));
    let smt = if machine.has_smt { " with SMT" } else { "" };
    let hybrid = if machine.is_hybrid { " of different speed" } else { "" };
    let cores = counted(machine.nr_cores, "core");
    let caches = counted(machine.nr_caches, "last-level cache");
    let nodes = counted(machine.nr_nodes, "NUMA node");
    report.row("shape", format_args!("{cores}{smt}{hybrid}, {caches}, {nodes}"));
    report.row("enclosed by", enclosure(confinement));
    report.row("user", privileges(confinement));
}

pub(super) fn write_pods(report: &mut Report, machine: &Machine) {
    report.section("Pods by affinity scope");
    for pods in &machine.pods {
        let mark = if pods.scope == machine.default_scope { "  (default)" } else { "" };
        let list = listed(&pods.pods);
        report.row(pods.scope.name(), format_args!("{}: {list}{mark}", pods.pods.len()));
    }
    let default = machine.pods.iter().find(|pods| pods.scope == machine.default_scope);
    if default.is_none_or(|pods| pods.pods != machine.pods_in_use) {
        let (count, list) = (machine.pods_in_use.len(), listed(&machine.pods_in_use));
        report.row("in use", format_args!("{count}: {list}  (a quota is for all CPUs together)"));
    }
}

fn cpus(cpus: &CpuSet) -> String {
    if cpus.is_empty() { "none".to_owned() } else { format!("{} ({cpus})", cpus.count()) }
}

fn listed(pods: &[CpuSet]) -> String {
    let listed: Vec<String> = pods.iter().take(LISTED_PODS).map(CpuSet::to_string).collect();
    let more = if pods.len() > LISTED_PODS { " | ..." } else { "" };
    listed.join(" | ") + more
}

fn enclosure(confinement: &Confinement) -> String {
    let container = match &confinement.container {
        Some(name) => format!("a container ({name})"),
        None => "no container that shows".to_owned(),
    };
    let filter = match confinement.is_filtered {
        Some(true) => "a system call filter (seccomp)",
        Some(false) => "no system call filter",
        None => "perhaps a system call filter",
    };
    format!("{container}, {filter}")
}

fn privileges(confinement: &Confinement) -> String {
    let capabilities = match &confinement.capabilities {
        None => "unknown capabilities".to_owned(),
        Some(none) if none.is_empty() => "none of the capabilities that would help".to_owned(),
        Some(some) => some.join(" "),
    };
    format!("{} with {capabilities}", confinement.user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pods_are_cut_short() {
        let pods: Vec<CpuSet> = (0..13).map(CpuSet::single).collect();
        assert_eq!(listed(&pods[..2]), "0 | 1");
        assert_eq!(listed(&pods[..12]), "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11");
        assert!(listed(&pods).ends_with(" | 11 | ..."));
    }
}
