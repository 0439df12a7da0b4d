//! The tick is the runtime's: it halves while it lets somebody start, and doubles after eight looks
//! that do not.

use cmwq_sim::script::Step;

use crate::{MS, starts_by_looks as starts};

const NAP: &[Step] = &[Step::Sleep(50 * MS)];

#[test]
fn each_look_that_lets_somebody_start_halves_the_interval() {
    // Looks after 250, 125 and then 100 µs.
    assert_eq!(starts(&[NAP; 6]), [0, 250, 375, 475, 575, 675]);
}

#[test]
fn eight_looks_in_a_row_that_do_not_double_it() {
    // Looks at 250, 500, … 2,000, then at 2,500, 3,000, … 6,000, then at 7,000.
    let late = |ms| vec![Step::Burn(ms * MS + MS / 10), Step::Sleep(50 * MS)];
    assert_eq!(starts(&[&late(2), NAP]), [0, 2_500]);
    assert_eq!(starts(&[&late(6), NAP]), [0, 7_000]);
}
