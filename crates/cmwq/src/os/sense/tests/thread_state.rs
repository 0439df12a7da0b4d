use super::eventually;
use super::subject::Subject;
use crate::os::sense::sched::gettid;
use crate::os::sense::stat::ThreadState;
use crate::os::sense::{CpuClock, StatFile};

#[test]
fn procfs_tells_blocked_from_running_and_knows_the_end() {
    let open = || StatFile::open(gettid()).expect("procfs");
    let stat = Subject::watched(open, |subject, stat| {
        let state = || stat.state().expect("procfs answers");
        eventually("it sleeps", || state() == ThreadState::Sleeping);
        subject.spin();
        eventually("it runs", || state() == ThreadState::Runnable);
        subject.block();
        eventually("it sleeps again", || state().is_blocked());
    });
    eventually("it has ended", || stat.state().expect("procfs answers") == ThreadState::Gone);
}

#[test]
fn procfs_has_no_file_for_a_thread_that_is_not_ours() {
    // Thread numbers are positive, so this is nobody's.
    assert!(StatFile::open(-1).is_err());
}

#[test]
fn the_clock_stands_while_blocked_runs_while_spinning_and_ends() {
    let open = || {
        let clock = CpuClock::of_current_thread().expect("CPU clocks");
        (clock, StatFile::open(gettid()).expect("procfs"))
    };
    let (clock, _) = Subject::watched(open, |subject, (clock, stat)| {
        let now = || clock.now_ns().expect("the thread lives");
        eventually("it sleeps", || stat.state().expect("procfs answers").is_blocked());
        // It may still be on its way off the CPU.
        eventually("the clock stands", || (0..1000).map(|_| now()).all(|t| t == now()));
        subject.spin();
        let spinning_since = now();
        eventually("the clock runs", || now() > spinning_since);
    });
    eventually("the clock has ended", || clock.now_ns().is_none());
}
