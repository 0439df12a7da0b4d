//! The pauses of somebody who asks again and again.

use std::vec::Vec;

use crate::Backoff;

#[test]
fn pauses_become_longer_up_to_a_millisecond() {
    let mut backoff = Backoff::new();
    let all: Vec<_> = (0..9).map(|_| backoff.after_failure() / 1_000).collect();
    assert_eq!(all, [0, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
}
