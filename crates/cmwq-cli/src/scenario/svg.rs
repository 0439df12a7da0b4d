//! A scenario's timeline as a picture: a lane per work and a lane per CPU.

use super::chart::Chart;
use super::spans::{Doing, Span};
use crate::picture::{Bar, Lane, Picture, short_ms};

/// The picture, as a document of its own.
pub(super) fn draw(chart: &Chart<'_>) -> String {
    let works = (0..chart.scenario.works.len()).map(|work| Lane {
        label: chart.work_name(work).to_owned(),
        bars: bars(chart, |span| span.work == work),
    });
    let cpus = chart.cpus().into_iter().map(|cpu| Lane {
        label: format!("CPU {cpu}"),
        bars: bars(chart, |span| span.cpu == cpu && span.doing == Doing::Burn),
    });
    let groups = vec![works.collect(), cpus.collect()];
    Picture { title: chart.title.clone(), from: 0, to: chart.timeline.makespan, groups }.draw()
}

fn bars(chart: &Chart<'_>, is_wanted: impl Fn(&Span) -> bool) -> Vec<Bar> {
    chart.spans.iter().filter(|span| is_wanted(span)).map(|span| bar(chart, span)).collect()
}

fn bar(chart: &Chart<'_>, span: &Span) -> Bar {
    let verb = match span.doing {
        Doing::Burn => "burns",
        Doing::Sleep => "sleeps",
    };
    let hint = format!(
        "{} {verb} from {} to {} ms (CPU {}, worker {})",
        chart.work_name(span.work),
        short_ms(span.from),
        short_ms(span.to),
        span.cpu,
        span.worker,
    );
    let is_thin = span.doing == Doing::Sleep;
    Bar { from: span.from, to: span.to, is_thin, colour: span.work, hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmwq_sim::{named, run_scenario};

    fn picture_of(scenario: &cmwq_sim::Scenario) -> String {
        let timeline = run_scenario(scenario).unwrap();
        draw(&Chart::new("a <b> & c".into(), scenario, &timeline))
    }

    #[test]
    fn bars_are_where_the_times_are() {
        let svg = picture_of(&named::find("doc-max1").unwrap());
        // The lane begins at 16 + 8 * 8 + 14 = 94 and is 850 wide for 50 ms: 17 a millisecond.
        let burn = "<rect x=\"94.0\" y=\"73\" width=\"85.0\" height=\"16\"";
        assert!(svg.contains(burn), "w0 burns from 0 to 5\n{svg}");
        let sleep = "<rect x=\"179.0\" y=\"79\" width=\"170.0\" height=\"4\"";
        assert!(svg.contains(sleep), "w0 sleeps from 5 to 15\n{svg}");
        assert!(svg.contains("w2 sleeps from 40 to 50 ms (CPU 0, worker 1)"), "{svg}");
    }

    #[test]
    fn names_cannot_break_the_document() {
        let mut scenario = named::find("doc-max3").unwrap();
        scenario.works[0].name = "</svg>\u{7}&\"".into();
        let svg = picture_of(&scenario);
        assert_eq!(svg.matches("</svg>").count(), 1, "{svg}");
        assert!(svg.contains("&lt;/svg&gt;\u{fffd}&amp;&quot;"), "{svg}");
        assert!(svg.contains("<title>a &lt;b&gt; &amp; c</title>"));
    }
}
