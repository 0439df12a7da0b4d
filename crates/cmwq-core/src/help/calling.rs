//! How a pod with a backlog calls others.

use super::choose::Call;

/// Who calls, as a driver.
pub trait Caller {
    /// A pool of another pod.
    type Pool: Copy;

    /// The pool of a pod, made on first use. `None`: it cannot be had.
    fn pool(&mut self, pod: usize) -> Option<Self::Pool>;
    /// Whether a thread of the program computes on its CPU.
    fn caller_computes(&mut self, pool: Self::Pool) -> bool;
    /// Calls it, once its CPU is idle.
    fn call_when_idle(&mut self, pool: Self::Pool);
    /// Calls it. `true`: somebody comes.
    fn call(&mut self, pool: Self::Pool) -> bool;
}

/// Makes the [calls](super::to_call) of a pod with a backlog until somebody comes. Where a thread
/// computes somebody may come later: then the next pod is called, too. The board may be behind, so
/// each pod is asked for that.
pub fn make_calls(calls: impl Iterator<Item = Call>, caller: &mut impl Caller) {
    for call in calls {
        let (Call::Now(pod) | Call::WhenIdle(pod)) = call;
        let Some(pool) = caller.pool(pod) else { return };
        if caller.caller_computes(pool) {
            caller.call_when_idle(pool);
        } else if caller.call(pool) {
            return;
        }
    }
}
