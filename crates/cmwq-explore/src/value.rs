//! The value of a world, by which states are compared: everything the future depends on, with names
//! that do not depend on the past.
//!
//! Workers are interchangeable: those on the idle list are named by their place in it, others by
//! what they do, so which of the table's places a worker has, and in which order they were made,
//! makes no difference. Numbers of runs, of pwqs that nobody holds any more and of queueings are
//! left out or replaced by their order.

use std::fmt::Write as _;

use cmwq_core::value::{Listed, PoolValue, PwqValue, WorkerValue};
use cmwq_core::{PwqRef, Pwqs};

use crate::ledger::{Ledger, Ticket};
use crate::scope::{Faults, Op, Scope};
use crate::world::{At, Micro, Named, Pool, Queue, Thread, Tid, Todo, Who, World};

/// The bytes of a value.
#[derive(Debug, Default)]
pub(crate) struct Value {
    bytes: Vec<u8>,
    text: String,
}

impl Value {
    /// Reads a world, and its pools' values. All fields are named here and below, so that a new one
    /// is not forgotten.
    pub(crate) fn read(&mut self, world: &World<'_>, pools: &[PoolValue]) -> &[u8] {
        let World {
            scope: _,
            pools: _,
            queues,
            items,
            threads,
            timers,
            service_has_left,
            left,
            without: _,
            ledger,
        } = world;
        self.bytes.clear();
        for (n, pool) in pools.iter().enumerate() {
            self.pool(world, n, pool, pools);
        }
        for (tid, thread) in threads.iter().enumerate() {
            let Some(thread) = thread else { continue };
            if !matches!(thread.who, Who::Worker(..)) {
                self.thread(world, tid, thread, pools);
            }
        }
        for queue in queues {
            self.queue(queue);
        }
        for (item, timer) in timers.iter().enumerate() {
            self.put(items.get(item).word().bits());
            self.op(timer.is_some());
            self.due(*timer);
        }
        self.ledger(ledger);
        self.op(*service_has_left);
        self.left(*left);
        &self.bytes
    }

    /// What is to be queued, where, when a timer expires or has expired.
    fn due(&mut self, op: Option<Op>) {
        match op {
            None => {}
            Some(Op::Arm(item, queue, slot) | Op::Queue(item, queue, slot)) => {
                self.bytes.extend([item, queue, slot]);
            }
            Some(op) => unreachable!("{op:?} has no timer"),
        }
    }

    /// What may still go wrong.
    fn left(&mut self, left: Faults) {
        let Faults {
            false_reports,
            spurious_wakes,
            beliefs,
            starvations,
            hogs,
            failed_creations,
            refusals,
            culls,
            maydays,
            visits,
            outage: _,
            stray_reports: _,
            alarms: _,
            lending: _,
        } = left;
        self.bytes.extend([false_reports, spurious_wakes, beliefs, starvations, hogs]);
        self.bytes.extend([failed_creations, refusals, culls]);
        self.bytes.extend([maydays, visits].map(Option::unwrap_or_default));
    }

    fn put(&mut self, number: u64) {
        self.bytes.extend(number.to_le_bytes());
    }

    fn op(&mut self, flag: bool) {
        self.bytes.push(u8::from(flag));
    }

    fn at(&mut self, at: PwqRef) {
        self.bytes.extend([at.pool.0 as u8, at.pwq.0 as u8]);
    }

    fn refs(&mut self, all: &[PwqRef]) {
        self.bytes.push(all.len() as u8);
        for &at in all {
            self.at(at);
        }
    }

    fn pwqs(&mut self, pwqs: &Pwqs) {
        self.bytes.push(pwqs.iter().len() as u8);
        for at in pwqs.iter() {
            self.at(at);
            self.bytes.push(u8::from(pwqs.is_retired(at)));
        }
    }

    fn named(&mut self, what: Named) {
        self.bytes.push(match what {
            Named::Item(item) => item,
            Named::Barrier(waiter) => 0x80 | waiter,
        });
    }

    // ---- pools

    /// What the pool decides by, beside its workers, items and pwqs.
    fn pool_flags(&mut self, world: &World<'_>, n: usize, value: &PoolValue) {
        let PoolValue {
            concurrency,
            nr_running: _,
            manager,
            no_create_before,
            is_retried_on_need,
            is_closed,
            is_closed_for_ever,
            short_wakes,
            first_waits,
            soon_waits,
            soon_processes,
            is_asked_to_help,
            ticks_awaiting,
            idle: _,
            workers: _,
            worklist: _,
            arrived: _,
            out: _,
            calm_claims: _,
            pwqs: _,
        } = *value;
        let Pool {
            core: _,
            now,
            is_watched,
            mayday,
            retry,
            has_inbox: _,
            inbox: _,
            pushed: _,
            // Acted on in the step that begins it.
            kick: _,
        } = world.pools[n];
        let flags = [
            is_watched,
            mayday,
            retry,
            is_closed,
            is_closed_for_ever,
            no_create_before != 0,
            now < no_create_before,
            is_retried_on_need,
            manager.is_some(),
            is_asked_to_help,
        ];
        for flag in flags {
            self.op(flag);
        }
        self.bytes.extend(concurrency.to_le_bytes());
        self.bytes.extend([short_wakes, first_waits, soon_waits, soon_processes, ticks_awaiting]);
    }

    fn pool(&mut self, world: &World<'_>, n: usize, value: &PoolValue, pools: &[PoolValue]) {
        let pool = &world.pools[n];
        self.pool_flags(world, n, value);
        self.listed(world, &value.worklist);
        if pool.has_inbox {
            self.transit(world, n, value);
        }
        self.bytes.push(value.pwqs.len() as u8);
        for pwq in &value.pwqs {
            self.pwq(world, pwq);
        }
        self.bytes.push(value.idle.len() as u8);
        for id in &value.idle {
            if let Some(worker) = value.workers.iter().find(|worker| worker.id == *id) {
                self.worker(world, n, worker, pools);
            }
        }
        // The others in an order of their own.
        let from = self.bytes.len();
        let mut others = Vec::new();
        for worker in value.workers.iter().filter(|worker| worker.phase != 0) {
            self.worker(world, n, worker, pools);
            self.op(value.manager == Some(worker.id));
            others.push(self.bytes.split_off(from));
        }
        others.sort_unstable();
        self.bytes.push(others.len() as u8);
        self.bytes.extend(others.into_iter().flatten());
    }

    fn transit(&mut self, world: &World<'_>, n: usize, value: &PoolValue) {
        self.op(world.pools[n].inbox.is_saturated());
        let pushed = world.pushed(n);
        self.bytes.extend([pushed.len() as u8, value.arrived.len() as u8, value.calm_claims]);
        for &(item, pwq) in pushed {
            self.bytes.extend([item, pwq.0 as u8]);
        }
        for &(addr, pwq, color) in &value.arrived {
            self.named(world.name_of(addr));
            self.bytes.extend([pwq.0 as u8, color.unwrap_or(0xff)]);
        }
        self.op(value.out.is_some());
        // Whose it is shows by what its thread runs.
        if let Some(out) = &value.out {
            self.bytes.extend([out.items.len() as u8, out.begun as u8, out.nr_colored as u8]);
            for &addr in &out.items {
                self.named(world.name_of(addr));
            }
        }
    }

    fn listed(&mut self, world: &World<'_>, list: &[Listed]) {
        self.bytes.push(list.len() as u8);
        for entry in list {
            match *entry {
                Listed::Item(addr) => self.named(world.name_of(addr)),
                Listed::Mark(pwq) => self.bytes.extend([0xff, pwq.0 as u8]),
            }
        }
    }

    fn pwq(&mut self, world: &World<'_>, pwq: &PwqValue) {
        let PwqValue {
            id,
            wq,
            work_color,
            flush_color,
            ref in_flight,
            nr_active,
            max_active,
            node_waiting,
            plugged,
            retired,
            is_rescued,
            is_visited,
            ref inactive,
        } = *pwq;
        let flags = [node_waiting, plugged, retired, is_rescued, is_visited];
        let flags = flags.iter().fold(0, |bits, &flag| bits << 1 | u8::from(flag));
        let color = flush_color.unwrap_or(0xff);
        let (wq, nr_active) = (wq.0 as u8, nr_active as u8);
        self.bytes.extend([id.0 as u8, wq, work_color, color, nr_active, flags]);
        self.bytes.extend(max_active.to_le_bytes());
        self.bytes.push(in_flight.len() as u8);
        for &(color, count) in in_flight {
            self.bytes.extend([color, count as u8]);
        }
        self.listed(world, inactive);
    }

    fn record(&mut self, world: &World<'_>, worker: &WorkerValue) {
        let WorkerValue {
            id: _,
            phase,
            sleeping,
            cpu_intensive,
            stands_for_process,
            is_process_new,
            die,
            woken,
            begins_anyway,
            guest: _,
            lent,
            current,
            ref scheduled,
        } = *worker;
        let process = [stands_for_process, is_process_new];
        let flags = [sleeping, cpu_intensive, die, woken, begins_anyway, lent];
        let flags = flags.iter().chain(&process).fold(0, |bits, &flag| bits << 1 | u8::from(flag));
        self.bytes.extend([phase, flags]);
        match current {
            None => self.bytes.push(0xfe),
            Some((addr, pwq, color, is_inactive)) => {
                self.named(world.name_of(addr));
                self.bytes.extend([pwq.0 as u8, color, u8::from(is_inactive)]);
            }
        }
        self.listed(world, scheduled);
    }

    /// A worker's record, and its thread if it has one here.
    fn worker(&mut self, world: &World<'_>, n: usize, worker: &WorkerValue, pools: &[PoolValue]) {
        self.record(world, worker);
        let who = Who::Worker(n as u8, worker.id);
        let is_it = |thread: &Option<Thread>| thread.as_ref().is_some_and(|t| t.who == who);
        if let Some(tid) = world.threads.iter().position(is_it)
            && let Some(thread) = &world.threads[tid]
        {
            self.thread(world, tid, thread, pools);
        }
    }

    // ---- threads

    fn thread(&mut self, world: &World<'_>, _: Tid, thread: &Thread, pools: &[PoolValue]) {
        let Thread {
            // That shows by where it stands.
            who: _,
            at,
            token,
            ref todo,
            run,
            more,
            ref exec,
            fired,
            event,
            guest,
            is_wanted,
            ref visit,
            ref retire,
            remove,
            ref unused,
            ref look,
        } = *thread;
        let place = match at {
            At::Parked => 0,
            At::Awake => 1,
            At::Looking => 2,
            At::Returning => 3,
            At::Lending(pool) => 0x40 | pool,
            At::Serving(pool) => 0x80 | pool,
        };
        let has = [run.is_some(), fired.is_some(), visit.is_some(), look.is_some()];
        let flags = [token, event, is_wanted].into_iter().chain(has);
        let flags = flags.fold(0, |bits, flag| bits << 1 | u8::from(flag));
        self.bytes.extend([place, flags, exec.pc, more as u8]);
        if let Some(run) = run {
            self.named(run.what);
            self.bytes.extend([run.pool, run.at.0 as u8]);
        }
        self.due(fired);
        self.micro(world, thread);
        self.bytes.push(todo.len() as u8);
        for todo in todo {
            self.todo(*todo);
        }
        self.refs(retire);
        self.refs(remove.as_slice());
        self.bytes.push(unused.len() as u8);
        self.bytes.extend(unused);
        if let Some(visit) = visit {
            self.bytes.push(visit.pwq().0 as u8);
        }
        if let Some(look) = look {
            self.bytes.push(look.queue);
            self.refs(&look.left);
            self.op(look.last == world.begin_look(look.queue));
        }
        // Its record as a guest, by which the two belong together.
        if let (Some(guest), At::Serving(busy)) = (guest, at)
            && let Some(record) =
                pools[usize::from(busy)].workers.iter().find(|record| record.id == guest)
        {
            self.record(world, record);
        }
    }

    fn micro(&mut self, world: &World<'_>, thread: &Thread) {
        let op = world.op_of(thread);
        let micro = thread.exec.micro;
        let (kind, cpu_pwq, bits) = match micro {
            Micro::Start => (0, None, 0),
            Micro::Expired => (0x41, None, 0),
            Micro::Claimed(cpu_pwq) => (1, Some(cpu_pwq), 0),
            Micro::Checked(cpu_pwq) => (2, Some(cpu_pwq), 0),
            Micro::AtHome(cpu_pwq, bits) => (3, Some(cpu_pwq), bits),
            Micro::Held => (4, None, 0),
            Micro::Disabled => (5, None, 0),
            Micro::Waiting => (6, None, 0),
            Micro::Waited => (7, None, 0),
            Micro::Pushes(cpu_pwq) => (8, Some(cpu_pwq), 0),
            Micro::Relieves(pool) => (0x80 | pool, None, 0),
            // Which record that is shows by the item.
            Micro::RunsHere(cpu_pwq, _) => (0x40, Some(cpu_pwq), 0),
            Micro::Phase(phase) => (9 + phase, None, 0),
        };
        self.bytes.push(kind);
        if let (
            Some(
                crate::Op::Queue(item, queue, slot)
                | crate::Op::Arm(item, queue, slot)
                | crate::Op::RunHere(item, queue, slot),
            ),
            Some(cpu_pwq),
        ) = (op, cpu_pwq)
        {
            let q = &world.queues[usize::from(queue)];
            self.at(q.made[cpu_pwq]);
            self.bytes.extend([item, u8::from(q.slots.get(usize::from(slot)) == Some(&cpu_pwq))]);
            self.put(bits);
        }
    }

    fn todo(&mut self, todo: Todo) {
        match todo {
            Todo::First(pool) => self.bytes.extend([0, pool]),
            Todo::Spare(pool) => self.bytes.extend([1, pool]),
            Todo::Manage(pool, _) => self.bytes.extend([2, pool]),
            Todo::Created(pool, _, by) => self.bytes.extend([3, pool, u8::from(by.is_some())]),
            Todo::HandOver(queue, limit) => self.bytes.extend([11, queue, limit]),
            Todo::Grant(at) => {
                self.bytes.push(4);
                self.at(at);
            }
            Todo::FlushDone(queue) => self.bytes.extend([5, queue]),
            Todo::Retired(queue) => self.bytes.extend([6, queue]),
            Todo::CloseIfUnused(pool) => self.bytes.extend([7, pool]),
            Todo::Dismiss(pool) => self.bytes.extend([8, pool]),
            Todo::Yield(pool) => self.bytes.extend([9, pool]),
            Todo::Call(pool) => self.bytes.extend([10, pool]),
        }
    }

    // ---- queues, and what was promised

    fn queue(&mut self, queue: &Queue) {
        let Queue {
            is_alive,
            closed,
            slots,
            made,
            pwqs,
            // Who looks at them twice has the first look.
            removed: _,
            flush_state,
            countdown,
            lock,
            limits,
            shared,
            called,
        } = queue;
        self.op(*is_alive);
        self.bytes.push(closed.bits() as u8);
        self.bytes.push(lock.map_or(0xff, |tid| tid as u8));
        self.bytes.push(countdown.get() as u8);
        let slots: Vec<_> = slots.iter().map(|&cpu_pwq| made[cpu_pwq]).collect();
        self.refs(&slots);
        self.pwqs(pwqs);
        self.refs(called);
        if flush_state.work_color() != 0 || flush_state.first().is_some() {
            self.debug(flush_state);
        }
        for limit in [limits.max_active(), limits.min_active()] {
            self.bytes.extend(limit.to_le_bytes());
        }
        for limit in shared.iter() {
            self.debug(&(limit.memory().node, limit.nr(), limit.max(), limit.waiting()));
        }
    }

    fn debug(&mut self, value: &dyn std::fmt::Debug) {
        self.text.clear();
        let _ = write!(self.text, "{value:?}");
        self.bytes.extend(self.text.as_bytes());
        self.bytes.push(0);
    }

    fn ledger(&mut self, ledger: &Ledger) {
        for standing in &ledger.items {
            let queue_of = |ticket: Option<Ticket>| ticket.map_or(0xff, |ticket| ticket.queue);
            self.bytes.extend([queue_of(standing.pending), queue_of(standing.running)]);
            if let Some(ticket) = standing.pending {
                self.bytes.push(ledger.nr_older(ticket) as u8);
                self.op(ticket.is_tied);
            }
            self.op(standing.has_settled);
        }
        for (tid, awaited) in &ledger.waits {
            self.bytes.push(*tid as u8);
            let mut left: Vec<u8> = Vec::new();
            for (n, standing) in ledger.items.iter().enumerate() {
                let is_awaited = |number: u32| awaited.contains(&number);
                if standing.pending.is_some_and(|ticket| is_awaited(ticket.number)) {
                    left.push(2 * n as u8);
                }
                if standing.running.is_some_and(|ticket| is_awaited(ticket.number)) {
                    left.push(2 * n as u8 + 1);
                }
            }
            self.bytes.push(left.len() as u8);
            self.bytes.extend(left);
        }
    }
}

/// A value's fingerprint. Two different ones are taken for one with a probability of about
/// n²/2⁶⁵ for n states: 3 in a million for ten million.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    // As rapid hashes do: multiply to 128 bits and fold.
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product as u64) ^ (product >> 64) as u64
    };
    let (mut hash, mut other) = (0x9e37_79b9_7f4a_7c15_u64, bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let word = u64::from_le_bytes(word);
        hash = fold(hash ^ word, 0xa076_1d64_78bd_642f);
        other = fold(other ^ word ^ 0xe703_7ed1_a0b4_28db, hash | 1);
    }
    fold(hash ^ other, 0x8ebc_6af0_9c88_c6e3)
}

/// What a scope's pools look like from outside.
pub(crate) fn pools_of(world: &World<'_>) -> Vec<PoolValue> {
    world.pools.iter().map(|pool| pool.core.value()).collect()
}

/// The most bytes that the name of anything takes: a scope beyond that is refused.
pub(crate) fn assert_fits(scope: &Scope) {
    assert!(scope.items.len() < 0x80 && scope.queues.len() < 0x40 && scope.pools.len() < 0x40);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::scopes;
    use crate::world::SERVICE;

    /// One that is armed, and one that has expired, for the one queue or the other.
    #[test]
    fn for_which_queue_a_timer_is_shows() {
        let mut scopes = scopes::gate().into_iter();
        let scope = scopes.find(|scope| scope.name == "shutting-down").expect("the scope");
        let mut world = World::new(&scope, None);
        let mut told = BTreeSet::new();
        for queue in [0, 1] {
            let (armed, fired) = (Some(Op::Arm(0, queue, 0)), Some(Op::Queue(0, queue, 0)));
            for (armed, fired) in [(armed, None), (None, fired)] {
                (world.timers[0], world.thread(SERVICE).fired) = (armed, fired);
                told.insert(Value::default().read(&world, &pools_of(&world)).to_vec());
            }
        }
        assert_eq!(told.len(), 4);
    }
}
