//! What the tick's looks tell is what they tell in the runtime.

use cmwq_sim::script::Step;

use crate::{MS, US, starts_by_looks as starts};

const NAP: Step = Step::Sleep(50 * MS);

#[test]
fn who_computed_for_nearly_the_whole_interval_is_taken_for_running() {
    // Looks at 250, 500, 750 and 1,000 µs. Of the third interval it used 240 µs, more than seven
    // eighths; of the last nothing.
    assert_eq!(starts(&[&[Step::Burn(740 * US), NAP], &[NAP]]), [0, 1_000]);
    // 200 µs are less.
    assert_eq!(starts(&[&[Step::Burn(700 * US), NAP], &[NAP]]), [0, 750]);
}
