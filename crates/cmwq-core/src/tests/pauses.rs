//! Pauses of somebody who asks again and again.

use std::vec::Vec;

use crate::Pauses;

#[test]
fn pauses_become_longer_up_to_a_millisecond() {
    let mut pauses = Pauses::new();
    let all: Vec<_> = (0..9).map(|_| pauses.after_failure() / 1_000).collect();
    assert_eq!(all, [0, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
}
