//! What looks at threads tell.

use crate::detect::By;
use crate::detect::alarms::{self, AfterFalse};
use crate::detect::evidence::{self, STILL_LOOKS, Seen, Senses, Switch, Used};
use crate::detect::processes::{Asker, Family, Looks, REST, SLEEPERS_REST, Sleepers};

/// A thread of which so much can be seen.
#[derive(Clone, Copy, Default)]
struct Thread {
    switched: Option<Switch>,
    used: Option<Used>,
    is_blocked: Option<bool>,
    still: u32,
    /// How often its state was read.
    reads: u32,
}

impl Senses for Thread {
    fn switched(&mut self) -> Option<Switch> {
        self.switched
    }

    fn used(&mut self) -> Option<Used> {
        self.used
    }

    fn is_blocked(&mut self) -> Option<bool> {
        self.reads += 1;
        self.is_blocked
    }

    fn stood_still(&mut self) -> u32 {
        self.still += 1;
        self.still
    }
}

#[test]
fn switch_records_need_no_other_look() {
    for (switch, seen) in [(Switch::Blocked, Seen::Blocked), (Switch::Runnable, Seen::Running)] {
        let mut thread = Thread { switched: Some(switch), ..Thread::default() };
        assert_eq!((evidence::state(&mut thread, By::Tick), thread.reads), (seen, 0));
        assert_eq!(evidence::is_back(&mut thread), switch == Switch::Runnable);
    }
    let mut fresh =
        Thread { switched: Some(Switch::None), is_blocked: Some(true), ..Thread::default() };
    assert_eq!(evidence::state(&mut fresh, By::Alarm), Seen::Blocked, "its state tells");
    fresh.is_blocked = Some(false);
    assert!(!evidence::is_back(&mut fresh), "there will be a record when it is");
}

#[test]
fn who_had_the_cpu_all_the_time_is_taken_for_running() {
    let blocked = Thread { used: Some(Used::All), is_blocked: Some(true), ..Thread::default() };
    let mut thread = blocked;
    assert_eq!((evidence::state(&mut thread, By::Tick), thread.reads), (Seen::Running, 0));
    assert_eq!(evidence::state(&mut thread, By::Alarm), Seen::Blocked, "an alarm does not wait");
    for used in [None, Some(Used::Nothing), Some(Used::Some)] {
        assert_eq!(evidence::state(&mut Thread { used, ..blocked }, By::Tick), Seen::Blocked);
    }
}

#[test]
fn who_watches_others_is_blocked_when_they_are_too() {
    let look = |is_blocked, watched| {
        let mut thread = Thread { is_blocked, ..Thread::default() };
        (evidence::state_for(&mut thread, By::Alarm, || watched), thread.reads)
    };
    assert_eq!(look(Some(true), Some(true)), (Seen::Running, 0), "nobody looks at itself");
    assert_eq!(look(Some(false), Some(false)), (Seen::Running, 1), "it runs itself");
    assert_eq!(look(Some(true), Some(false)), (Seen::Blocked, 1));
    assert_eq!(look(Some(true), None), (Seen::Unknown, 0), "nobody can tell");
    assert_eq!(look(None, Some(false)), (Seen::Unknown, 1));
    assert_eq!(look(None, Some(true)), (Seen::Running, 0));
}

#[test]
fn an_idle_cpu_has_time_to_look_at_processes() {
    let mut looks = Looks::default();
    assert!(looks.may_look(0, Asker::Runner(By::Tick)), "nobody has looked");
    // It took 10 ns.
    assert_eq!(looks.looked(1_000, 1_010, Asker::Runner(By::Tick)), 1_010 + 10 * REST);
    for (now, may_the_tick) in [(1_010, false), (1_169, false), (1_170, true)] {
        assert_eq!(looks.may_look(now, Asker::Runner(By::Tick)), may_the_tick);
        assert_eq!(looks.may_look(now, Asker::Sleeper), may_the_tick);
        assert!(looks.may_look(now, Asker::Runner(By::Alarm)));
    }
    assert_eq!(looks.looked(2_000, 2_010, Asker::Sleeper), 2_010 + 10 * SLEEPERS_REST);
}

#[test]
fn an_eighth_without_the_cpu_is_not_all_the_time() {
    assert_eq!(Used::of(0, 0), Used::Nothing);
    assert_eq!(Used::of(875, 1_000), Used::All);
    assert_eq!(Used::of(874, 1_000), Used::Some);
    assert_eq!(Used::of(2_000, 1_000), Used::All, "clocks differ");
}

#[test]
fn without_a_state_a_thread_that_stands_still_is_taken_for_blocked() {
    let mut thread = Thread { used: Some(Used::Nothing), ..Thread::default() };
    for _ in 1..STILL_LOOKS {
        assert_eq!(evidence::state(&mut thread, By::Tick), Seen::Unknown);
    }
    assert_eq!(evidence::state(&mut thread, By::Tick), Seen::Blocked);
    thread.used = Some(Used::Some);
    assert_eq!(evidence::state(&mut thread, By::Tick), Seen::Unknown);
    assert_eq!(
        evidence::state(&mut Thread::default(), By::Tick),
        Seen::Unknown,
        "nothing to be seen"
    );
}

#[test]
fn who_has_not_run_is_not_back() {
    let mut thread =
        Thread { used: Some(Used::Nothing), is_blocked: Some(false), ..Thread::default() };
    assert!(!evidence::is_back(&mut thread) && thread.reads == 0);
    for used in [None, Some(Used::Some), Some(Used::All)] {
        assert!(evidence::is_back(&mut Thread { used, ..thread }));
        assert!(!evidence::is_back(&mut Thread { used, is_blocked: Some(true), ..thread }));
    }
}

#[test]
fn who_watches_others_is_back_with_any_of_them() {
    let mut waits =
        Thread { used: Some(Used::Nothing), is_blocked: Some(true), ..Thread::default() };
    assert!(evidence::is_back_for(&mut waits, || Some(true)));
    assert!(!evidence::is_back_for(&mut waits, || Some(false)));
    assert!(!evidence::is_back_for(&mut waits, || None));
    let mut runs = Thread { used: Some(Used::All), is_blocked: Some(false), ..waits };
    assert!(evidence::is_back_for(&mut runs, || Some(false)), "it is itself");
}

#[test]
fn false_alarms_in_quick_succession_wait_for_the_tick() {
    assert_eq!(alarms::after_false(0, 1_000_000, 1), AfterFalse::Arm);
    assert_eq!(alarms::after_false(1_000_000, 1_099_999, 2), AfterFalse::WaitForTick);
    assert_eq!(alarms::after_false(1_000_000, 1_100_000, 2), AfterFalse::Arm);
    let at_once = alarms::after_false(1_000_001, 1_000_000, 2);
    assert_eq!(at_once, AfterFalse::WaitForTick, "two at once");
    assert!(alarms::is_false(0, true));
    assert!(!alarms::is_false(1, true), "somebody was blocked");
    assert!(!alarms::is_false(0, false), "nobody has to be watched any more");
}

#[test]
fn sentinels_rest_after_eight_false_alarms_in_a_row() {
    for now in [1_000_001, 9_000_000] {
        assert_ne!(alarms::after_false(1_000_000, now, 7), AfterFalse::Rest);
        assert_eq!(alarms::after_false(1_000_000, now, 8), AfterFalse::Rest);
        assert_eq!(alarms::after_false(1_000_000, now, u32::MAX), AfterFalse::Rest);
    }
}

#[test]
fn a_sentinel_yields_behind_a_false_alarm_unless_the_tick_is_first() {
    assert!(alarms::yields_first(1, false) && alarms::yields_first(u32::MAX, false));
    assert!(!alarms::yields_first(0, false), "the last alarm found somebody");
    assert!(!alarms::yields_first(1, true), "other programs keep the CPU busy");
}

/// A family of which this is seen, and how often all of it was looked at.
#[derive(Default)]
struct Kin {
    has_not_run: bool,
    is_likely_running: bool,
    looks: u32,
}

impl Family for Kin {
    fn has_not_run(&self) -> bool {
        self.has_not_run
    }

    fn is_likely_running(&self) -> bool {
        self.is_likely_running
    }

    fn scan(&mut self) -> Option<bool> {
        self.looks += 1;
        Some(true)
    }
}

impl Sleepers for core::cell::Cell<u64> {
    fn from(&self) -> u64 {
        self.get()
    }

    fn set_from(&self, from: u64) {
        self.set(from);
    }
}

#[test]
fn a_family_is_looked_at_as_cheaply_as_will_do() {
    let sleepers = core::cell::Cell::new(0);
    let ask = |kin: &mut Kin, asker, at| {
        let mut looks = Looks::default();
        looks.is_running(kin, asker, &sleepers, || at)
    };
    let mut still = Kin { has_not_run: true, ..Kin::default() };
    assert_eq!(ask(&mut still, Asker::Runner(By::Tick), 10), Some(false));
    let mut likely = Kin { is_likely_running: true, ..Kin::default() };
    assert_eq!(ask(&mut likely, Asker::Runner(By::Tick), 10), Some(true));
    assert_eq!((still.looks, likely.looks), (0, 0));

    // All sleepers have one budget, and who has no turn is back only if the likely one runs.
    let mut kin = Kin::default();
    assert_eq!((ask(&mut kin, Asker::Sleeper, 10), kin.looks), (Some(true), 1));
    sleepers.set(100);
    assert_eq!((ask(&mut kin, Asker::Sleeper, 99), kin.looks), (None, 1));
    assert_eq!(ask(&mut likely, Asker::Sleeper, 99), Some(true));
    assert_eq!((ask(&mut kin, Asker::Runner(By::Tick), 99), kin.looks), (Some(true), 2));
}
