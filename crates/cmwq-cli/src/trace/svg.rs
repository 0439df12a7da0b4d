//! A trace as a picture that can be printed: a lane per CPU, and a lane per item, or per worker
//! where items are many.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;

use super::merge::Timed;
use super::timeline::{Collector, Span, Timeline};
use super::{End, Sink, Subject};
use crate::message;
use crate::picture::{Bar, Lane, Picture, short_ms};

/// More items than these are not told apart: workers have the lanes.
const MOST_ITEMS: usize = 40;
/// More workers than these are not shown.
const MOST_WORKERS: usize = 100;

/// See the module header.
pub(super) struct Svg<W> {
    out: W,
    window: Range<u64>,
    collector: Collector,
}

impl<W> Svg<W> {
    pub(super) fn new(out: W, window: Range<u64>) -> Self {
        Self { out, collector: Collector::new(window.clone()), window }
    }
}

impl<W: Write> Sink for Svg<W> {
    fn event(&mut self, subject: &mut Subject, event: &Timed<'_>) -> io::Result<()> {
        self.collector.event(subject, event);
        Ok(())
    }

    fn end(&mut self, subject: &mut Subject, end: End) -> io::Result<()> {
        let timeline = self.collector.finish(subject, end);
        if timeline.spans.is_empty() {
            message::say(format_args!(
                "nothing ran in this window; the trace is {} ms long",
                short_ms(timeline.end)
            ));
        }
        let title = match (subject.name.as_str(), end.lost) {
            (name, 0) => name.to_owned(),
            (name, lost) => format!("{name} ({lost} events lost)"),
        };
        let (picture, notes) = picture(&title, &timeline, &self.window);
        notes.iter().for_each(message::say);
        self.out.write_all(picture.draw().as_bytes())?;
        self.out.flush()
    }
}

/// The picture of what is in the window, and what one has to know about it.
fn picture(title: &str, timeline: &Timeline, window: &Range<u64>) -> (Picture, Vec<String>) {
    let from = window.start.min(timeline.end);
    let to = window.end.min(timeline.end).max(from);
    let mut picture = Picture { title: title.to_owned(), from, to, groups: Vec::new() };
    let mut notes = Vec::new();
    let items = timeline.works.len();
    let mut lanes = if items <= MOST_ITEMS {
        lanes(timeline, |span| Some(span.work), |work| item_label(timeline, work))
    } else {
        notes.push(format!(
            "{items} items, so each lane is a worker; --from and --to, or a REGEX, to see fewer \
             than {} items",
            MOST_ITEMS + 1
        ));
        lanes(timeline, |span| Some(span.worker), |worker| format!("worker {worker}"))
    };
    if lanes.len() > MOST_WORKERS {
        notes
            .push(format!("{} workers ran items; the first {MOST_WORKERS} are shown", lanes.len()));
        lanes.truncate(MOST_WORKERS);
    }
    let on_cpu = |span: &Span| (!span.is_blocked).then_some(span.cpu);
    picture.groups = vec![lanes, self::lanes(timeline, on_cpu, |cpu| format!("CPU {cpu}"))];
    let least = picture.least_visible();
    let before = picture.groups.iter().flatten().map(|lane| lane.bars.len()).sum::<usize>();
    picture.groups.iter_mut().flatten().for_each(|lane| join_short(&mut lane.bars, least));
    let after = picture.groups.iter().flatten().map(|lane| lane.bars.len()).sum::<usize>();
    if after < before {
        notes.push(format!(
            "what is shorter than {} ms is drawn together; --from and --to to look closer",
            short_ms(least)
        ));
    }
    (picture, notes)
}

/// A lane for each key, in the keys' order.
fn lanes<K: Ord>(
    timeline: &Timeline,
    key: impl Fn(&Span) -> Option<K>,
    label: impl Fn(K) -> String,
) -> Vec<Lane> {
    let mut lanes: BTreeMap<K, Vec<Bar>> = BTreeMap::new();
    let colours = colours(timeline);
    for span in &timeline.spans {
        if let Some(key) = key(span) {
            lanes.entry(key).or_default().push(bar(timeline, span, colours[span.work]));
        }
    }
    let lanes = lanes.into_iter().map(|(key, mut bars)| {
        bars.sort_by_key(|bar| bar.from);
        Lane { label: label(key), bars }
    });
    lanes.collect()
}

/// Items have colours of their own where they are few, and else those of their queues.
fn colours(timeline: &Timeline) -> Vec<usize> {
    let works = &timeline.works;
    if works.len() <= MOST_ITEMS {
        return (0..works.len()).collect();
    }
    let mut queues = BTreeMap::new();
    let mut colours = Vec::with_capacity(works.len());
    for work in works {
        let next = queues.len();
        colours.push(*queues.entry(&work.queue).or_insert(next));
    }
    colours
}

/// The end of a path says most.
fn item_label(timeline: &Timeline, work: usize) -> String {
    let work = &timeline.works[work];
    let mut parts = work.function.rsplit("::");
    let last = parts.next().unwrap_or_default();
    match parts.next() {
        // A closure is called by where it was written.
        Some(function) if last.starts_with('{') => format!("{}: {function}", work.queue),
        _ => format!("{}: {last}", work.queue),
    }
}

fn bar(timeline: &Timeline, span: &Span, colour: usize) -> Bar {
    let work = &timeline.works[span.work];
    let verb = if span.is_blocked { "sleeps" } else { "runs" };
    let hint = format!(
        "{} of {} {verb} from {} to {} ms (CPU {}, worker {})",
        work.function,
        work.queue,
        short_ms(span.from),
        short_ms(span.to),
        span.cpu,
        span.worker
    );
    Bar { from: span.from, to: span.to, is_thin: span.is_blocked, colour, hint }
}

/// Makes one bar of several of one kind, if each, and what is between them, is too short to be
/// seen: there may be millions.
fn join_short(bars: &mut Vec<Bar>, least: u64) {
    // Of each kind: the one that grows, and of how many it is made.
    let mut growing: BTreeMap<(bool, usize), (Bar, usize)> = BTreeMap::new();
    let mut done = Vec::new();
    let is_short = |bar: &Bar| bar.to - bar.from < least;
    for bar in bars.drain(..) {
        match growing.get_mut(&(bar.is_thin, bar.colour)) {
            Some((last, count))
                if (*count > 1 || is_short(last))
                    && is_short(&bar)
                    && bar.from.saturating_sub(last.to) < least =>
            {
                last.to = last.to.max(bar.to);
                *count += 1;
            }
            _ => done.extend(growing.insert((bar.is_thin, bar.colour), (bar, 1))),
        }
    }
    done.extend(growing.into_values());
    bars.extend(done.into_iter().map(|(bar, count)| match count {
        1 => bar,
        _ => Bar {
            hint: format!("{count} spans from {} to {} ms", short_ms(bar.from), short_ms(bar.to)),
            ..bar
        },
    }));
    bars.sort_by_key(|bar| (bar.from, bar.is_thin));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::timeline::Work;

    fn timeline(items: usize, spans: &[(usize, u64, u64, bool)]) -> Timeline {
        let work = |at| Work {
            address: at as u64,
            function: format!("a::work_{at}::{{{{closure}}}}"),
            queue: "q".into(),
        };
        let span = |&(work, from, to, is_blocked)| Span {
            work,
            from,
            to,
            cpu: 1,
            worker: 7 + work as u32 % 3,
            is_blocked,
        };
        let spans: Vec<Span> = spans.iter().map(span).collect();
        let end = spans.iter().map(|span| span.to).max().unwrap_or(0);
        Timeline { works: (0..items).map(work).collect(), spans, end }
    }

    #[test]
    fn sleepers_are_thin_and_on_no_cpu() {
        let timeline = timeline(2, &[(0, 0, 5, false), (0, 5, 15, true), (1, 5, 10, false)]);
        let (picture, notes) = picture("p", &timeline, &(0..u64::MAX));
        assert!(notes.is_empty(), "{notes:?}");
        let shape = |lane: &Lane| {
            let bars = lane.bars.iter().map(|bar| (bar.from, bar.to, bar.is_thin)).collect();
            (lane.label.clone(), bars)
        };
        let found: Vec<(String, Vec<_>)> = picture.groups.iter().flatten().map(shape).collect();
        let expected = [
            ("q: work_0".to_owned(), vec![(0, 5, false), (5, 15, true)]),
            ("q: work_1".to_owned(), vec![(5, 10, false)]),
            ("CPU 1".to_owned(), vec![(0, 5, false), (5, 10, false)]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn many_short_spans_become_few_bars_of_the_same_length() {
        let spans: Vec<_> =
            (0..100_000).map(|at| (at as usize % 50, at * 10, at * 10 + 9, false)).collect();
        let timeline = timeline(50, &spans);
        let (picture, notes) = picture("p", &timeline, &(0..u64::MAX));
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("50 items, so each lane is a worker"), "{notes:?}");
        let workers: Vec<_> = picture.groups[0].iter().map(|lane| &*lane.label).collect();
        assert_eq!(workers, ["worker 7", "worker 8", "worker 9"]);
        let cpu = &picture.groups[1][0].bars;
        let [bar] = &cpu[..] else { panic!("{} bars", cpu.len()) };
        assert_eq!(
            (bar.from, bar.to, &*bar.hint),
            (0, 999_999, "100000 spans from 0 to 0.999999 ms")
        );
    }

    #[test]
    fn what_can_be_seen_is_not_joined() {
        let timeline = timeline(1, &[(0, 0, 400_000, false), (0, 400_001, 1_000_000, false)]);
        let (picture, notes) = picture("p", &timeline, &(0..500_000));
        assert_eq!(picture.groups[0][0].bars.len(), 2);
        assert_eq!((picture.from, picture.to), (0, 500_000));
        assert!(notes.is_empty(), "{notes:?}");
    }
}
