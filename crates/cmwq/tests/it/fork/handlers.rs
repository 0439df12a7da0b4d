//! Handlers of forks that the program has registered, and that use the library.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use cmwq::{Workqueue, raw};

use crate::support::scene::Stage;
use crate::support::{joined, managed, sys};

static WQ: OnceLock<Workqueue> = OnceLock::new();
static NR_CALLS: AtomicU32 = AtomicU32::new(0);
/// Seconds until one that hangs is ended, with its process. A child has no time limit yet.
const TIME_LIMIT: u32 = 120;

extern "C" fn uses_the_library() {
    sys::alarm(TIME_LIMIT);
    // Above all what takes a lock that is held during a fork.
    drop(cmwq::rcu_read_lock());
    raw::rcu_barrier();
    let _ = cmwq::notices();
    if let Some(wq) = WQ.get() {
        assert_eq!(joined(wq.queue(|| 7)), 7);
        let other = Workqueue::builder("other").percpu().build().unwrap();
        assert_eq!(joined(other.queue(|| 8)), 8);
        wq.flush();
    }
    NR_CALLS.fetch_add(1, Ordering::SeqCst);
}

/// Which may call at each fork what they may call elsewhere.
#[test]
fn handlers_that_the_program_registers_first_may_use_the_library() {
    Stage::new("fork::handlers").play();
}

pub(super) fn handlers() {
    sys::at_forks(uses_the_library);
    let calls = || NR_CALLS.load(Ordering::SeqCst);
    // Before the first use, and after it.
    assert_eq!(sys::fork(|| assert_eq!(calls(), 2)), 0);
    assert_eq!(calls(), 2);
    WQ.set(managed("known")).unwrap();
    let status = sys::fork(|| {
        assert_eq!(calls(), 4);
        assert_eq!(sys::fork(|| assert_eq!(calls(), 6)), 0, "a child of a child");
    });
    assert_eq!(status, 0);
    assert_eq!(joined(WQ.get().unwrap().queue(|| 9)), 9);
}
