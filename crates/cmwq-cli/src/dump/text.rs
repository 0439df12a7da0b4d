//! The dump as text, in the kernel tool's shape.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use cmwq::foreign::harmless;
use cmwq::{AffinityScope, CpuSet};
use cmwq_observe::inspect::{Pool, PoolKind, Queue, QueueKind, Snapshot};

use crate::stat;

/// Width of a queue's name, as the kernel's tool has it.
const NAME_WIDTH: usize = 24;

/// All sections.
pub(crate) fn report(seen: &Snapshot) -> String {
    let mut out = String::new();
    scopes(&mut out, seen);
    pools(&mut out, seen);
    ways(&mut out, seen);
    rescuers(&mut out, seen);
    nodes(&mut out, seen);
    remarks(&mut out, seen);
    out
}

fn title(out: &mut String, text: &str) {
    let gap = if out.is_empty() { "" } else { "\n" };
    let _ = writeln!(out, "{gap}{text}\n{}", "=".repeat(text.len()));
}

/// The last characters of a name, since the first are often the same. KERNEL: as the tool's.
pub(crate) fn short_name(name: &str) -> String {
    let skip = name.chars().count().saturating_sub(NAME_WIDTH);
    harmless(name).chars().skip(skip).collect()
}

/// As the kernel prints it: groups of 32 bits in hexadecimal, the highest first.
pub(crate) fn mask(cpus: &CpuSet, possible: &CpuSet) -> String {
    let last = cpus.last().max(possible.last()).unwrap_or(0);
    let groups = (0..=last / 32).rev().map(|group| {
        let bits = (0..32).filter(|bit| cpus.contains(group * 32 + bit));
        format!("{:08x}", bits.fold(0_u32, |word, bit| word | 1 << bit))
    });
    groups.collect::<Vec<_>>().join(",")
}

fn scopes(out: &mut String, seen: &Snapshot) {
    title(out, "Affinity Scopes");
    let _ = writeln!(out, "wq_unbound_cpumask={}", mask(&seen.unbound, &seen.possible));
    for scope in AffinityScope::ALL {
        let mut pods: Vec<_> = seen.pods.iter().filter(|pod| pod.scope == scope).collect();
        pods.sort_by_key(|pod| pod.index);
        let default = if seen.default_scope == Some(scope) { " (default)" } else { "" };
        let _ = writeln!(out, "\n{}{default}", scope.name().to_uppercase());
        let _ = writeln!(out, "  nr_pods  {}", pods.len());
        let list = |out: &mut String, what: &str, entries: Vec<String>| {
            let _ = writeln!(out, "  {what} {}", entries.join(" "));
        };
        let cpus =
            pods.iter().map(|pod| format!("[{}]={}", pod.index, mask(&pod.cpus, &seen.possible)));
        list(out, "pod_cpus", cpus.collect());
        let node = |node: Option<u32>| node.map_or("-1".to_owned(), |node| node.to_string());
        list(
            out,
            "pod_node",
            pods.iter().map(|pod| format!("[{}]={}", pod.index, node(pod.node))).collect(),
        );
        let pod_of = |cpu: u32| pods.iter().find(|pod| pod.cpus.contains(cpu));
        let of_cpus = seen
            .possible
            .iter()
            .filter_map(|cpu| pod_of(cpu).map(|pod| format!("[{cpu}]={}", pod.index)));
        list(out, "cpu_pod ", of_cpus.collect());
    }
}

/// Flags of a pool, by their bits.
pub(crate) fn pool_flags(pool: &Pool) -> u32 {
    u32::from(pool.is_away) | u32::from(pool.may_stray) << 1 | u32::from(pool.is_unused) << 2
}

fn pools(out: &mut String, seen: &Snapshot) {
    title(out, "Worker Pools");
    let width = |number: Option<u64>| number.map_or(1, |number| number.to_string().len());
    let id_width = width(seen.pools.iter().map(|pool| u64::from(pool.id)).max()).max(2);
    let ref_width = width(seen.pools.iter().map(|pool| pool.refs).max()).max(2);
    for pool in &seen.pools {
        let _ = write!(
            out,
            "pool[{:0id_width$}] flags=0x{:02x} ref={:ref_width$} nice={:3} \
             idle/workers={:3}/{:3} ",
            pool.id,
            pool_flags(pool),
            pool.refs,
            pool.nice,
            pool.nr_idle,
            pool.nr_workers
        );
        let _ = match (pool.kind, pool.cpu) {
            (PoolKind::Bh, Some(cpu)) => writeln!(out, "cpu={cpu:3} bh"),
            (_, Some(cpu)) => writeln!(out, "cpu={cpu:3}"),
            _ => {
                let strict = if pool.is_strict { " strict" } else { "" };
                let managed = if pool.kind == PoolKind::Managed { " managed" } else { "" };
                let (cpus, pod) =
                    (mask(&pool.cpus, &seen.possible), mask(&pool.pod, &seen.possible));
                writeln!(out, "cpus={cpus} pod_cpus={pod}{strict}{managed}")
            }
        };
    }
}

/// The kernel's names of types, and `managed`.
pub(crate) fn type_of(seen: &Snapshot, queue: &Queue) -> &'static str {
    match queue.kind {
        QueueKind::Ordered => "ordered",
        QueueKind::Unbound => {
            let mut links = seen.links_of(queue).iter().filter(|link| !link.is_retired);
            let is_strict =
                links.any(|link| seen.pool(link.pool).is_some_and(|pool| pool.is_strict));
            if is_strict || queue.affinity_strict { "unbound,S" } else { "unbound" }
        }
        kind => kind.name(),
    }
}

/// Each possible CPU, and the pool to which its items go, if any ever did.
pub(crate) fn pools_by_cpu(
    seen: &Snapshot,
    queue: &Queue,
) -> impl Iterator<Item = (u32, Option<u32>)> {
    let links = || seen.links_of(queue).iter().filter(|link| !link.is_retired);
    // The first one counts, and ways for all CPUs come first.
    let of_all = links().find(|link| link.cpu.is_none()).map(|link| link.pool);
    let of_cpus: HashMap<u32, u32> =
        links().rev().filter_map(|link| Some((link.cpu?, link.pool))).collect();
    seen.possible.iter().map(move |cpu| (cpu, of_all.or_else(|| of_cpus.get(&cpu).copied())))
}

fn ways(out: &mut String, seen: &Snapshot) {
    title(out, "Workqueue CPU -> pool");
    let cpus: Vec<u32> = seen.possible.iter().collect();
    let widest = seen.pools.last().map_or(1, |pool| pool.id.to_string().len());
    let width = widest.max(cpus.last().map_or(1, |cpu| cpu.to_string().len())).max(2);
    let _ = write!(out, "[{:^NAME_WIDTH$} {:>9} CPU", "workqueue \\", "type");
    for cpu in &cpus {
        let _ = write!(out, " {cpu:width$}");
    }
    let _ = writeln!(out, "]");
    for queue in &seen.queues {
        let _ =
            write!(out, " {:NAME_WIDTH$} {:>9}    ", short_name(&queue.name), type_of(seen, queue));
        for (_, pool) in pools_by_cpu(seen, queue) {
            let pool = pool.map_or("-".to_owned(), |pool| pool.to_string());
            let _ = write!(out, " {pool:>width$}");
        }
        let _ = writeln!(out);
    }
}

/// The CPUs that a thread may run on, as `/proc` says.
pub(crate) fn allowed_cpus(pid: u32, tid: u32) -> Option<CpuSet> {
    let status = stat::read(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().parse().ok()
}

fn rescuers(out: &mut String, seen: &Snapshot) {
    title(out, "Workqueue -> rescuer");
    let wide = mask(&seen.possible, &seen.possible).len().max(12);
    let _ = writeln!(
        out,
        "[{:^NAME_WIDTH$} {:>wide$} {:>8} {:>wide$}]",
        "workqueue \\", "unbound_cpus", "pid", "bound_cpus"
    );
    for queue in seen.queues.iter().filter(|queue| queue.is_mem_reclaim()) {
        let rescuer = seen.rescuer_of(queue).filter(|rescuer| rescuer.tid != 0);
        let tid = rescuer.map_or("-".to_owned(), |rescuer| rescuer.tid.to_string());
        let bound = rescuer.and_then(|rescuer| allowed_cpus(seen.pid, rescuer.tid));
        let bound = bound.map_or("-".to_owned(), |cpus| mask(&cpus, &seen.possible));
        let unbound = mask(&seen.unbound, &seen.possible);
        let _ = writeln!(
            out,
            " {:NAME_WIDTH$} {unbound:>wide$} {tid:>8} {bound:>wide$}",
            short_name(&queue.name)
        );
    }
}

/// The nodes of the machine and their CPUs; `None`: of pods that none holds.
pub(crate) fn node_cpus(seen: &Snapshot) -> BTreeMap<u32, CpuSet> {
    let mut nodes: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for pod in seen.pods.iter().filter(|pod| pod.scope == AffinityScope::Cpu) {
        if let Some(node) = pod.node {
            let cpus = nodes.entry(node).or_default();
            *cpus = cpus.or(&pod.cpus);
        }
    }
    nodes
}

fn nodes(out: &mut String, seen: &Snapshot) {
    title(out, "Unbound workqueue -> node_nr/max_active");
    let cpus = node_cpus(seen);
    let _ = writeln!(out, "online_cpus={}", mask(&seen.allowed, &seen.possible));
    for (node, cpus) in &cpus {
        let _ = writeln!(out, "NODE {node}={}", mask(cpus, &seen.possible));
    }
    let named: BTreeSet<u32> =
        cpus.keys().copied().chain(seen.nodes.iter().filter_map(|node| node.node)).collect();
    let shares: HashMap<_, _> =
        seen.nodes.iter().rev().map(|node| ((node.queue, node.node), node)).collect();
    let _ = write!(out, "[{:^NAME_WIDTH$} {:>4} {:>4}", "workqueue \\", "min", "max");
    for node in &named {
        let _ = write!(out, " {:>11}", format!("NODE {node}"));
    }
    let _ = writeln!(out, " {:>11}]", "dfl");
    for queue in seen.queues.iter().filter(|queue| !queue.is_percpu()) {
        let _ = write!(
            out,
            " {:NAME_WIDTH$} {:4} {:4}",
            short_name(&queue.name),
            queue.min_active,
            queue.max_active
        );
        for node in named.iter().copied().map(Some).chain([None]) {
            let found = shares.get(&(queue.key, node));
            let text = found.map_or("-".to_owned(), |node| format!("{}/{}", node.nr, node.max));
            let _ = write!(out, " {text:>11}");
        }
        let _ = writeln!(out);
    }
}

/// What is not shown, and why.
fn remarks(out: &mut String, seen: &Snapshot) {
    let missing = seen.missing;
    let counts = [
        (missing.queues, "workqueues"),
        (missing.pools, "pools"),
        (missing.workers, "workers"),
        (missing.links, "pwqs"),
        (missing.masks, "sets of CPUs"),
        (u64::from(seen.torn), "records that were being changed"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !counts.is_empty() {
        let _ = writeln!(out, "\nNot shown, for want of room: {}.", counts.join(", "));
    }
}
