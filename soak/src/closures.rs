//! Closures: the ways to queue one, and what is done with its handle.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use cmwq::{JoinError, JoinHandle, Workqueue};
use fastrand::Rng;

use crate::body;
use crate::books::{Books, Ticket};
use crate::watch::fail;
use crate::world::{Station, Totals, World};

/// The value of every closure.
const VALUE: u64 = 0x00c0_ffee;

/// Queues one, in some way.
pub(crate) fn queue(station: &Station, world: &World, rng: &mut Rng) -> JoinHandle<u64> {
    let mut ticket = Ticket::of(&station.closures);
    let (level, is_bh) = (station.level, station.is_bh);
    let func = move || {
        ticket.enter();
        body::once(level, is_bh);
        VALUE
    };
    queue_on(&station.wq, func, world, rng)
}

fn queue_on<F>(wq: &Workqueue, func: F, world: &World, rng: &mut Rng) -> JoinHandle<u64>
where
    F: FnOnce() -> u64 + Send + 'static,
{
    let delay = Duration::from_micros(rng.u64(..2_000));
    let cpu = rng.u32(..world.cpus);
    match rng.u8(..8) {
        0 => wq.queue_delayed(func, delay),
        1 => wq.queue_delayed_on(cpu, func, delay),
        2 => wq.queue_delayed(func, Duration::ZERO),
        3 => wq.queue_on(cpu, func),
        _ => wq.queue(func),
    }
}

/// Queues one that waits for nothing.
pub(crate) fn queue_leaf(
    wq: &Workqueue,
    books: &Arc<Books>,
    world: &World,
    rng: &mut Rng,
) -> JoinHandle<u64> {
    let mut ticket = Ticket::of(books);
    let func = move || {
        ticket.enter();
        body::leaf();
        VALUE
    };
    queue_on(wq, func, world, rng)
}

pub(crate) fn queue_and_wait(station: &Station, world: &World, rng: &mut Rng) {
    let handle = queue(station, world, rng);
    wait(handle, station.may_refuse, world, rng);
}

/// Waits in some way for its value.
pub(crate) fn wait(handle: JoinHandle<u64>, may_refuse: bool, world: &World, rng: &mut Rng) {
    let outcome = match rng.u8(..8) {
        0 => block_on(handle),
        1 => match handle.join_timeout(Duration::from_micros(rng.u64(..500))) {
            Ok(outcome) => outcome,
            Err(handle) if rng.bool() => handle.join(),
            Err(dropped) => return drop(dropped),
        },
        _ => handle.join(),
    };
    judge(outcome, may_refuse, world);
}

fn judge(outcome: Result<u64, JoinError>, may_refuse: bool, world: &World) {
    match outcome {
        Ok(VALUE) => {}
        Err(error) if error.is_refused() && may_refuse => {}
        Err(error) if error.is_panic() && error.message().is_none() => {
            if !error.into_panic().is::<body::Deliberate>() {
                fail("a closure panicked by itself");
            }
            Totals::add(&world.totals.panics_joined, 1);
        }
        Ok(value) => fail(&format!("a closure's value became {value:#x}")),
        Err(error) => fail(&format!("a closure failed: {error}")),
    }
}

/// Closures that borrow. Refused ones would be a panic of the scope, so never on a queue that is
/// drained.
pub(crate) fn scope(station: &Station, world: &World, rng: &mut Rng) {
    if station.may_refuse {
        return;
    }
    let cpu = rng.u32(..world.cpus);
    let mut values = [0_u64; 3];
    let mut tickets = [(); 3].map(|()| Ticket::of(&station.closures));
    let ([first, second, third], [a, b, c]) = (&mut values, &mut tickets);
    station.wq.scope(|scope| {
        let in_order = scope.queue(|| {
            a.enter();
            *first = VALUE;
            VALUE
        });
        drop(scope.queue_on(cpu, || {
            b.enter();
            *second = VALUE;
        }));
        let is_finished = in_order.is_finished();
        if in_order.join().ok() != Some(VALUE) {
            fail(&format!("a scoped closure has lost its value; finished: {is_finished}"));
        }
        c.enter();
        *third = VALUE;
    });
    if values != [VALUE; 3] {
        fail("a scope has ended before its closures");
    }
}

/// The smallest executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        thread::park();
    }
}
