//! A timeline as text: a table of what happened, and lanes.

use std::fmt::Write as _;

use super::chart::Chart;
use super::spans::{Doing, Span};
use crate::paint::Paint;
use crate::picture::{ms, scale, short_ms};

/// Columns of a lane.
const WIDTH: u64 = 72;
/// Columns between two marks of the axis.
const MARK_EVERY: usize = 10;
/// What a CPU shows for each work, by its number.
const SYMBOLS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The whole report.
pub(super) fn write(chart: &Chart<'_>, paint: Paint) -> String {
    let mut text = format!("{}\n\n", paint.heading(&chart.title));
    table(&mut text, chart, paint);
    if !chart.spans.is_empty() {
        text.push('\n');
        lanes(&mut text, chart, paint);
    }
    let _ = writeln!(text, "\nmakespan {:.3} ms", ms(chart.timeline.makespan));
    text
}

fn table(text: &mut String, chart: &Chart<'_>, paint: Paint) {
    let names = chart.scenario.works.iter().map(|work| work.name.chars().count());
    let width = names.max().unwrap_or(0).max("work".len());
    let _ = writeln!(
        text,
        "{:>10}  {:width$}  {:6}  {:>4}  {:>6}",
        "ms", "work", "event", "cpu", "worker"
    );
    for event in &chart.timeline.events {
        let _ = writeln!(
            text,
            "{:>10.3}  {}  {:6}  {:>4}  {:>6}",
            ms(event.t),
            paint.work(event.work, format_args!("{:width$}", chart.work_name(event.work))),
            event.what.name(),
            event.cpu,
            event.worker
        );
    }
}

fn lanes(text: &mut String, chart: &Chart<'_>, paint: Paint) {
    let step = scale(chart.timeline.makespan, WIDTH);
    let works = works(chart, step);
    let nr_works = works.len();
    let lines = works.into_iter().chain(cpus(chart, step)).collect::<Vec<_>>();
    let width = lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let _ = writeln!(
        text,
        "one column is {} ms: █ burns, · sleeps; below, which work each CPU runs",
        short_ms(step)
    );
    let _ = writeln!(text, "{:width$}  {}", "", axis(chart, step));
    for (index, (label, lane)) in lines.iter().enumerate() {
        let lane = lane.trim_end();
        let lane = if index < nr_works { paint.work(index, lane) } else { by_symbol(lane, paint) };
        let _ = writeln!(text, "{label:width$}  {lane}");
    }
}

/// A CPU's lane, each work's part of it in the work's colour.
fn by_symbol(lane: &str, paint: Paint) -> String {
    let parts = lane.as_bytes().chunk_by(|a, b| a == b);
    let painted = parts.map(|part| {
        let text = String::from_utf8_lossy(part);
        match SYMBOLS.iter().position(|symbol| *symbol == part[0]) {
            Some(work) => paint.work(work, text),
            None => text.into_owned(),
        }
    });
    painted.collect()
}

fn axis(chart: &Chart<'_>, step: u64) -> String {
    let mut axis = String::new();
    for column in (0..=chart.timeline.makespan.div_ceil(step) as usize).step_by(MARK_EVERY) {
        let _ = write!(axis, "|{:<9}", short_ms(column as u64 * step));
    }
    axis.trim_end().to_owned()
}

/// A lane per work: `(label, lane)`.
fn works(chart: &Chart<'_>, step: u64) -> Vec<(String, String)> {
    let lane = |work: usize| {
        let spans = chart.spans.iter().filter(|span| span.work == work);
        draw(chart, step, spans.map(|span| (span, symbol_of(span.doing))))
    };
    let label = |work: usize| match SYMBOLS.get(work) {
        Some(&symbol) => format!("{} {}", symbol as char, chart.work_name(work)),
        None => format!("  {}", chart.work_name(work)),
    };
    (0..chart.scenario.works.len()).map(|work| (label(work), lane(work))).collect()
}

const fn symbol_of(doing: Doing) -> char {
    match doing {
        Doing::Burn => '█',
        Doing::Sleep => '·',
    }
}

/// A lane per CPU, if there are not too many works to tell apart.
fn cpus(chart: &Chart<'_>, step: u64) -> Vec<(String, String)> {
    if chart.scenario.works.len() > SYMBOLS.len() {
        return Vec::new();
    }
    let lane = |cpu: u32| {
        let burns = |span: &&Span| span.cpu == cpu && span.doing == Doing::Burn;
        let spans = chart.spans.iter().filter(burns);
        draw(chart, step, spans.map(|span| (span, SYMBOLS[span.work] as char)))
    };
    chart.cpus().into_iter().map(|cpu| (format!("cpu {cpu}"), lane(cpu))).collect()
}

/// Fills the columns whose middle lies in a span; a span that contains no middle gets the column it
/// begins in.
fn draw<'s>(chart: &Chart<'_>, step: u64, spans: impl Iterator<Item = (&'s Span, char)>) -> String {
    let columns = chart.timeline.makespan.div_ceil(step).max(1) as usize;
    let mut lane = vec![' '; columns];
    for (span, symbol) in spans {
        let first = ((span.from + step / 2) / step) as usize;
        let end = ((span.to + step / 2) / step) as usize;
        let first = first.min((span.from / step) as usize + usize::from(end > first));
        let end = end.max(first + 1).min(columns);
        for column in lane.get_mut(first..end).into_iter().flatten() {
            *column = symbol;
        }
    }
    lane.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmwq_sim::{named, run_scenario};

    #[test]
    fn the_whole_report_of_a_documented_scenario() {
        let scenario = named::find("doc-max2").unwrap();
        let timeline = run_scenario(&scenario).unwrap();
        let chart = Chart::new("doc-max2, simulated".into(), &scenario, &timeline);
        let text = write(&chart, Paint::OFF);
        for line in [
            "        ms  work  event    cpu  worker",
            "     0.000  w0    start      0       1",
            "one column is 0.5 ms: █ burns, · sleeps; below, which work each CPU runs",
            "       |0        |5        |10       |15       |20       |25       |30       |35",
            "0 w0   ██████████····················██████████",
            "1 w1             ██████████····················",
            "2 w2                                           ██████████····················",
            "cpu 0  00000000001111111111          00000000002222222222",
            "makespan 35.000 ms",
        ] {
            assert!(text.lines().any(|l| l == line), "missing: {line:?}\n{text}");
        }
    }

    #[test]
    fn each_work_has_one_colour_in_all_lanes() {
        let scenario = named::find("doc-max2").unwrap();
        let timeline = run_scenario(&scenario).unwrap();
        let chart = Chart::new(String::new(), &scenario, &timeline);
        let (plain, painted) = (write(&chart, Paint::OFF), write(&chart, Paint::ON));
        assert!(
            painted.contains("\x1b[38;5;31m██████████")
                && painted.contains("\x1b[38;5;31m0000000000")
        );
        // Colours take nothing away and add nothing else.
        let mut rest = painted.as_str();
        let mut without = String::new();
        while let Some((before, after)) = rest.split_once('\x1b') {
            without += before;
            rest = after.split_once('m').unwrap().1;
        }
        assert_eq!(without + rest, plain);
    }

    #[test]
    fn nothing_is_shown_as_nothing() {
        let scenario = cmwq_sim::Scenario { cpus: 1, workqueues: Vec::new(), works: Vec::new() };
        let timeline = run_scenario(&scenario).unwrap();
        let text = write(&Chart::new("empty".into(), &scenario, &timeline), Paint::OFF);
        assert!(text.contains("makespan 0.000 ms") && !text.contains("column"), "{text}");
    }

    #[test]
    fn a_short_span_is_seen_all_the_same() {
        let mut scenario = named::find("doc-max3").unwrap();
        scenario.works[1].script = vec![cmwq_sim::script::Step::Burn(1_000)];
        let timeline = run_scenario(&scenario).unwrap();
        let text = write(&Chart::new(String::new(), &scenario, &timeline), Paint::OFF);
        let lane = text.lines().find(|line| line.starts_with("1 w1")).unwrap();
        assert_eq!(lane.matches('█').count(), 1, "{text}");
    }
}
