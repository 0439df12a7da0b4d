//! Timers by themselves: a function that was armed is called, and who deletes a timer and waits has
//! seen the last of it.

use std::ptr::NonNull;

use cmwq_core::{Closed, Nanos};
use shuttle::thread;

use super::{Pods, World, check};
use crate::api::workqueue::Workqueue;
use crate::engine::process::Process;
use crate::engine::process::bare_timers::{Arming, BareTimer, BareTimers, Running, When};
use crate::os::clock;
use crate::os::park::Event;
use crate::os::sync::{Arc, AtomicU32, Ordering};

/// A timer in an object.
#[repr(C)]
struct Object {
    timer: BareTimer,
    runs: AtomicU32,
    /// How often its function arms it again.
    left: AtomicU32,
    is_inside: AtomicU32,
    ran: Event,
    world: World,
    wq: Workqueue,
}

// SAFETY: the timer is governed by its lock.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

/// The execution's.
fn timers() -> &'static BareTimers {
    &Process::existing().expect("an execution is one").bare_timers
}

const SOON: Nanos = 1_000_000;
const LATER: Nanos = 100_000_000;

impl Object {
    fn new(world: World, left: u32) -> Arc<Self> {
        Arc::new(Self {
            timer: BareTimer::new(run),
            runs: AtomicU32::new(0),
            left: AtomicU32::new(left),
            is_inside: AtomicU32::new(0),
            ran: Event::new(),
            world,
            wq: world.queue(|builder| builder.bh()),
        })
    }

    fn place(&self) -> NonNull<BareTimer> {
        NonNull::from(self).cast()
    }

    fn arm(&self, after: Nanos) -> bool {
        let runtime = self.world.runtime;
        let when = When { at: clock::now() + after, jiffies: 0 };
        // SAFETY: it stays until it is deleted.
        unsafe { timers().arm(runtime, self.place(), when, Arming::Always, self.wq.handle()) }
    }

    fn disarm(&self, running: Running) -> Option<bool> {
        let runtime = self.world.runtime;
        // SAFETY: valid.
        unsafe { timers().disarm(runtime, self.place(), running, false) }
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }
}

unsafe extern "C-unwind" fn run(timer: *mut BareTimer) {
    // SAFETY: the timer comes first, and the object stays until the timer is deleted.
    let object = unsafe { &*timer.cast::<Object>() };
    assert_eq!(object.is_inside.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
    object.runs.fetch_add(1, Ordering::SeqCst);
    if object.left.load(Ordering::SeqCst) > 0 {
        object.left.fetch_sub(1, Ordering::SeqCst);
        object.arm(SOON);
    } else {
        object.ran.set();
    }
    object.is_inside.fetch_sub(1, Ordering::SeqCst);
}

#[test]
fn an_armed_timer_is_called_and_may_arm_itself() {
    check(Pods::One, |world| {
        let object = Object::new(*world, 2);
        assert!(!object.arm(SOON));
        object.ran.wait(None);
        assert_eq!(object.disarm(Running::WaitFor), Some(false));
        assert_eq!(object.runs(), 3);
    });
}

/// The clock is armed for the later one when the sooner one comes.
#[test]
fn an_earlier_time_is_not_forgotten() {
    check(Pods::One, |world| {
        let (sooner, later) = (Object::new(*world, 0), Object::new(*world, 0));
        let arming = {
            let later = Arc::clone(&later);
            thread::spawn(move || later.arm(LATER))
        };
        sooner.arm(SOON);
        sooner.ran.wait(None);
        arming.join().unwrap();
        later.ran.wait(None);
        for object in [sooner, later] {
            object.disarm(Running::WaitFor);
            assert_eq!(object.runs(), 1);
        }
    });
}

/// Two delete it while it comes, again and again.
#[test]
fn who_has_deleted_it_has_seen_the_last_of_it() {
    check(Pods::One, |world| {
        let object = Object::new(*world, 1);
        object.arm(SOON);
        let deleting = {
            let object = Arc::clone(&object);
            thread::spawn(move || {
                object.disarm(Running::Ignore);
                object.disarm(Running::WaitFor)
            })
        };
        object.disarm(Running::WaitFor);
        deleting.join().unwrap();
        // Nobody arms it any more but its function, and that was waited for.
        let runs = object.runs();
        assert!(runs <= 2 && object.is_inside.load(Ordering::SeqCst) == 0);
        assert_eq!(object.disarm(Running::Refuse), Some(false));
        let other = Object::new(*world, 0);
        other.arm(SOON);
        other.ran.wait(None);
        other.disarm(Running::WaitFor);
        assert_eq!(object.runs(), runs);
    });
}

/// Armed by a thread and by its own function, while all is shut down.
#[test]
fn none_is_armed_when_all_is_shut() {
    check(Pods::One, |world| {
        let object = Object::new(*world, 1);
        let arming = {
            let object = Arc::clone(&object);
            thread::spawn(move || {
                object.arm(SOON);
                object.arm(LATER);
            })
        };
        object.wq.handle().close(Closed::SHUT);
        timers().discard(object.world.runtime);
        arming.join().unwrap();
        assert_eq!(object.disarm(Running::WaitFor), Some(false), "it is armed");
    });
}
