//! Timers that call a function in place of queueing an item: the kernel's `timer_list`, for C.
//!
//! They are on a wheel of their own. Two delayed items, the *clocks*, are armed for the times at
//! which that wheel has to be looked at, and run on a BH queue that nobody drains: one clock for
//! prompt timers, one for [deferrable](cmwq_core::Timer::deferrable) ones. The clock that runs
//! calls the functions of all timers that are due, one after another; the other clock, if it runs
//! meanwhile, leaves them to the first.
//!
//! Lock: bare timers, outermost: clocks are armed and cancelled under it. No function is called
//! under it.
//!
//! KERNEL: `mod_timer`, `timer_delete_sync` and the like — differs: one context for all CPUs.

use std::cell::{Cell, UnsafeCell};
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
use std::mem::offset_of;
use std::ptr::NonNull;
use std::time::Duration;

use cmwq_core::{Nanos, Timer, WorkItem};

use crate::engine::item::delayed::DelayedItem;
use crate::engine::item::grab::{self, Target};
use crate::engine::process::Process;
use crate::engine::queue::handle::Handle;
use crate::engine::runtime::Runtime;
use crate::engine::threads::current;
use crate::engine::threads::invoke;
use crate::engine::tools::plan::NEVER;
use crate::engine::tools::timers::Timers;
use crate::os::clock;
use crate::os::generation;
use crate::os::notice;
use crate::os::park::Event;
use crate::os::sync::{Arc, Mutex, lock};
use crate::record::symbol;

/// What a timer calls, with itself.
pub(crate) type TimerFn = unsafe extern "C-unwind" fn(*mut BareTimer);

/// `struct timer_list`.
#[repr(C)]
pub(crate) struct BareTimer {
    timer: UnsafeCell<Timer>,
    /// When it expires, in jiffies: for readers in C.
    expires: UnsafeCell<u64>,
    /// `None`: the timer is never armed, because it was shut down or is a delayed item's.
    func: UnsafeCell<Option<TimerFn>>,
}

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
const _: () = {
    assert!(size_of::<BareTimer>() == 48);
    assert!(offset_of!(BareTimer, timer) == 0);
    assert!(offset_of!(BareTimer, expires) == 32);
    assert!(offset_of!(BareTimer, func) == 40);
};

impl BareTimer {
    /// Makes the timer one that cannot be armed again.
    ///
    /// # Safety
    /// `timer` must be valid, and not used by another thread meanwhile.
    pub(crate) unsafe fn shut_down(timer: NonNull<Self>) {
        // SAFETY: the caller's promise.
        unsafe { *timer.as_ref().func.get() = None };
    }

    /// A timer that is not armed.
    #[cfg(all(test, cmwq_shuttle))]
    pub(crate) fn new(func: TimerFn) -> Self {
        Self {
            timer: UnsafeCell::new(Timer::new()),
            expires: UnsafeCell::new(0),
            func: UnsafeCell::new(Some(func)),
        }
    }
}

/// Whether a timer is to be armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arming {
    /// In any case.
    Always,
    /// If it is armed already.
    IfArmed,
    /// Unless it is armed for an earlier time.
    IfEarlier,
    /// It must not be armed: if it is, that is reported and nothing changes.
    First,
}

/// When a timer is to expire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    pub(crate) at: Nanos,
    pub(crate) jiffies: u64,
}

/// What disarming a timer does if the timer's function runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// It goes on.
    Ignore,
    /// Nothing is done.
    Refuse,
    /// It is waited for.
    WaitFor,
}

/// Tells this wheel from that of delayed items, and both from those of the parent of a fork.
const TAG: u32 = 1 << 31;

/// See the module header.
pub(crate) struct BareTimers {
    state: Mutex<State>,
    clocks: [DelayedItem; 2],
}

struct State {
    timers: Timers,
    /// The clocks' queue, while there is an armed timer.
    wq: Option<Handle>,
    /// The times for which the clocks are armed: the prompt one, and the deferrable one.
    looks_at: [Nanos; 2],
    /// The address of the timer whose function runs.
    running: Option<usize>,
    /// The threads that wait for its end.
    waiting: Vec<Arc<Event>>,
}

crate::os::sync::thread_local! {
    /// The timer whose function the thread runs.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// In a forked child: the timer whose function the thread runs is the parent's.
#[allow(dead_code, reason = "nobody forks under a model checker")]
pub(crate) fn leave_own() {
    OWN.with(|own| own.set(0));
}

impl BareTimers {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                timers: Timers::new(clock::now(), TAG | generation::current()),
                wq: None,
                looks_at: [NEVER; 2],
                running: None,
                waiting: Vec::new(),
            }),
            clocks: [false, true]
                .map(|is_deferrable| DelayedItem::uncounted(expire_due, is_deferrable)),
        }
    }

    /// Arms a timer as `arming` says, unless `wq` is shut down. Returns whether the timer was armed
    /// before. `wq` is a BH queue that nobody drains or closes before: who sets the clocks relies
    /// on their coming.
    ///
    /// # Safety
    /// `timer` must be valid, and stay where it is until it is disarmed or its function entered.
    pub(crate) unsafe fn arm(
        &self,
        runtime: &'static Runtime,
        timer: NonNull<BareTimer>,
        when: When,
        arming: Arming,
        wq: &Handle,
    ) -> bool {
        let mut state = lock(&self.state);
        // SAFETY: valid by the caller's promise; its members are governed by the lock.
        let (place, has_func) =
            unsafe { (timer.cast::<Timer>(), (*timer.as_ref().func.get()).is_some()) };
        if !has_func || !wq.closed().lets_arm() {
            return false;
        }
        // A timer for now or earlier is due at the next tick: so a round ends although a function
        // arms its own timer again.
        let at = when.at.max(clock::now() + 1);
        // SAFETY: valid; on this wheel, or on that of the parent of a fork, if on any.
        let (was_armed, is_earlier) = unsafe {
            let _ = state.timers.forget_foreign(place);
            (state.timers.is_armed(place), at < cmwq_core::Wheel::due(place))
        };
        match arming {
            Arming::IfArmed if !was_armed => return false,
            Arming::IfEarlier if was_armed && !is_earlier => return true,
            Arming::First if was_armed => {
                drop(state);
                notice::always(format!(
                    "add_timer of timer {timer:p}, which is armed: it stays as it was (mod_timer \
                     arms it anew)"
                ));
                return true;
            }
            _ => {}
        }
        // SAFETY: valid; if it is armed, on this wheel; and the caller's promise.
        unsafe {
            state.timers.arm_anew(place, at, clock::now());
            *timer.as_ref().expires.get() = when.jiffies;
        }
        if state.wq.is_none() {
            state.wq = Some(wq.clone());
        }
        self.set_clocks(&mut state, runtime);
        was_armed
    }

    /// Disarms a timer; `for_good`: it cannot be armed again. Returns whether it was armed. `None`:
    /// its function runs, and nothing was done.
    ///
    /// # Safety
    /// `timer` must be valid.
    pub(crate) unsafe fn disarm(
        &self,
        runtime: &'static Runtime,
        timer: NonNull<BareTimer>,
        running: Running,
        for_good: bool,
    ) -> Option<bool> {
        let address = timer.as_ptr().addr();
        let mut was_armed = false;
        loop {
            let mut state = lock(&self.state);
            let runs = state.running == Some(address);
            if runs && running == Running::Refuse {
                return None;
            }
            // SAFETY: valid by the caller's promise; its members are governed by the lock.
            unsafe {
                let func = timer.as_ref().func.get();
                if (*func).is_some() {
                    let _ = state.timers.forget_foreign(timer.cast());
                    was_armed |= state.timers.cancel(timer.cast());
                }
                if for_good {
                    *func = None;
                }
            }
            let last = self.rest_if_empty(&mut state, runtime);
            let is_own = OWN.try_with(Cell::get).is_ok_and(|own| own == address);
            let end = (runs && running == Running::WaitFor && !is_own).then(|| {
                let end = Arc::new(Event::new());
                state.waiting.push(Arc::clone(&end));
                end
            });
            drop(state);
            last.into_iter().for_each(Handle::drop_later);
            let Some(end) = end else {
                if runs && running == Running::WaitFor {
                    notice::always(format!(
                        "timer {timer:p} is deleted from inside its own function, which would wait \
                         for itself for ever; the call returns without waiting"
                    ));
                }
                return Some(was_armed);
            };
            // The function may have armed the timer again: look once more.
            current::blocking(|| end.wait(None));
        }
    }

    /// Disarms all timers, when all queues have been shut. A thread that arms a timer later sees
    /// under the lock that they are.
    pub(crate) fn discard(&self, runtime: &'static Runtime) {
        let (mut state, mut budget) = (lock(&self.state), usize::MAX);
        while state.timers.expire_some(NEVER, &mut budget).is_some() {}
        let last = self.rest_if_empty(&mut state, runtime);
        drop(state);
        last.into_iter().for_each(Handle::drop_later);
    }

    /// Calls the functions of the timers that are due.
    fn expire(&self, runtime: &'static Runtime) {
        let mut state = lock(&self.state);
        if state.running.is_some() {
            return;
        }
        // Timers that are armed meanwhile are due later, so this ends.
        let now = clock::now();
        state.looks_at = [NEVER; 2];
        loop {
            let mut budget = usize::MAX;
            let Some(timer) = state.timers.expire_some(now, &mut budget) else { break };
            let timer = timer.cast::<BareTimer>();
            // SAFETY: an armed timer is valid until its function is entered.
            let Some(func) = (unsafe { *timer.as_ref().func.get() }) else { continue };
            let address = timer.as_ptr().addr();
            state.running = Some(address);
            drop(state);
            OWN.with(|own| own.set(address));
            let who = || format!("function {} of a timer", symbol::name_of(func as usize));
            // SAFETY: the caller of `arm` has promised that the timer's function may be called.
            invoke::foreign(who, || unsafe { func(timer.as_ptr()) });
            OWN.with(|own| own.set(0));
            state = lock(&self.state);
            state.running = None;
            state.waiting.drain(..).for_each(|waiting| waiting.set());
        }
        self.set_clocks(&mut state, runtime);
        let last = self.rest_if_empty(&mut state, runtime);
        drop(state);
        last.into_iter().for_each(Handle::drop_later);
    }

    /// Arms the clocks for the times at which the wheel has to be looked at. A clock that comes too
    /// early does nothing.
    fn set_clocks(&self, state: &mut State, runtime: &'static Runtime) {
        let State { timers, wq: Some(wq), looks_at, running: None, .. } = state else { return };
        let deadlines = [timers.next_deadline().unwrap_or(NEVER), timers.deferred_at()];
        for ((clock, looks_at), at) in self.clocks.iter().zip(looks_at).zip(deadlines) {
            if at >= *looks_at {
                continue;
            }
            *looks_at = at;
            grab::grab(runtime, Target::Delayed(clock));
            // At least 1 ns, so that a timer is armed: nothing is queued under the lock.
            let delay = Duration::from_nanos(at.saturating_sub(clock::now()).max(1));
            // SAFETY: `grab` has made PENDING ours, and the clocks live as long as the runtime. The
            // queue refuses a clock only if the library is shut down.
            let _ = unsafe {
                DelayedItem::queue_unless_disabled(NonNull::from(clock), wq, None, delay)
            };
        }
    }

    /// Without timers, disarms the clocks. Returns the queue's handle, to be dropped without the
    /// lock.
    fn rest_if_empty(&self, state: &mut State, runtime: &'static Runtime) -> Option<Handle> {
        if !state.timers.is_empty() || state.running.is_some() {
            return None;
        }
        for (clock, at) in self.clocks.iter().zip(&mut state.looks_at) {
            if *at != NEVER {
                *at = NEVER;
                let _ = grab::cancel(runtime, Target::Delayed(clock));
            }
        }
        state.wq.take()
    }
}

/// The clocks' function.
unsafe extern "C" fn expire_due(_clock: *mut WorkItem) {
    if let Some(process) = Process::existing() {
        process.bare_timers.expire(process.runtime);
    }
}

impl std::fmt::Debug for BareTimers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BareTimers").field("clocks", &self.clocks).finish_non_exhaustive()
    }
}
