//! What threads do, one call after the other.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use crate::body;
use crate::books::Books;
use crate::closures;
use crate::short;
use crate::watch::{Post, fail};
use crate::world::{Station, Totals, World, random_attrs};

/// So many closures may be queued at once before threads wait.
const MOST_OUTSTANDING: u64 = 2_000;

/// Makes calls until it is over.
pub(crate) fn act(world: &'static World, post: &Post, mut rng: Rng) {
    while !world.is_over() {
        let Some(station) = world.station(&mut rng) else { return };
        Totals::add(&world.totals.calls, 1);
        match rng.u8(..100) {
            0..55 => on_subject(&station, world, post, &mut rng),
            55..80 => on_closures(&station, world, post, &mut rng),
            80..90 => on_queue(&station, world, post, &mut rng),
            90..92 => post.doing("a queue that lives briefly", || short::lived(world, &mut rng)),
            92 => post.doing("a queue that is dropped", || short::dropped(world, &mut rng)),
            93 => post.doing("a queue of a closure", || short::refused(world, &mut rng)),
            94..96 => post.doing("a queue and its pool", || short::round(world, &mut rng)),
            96 => {
                drop(station);
                post.doing("replacing a queue", || world.replace(&mut rng));
                post.doing("closing queues", || world.close_retired(&mut rng));
            }
            97 => on_process(world, post, &mut rng),
            98 => on_system_queues(world, post, &mut rng),
            _ => reading(&station, world, &mut rng),
        }
    }
}

fn on_subject(station: &Station, world: &World, post: &Post, rng: &mut Rng) {
    let subject = &station.subjects[rng.usize(..station.subjects.len())];
    match rng.u8(..40) {
        0..20 => subject.queue(&station.wq, world.cpus, rng),
        20..26 => subject.retime(&station.wq, world.cpus, rng),
        26..30 => post.doing("cancel", || subject.cancel()),
        30..32 => post.doing("cancel_sync", || subject.cancel_sync()),
        32..35 => post.doing("flush of an item", || subject.flush()),
        35 | 36 => {
            let (is_sync, other) = (rng.bool(), &station.subjects[0]);
            post.doing("disable", || {
                subject.disabled(&station.wq, is_sync, || {
                    subject.queue(&station.wq, world.cpus, rng);
                    other.cancel();
                });
            });
        }
        _ => subject.look(),
    }
}

fn on_closures(station: &Station, world: &'static World, post: &Post, rng: &mut Rng) {
    if world.outstanding() > MOST_OUTSTANDING {
        let wait = || {
            while world.outstanding() > MOST_OUTSTANDING / 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        post.doing("waiting until there are fewer closures", wait);
    }
    match rng.u8(..8) {
        0..5 => drop(closures::queue(station, world, rng)),
        5 | 6 => post.doing("a closure and its value", || {
            closures::queue_and_wait(station, world, rng);
        }),
        _ => post.doing("scope", || closures::scope(station, world, rng)),
    }
}

fn on_queue(station: &Station, world: &'static World, post: &Post, rng: &mut Rng) {
    let wq = &station.wq;
    let few = rng.u32(1..9);
    match rng.u8(..16) {
        0..3 => post.doing("flush of a queue", || wq.flush()),
        3 if station.may_refuse => post.doing("drain", || wq.drain()),
        // Those that have no limit say so.
        4..7 => _ = wq.set_max_active(few),
        7 => _ = wq.set_min_active(few),
        8..11 if matches!(station.kind.split(',').next(), Some("unbound" | "ordered")) => {
            let attrs = random_attrs(world.cpus, rng);
            let _changed = post.doing("apply_attrs", || world.allowed(wq.apply_attrs(&attrs)));
        }
        11 => {
            let entry = wq.sysfs();
            for (attribute, _) in entry.attributes().collect::<Vec<_>>() {
                // What cannot be read says so.
                let _text = entry.show(attribute);
            }
        }
        12 => {
            let stats = wq.stats();
            if stats.completed > stats.started {
                fail(&format!("more items have returned than were entered: {stats}"));
            }
        }
        13 => _ = (wq.max_active(), wq.min_active(), wq.attrs(), wq.name().len()),
        _ => _ = wq.is_congested(Some(rng.u32(..world.cpus))),
    }
}

fn on_process(world: &World, post: &Post, rng: &mut Rng) {
    match rng.u8(..8) {
        0 => {
            let on_each = || cmwq::schedule_on_each_cpu(body::leaf);
            post.doing("schedule_on_each_cpu", on_each);
        }
        1 | 2 => {
            let cpu = rng.u32(..world.cpus);
            post.doing("work_on_cpu", || cmwq::work_on_cpu(cpu, body::leaf));
        }
        3 => post.doing("rescan_cpus", || _ = world.allowed(cmwq::rescan_cpus())),
        4 => post.doing("report", || _ = cmwq::report().map(|report| report.to_string())),
        5 => post.doing("notices", || _ = cmwq::notices()),
        6 => _ = cmwq::sysfs::entries().len(),
        _ => _ = cmwq::execute_in_process_context(body::leaf),
    }
}

fn on_system_queues(world: &World, post: &Post, rng: &mut Rng) {
    use cmwq::system as s;
    let queues = [
        s::managed(),
        s::percpu(),
        s::highpri(),
        s::long(),
        s::unbound(),
        s::unbound_long(),
        s::freezable(),
        s::power_efficient(),
        s::freezable_power_efficient(),
        s::bh(),
        s::bh_highpri(),
    ];
    let wq = queues[rng.usize(..queues.len())];
    let books = Arc::new(Books::default());
    let handle = closures::queue_leaf(wq, &books, world, rng);
    post.doing("an item of a system queue", || closures::wait(handle, false, world, rng));
}

/// A section for which RCU items wait; nothing is waited for inside.
fn reading(station: &Station, world: &World, rng: &mut Rng) {
    let _guard = cmwq::rcu_read_lock();
    for subject in &station.subjects {
        if rng.u8(..4) == 0 {
            subject.queue(&station.wq, world.cpus, rng);
        }
    }
}
