//! Progress: from every state some fair continuation leads to an end, where everything that was
//! asked for is done.
//!
//! Fair events are those that happen some time if they can: threads take their steps, detectors
//! report who is blocked where the core asked for watching, a failed creation is tried again and
//! succeeds (or, where it cannot, rescuers are called), timers expire. If from each state an end
//! can be reached by fair events alone, then a history in which each fair event that is possible
//! again and again happens again and again does reach one: nothing waits for ever. If from some
//! state none can, the history that leads there is the counterexample.
//!
//! Found by going backwards over fair events from all ends: what is not met is stuck.

use crate::search::States;

/// The first state from which no fair continuation leads to an end.
pub(crate) fn stuck(states: &States) -> Option<u32> {
    let count = states.len();
    // Predecessors of each state, one after the other.
    let mut begins = vec![0_u32; count + 1];
    for &(_, to) in &states.fair {
        begins[to as usize + 1] += 1;
    }
    for n in 0..count {
        begins[n + 1] += begins[n];
    }
    let mut place = begins.clone();
    let mut predecessors = vec![0_u32; states.fair.len()];
    for &(from, to) in &states.fair {
        let at = &mut place[to as usize];
        predecessors[*at as usize] = from;
        *at += 1;
    }
    let mut may_end = vec![false; count];
    let mut left = states.ends.clone();
    while let Some(state) = left.pop() {
        if std::mem::replace(&mut may_end[state as usize], true) {
            continue;
        }
        let (begin, end) = (begins[state as usize], begins[state as usize + 1]);
        left.extend(&predecessors[begin as usize..end as usize]);
    }
    may_end.iter().position(|&may| !may).map(|state| state as u32)
}
