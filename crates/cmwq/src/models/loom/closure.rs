//! A closure's run and its handle: the outcome is seen, no wake-up is lost, and the last one to use
//! the closure frees it.

use std::time::Duration;

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{News, Owned, check};
use crate::api::closure::{End, Found, State};

/// A closure as far as two threads touch it.
struct Closure {
    state: State,
    outcome: Owned,
    /// The waker's cell, and whether the waker in it was called.
    waker: Owned,
    woken: News,
    /// What a side uses of the closure up to its end, and whoever frees it does then.
    run_uses: Owned,
    handle_uses: Owned,
    freed: News,
}

fn closure() -> Arc<Closure> {
    Arc::new(Closure::new())
}

impl Closure {
    fn new() -> Self {
        Self {
            state: State::new(),
            outcome: Owned::new(),
            waker: Owned::new(),
            woken: News::new(),
            run_uses: Owned::new(),
            handle_uses: Owned::new(),
            freed: News::new(),
        }
    }

    /// As the runs of closures do.
    fn run(&self) {
        self.run_uses.touch();
        if self.state.is_detached() {
            return self.free();
        }
        self.outcome.touch();
        match self.state.finish(End::Panicked) {
            Found::Handle => {}
            Found::Detached => {
                self.outcome.touch();
                self.free();
            }
            Found::Waiting { is_polled } => {
                self.state.wake();
                if is_polled {
                    self.waker.touch();
                    self.woken.write();
                }
                self.run_uses.touch();
                if self.state.leave_run() {
                    self.free();
                }
            }
        }
    }

    /// As handles do that are dropped.
    fn drop_handle(&self) {
        self.handle_uses.touch();
        while !self.state.detach() {
            if self.state.is_done() {
                return self.take();
            }
            assert!(self.withdraw() || self.state.is_done());
        }
    }

    /// As handles do whose closure is done.
    fn take(&self) {
        assert_eq!(self.state.end(), Some(End::Panicked));
        self.outcome.touch();
        self.withdraw();
        self.handle_uses.touch();
        if self.state.leave_handle() {
            self.free();
        }
    }

    fn withdraw(&self) -> bool {
        let is_mine = self.state.withdraw_waker();
        if is_mine {
            self.waker.touch();
        }
        is_mine
    }

    /// Leaves a waker. `false`: it is done.
    fn poll(&self) -> bool {
        !self.state.is_done() && self.withdraw() && self.state.publish_waker()
    }

    fn free(&self) {
        for part in [&self.outcome, &self.waker, &self.run_uses, &self.handle_uses] {
            part.touch();
        }
        self.freed.write();
    }
}

/// Runs a closure while `handle` has its handle. Somebody frees it, once.
fn check_with(handle: impl Fn(&Closure) + Send + Sync + 'static) {
    check(move || {
        let closure = closure();
        let run = {
            let closure = Arc::clone(&closure);
            thread::spawn(move || closure.run())
        };
        handle(&closure);
        run.join().unwrap();
        assert_eq!(closure.freed.read(), 1);
    });
}

fn wait(closure: &Closure) {
    while !closure.state.wait(None) {}
}

#[test]
fn who_joins_has_the_outcome() {
    check_with(|closure| {
        if !closure.state.is_done() {
            wait(closure);
        }
        closure.take();
    });
}

#[test]
fn who_waits_for_some_time_may_join_or_go() {
    check_with(|closure| {
        if closure.state.wait(Some(Duration::from_millis(1))) {
            return closure.take();
        }
        closure.drop_handle();
    });
    check_with(|closure| {
        if !closure.state.wait(Some(Duration::from_millis(1))) {
            wait(closure);
        }
        closure.take();
    });
}

#[test]
fn who_goes_leaves_everything_to_the_run() {
    check_with(Closure::drop_handle);
}

#[test]
fn whoever_looks_may_take() {
    check_with(|closure| {
        if closure.state.is_done() {
            closure.take();
        } else {
            closure.drop_handle();
        }
    });
}

/// As often as it is polled: who was told to wait will be woken.
#[test]
fn a_waker_is_called() {
    for polls in 1..=2 {
        check(move || {
            let closure = closure();
            let run = {
                let closure = Arc::clone(&closure);
                thread::spawn(move || closure.run())
            };
            let is_waiting = (0..polls).all(|_| closure.poll());
            if !is_waiting {
                closure.take();
            }
            run.join().unwrap();
            if is_waiting {
                assert_eq!(closure.woken.read(), 1);
                closure.take();
            }
            assert_eq!(closure.freed.read(), 1);
        });
    }
}

#[test]
fn who_has_polled_may_go_or_join() {
    check_with(|closure| {
        if !closure.poll() {
            return closure.take();
        }
        closure.drop_handle();
    });
    check_with(|closure| {
        if closure.poll() {
            wait(closure);
        }
        closure.take();
    });
}

// ---- taking it back

/// A closure on its queue: whether it is there is decided under the pool's lock.
struct Queued {
    closure: Closure,
    is_there: Mutex<bool>,
    func: Owned,
}

impl Queued {
    fn run(&self) {
        let is_mine = std::mem::take(&mut *self.is_there.lock().unwrap());
        if is_mine {
            self.func.touch();
            self.closure.run();
        }
    }

    /// `true`: it will not run.
    fn cancel(&self) -> bool {
        if self.closure.state.is_done() || !std::mem::take(&mut *self.is_there.lock().unwrap()) {
            return false;
        }
        self.closure.withdraw();
        self.func.touch();
        self.closure.free();
        true
    }
}

/// It runs or is taken back, and whoever has it then frees it, once.
#[test]
fn who_takes_it_back_has_everything_or_joins() {
    for is_polled in [false, true] {
        check(move || {
            let queued = Arc::new(Queued {
                closure: Closure::new(),
                is_there: Mutex::new(true),
                func: Owned::new(),
            });
            let run = {
                let queued = Arc::clone(&queued);
                thread::spawn(move || queued.run())
            };
            let closure = &queued.closure;
            let is_done = is_polled && !closure.poll();
            if is_done || !queued.cancel() {
                if !closure.state.is_done() {
                    wait(closure);
                }
                closure.take();
            }
            run.join().unwrap();
            assert_eq!(closure.freed.read(), 1);
        });
    }
}
