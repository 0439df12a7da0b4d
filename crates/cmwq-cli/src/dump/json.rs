//! The dump as one JSON document.

use cmwq::{AffinityScope, CpuSet};
use cmwq_observe::inspect::{Queue, Snapshot};
use serde::Serialize;
use serde_json::{Value, json};

use crate::look::limit::LeftOut;

use super::text::{allowed_cpus, pool_flags, pools_by_cpu, type_of};

/// A document, and a line's end.
pub(super) fn document(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value);
    // Numbers, texts and lists can always be written.
    text.unwrap_or_default() + "\n"
}

/// All sections. Sets of CPUs are lists as the kernel writes them (`0-3,8`); times are nanoseconds
/// of `CLOCK_MONOTONIC`.
pub(super) fn report(seen: &Snapshot, left_out: LeftOut) -> String {
    document(&json!({
        "pid": seen.pid,
        "taken_ns": seen.taken_ns,
        "born_ns": seen.born_ns,
        "detect": seen.detect.map(|detect| detect.name()),
        "possible": list(&seen.possible),
        "allowed": list(&seen.allowed),
        "unbound": list(&seen.unbound),
        "requested": seen.requested.as_ref().map(list),
        "isolated": list(&seen.isolated),
        "quota": seen.quota,
        "frozen": seen.is_frozen,
        "default_scope": seen.default_scope.map(AffinityScope::name),
        "scopes": scopes(seen),
        "pools": pools(seen),
        "workqueues": seen.queues.iter().map(|queue| workqueue(seen, queue)).collect::<Vec<_>>(),
        "not_shown": {
            "workqueues": seen.missing.queues,
            "pools": seen.missing.pools,
            "workers": seen.missing.workers,
            "links": seen.missing.links,
            "cpu_sets": seen.missing.masks,
            "torn": seen.torn,
        },
        "left_out": left_out,
    }))
}

fn list(cpus: &CpuSet) -> String {
    cpus.to_string()
}

fn scopes(seen: &Snapshot) -> Value {
    let of = |scope: AffinityScope| {
        let pods = seen.pods.iter().filter(|pod| pod.scope == scope);
        let pods: Vec<Value> =
            pods.map(|pod| json!({ "cpus": list(&pod.cpus), "node": pod.node })).collect();
        (scope.name().to_owned(), json!(pods))
    };
    Value::Object(AffinityScope::ALL.into_iter().map(of).collect())
}

fn pools(seen: &Snapshot) -> Vec<Value> {
    let one = |pool: &cmwq_observe::inspect::Pool| {
        let decisions = pool.decisions.iter().map(|decision| {
            json!({
                "reason": decision.reason.name(),
                "count": decision.count,
                "first_ns": decision.first_ns,
                "last_ns": decision.last_ns,
            })
        });
        json!({
            "id": pool.id,
            "kind": pool.kind.name(),
            "flags": pool_flags(pool),
            "ref": pool.refs,
            "nice": pool.nice,
            "idle": pool.nr_idle,
            "workers": pool.nr_workers,
            "running": pool.nr_running,
            "concurrency": pool.concurrency,
            "work_waits": pool.work_waits,
            "cpu": pool.cpu,
            "cpus": list(&pool.cpus),
            "pod_cpus": list(&pool.pod),
            "strict": pool.is_strict,
            "created": pool.created,
            "culled": pool.culled,
            "creations_failed": pool.failed,
            "progress_ns": pool.progress_ns,
            "decisions": decisions.collect::<Vec<_>>(),
        })
    };
    seen.pools.iter().map(one).collect()
}

fn workqueue(seen: &Snapshot, queue: &Queue) -> Value {
    let pools: Vec<Value> =
        pools_by_cpu(seen, queue).map(|(cpu, pool)| json!({ "cpu": cpu, "pool": pool })).collect();
    let rescuer = seen.rescuer_of(queue).filter(|rescuer| rescuer.tid != 0);
    let rescuer = rescuer.map(|rescuer| {
        let bound = allowed_cpus(seen.pid, rescuer.tid);
        json!({ "tid": rescuer.tid, "bound_cpus": bound.as_ref().map(list) })
    });
    let nodes = seen.nodes.iter().filter(|node| node.queue == queue.key);
    let nodes: Vec<Value> =
        nodes.map(|node| json!({ "node": node.node, "nr": node.nr, "max": node.max })).collect();
    json!({
        "name": queue.name,
        "type": type_of(seen, queue),
        "flags": queue.flags,
        "max_active": queue.max_active,
        "min_active": queue.min_active,
        "max_active_total": queue.max_active_total,
        "nice": queue.nice,
        "cpumask": queue.cpumask.as_ref().map(list),
        "affinity_scope": queue.affinity_scope.map(AffinityScope::name),
        "affinity_strict": queue.affinity_strict,
        "outside": queue.outside,
        "pools": pools,
        "rescuer": rescuer,
        "nodes": nodes,
    })
}
