//! A closure's last reference frees what the other one used.

use loom::sync::Arc;
use loom::thread;

use super::{Owned, check};
use crate::closure::Refs;

struct Shared {
    refs: Refs,
    closure: Owned,
}

impl Shared {
    fn use_and_release(&self) -> bool {
        let is_last = self.refs.release();
        if is_last {
            self.closure.touch();
        }
        is_last
    }
}

#[test]
fn the_last_reference_sees_what_was_done_with_the_other() {
    check(|| {
        let s = Arc::new(Shared { refs: Refs::two(), closure: Owned::new() });
        let run = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                s.closure.touch();
                s.use_and_release()
            })
        };
        let handle = s.use_and_release();
        assert_ne!(handle, run.join().unwrap(), "exactly one is the last");
    });
}

/// Whoever is told that it is the last stays so.
#[test]
fn alone_is_alone() {
    check(|| {
        let s = Arc::new(Shared { refs: Refs::two(), closure: Owned::new() });
        let handle = {
            let s = Arc::clone(&s);
            thread::spawn(move || s.refs.release())
        };
        let was_alone = s.refs.is_last();
        let is_last = s.refs.release();
        assert!(is_last || !was_alone);
        assert_ne!(is_last, handle.join().unwrap());
    });
}
