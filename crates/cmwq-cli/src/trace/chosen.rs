//! Which events are about queues that were asked for.
//!
//! What happens to a worker names no queue: whether that is wanted is known by what it runs then.

use std::collections::HashSet;

use cmwq::trace::Kind;
use regex::RegexSet;

use super::merge::Timed;
use super::running::Running;

/// See the module header.
pub(super) struct Chosen<'a> {
    /// All, if there are none.
    names: &'a RegexSet,
    running: Running,
    /// Queues of which something ran, and that were called so then.
    wanted: HashSet<u32>,
}

impl<'a> Chosen<'a> {
    pub(super) fn new(names: &'a RegexSet) -> Self {
        Self { names, running: Running::default(), wanted: HashSet::new() }
    }

    /// Which events it has to be told of where these are wanted.
    pub(super) fn kinds(&self, wanted: u32) -> u32 {
        let of_workers = Kind::WorkerBlocked.bit() | Kind::WorkerResumed.bit() | Kind::CpuHog.bit();
        let is_asked = !self.names.is_empty() && wanted & of_workers != 0;
        let runs = Kind::ExecuteStart.bit() | Kind::ExecuteEnd.bit();
        if is_asked { wanted | runs } else { wanted }
    }

    /// Whether it is wanted. Has to be asked for each event, in their order.
    pub(super) fn wants(&mut self, event: &Timed<'_>) -> bool {
        if self.names.is_empty() {
            return true;
        }
        let is_wanted = match event.queue {
            _ if event.is_of_running_worker() => self.is_running(event.event.tid),
            Some(name) => self.names.is_match(name),
            None => false,
        };
        if matches!(event.event.kind, Kind::ExecuteStart | Kind::ExecuteEnd) {
            self.note(event, is_wanted);
        }
        is_wanted
    }

    fn is_running(&self, worker: u32) -> bool {
        self.running.queues(worker).any(|queue| self.wanted.contains(&queue))
    }

    /// What runs changes. What is not wanted counts, too: a worker that begins it has ended what it
    /// ran before, also where that event was lost.
    fn note(&mut self, event: &Timed<'_>, is_wanted: bool) {
        let queue = event.event.wq;
        if event.event.kind == Kind::ExecuteStart {
            if is_wanted {
                self.wanted.insert(queue)
            } else {
                self.wanted.remove(&queue)
            };
        }
        let _ = self.running.step(event);
        self.running.take_lost();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::merge::Thread;
    use crate::trace::running::tests::event;

    #[test]
    fn what_happens_to_workers_is_wanted_by_what_they_run() {
        let names = RegexSet::new(["^fetch"]).unwrap();
        let mut chosen = Chosen::new(&names);
        let mut wants = |tid: u32, kind: Kind, about: u64, queue: Option<&str>| {
            let mut event = event(kind, about);
            event.wq = if queue == Some("disk") { 4 } else { 3 };
            let thread = Thread { tid, name: "kworker/0:1" };
            chosen.wants(&Timed { ns: 1, thread, event: &event, queue, ago: 0 })
        };
        let (fetch, disk) = (Some("fetch"), Some("disk"));
        assert!(wants(7, Kind::ExecuteStart, 0x10, fetch));
        assert!(!wants(8, Kind::ExecuteStart, 0x20, disk));
        assert!(wants(9, Kind::WorkerBlocked, 7, None) && wants(9, Kind::CpuHog, 7, None));
        assert!(!wants(9, Kind::WorkerBlocked, 8, None) && !wants(9, Kind::CpuHog, 8, None));
        assert!(!wants(9, Kind::WorkerBlocked, 9, None), "it runs nothing");
        assert!(!wants(9, Kind::WorkerCreated, 0, None));
        assert!(wants(7, Kind::ExecuteEnd, 0x10, fetch));
        assert!(!wants(9, Kind::WorkerResumed, 7, None));
        assert!(wants(7, Kind::ExecuteStart, 0x30, fetch));
        // The end of that was lost.
        assert!(!wants(7, Kind::ExecuteStart, 0x40, disk));
        assert!(!wants(9, Kind::WorkerBlocked, 7, None));
    }

    #[test]
    fn without_names_all_is_wanted_and_no_more_is_recorded() {
        let names = RegexSet::empty();
        let chosen = Chosen::new(&names);
        assert_eq!(chosen.kinds(Kind::CpuHog.bit()), Kind::CpuHog.bit());
        let names = RegexSet::new(["x"]).unwrap();
        let chosen = Chosen::new(&names);
        assert_eq!(chosen.kinds(Kind::Mayday.bit()), Kind::Mayday.bit());
        assert_eq!(chosen.kinds(Kind::CpuHog.bit()).count_ones(), 3);
    }
}
