//! Sets of CPUs on which threads may run: the pods of all affinity scopes, as they are while all
//! CPUs are online, and those that unbound queues have meanwhile (see [`Domains::cut`]).
//!
//! A machine of 4,096 CPUs has thousands of them, of which a run uses a few. Only those are kept
//! account of: see [`Domains::track`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use cmwq_core::place::Pods;

use super::WHOLE;
use super::by_load::ByLoad;
use crate::bitset::BitSet;
use crate::topology::{Scope, Shape};

/// The account of a domain's online CPUs.
#[derive(Debug)]
struct Account {
    nr_idle: u32,
    by_load: ByLoad,
    /// By CPU, counted from the domain's first one: threads of this domain that wait there.
    nr_waiting: Vec<u32>,
    /// The CPUs where that is not 0.
    with_waiting: BitSet,
}

#[derive(Debug)]
struct Domain {
    cpus: Range<u32>,
    /// The node that has all of its CPUs.
    node: Option<u32>,
    nr_online: u32,
    account: Option<Account>,
}

/// By CPU, its pod, as a domain. `None`: it has none.
pub(crate) type Cut = Arc<[Option<u32>]>;

/// See the module header.
#[derive(Debug)]
pub(crate) struct Domains {
    shape: Shape,
    /// First those that are there from the start.
    list: Vec<Domain>,
    nr_first: u32,
    /// By their first CPU, and the one behind their last.
    known: HashMap<(u32, u32), u32>,
    /// The pods of a scope, of the online CPUs of a domain, since a CPU left or came.
    cuts: HashMap<(Scope, u32), Cut>,
    /// By scope and CPU.
    pods: [Vec<u32>; Scope::ALL.len()],
    /// By node, its domain.
    nodes: Vec<u32>,
    /// The CPUs that are not isolated.
    managed: u32,
    /// By CPU, the domains that are kept account of, narrow ones first.
    of_cpu: Vec<Vec<u32>>,
}

impl Domains {
    /// Domain 0 is the whole machine; then come the caches, then what other scopes add, and at last
    /// what is left if so many of the first CPUs are isolated.
    pub(super) fn new(shape: Shape, isolated: u32) -> Self {
        let cpus = shape.cpus();
        let nodes = shape.pods(Scope::Numa);
        let mut new = Self {
            shape,
            list: Vec::new(),
            nr_first: 0,
            known: HashMap::new(),
            cuts: HashMap::new(),
            pods: Default::default(),
            nodes: Vec::new(),
            managed: WHOLE,
            of_cpu: vec![Vec::new(); cpus as usize],
        };
        let add = |new: &mut Self, cpus: Range<u32>| {
            let node = nodes.iter().position(|node| within(&cpus, node));
            new.add(cpus.clone(), node.map(|node| node as u32), cpus.end - cpus.start)
        };
        add(&mut new, 0..cpus);
        let others = Scope::ALL.into_iter().map(|(scope, _)| scope);
        for scope in std::iter::once(Scope::Cache).chain(others.filter(|s| *s != Scope::Cache)) {
            let pods = shape.pods(scope);
            for pod in pods {
                let known = new.known.get(&(pod.start, pod.end)).copied();
                let domain = known.unwrap_or_else(|| add(&mut new, pod.clone()));
                new.pods[scope as usize].extend(pod.map(|_| domain));
            }
        }
        let rest = (if isolated.saturating_add(2) > cpus { 0 } else { isolated }, cpus);
        let known = new.known.get(&rest).copied();
        new.managed = known.unwrap_or_else(|| add(&mut new, rest.0..rest.1));
        new.nodes = nodes.iter().map(|node| new.pod(Scope::Numa, node.start)).collect();
        new.nr_first = new.list.len() as u32;
        new
    }

    fn add(&mut self, cpus: Range<u32>, node: Option<u32>, nr_online: u32) -> u32 {
        let domain = self.list.len() as u32;
        self.known.insert((cpus.start, cpus.end), domain);
        self.list.push(Domain { cpus, node, nr_online, account: None });
        domain
    }

    /// The pods of a queue that may use the online CPUs of `usable`.
    pub(super) fn cut(
        &mut self,
        scope: Scope,
        usable: u32,
        is_online: impl Fn(u32) -> bool,
    ) -> Cut {
        if let Some(cut) = self.cuts.get(&(scope, usable)) {
            return Arc::clone(cut);
        }
        let here = self.shape.all_cpus().filter(|cpu| is_online(cpu.id));
        let pods = Pods::of(scope.in_core(), here, |cpu| self.has(usable, cpu));
        let cpus = 0..self.shape.cpus();
        let mut by_first = HashMap::new();
        let of = |cpu| {
            let pod = pods.pod(cpu)?;
            Some(*by_first.entry(pod[0]).or_insert_with(|| self.of_online(scope, usable, pod)))
        };
        let cut: Cut = cpus.map(of).collect();
        self.cuts.insert((scope, usable), Arc::clone(&cut));
        cut
    }

    /// The domain whose online CPUs are these, of those in `usable`: all of these, the pod that
    /// they are in while all CPUs are online, their node, or another one. So a pod of which a CPU
    /// has left, and which is cut as before, is still the same domain. What lies in a node by the
    /// CPUs that are left is none that lies in more: its items share the node's limit.
    fn of_online(&mut self, scope: Scope, usable: u32, cpus: &[u32]) -> u32 {
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        let home = self.pod(Scope::Numa, first);
        let node = self.node_of(home).filter(|_| self.has(home, last));
        let are_these = |&domain: &u32| {
            let has_both = self.has(domain, first) && self.has(domain, last);
            let lies_there = self.node_of(domain) == node;
            has_both && lies_there && self.nr_online(domain) as usize == cpus.len()
        };
        let usual = |scope| self.common(self.pod(scope, first), usable);
        let known = [Some(usable), usual(scope), usual(Scope::Numa)];
        let known = known.into_iter().flatten().find(are_these);
        if let Some(known) = known.or_else(|| self.known.get(&(first, last + 1)).copied()) {
            return known;
        }
        self.add(first..last + 1, node, cpus.len() as u32)
    }

    /// The CPUs that managed queues use unasked. One of them is always online.
    pub(crate) const fn managed(&self) -> u32 {
        self.managed
    }

    /// The online CPUs of a domain that managed queues use unasked.
    pub(crate) fn nr_managed(&self, domain: u32) -> u32 {
        if self.managed == WHOLE || within(&self.cpus(domain), &self.cpus(self.managed)) {
            return self.nr_online(domain);
        }
        let (cpus, managed) = (self.cpus(domain), self.cpus(self.managed));
        let both = cpus.start.max(managed.start)..cpus.end;
        both.map(|cpu| self.nr_online(self.pod(Scope::Cpu, cpu))).sum()
    }

    fn domain(&self, domain: u32) -> &Domain {
        &self.list[domain as usize]
    }

    /// How many there are from the start. Managed pods are among these.
    pub(crate) const fn len(&self) -> u32 {
        self.nr_first
    }

    /// The pod of `cpu` while all CPUs are online, as a domain.
    pub(crate) fn pod(&self, scope: Scope, cpu: u32) -> u32 {
        self.pods[scope as usize][cpu as usize]
    }

    /// The CPUs that both have, if there are any. Of two pods of a machine all of whose CPUs are
    /// online the one is part of the other, or they have none in common.
    pub(crate) fn common(&self, one: u32, other: u32) -> Option<u32> {
        let (mine, others) = (self.cpus(one), self.cpus(other));
        if within(&mine, &others) {
            return Some(one);
        }
        within(&others, &mine).then_some(other)
    }

    pub(crate) fn cpus(&self, domain: u32) -> Range<u32> {
        self.domain(domain).cpus.clone()
    }

    pub(crate) fn has(&self, domain: u32, cpu: u32) -> bool {
        self.domain(domain).cpus.contains(&cpu)
    }

    pub(crate) fn nr_online(&self, domain: u32) -> u32 {
        self.domain(domain).nr_online
    }

    /// The node that has all CPUs of the domain; `None` also for the whole machine.
    pub(crate) fn node_of(&self, domain: u32) -> Option<u32> {
        self.domain(domain).node
    }

    /// How many CPUs of a domain are online, by node.
    pub(crate) fn nr_online_by_node(
        &self,
        domain: u32,
    ) -> impl Iterator<Item = (Option<u32>, u32)> + '_ {
        let nr_online =
            move |of: u32| self.common(of, domain).map_or(0, |cpus| self.nr_online(cpus));
        let nodes = self.nodes.iter().enumerate();
        nodes.map(move |(node, &cpus)| (Some(node as u32), nr_online(cpus)))
    }

    pub(crate) const fn nr_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The domains of `cpu` that are kept account of, narrow ones first.
    pub(crate) fn of(&self, cpu: u32) -> &[u32] {
        &self.of_cpu[cpu as usize]
    }

    // ---- accounts

    /// Keeps account of the domain from now on. `load`: of a CPU, if it is online.
    pub(super) fn track(&mut self, domain: u32, load: impl Fn(u32) -> Option<u32>) {
        let entry = &mut self.list[domain as usize];
        if entry.account.is_some() {
            return;
        }
        let cpus = entry.cpus.clone();
        let nr_cpus = cpus.len();
        let mut account = Account {
            nr_idle: 0,
            by_load: ByLoad::new(nr_cpus),
            nr_waiting: vec![0; nr_cpus],
            with_waiting: BitSet::default(),
        };
        for cpu in cpus.clone() {
            if let Some(load) = load(cpu) {
                account.nr_idle += u32::from(load == 0);
                account.by_load.set(load, cpu - cpus.start, true);
            }
        }
        entry.account = Some(account);
        let width = |domain: &u32| (self.list[*domain as usize].cpus.len(), *domain == WHOLE);
        for cpu in cpus {
            let of_cpu = &mut self.of_cpu[cpu as usize];
            let at = of_cpu.partition_point(|other| width(other) < width(&domain));
            of_cpu.insert(at, domain);
        }
    }

    pub(super) fn nr_idle(&self, domain: u32, is_idle: impl Fn(u32) -> bool) -> u32 {
        let domain = self.domain(domain);
        let count = || domain.cpus.clone().filter(|&cpu| is_idle(cpu)).count() as u32;
        domain.account.as_ref().map_or_else(count, |account| account.nr_idle)
    }

    /// A thread of the domain begins to wait on `cpu`, or ends.
    pub(super) fn count_waiting(&mut self, domain: u32, cpu: u32, change: i32) {
        let domain = &mut self.list[domain as usize];
        let Some(account) = &mut domain.account else { return };
        let at = (cpu - domain.cpus.start) as usize;
        let count = &mut account.nr_waiting[at];
        *count = count.wrapping_add_signed(change);
        account.with_waiting.set(at, *count > 0);
    }

    /// The first CPU behind `cpu`, round the domain, on which a thread of the domain waits.
    pub(super) fn next_waiting(&self, domain: u32, cpu: u32) -> Option<u32> {
        let domain = self.domain(domain);
        let waiting = &domain.account.as_ref()?.with_waiting;
        let at = (cpu - domain.cpus.start) as usize;
        waiting.other_after(at, at).map(|at| domain.cpus.start + at as u32)
    }

    /// An idle CPU of the domain, if a thread of it waits on `cpu`.
    pub(super) fn idle_for(&self, domain: u32, cpu: u32) -> Option<u32> {
        let domain = self.domain(domain);
        let account = domain.account.as_ref()?;
        if account.nr_idle == 0 || account.nr_waiting[(cpu - domain.cpus.start) as usize] == 0 {
            return None;
        }
        account.by_load.least().map(|idle| domain.cpus.start + idle)
    }

    pub(super) fn least_loaded(&self, domain: u32) -> u32 {
        let domain = self.domain(domain);
        let least = domain.account.as_ref().and_then(|account| account.by_load.least());
        domain.cpus.start + least.unwrap_or(0)
    }

    pub(super) fn load_changed(&mut self, cpu: u32, before: u32, after: u32) {
        for &domain in &self.of_cpu[cpu as usize] {
            let domain = &mut self.list[domain as usize];
            let Some(account) = &mut domain.account else { continue };
            account.nr_idle += u32::from(after == 0);
            account.nr_idle -= u32::from(before == 0);
            account.by_load.set(before, cpu - domain.cpus.start, false);
            account.by_load.set(after, cpu - domain.cpus.start, true);
        }
    }

    /// The CPU, which has so many threads, comes or goes.
    pub(super) fn set_online(&mut self, cpu: u32, load: u32, is_online: bool) {
        let mut mine: Vec<_> = self.pods.iter().map(|pods| pods[cpu as usize]).collect();
        mine.push(WHOLE);
        let cut = self.nr_first..self.list.len() as u32;
        mine.extend(cut.chain([self.managed]).filter(|&domain| self.has(domain, cpu)));
        mine.sort_unstable();
        mine.dedup();
        self.cuts.clear();
        for domain in mine {
            let domain = &mut self.list[domain as usize];
            if is_online {
                domain.nr_online += 1;
            } else {
                domain.nr_online -= 1;
            }
            let Some(account) = &mut domain.account else { continue };
            let idle = u32::from(load == 0);
            if is_online {
                account.nr_idle += idle;
            } else {
                account.nr_idle -= idle;
            }
            account.by_load.set(load, cpu - domain.cpus.start, is_online);
        }
    }
}

fn within(inner: &Range<u32>, outer: &Range<u32>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}
