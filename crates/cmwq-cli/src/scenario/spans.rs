//! From the moments of a timeline to the spans between them.

use cmwq_sim::{Moment, Timeline};

/// What a work does for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Computes, or waits for the CPU to go on computing.
    Burn,
    /// Sleeps, or waits for a CPU after it slept.
    Sleep,
}

impl Doing {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Burn => "burn",
            Self::Sleep => "sleep",
        }
    }
}

/// A work does one thing from one time to another, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) work: usize,
    pub(super) doing: Doing,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) cpu: u32,
    pub(super) worker: usize,
}

/// The spans of all works, in order of their beginning.
pub(super) fn of(timeline: &Timeline, nr_works: usize) -> Vec<Span> {
    let mut open: Vec<Option<(Doing, u64, u32)>> = vec![None; nr_works];
    let mut spans = Vec::new();
    for event in &timeline.events {
        let next = match event.what {
            Moment::Start | Moment::Wake => Some((Doing::Burn, event.t, event.cpu)),
            Moment::Sleep => Some((Doing::Sleep, event.t, event.cpu)),
            Moment::Finish => None,
        };
        let before = std::mem::replace(&mut open[event.work], next);
        if let Some((doing, from, cpu)) = before.filter(|(_, from, _)| event.t > *from) {
            let (work, to, worker) = (event.work, event.t, event.worker);
            spans.push(Span { work, doing, from, to, cpu, worker });
        }
    }
    spans.sort_by_key(|span| span.from);
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmwq_sim::{named, run_scenario};

    #[test]
    fn a_documented_timeline_as_spans() {
        let timeline = run_scenario(&named::find("doc-max1").unwrap()).unwrap();
        let ms = |span: &Span| (span.work, span.doing, span.from / 1_000_000, span.to / 1_000_000);
        let spans: Vec<_> = of(&timeline, 3).iter().map(ms).collect();
        let (burn, sleep) = (Doing::Burn, Doing::Sleep);
        let expected = [
            (0, burn, 0, 5),
            (0, sleep, 5, 15),
            (0, burn, 15, 20),
            (1, burn, 20, 25),
            (1, sleep, 25, 35),
            (2, burn, 35, 40),
            (2, sleep, 40, 50),
        ];
        assert_eq!(spans, expected);
    }
}
