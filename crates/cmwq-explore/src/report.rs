//! A history for people: each event, with what the core answered to it.

use std::fmt::Write as _;

use cmwq_core::Rule;
use cmwq_core::value::{Listed, PoolValue, WorkerValue};

use crate::event::{Event, What, item_name, name_of};
use crate::scope::Scope;
use crate::stand::Stand;
use crate::value::pools_of;
use crate::world::{Micro, Named, World};

/// A history, one line for each event, and the state it leads to.
#[must_use]
pub fn explain(scope: &Scope, without: Option<Rule>, history: &[Event]) -> String {
    let mut out = String::new();
    let mut stand = Stand::new(scope, without);
    for (n, &event) in history.iter().enumerate() {
        let line = describe(stand.world(), event);
        let applied = stand.apply(event);
        let _ = writeln!(out, "{:>3}. {line}", n + 1);
        if let Err(broken) = applied {
            let _ = writeln!(out, "     *** {broken}");
            return out;
        }
        for pool in pools_of(stand.world()).iter().enumerate() {
            let _ = writeln!(out, "       {}", pool_line(stand.world(), pool));
        }
    }
    if let Err(broken) = stand.read() {
        let _ = writeln!(out, "     *** {broken}");
    }
    for tid in 0..stand.world().threads.len() {
        if !stand.world().rests(tid) {
            let name = name_of(stand.world(), tid);
            let _ = writeln!(out, "     {name}: {}", intends(stand.world(), tid));
        }
    }
    out
}

fn describe(world: &World<'_>, event: Event) -> String {
    let n = event.number();
    match event.what() {
        What::Step => format!("{}: {}", name_of(world, n), intends(world, n)),
        What::CreationFails => format!("{}: the thread cannot be had", name_of(world, n)),
        What::CreationRefused => format!("{}: there are workers enough", name_of(world, n)),
        What::Blocked => format!("{} is reported blocked", name_of(world, n)),
        What::FalselyBlocked => format!("{} is reported blocked, and runs", name_of(world, n)),
        What::Resumed => format!("{} is reported back", name_of(world, n)),
        What::Both => {
            let [one, other] = [n / 32, n % 32].map(|tid| name_of(world, tid));
            format!("one look finds that {one} and {other} are blocked, or back")
        }
        What::Alarm => {
            let [looks, other] = [n / 32, n % 32].map(|tid| name_of(world, tid));
            format!("{looks} is woken as its CPU idles, and finds {other} blocked, or back")
        }
        What::LateReports => format!("late and doubled reports about {}", name_of(world, n)),
        What::Hog => format!("{} hogs its CPU", name_of(world, n)),
        What::Spurious => format!("{} wakes up for nothing", name_of(world, n)),
        What::FindsBacklog => {
            format!("{} finds that pool{} has a backlog", name_of(world, n / 16), n % 16)
        }
        What::AskedToHelp => format!("pool{n} is asked to help"),
        What::Retry => format!("service: tries again to create a worker of pool{n}"),
        What::TimePasses => format!("pool{n}'s pause after a failed creation is over"),
        What::Mayday => format!("service: calls rescuers to pool{n}"),
        What::Cull => format!("service: tells the oldest idle worker of pool{n} to leave"),
        What::Fire => format!("the timer of {} expires", char::from(b'a' + n as u8)),
        What::Believes => {
            format!(
                "pool{n} changes its mind about whether its items wait first, or its processes soon"
            )
        }
        What::Starves => format!("pool{n}'s worker that was woken gets no CPU"),
        What::Tick => format!("the tick lets pool{n} begin another item"),
    }
}

/// What a thread does next.
fn intends(world: &World<'_>, tid: usize) -> String {
    let Some(thread) = &world.threads[tid] else { return "gone".into() };
    if let Some(todo) = thread.todo.first() {
        return format!("{todo:?}");
    }
    let micro = thread.exec.micro;
    let within = if micro == Micro::Start { String::new() } else { format!(" ({micro:?})") };
    match (thread.run, world.op(tid)) {
        (Some(run), Some(op)) => {
            format!("in {}: {op:?}{within}", item_name(world.scope, run.what))
        }
        (Some(run), None) => format!("{} returns{within}", item_name(world.scope, run.what)),
        (None, Some(op)) => format!("{op:?}{within}"),
        (None, None) => format!("{:?}, asks", thread.at),
    }
}

fn pool_line(world: &World<'_>, (n, pool): (usize, &PoolValue)) -> String {
    let driver = &world.pools[n];
    let workers: Vec<_> = pool.workers.iter().map(|worker| worker_text(world, worker)).collect();
    let pwqs: Vec<_> = pool
        .pwqs
        .iter()
        .map(|pwq| {
            let marks = [
                (pwq.plugged, " plugged"),
                (pwq.retired, " retired"),
                (pwq.node_waiting, " in line"),
                (pwq.is_visited, " visited"),
            ];
            let marks: String = marks.iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
            let inactive = names(world, &pwq.inactive);
            format!("{:?} of {:?}: {} active{marks}{inactive}", pwq.id, pwq.wq, pwq.nr_active)
        })
        .collect();
    let marks = [
        (driver.is_watched, ", watched"),
        (pool.is_closed, ", closed"),
        (driver.mayday, ", mayday"),
        (driver.inbox.is_saturated(), ", saturated"),
        (pool.manager.is_some(), ", managed"),
        (driver.retry, ", to retry"),
        (pool.is_retried_on_need, ", to ask for a worker"),
    ];
    let marks: String = marks.iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
    let of = |addrs: &mut dyn Iterator<Item = usize>| -> String {
        addrs.map(|addr| format!(" {}", item_name(world.scope, world.name_of(addr)))).collect()
    };
    let pushed = of(&mut world.pushed(n).iter().map(|pushed| world.items.addr(pushed.0)));
    let arrived = of(&mut pool.arrived.iter().map(|arrived| arrived.0));
    let batch = pool.out.as_ref().map_or_else(String::new, |out| {
        format!("; batch:{}, {} begun", of(&mut out.items.iter().copied()), out.begun)
    });
    let transit = if driver.has_inbox {
        format!("; inbox:{pushed}; arrived:{arrived}{batch}")
    } else {
        String::new()
    };
    format!(
        "pool{n}: running {}{marks}; waits:{}{transit}; {}; {}",
        pool.nr_running,
        names(world, &pool.worklist),
        workers.join(", "),
        pwqs.join(", ")
    )
}

fn names(world: &World<'_>, list: &[Listed]) -> String {
    let name = |entry: &Listed| match *entry {
        Listed::Item(addr) => match world.name_of(addr) {
            Named::Item(item) => format!(" {}", char::from(b'a' + item)),
            Named::Barrier(waiter) => format!(" |{waiter}"),
        },
        Listed::Mark(pwq) => format!(" <mark of {pwq:?}>"),
    };
    list.iter().map(name).collect()
}

fn worker_text(world: &World<'_>, worker: &WorkerValue) -> String {
    let phase = ["idle", "awake", "working"][usize::from(worker.phase)];
    let runs = worker
        .current
        .map(|(addr, ..)| format!(" runs {}", item_name(world.scope, world.name_of(addr))));
    let marks = [
        (worker.sleeping, " blocked"),
        (worker.cpu_intensive, " uncounted"),
        (worker.die, " leaving"),
        (worker.woken, " woken"),
        (worker.guest, " guest"),
    ];
    let marks: String = marks.iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
    let scheduled = names(world, &worker.scheduled);
    let runs = runs.unwrap_or_default();
    format!("{:?} {phase}{runs}{marks}{scheduled}", worker.id)
}
