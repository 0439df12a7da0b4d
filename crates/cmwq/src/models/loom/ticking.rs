//! A pool that is watched is on the list of ticking pools.

use loom::thread;

use super::check;
use crate::detect::ticking::{TickList, Watched};
use crate::os::sync::{AtomicBool, Ordering};

struct Pool {
    is_watched: AtomicBool,
    is_listed: AtomicBool,
}

impl Watched for Pool {
    fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    fn is_listed(&self) -> &AtomicBool {
        &self.is_listed
    }
}

/// A pool on a list, that was quiet for so long that the next look takes it off.
fn quiet() -> (&'static TickList<Pool>, &'static Pool) {
    let list: &TickList<Pool> = Box::leak(Box::new(TickList::new()));
    let pool = Box::leak(Box::new(Pool { is_watched: false.into(), is_listed: false.into() }));
    assert!(list.add(pool));
    for _ in 0..3 {
        list.drop_quiet();
    }
    assert!(!list.is_empty());
    (list, pool)
}

fn listed(list: &TickList<Pool>) -> usize {
    let mut pools = Vec::new();
    list.collect(&mut pools);
    pools.len()
}

#[test]
fn a_pool_that_is_watched_again_stays_or_returns() {
    check(|| {
        let (list, pool) = quiet();
        let watcher = thread::spawn(move || {
            pool.is_watched.store(true, Ordering::Relaxed);
            list.add(pool);
        });
        list.drop_quiet();
        watcher.join().unwrap();
        assert_eq!(listed(list), 1);
        // However it came about, it is not added again.
        assert!(!list.add(pool));
    });
}

#[test]
fn a_quiet_pool_goes() {
    check(|| {
        let (list, _) = quiet();
        list.drop_quiet();
        assert!(list.is_empty());
    });
}
