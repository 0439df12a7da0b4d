//! What items do.
//!
//! Items wait for other items, and must not do so in a circle. So each station has a level, and an
//! item waits only for items of stations above its own: whatever it waits for can finish whether it
//! does or not. Those of BH queues are on top; they wait for nothing. Queues of an item's own, and
//! the system's, have items that wait for nothing either.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::closures;
use crate::short;
use crate::subject::SubjectBooks;
use crate::watch::fail;
use crate::world::{Station, Totals, World};

/// How far up a station is.
pub(crate) type Level = u8;
/// That of items that wait for nothing.
pub(crate) const TOP: Level = 4;

static WORLD: OnceLock<&'static World> = OnceLock::new();
static SEED: AtomicU64 = AtomicU64::new(0);

/// What items need to know.
pub(crate) fn set(world: &'static World, seed: u64) {
    SEED.store(seed, Ordering::SeqCst);
    assert!(WORLD.set(world).is_ok(), "the world is made once");
}

/// A generator for one run.
fn chance() -> Rng {
    Rng::with_seed(SEED.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst))
}

/// What a panic of these items carries.
#[derive(Debug)]
pub(crate) struct Deliberate;

/// Counts the panics that nobody joins.
pub(crate) fn heed_panics(world: &'static World) {
    // Deliberate ones do not come by here: any other, the library's own too, is a failure.
    std::panic::set_hook(Box::new(|info| fail(&info.to_string())));
    cmwq::set_panic_handler(move |payload| {
        if !payload.is::<Deliberate>() {
            fail("an item panicked by itself");
        }
        Totals::add(&world.totals.panics_handled, 1);
    });
}

/// The function of a reusable item.
pub(crate) fn reusable(own: &Weak<Station>, books: &SubjectBooks) {
    // None: the station is being closed.
    let (Some(station), Some(world)) = (own.upgrade(), WORLD.get()) else { return };
    let mut rng = chance();
    let is_again = rng.u8(..16) == 0;
    if is_again {
        let n = books.runs.load(Ordering::SeqCst) as usize % station.subjects.len();
        // Itself, or another one of its queue.
        station.subjects[n].queue(&station.wq, world.cpus, &mut rng);
    }
    act(world, station.level, station.is_bh, &mut rng);
    drop(station);
    if rng.u8(..64) == 0 {
        panic(world);
    }
}

/// The function of a closure of a station; it may panic.
pub(crate) fn once(level: Level, is_bh: bool) {
    let Some(world) = WORLD.get() else { return };
    let mut rng = chance();
    act(world, level, is_bh, &mut rng);
    if rng.u8(..64) == 0 {
        panic(world);
    }
}

/// What an item that waits for nothing does.
pub(crate) fn leaf() {
    let mut rng = chance();
    pass_time(&mut rng);
}

/// Without the message of the panic hook.
fn panic(world: &World) -> ! {
    Totals::add(&world.totals.panics_thrown, 1);
    std::panic::resume_unwind(Box::new(Deliberate))
}

fn act(world: &'static World, level: Level, is_bh: bool, rng: &mut Rng) {
    match rng.u8(..16) {
        _ if is_bh => briefly(world, rng),
        0..4 => pass_time(rng),
        4..7 => wait_for_others(world, level, rng),
        7 => cmwq::set_worker_desc("soaking"),
        8 => drop(world.station_above(level, rng).map(|above| closures::queue(&above, world, rng))),
        _ => {}
    }
}

fn burn(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

fn pass_time(rng: &mut Rng) {
    let time = Duration::from_micros(rng.u64(..300));
    match rng.u8(..8) {
        0..2 => thread::sleep(time),
        2..4 => burn(time / 4),
        4 => cmwq::blocking(|| thread::sleep(time)),
        5 => thread::yield_now(),
        // Long enough to be taken for a hog.
        6 if rng.u8(..64) == 0 => burn(Duration::from_millis(15)),
        _ => {}
    }
}

/// In a BH context nothing may block.
fn briefly(world: &'static World, rng: &mut Rng) {
    match rng.u8(..8) {
        0 => burn(Duration::from_micros(rng.u64(..20))),
        1 => drop(world.station(rng).map(|other| closures::queue(&other, world, rng))),
        2 => _ = cmwq::execute_in_process_context(|| ()),
        3 => {
            if let Some(other) = world.station(rng) {
                let subject = &other.subjects[rng.usize(..other.subjects.len())];
                subject.queue(&other.wq, world.cpus, rng);
                subject.cancel();
            }
        }
        _ => {}
    }
}

fn wait_for_others(world: &'static World, level: Level, rng: &mut Rng) {
    let Some(above) = world.station_above(level, rng) else { return };
    let subject = &above.subjects[rng.usize(..above.subjects.len())];
    match rng.u8(..16) {
        0..5 => closures::queue_and_wait(&above, world, rng),
        5..8 => {
            subject.queue(&above.wq, world.cpus, rng);
            subject.flush();
        }
        8 => subject.cancel_sync(),
        9 => subject.disabled(&above.wq, true, || ()),
        10 => above.wq.flush(),
        11 if above.may_refuse => above.wq.drain(),
        11 => closures::scope(&above, world, rng),
        12 => short::lived(world, rng),
        13 => short::round(world, rng),
        14 => cmwq::work_on_cpu(rng.u32(..world.cpus), leaf),
        _ => {}
    }
}
