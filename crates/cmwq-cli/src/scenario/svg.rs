//! A timeline as a picture: a lane per work and a lane per CPU, legible on light and dark ground.
//!
//! Computing is a full bar in the work's colour, sleeping a thin one; so they can be told apart
//! without colour, too. The colours are those of Okabe and Ito, made to be distinguished by
//! everybody.

use std::fmt::{self, Write as _};

use super::chart::{Chart, short_ms};
use super::spans::{Doing, Span};

/// Everything in pixels.
const WIDTH: u64 = 960;
const MARGIN: u64 = 16;
const TITLE: u64 = 28;
const AXIS: u64 = 24;
const LANE: u64 = 26;
const BAR: u64 = 16;
const THIN: u64 = 4;
const GAP: u64 = 14;
/// Of a character of a label, generously.
const CHARACTER: u64 = 8;
const LONGEST_LABEL: usize = 24;
/// Marks on the axis at most.
const MARKS: u64 = 12;

const COLOURS: [&str; 7] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#999933"];

/// No custom properties: not every program that draws pictures knows them.
const STYLE: &str = "
  svg { color-scheme: light dark; }
  .ground { fill: #ffffff; }
  text { fill: #1f2328; font: 13px system-ui, sans-serif; }
  .title { font-weight: 600; }
  .number { font-size: 11px; text-anchor: middle; }
  .label { text-anchor: end; }
  .mark { stroke: #d0d7de; stroke-width: 1; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; }
    text { fill: #e6edf3; }
    .mark { stroke: #30363d; }
  }
";

/// The picture, as a document of its own.
pub(super) fn draw(chart: &Chart<'_>) -> String {
    let picture = Picture::new(chart);
    let mut out = String::new();
    let (width, height) = (WIDTH, picture.height());
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{0}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"{1}\">{0}: {2} ms</text>\n",
        Escaped(&chart.title),
        MARGIN + 14,
        short_ms(chart.timeline.makespan),
    );
    picture.axis(&mut out);
    picture.works(&mut out);
    picture.cpus(&mut out);
    out.push_str("</svg>\n");
    out
}

struct Picture<'a> {
    chart: &'a Chart<'a>,
    cpus: Vec<u32>,
    /// Where time 0 is.
    left: u64,
}

impl<'a> Picture<'a> {
    fn new(chart: &'a Chart<'a>) -> Self {
        let names = chart.scenario.works.iter().map(|work| work.name.chars().count());
        let longest = names.max().unwrap_or(0).clamp("CPU 0000".len(), LONGEST_LABEL);
        Self { chart, cpus: chart.cpus(), left: MARGIN + CHARACTER * longest as u64 + GAP }
    }

    fn top_of_work(&self, work: usize) -> u64 {
        MARGIN + TITLE + AXIS + LANE * work as u64
    }

    fn top_of_cpu(&self, index: usize) -> u64 {
        self.top_of_work(self.chart.scenario.works.len()) + GAP + LANE * index as u64
    }

    fn height(&self) -> u64 {
        self.top_of_cpu(self.cpus.len()) + MARGIN
    }

    fn x(&self, ns: u64) -> f64 {
        let span = self.chart.timeline.makespan.max(1) as f64;
        self.left as f64 + ns as f64 / span * (WIDTH - MARGIN - self.left) as f64
    }

    fn axis(&self, out: &mut String) {
        let step = self.chart.scale(MARKS);
        let (top, bottom) = (MARGIN + TITLE + AXIS - 8, self.height() - MARGIN);
        let _ = writeln!(
            out,
            "<text class=\"label\" x=\"{}\" y=\"{}\">ms</text>",
            self.left - 8,
            top - 4
        );
        let mut at = 0;
        while at <= self.chart.timeline.makespan {
            let x = self.x(at);
            let _ = writeln!(
                out,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>\
                 <text class=\"number\" x=\"{x:.1}\" y=\"{}\">{}</text>",
                top - 4,
                short_ms(at)
            );
            at += step;
        }
    }

    fn works(&self, out: &mut String) {
        for work in 0..self.chart.scenario.works.len() {
            let top = self.top_of_work(work);
            self.label(out, top, self.chart.work_name(work));
            for span in self.chart.spans.iter().filter(|span| span.work == work) {
                self.bar(out, top, span);
            }
        }
    }

    fn cpus(&self, out: &mut String) {
        for (index, &cpu) in self.cpus.iter().enumerate() {
            let top = self.top_of_cpu(index);
            self.label(out, top, &format!("CPU {cpu}"));
            let runs = |span: &&Span| span.cpu == cpu && span.doing == Doing::Burn;
            for span in self.chart.spans.iter().filter(runs) {
                self.bar(out, top, span);
            }
        }
    }

    fn label(&self, out: &mut String, top: u64, label: &str) {
        let (x, y) = (self.left - 8, top + LANE / 2 + 4);
        let mut short: String = label.chars().take(LONGEST_LABEL).collect();
        if short.len() < label.len() {
            short.pop();
            short.push('…');
        }
        let _ =
            writeln!(out, "<text class=\"label\" x=\"{x}\" y=\"{y}\">{}</text>", Escaped(&short));
    }

    fn bar(&self, out: &mut String, top: u64, span: &Span) {
        let (x, end) = (self.x(span.from), self.x(span.to));
        let (height, verb) = match span.doing {
            Doing::Burn => (BAR, "burns"),
            Doing::Sleep => (THIN, "sleeps"),
        };
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{height}\" rx=\"2\" fill=\"{}\">\
             <title>{} {verb} from {} to {} ms (CPU {}, worker {})</title></rect>",
            top + (LANE - height) / 2,
            (end - x).max(0.5),
            COLOURS[span.work % COLOURS.len()],
            Escaped(self.chart.work_name(span.work)),
            short_ms(span.from),
            short_ms(span.to),
            span.cpu,
            span.worker,
        );
    }
}

/// Text that may stand in XML.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                // Not allowed in XML, even escaped.
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
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
