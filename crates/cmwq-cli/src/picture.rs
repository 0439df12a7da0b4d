//! A timeline as a picture: lanes with bars, legible on light and dark ground.
//!
//! Computing is a full bar in the colour of what computes, sleeping a thin one; so they can be told
//! apart without colour, too. The colours are those of Okabe and Ito, made to be distinguished by
//! everybody.

use std::fmt::{self, Write as _};

use cmwq::foreign::harmless;

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

/// What a picture shows. Times are nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    pub(crate) title: String,
    /// The time at the left end.
    pub(crate) from: u64,
    /// The time at the right end.
    pub(crate) to: u64,
    /// Lanes, with a gap between groups.
    pub(crate) groups: Vec<Vec<Lane>>,
}

/// A row of the picture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) label: String,
    pub(crate) bars: Vec<Bar>,
}

/// Something that takes its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// It sleeps.
    pub(crate) is_thin: bool,
    /// Equal numbers have equal colours.
    pub(crate) colour: usize,
    /// What is shown of it to who points at it.
    pub(crate) hint: String,
}

impl Picture {
    /// The picture, as an SVG document of its own.
    pub(crate) fn draw(&self) -> String {
        let mut out = String::new();
        let (width, height) = (WIDTH, self.height());
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" \
             role=\"img\">\n<title>{0}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n\
             <text class=\"title\" x=\"{MARGIN}\" y=\"{1}\">{0}: {2} ms</text>\n",
            Escaped(&self.title),
            MARGIN + 14,
            short_ms(self.to - self.from),
        );
        let left = self.left();
        self.axis(&mut out, left);
        let mut top = MARGIN + TITLE + AXIS;
        for group in &self.groups {
            for lane in group {
                label(&mut out, (left, top), &lane.label);
                lane.bars.iter().for_each(|bar| self.bar(&mut out, (left, top), bar));
                top += LANE;
            }
            top += GAP;
        }
        out.push_str("</svg>\n");
        out
    }

    /// Time that is half a pixel wide: less cannot be seen, and need not be drawn each for itself.
    pub(crate) fn least_visible(&self) -> u64 {
        ((self.to - self.from) / (2 * (WIDTH - MARGIN - self.left()))).max(1)
    }

    /// Where the first time is.
    fn left(&self) -> u64 {
        let names = self.groups.iter().flatten().map(|lane| lane.label.chars().count());
        let longest = names.max().unwrap_or(0).clamp("CPU 0000".len(), LONGEST_LABEL);
        MARGIN + CHARACTER * longest as u64 + GAP
    }

    fn height(&self) -> u64 {
        let lanes = self.groups.iter().flatten().count() as u64;
        let gaps = (self.groups.len() as u64).saturating_sub(1);
        MARGIN + TITLE + AXIS + LANE * lanes + GAP * gaps + MARGIN
    }

    fn x(&self, left: u64, ns: u64) -> f64 {
        let span = (self.to - self.from).max(1) as f64;
        let at = ns.clamp(self.from, self.to) - self.from;
        left as f64 + at as f64 / span * (WIDTH - MARGIN - left) as f64
    }

    fn axis(&self, out: &mut String, left: u64) {
        let step = scale(self.to - self.from, MARKS);
        let (top, bottom) = (MARGIN + TITLE + AXIS - 8, self.height() - MARGIN);
        let (x, y) = (left - 8, top - 4);
        let _ = writeln!(out, "<text class=\"label\" x=\"{x}\" y=\"{y}\">ms</text>");
        let first = self.from.div_ceil(step) * step;
        let marks = std::iter::successors(Some(first), |at| at.checked_add(step));
        for at in marks.take_while(|&at| at <= self.to) {
            let x = self.x(left, at);
            let _ = writeln!(
                out,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>\
                 <text class=\"number\" x=\"{x:.1}\" y=\"{y}\">{}</text>",
                short_ms(at)
            );
        }
    }

    fn bar(&self, out: &mut String, (left, top): (u64, u64), bar: &Bar) {
        let (x, end) = (self.x(left, bar.from), self.x(left, bar.to));
        let height = if bar.is_thin { THIN } else { BAR };
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{height}\" rx=\"2\" fill=\"{}\">\
             <title>{}</title></rect>",
            top + (LANE - height) / 2,
            (end - x).max(0.5),
            COLOURS[bar.colour % COLOURS.len()],
            Escaped(&bar.hint),
        );
    }
}

fn label(out: &mut String, (left, top): (u64, u64), label: &str) {
    let (x, y) = (left - 8, top + LANE / 2 + 4);
    let mut short: String = label.chars().take(LONGEST_LABEL).collect();
    if short.len() < label.len() {
        short.pop();
        short.push('…');
    }
    let _ = writeln!(out, "<text class=\"label\" x=\"{x}\" y=\"{y}\">{}</text>", Escaped(&short));
}

/// The distance between marks that makes `most` marks or fewer: 1, 2 or 5 times a power of ten.
pub(crate) fn scale(length: u64, most: u64) -> u64 {
    let needed = length.div_ceil(most).max(1);
    let mut power = 1;
    loop {
        if let Some(step) = [1, 2, 5].map(|n| n * power).into_iter().find(|&step| step >= needed) {
            return step;
        }
        power *= 10;
    }
}

/// Nanoseconds as milliseconds, as a number.
pub(crate) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Nanoseconds as milliseconds without needless zeros.
pub(crate) fn short_ms(ns: u64) -> String {
    let text = format!("{:.6}", ms(ns));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
                c => f.write_str(&harmless(c.encode_utf8(&mut [0; 4])))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round() {
        assert_eq!(scale(25_000_000, 60), 500_000);
        assert_eq!(scale(60, 60), 1);
        assert_eq!(scale(61, 60), 2);
        assert_eq!(scale(0, 60), 1);
        assert_eq!(scale(35_000_000, 10), 5_000_000);
    }

    #[test]
    fn milliseconds_are_short() {
        assert_eq!(short_ms(5_000_000), "5");
        assert_eq!(short_ms(500), "0.0005");
        assert_eq!(short_ms(0), "0");
    }

    #[test]
    fn a_picture_of_nothing_and_of_the_end_of_time() {
        assert!(Picture::default().draw().ends_with("</svg>\n"));
        let window = Picture { from: 7_000_000, to: 8_000_000, ..Picture::default() };
        assert!(window.draw().contains("y=\"56\">7.1</text>"), "{}", window.draw());
        let all = Picture { to: u64::MAX, ..Picture::default() };
        assert!(all.draw().ends_with("</svg>\n"));
    }
}
