//! Queues that live for a few items, by themselves or by what their items own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use cmwq::{JoinHandle, Workqueue};
use fastrand::Rng;

use crate::books::Books;
use crate::closures;
use crate::sys;
use crate::watch::fail;
use crate::world::{Totals, World, random_attrs};

fn made(builder: cmwq::Builder, world: &World) -> Option<Workqueue> {
    let wq = world.allowed(builder.build())?;
    Totals::add(&world.totals.queues, 1);
    Some(wq)
}

/// A queue, some items, and its end. It may go on without its maker: in an item, or behind a timer.
pub(crate) fn lived(world: &'static World, rng: &mut Rng) {
    let b = Workqueue::builder("short");
    let builder = match rng.u8(..6) {
        0 => b.percpu(),
        1 => b.managed(),
        2 => b.ordered(),
        3 => b.unbound().attrs(random_attrs(world.cpus, rng)),
        4 => b.unbound().mem_reclaim().max_active(1),
        _ => b.bh(),
    };
    let Some(wq) = made(builder, world) else { return };
    let books = Arc::new(Books::default());
    let mut handles = Vec::new();
    for _ in 0..rng.u8(..6) {
        handles.push(closures::queue_leaf(&wq, &books, world, rng));
        if rng.u8(..4) == 0 {
            let (own, books) = (wq.clone(), Arc::clone(&books));
            let mut rng = rng.fork();
            drop(wq.queue(move || {
                drop(closures::queue_leaf(&own, &books, world, &mut rng));
                drop(own);
            }));
        }
    }
    match rng.u8(..4) {
        0 => wq.flush(),
        1 => wq.drain(),
        2 => drop(std::mem::take(&mut handles)),
        _ => handles.drain(..).for_each(|handle| closures::wait(handle, true, world, rng)),
    }
    drop(wq);
}

/// Dropping a queue's only handle waits for its items.
pub(crate) fn dropped(world: &'static World, rng: &mut Rng) {
    let b = Workqueue::builder("dropped");
    let builder = match rng.u8(..5) {
        0 => b.percpu(),
        1 => b.managed(),
        2 => b.ordered(),
        3 => b.unbound().nice(sys::nicer_by(rng.i32(8..10))),
        _ => b.bh(),
    };
    let Some(wq) = made(builder, world) else { return };
    let runs = Arc::new(AtomicU64::new(0));
    let queued = rng.u64(1..8);
    for _ in 0..queued {
        let runs = Arc::clone(&runs);
        let func = move || _ = runs.fetch_add(1, Ordering::SeqCst);
        drop(wq.queue_on(rng.u32(..world.cpus), func));
    }
    let name = wq.name().to_owned();
    drop(wq);
    let runs = runs.load(Ordering::SeqCst);
    if runs != queued {
        fail(&format!("queue {name} is gone, and {runs} of its {queued} items have run"));
    }
}

/// A closure that is refused when its time has come has the last handle of a queue, whose item
/// waits for a timer: nobody waits for the queue there but who can.
pub(crate) fn refused(world: &'static World, rng: &mut Rng) {
    let builders = ["refuses", "held"].map(|name| made(Workqueue::builder(name), world));
    let [Some(refuses), Some(held)] = builders else { return };
    drop(refuses.clone().close());
    let [sooner, later] = [(); 2].map(|()| Duration::from_micros(rng.u64(..2_000)));
    let running = held.queue(move || {
        thread::sleep(sooner);
        cmwq::system::unbound().queue_delayed(|| (), later).join().is_ok()
    });
    let refused = refuses.queue_delayed(move || drop(held), sooner);
    if !matches!(running.join(), Ok(true)) {
        fail("an item has not got what it waited for");
    }
    match refused.join() {
        Err(error) if error.is_refused() => {}
        outcome => fail(&format!("a closure of a closed queue was not refused: {outcome:?}")),
    }
}

/// A queue whose pool may be no other's: one item waits for another one, attributes change on the
/// way, and the queue and its pool go.
pub(crate) fn round(world: &'static World, rng: &mut Rng) {
    // Of no station.
    let nice = sys::nicer_by(rng.i32(8..10));
    let Some(wq) = made(Workqueue::builder("round").unbound().nice(nice), world) else { return };
    let (tell, told) = mpsc::channel::<JoinHandle<u64>>();
    let waiting = wq.queue(move || told.recv().map(JoinHandle::join));
    let is_changed = rng.u8(..4) == 0;
    if is_changed {
        let _kept = world.allowed(wq.apply_attrs(&random_attrs(world.cpus, rng)));
    }
    let books = Arc::new(Books::default());
    // If it fails, the other one has ended, which it does not.
    if tell.send(closures::queue_leaf(&wq, &books, world, rng)).is_err() {
        fail("an item that waits has ended before what it waits for came");
    }
    if !matches!(waiting.join(), Ok(Ok(Ok(_)))) {
        fail("an item has not got the value that it waited for");
    }
    drop(wq);
    if books.queued() != 1 || books.ran() != 1 {
        fail(&format!("a queue is gone, and its item is not done: {books:?}"));
    }
}
