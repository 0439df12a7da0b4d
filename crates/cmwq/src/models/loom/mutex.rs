//! The lock: one at a time, who comes next sees what was done, and nobody sleeps for ever.

use loom::sync::Arc;
use loom::thread;

use super::{Owned, check, check_three};
use crate::os::sync::{GuardedMutex, RawMutex};

struct Shared {
    mutex: RawMutex,
    owned: Owned,
}

fn hold(s: &Shared) {
    s.mutex.lock();
    s.owned.touch();
    s.mutex.unlock();
}

fn holder(s: &Arc<Shared>, holds: usize) -> thread::JoinHandle<()> {
    let s = Arc::clone(s);
    thread::spawn(move || (0..holds).for_each(|_| hold(&s)))
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared { mutex: RawMutex::new(), owned: Owned::new() })
}

#[test]
fn one_at_a_time_has_it() {
    check(|| {
        let s = shared();
        let other = holder(&s, 2);
        hold(&s);
        other.join().unwrap();
    });
}

#[test]
fn all_who_wait_get_it() {
    check_three(|| {
        let s = shared();
        let others = [holder(&s, 1), holder(&s, 1)];
        hold(&s);
        for other in others {
            other.join().unwrap();
        }
    });
}

/// By guards: one that was made for nothing would give the lock back to whoever comes next.
#[test]
fn who_does_not_wait_gets_it_or_nothing() {
    check_three(|| {
        let s = Arc::new(GuardedMutex::new(Owned::new()));
        let others = [(); 2].map(|()| {
            let s = Arc::clone(&s);
            thread::spawn(move || s.lock().touch())
        });
        if let Some(owned) = s.try_lock() {
            owned.touch();
        }
        for other in others {
            other.join().unwrap();
        }
    });
}
