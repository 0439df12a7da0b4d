//! `max_active` of an unbound queue is split over the nodes by the CPUs that are online, of those
//! that its attributes name, if they name some: on each node one limit, which all pods of the node
//! share, between `min_active` and `max_active`, and in proportion. That the limits are kept is
//! what `limit` watches.

use std::collections::HashMap;

use cmwq_core::consts::{WQ_DFL_ACTIVE, WQ_DFL_MIN_ACTIVE};

use super::{Checker, World};
use crate::event::{Event, GroupNo, What};
use crate::grown::grown;
use crate::machine::{Machine, WHOLE};
use crate::places::{Kind, kind_of};
use crate::plan::{Plan, QueueId};
use crate::topology::Scope;

#[derive(Debug)]
pub(super) struct Node {
    /// By queue.
    is_ordered: Vec<bool>,
    max_active: Vec<u32>,
    is_frozen: Vec<bool>,
    /// Goes down with `max_active`, and does not come back by itself.
    min_active: Vec<u32>,
    /// The CPUs that its attributes name.
    cpus: Vec<Option<(Scope, u32)>>,
    /// By group.
    limits: Vec<u32>,
    /// What shares the limit of a queue on a node. Never walked.
    groups: HashMap<(QueueId, Option<u32>), GroupNo>,
}

impl Node {
    pub(super) fn new(plan: &Plan) -> Self {
        let limit = |max_active| if max_active == 0 { WQ_DFL_ACTIVE } else { max_active };
        let is_ordered = |queue| kind_of(queue) == Kind::Ordered;
        let max_active: Vec<_> = plan.queues.iter().map(|queue| limit(queue.max_active)).collect();
        Self {
            is_ordered: plan.queues.iter().map(is_ordered).collect(),
            min_active: max_active.iter().map(|max| WQ_DFL_MIN_ACTIVE.min(*max)).collect(),
            cpus: vec![None; max_active.len()],
            is_frozen: vec![false; max_active.len()],
            max_active,
            limits: Vec::new(),
            groups: HashMap::new(),
        }
    }
}

/// What a node with `cpus` of `total` CPUs may run of `max`, and at least `min`, or 1.
fn part(max: u32, min: u32, cpus: u32, total: u32) -> u32 {
    let proportional = (u64::from(max) * u64::from(cpus)).div_ceil(u64::from(total.max(1)));
    proportional.clamp(min.max(1).into(), max.into()) as u32
}

/// Online CPUs of the node, and of all nodes, that a queue may use: `cpus` if one of them is
/// online, otherwise all.
fn node_cpus(cpus: Option<(Scope, u32)>, node: u32, machine: &Machine) -> (u32, u32) {
    let domains = machine.domains();
    let online = |domain| domains.cpus(domain).filter(|&cpu| machine.is_online(cpu));
    let asked = cpus.map(|(scope, cpu)| domains.pod(scope, cpu));
    let Some(asked) = asked.filter(|&asked| online(asked).next().is_some()) else {
        // Counts that are kept: this is asked for each item.
        let of_nodes = domains.nr_online_by_node(WHOLE);
        let here = of_nodes.filter(|(of, _)| *of == Some(node)).map(|(_, nr)| nr);
        return (here.sum(), domains.nr_online(WHOLE));
    };
    let is_here = |cpu: &u32| domains.node_of(domains.pod(Scope::Cpu, *cpu)) == Some(node);
    (online(asked).filter(is_here).count() as u32, online(asked).count() as u32)
}

impl Checker for Node {
    fn observe(&mut self, event: &Event, world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::MaxActiveSet(queue, max) => {
                self.max_active[queue] = max;
                self.min_active[queue] = self.min_active[queue].min(max);
            }
            What::MinActiveSet(queue, min) => {
                self.min_active[queue] = min.min(self.max_active[queue]);
            }
            What::QueueGone(gone) => {
                self.groups.retain(|(queue, _), _| *queue != gone);
                self.min_active[gone] = WQ_DFL_MIN_ACTIVE;
                self.cpus[gone] = None;
            }
            What::Frozen(queue, is_frozen) => self.is_frozen[queue] = is_frozen,
            What::AttrsSet(queue, attrs) => self.cpus[queue] = attrs.cpus,
            What::LimitSet(group, limit) => *grown(&mut self.limits, group) = limit,
            What::Queued(what, site) => {
                let kind = world.gauges[site.pool].kind;
                let Some(domain) = kind.domain() else { return Ok(()) };
                if self.is_ordered[what.queue] {
                    return Ok(());
                }
                let (queue, max) = (what.queue, self.max_active[what.queue]);
                let limit = self.limits[site.group];
                let node = world.machine.domains().node_of(domain);
                let group = *self.groups.entry((queue, node)).or_insert(site.group);
                if group != site.group {
                    return Err(format!("queue {queue} has two limits on node {node:?}"));
                }
                if self.is_frozen[queue] {
                    return match limit {
                        0 => Ok(()),
                        _ => Err(format!("queue {queue} is frozen, and may run {limit} items")),
                    };
                }
                let Some(node) = node else {
                    if limit == max {
                        return Ok(());
                    }
                    return Err(format!("queue {queue} may run {limit} of {max} items anywhere"));
                };
                let (cpus, total) = node_cpus(self.cpus[queue], node, world.machine);
                let expected = part(max, self.min_active[queue], cpus, total);
                if limit != expected {
                    return Err(format!(
                        "queue {queue} may run {limit} items on node {node}, which has {cpus} of \
                         {total} CPUs: of {max} that is {expected}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn a_part_is_in_proportion_but_never_below_the_minimum() {
        assert_eq!(part(100, 8, 1, 4), 25);
        assert_eq!(part(100, 8, 1, 3), 34, "rounded up");
        assert_eq!(part(20, 8, 1, 8), 8, "min_active");
        assert_eq!(part(20, 8, 0, 8), 8, "nobody there, but items may still come");
        assert_eq!(part(20, 3, 1, 8), 3, "it was lowered with the limit, once");
        assert_eq!(part(20, 0, 1, 8), 3);
        assert_eq!(part(20, 0, 0, 8), 1, "there is no minimum, but items may still come");
        assert_eq!(part(16, 8, 4, 4), 16);
    }
}
