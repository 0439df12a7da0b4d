//! What a pool says it takes.

use crate::{PoolConfig, PoolId, PoolState, PwqConfig, WqKey};

#[test]
fn each_pwq_and_worker_counts() {
    let mut pool = PoolState::new(PoolConfig::new(PoolId(0), 1));
    let empty = pool.footprint();
    assert!(empty.pool >= size_of::<PoolState>());
    assert_eq!((empty.workers, empty.pwqs, empty.nr_pwqs), (0, 0, 0));
    let config = |wq| PwqConfig {
        wq: WqKey(wq),
        max_active: 1,
        node: None,
        cpu_intensive: false,
        rescuer: false,
        work_color: 0,
    };
    let mut pwqs: alloc::vec::Vec<_> = (0..9).map(|wq| pool.add_pwq(config(wq))).collect();
    let nine = pool.footprint();
    assert_eq!((nine.nr_pwqs, nine.pool, nine.workers), (9, empty.pool, 0));
    // A record has a counter for each of 16 colours.
    assert!(nine.pwqs > 9 * 16 * size_of::<u32>());
    let gone = pwqs.pop().expect("nine");
    assert!(pool.remove_pwq(gone).is_ok());
    assert_eq!(pool.footprint().nr_pwqs, 8);
    let _ = pool.worker_new();
    assert!(pool.footprint().workers > 0);
}
