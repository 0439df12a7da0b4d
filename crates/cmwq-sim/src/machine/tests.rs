//! CPUs, priorities, domains, and CPUs that come and go.

use super::*;
use crate::config::Caches;
use crate::topology::Scope;

fn machine(cpus: u32, pod_cpus: u32) -> Machine {
    Machine::new(Shape::Pods { cpus, pod_cpus, node_pods: 1 }, Placement::Nearest)
}

/// Lets every CPU that can take a thread; returns the threads in the order in which they got
/// CPUs.
fn settle(machine: &mut Machine) -> Vec<Tid> {
    let mut started = Vec::new();
    while let Some(cpu) = machine.next_ready() {
        started.extend(machine.dispatch(cpu).map(|(tid, _)| tid));
    }
    started
}

fn spawn_awake(machine: &mut Machine, place: Place, is_high: bool) -> Tid {
    let tid = machine.spawn(place, is_high);
    machine.wake(tid);
    tid
}

#[test]
fn high_priority_first_then_first_come_first_served() {
    let mut machine = machine(1, 1);
    let first = spawn_awake(&mut machine, Place::Cpu(0), false);
    assert_eq!(settle(&mut machine), [first]);
    let second = spawn_awake(&mut machine, Place::Cpu(0), false);
    let third = spawn_awake(&mut machine, Place::Cpu(0), false);
    let high = spawn_awake(&mut machine, Place::Cpu(0), true);
    assert_eq!(settle(&mut machine), [], "run to block");
    let mut order = Vec::new();
    let mut running = first;
    for _ in 0..3 {
        machine.leave(running);
        let started = settle(&mut machine);
        running = started[0];
        order.extend(started);
    }
    assert_eq!(order, [high, second, third]);
}

#[test]
fn free_threads_spread_and_idle_cpus_take_over() {
    let mut machine = machine(4, 2);
    let pod = Place::Domain(2);
    let threads: Vec<_> = (0..4).map(|_| spawn_awake(&mut machine, pod, false)).collect();
    settle(&mut machine);
    let cpus: Vec<_> = threads.iter().map(|&t| machine.threads[t].cpu).collect();
    assert!(cpus.iter().all(|cpu| (2..4).contains(cpu)), "{cpus:?}");
    assert_eq!(machine.nr_idle(pod), 0);
    assert_eq!(machine.nr_idle(Place::Domain(WHOLE)), 2);
    // Both threads of CPU 3 leave: it takes over the one that waits for CPU 2.
    for _ in 0..2 {
        let running = machine.running(3).expect("CPU 3 runs");
        machine.leave(running);
        settle(&mut machine);
    }
    assert!(machine.running(3).is_some() && machine.running(2).is_some());
    assert!(!machine.has_waiters(2) && !machine.has_waiters(3));
}

/// A pinned thread of high priority comes before those that had chosen its CPU have begun.
#[test]
fn idle_cpus_take_over_who_is_overtaken() {
    let mut machine = machine(4, 1);
    let whole = Place::Domain(WHOLE);
    machine.track(WHOLE);
    let movable: Vec<_> = (0..2).map(|_| machine.spawn(whole, false)).collect();
    for &tid in &movable {
        machine.threads[tid].cpu = 1;
    }
    machine.wake(movable[0]);
    let high = spawn_awake(&mut machine, Place::Cpu(1), true);
    let other = spawn_awake(&mut machine, Place::Cpu(2), true);
    machine.wake(movable[1]);
    settle(&mut machine);
    assert_eq!((machine.running(1), machine.running(2)), (Some(high), Some(other)));
    let runs = |tid: &Tid| machine.threads[*tid].state == State::Running;
    assert!(movable.iter().all(runs), "{machine:?}");
}

/// The idle CPU that is called for one that waits gets a thread of its own before it looks.
#[test]
fn an_idle_cpu_that_gets_its_own_thread_leaves_none_waiting_beside_idle_ones() {
    let mut machine = machine(4, 1);
    machine.track(WHOLE);
    let movable = machine.spawn(Place::Domain(WHOLE), false);
    machine.threads[movable].cpu = 1;
    machine.wake(movable);
    let high = spawn_awake(&mut machine, Place::Cpu(1), true);
    let cpu = machine.next_ready().expect("both are ready for it");
    assert_eq!(machine.dispatch(cpu).map(|(tid, _)| tid), Some(high));
    let own = spawn_awake(&mut machine, Place::Cpu(0), false);
    assert_eq!(settle(&mut machine), [own, movable]);
}

#[test]
fn a_slow_cpu_takes_longer() {
    let mut machine = machine(2, 2);
    machine.set_slowness(1, 250);
    assert_eq!(machine.wall_time(0, 1_000), 1_000);
    assert_eq!(machine.wall_time(1, 1_000), 2_500);
    assert_eq!(machine.cpu_time(1, 2_500), 1_000);
}

/// A thrifty machine wakes slow CPUs, and of these the one that was in use last.
#[test]
fn a_thrifty_machine_goes_where_it_takes_least() {
    let mut machine = Machine::new(Shape::BigLittle, Placement::Thrifty);
    let domain = machine.domains().pod(crate::Scope::System, 0);
    machine.track(domain);
    let [one, two] = [0, 1].map(|_| machine.spawn(Place::Domain(domain), false));
    let run = |machine: &mut Machine, tid| {
        machine.wake(tid);
        let cpu = machine.next_ready().expect("it wants a CPU");
        assert_eq!(machine.dispatch(cpu).map(|(tid, _)| tid), Some(tid));
        cpu
    };
    assert_eq!((run(&mut machine, one), run(&mut machine, two)), (4, 5));
    machine.leave(one);
    machine.leave(two);
    while machine.next_ready().is_some() {}
    // A fast one was in use later still.
    let pinned = machine.spawn(Place::Cpu(0), false);
    assert_eq!(run(&mut machine, pinned), 0);
    machine.leave(pinned);
    while machine.next_ready().is_some() {}
    assert_eq!(run(&mut machine, one), 5, "left last of the slow ones");
}

/// Two wait in one moment, and the idle CPU that is called for one of them takes the other.
#[test]
fn an_idle_cpu_that_takes_another_thread_leaves_none_waiting_beside_idle_ones() {
    let mut machine = machine(6, 2);
    machine.track(WHOLE);
    let cache = machine.domains().pod(Scope::Cache, 2);
    machine.track(cache);
    for cpu in 1..4 {
        spawn_awake(&mut machine, Place::Cpu(cpu), false);
    }
    let last = settle(&mut machine)[2];
    let near = spawn_awake(&mut machine, Place::Domain(cache), false);
    let free = spawn_awake(&mut machine, Place::Domain(WHOLE), false);
    let urgent = spawn_awake(&mut machine, Place::Cpu(0), true);
    machine.leave(last);
    assert_eq!(settle(&mut machine), [urgent, near, free]);
    assert_eq!((machine.threads[near].cpu, machine.threads[free].cpu), (3, 4));
}

#[test]
fn threads_stay_near_their_cache_until_they_are_cold() {
    let mut machine = machine(4, 2);
    let caches = Caches { transfer: 0, hot: 10, look: 1, is_loose: true };
    machine.mind_caches(&caches);
    for cpu in 0..2 {
        spawn_awake(&mut machine, Place::Cpu(cpu), false);
    }
    settle(&mut machine);
    let free = spawn_awake(&mut machine, Place::Domain(WHOLE), false);
    assert_eq!(settle(&mut machine), [], "it waits in its cache, which is full");
    machine.set_time(9);
    assert_eq!(machine.dispatch(2), None, "too hot");
    machine.set_time(10);
    assert_eq!(machine.dispatch(2), Some((free, true)));
    // There it wakes up from now on, and also where it is told to.
    machine.leave(free);
    machine.wake(free);
    assert_eq!((settle(&mut machine), machine.threads[free].cpu), (vec![free], 2));
    machine.leave(free);
    machine.keep_near(free, machine.domains().pod(Scope::Cache, 0));
    machine.wake(free);
    assert!(machine.threads[free].cpu < 2);
}

#[test]
fn caches_that_are_not_full_keep_their_threads() {
    let mut machine = machine(6, 3);
    machine.mind_caches(&Caches { transfer: 0, hot: 0, look: 1, is_loose: true });
    let first = spawn_awake(&mut machine, Place::Cpu(0), false);
    settle(&mut machine);
    let second = spawn_awake(&mut machine, Place::Cpu(0), false);
    let third = spawn_awake(&mut machine, Place::Domain(WHOLE), false);
    settle(&mut machine);
    assert_ne!(machine.threads[third].cpu, 0, "its cache has idle CPUs");
    machine.leave(third);
    settle(&mut machine);
    assert_eq!(machine.running(0), Some(first));
    assert_eq!(machine.dispatch(3), None, "the one that waits may not leave CPU 0");
    assert_eq!(machine.dispatch(1), None);
    machine.leave(first);
    assert_eq!(settle(&mut machine), [second]);
}
