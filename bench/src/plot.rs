//! Plots of a section, as SVG: a bar for each system with its spread, or a line for each.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::{Curve, Section};
use crate::systems::Role;

const WIDTH: u32 = 820;
const ROW: i32 = 22;
const TOP: i32 = 34;
/// Where bars begin if no name is longer than that, what a letter takes, and where the longest
/// ends.
const LEFT: i32 = 150;
const LETTER: i32 = 7;
const RIGHT: i32 = 640;

/// One bar.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) label: String,
}

/// Draws what the section has to show into the folder; the names of the files.
pub(crate) fn draw(section: &Section, folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for (title, bars) in section.bars() {
        let file = format!("{}-{}.svg", section.name, file_name(&title));
        let text = bar_chart(&format!("{}: {title}", section.name), &bars)?;
        std::fs::write(folder.join(&file), text)?;
        files.push(file);
    }
    if !section.curves.is_empty() {
        let file = format!("{}-curves.svg", section.name);
        let text = line_chart(&section.name, &section.curves)?;
        std::fs::write(folder.join(&file), text)?;
        files.push(file);
    }
    Ok(files)
}

fn file_name(title: &str) -> String {
    title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn colour(role: Role) -> RGBColor {
    match role {
        Role::Ours => RGBColor(31, 119, 180),
        Role::Peer => RGBColor(160, 160, 160),
        Role::Reference => RGBColor(220, 210, 180),
    }
}

/// Horizontal bars; linear, unless the longest is more than fifty times the shortest.
fn bar_chart(title: &str, bars: &[Bar]) -> Result<String> {
    let finite = || bars.iter().map(|bar| bar.median).filter(|value| value.is_finite());
    let longest = finite().fold(0.0, f64::max);
    let shortest = finite().filter(|&value| value > 0.0).fold(f64::INFINITY, f64::min);
    let is_log = longest > 50.0 * shortest;
    let letters = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
    let begin = LEFT.max(16 + LETTER * letters as i32).min(RIGHT / 2 + 60);
    let place = |value: f64| {
        let part = if is_log {
            let floor = shortest / 2.0;
            (value.max(floor) / floor).ln() / (longest / floor).ln()
        } else {
            value / longest
        };
        begin + (f64::from(RIGHT - begin) * part.clamp(0.0, 1.08)) as i32
    };
    let scale = if is_log { ", logarithmic" } else { "" };
    svg(TOP + ROW * bars.len() as i32 + 8, |area| {
        let left = Pos::new(HPos::Left, VPos::Center);
        let heading = ("sans-serif", 15).into_font().into_text_style(area).pos(left);
        area.draw(&Text::new(format!("{title}{scale}"), (8, 16), heading))?;
        let small = ("sans-serif", 13).into_font().into_text_style(area).pos(left);
        for (row, bar) in bars.iter().enumerate() {
            let middle = TOP + ROW * row as i32 + ROW / 2;
            area.draw(&Text::new(bar.name.clone(), (8, middle), small.clone()))?;
            let mut end = begin;
            if bar.median.is_finite() {
                let corners = [(begin, middle - 7), (place(bar.median), middle + 7)];
                area.draw(&Rectangle::new(corners, colour(bar.role).filled()))?;
                let spread = [(place(bar.min), middle), (place(bar.max), middle)];
                area.draw(&PathElement::new(spread.to_vec(), BLACK.stroke_width(1)))?;
                end = place(bar.max.max(bar.median));
            }
            area.draw(&Text::new(bar.label.clone(), (end + 6, middle), small.clone()))?;
        }
        Ok(())
    })
}

/// Time over pool size, both logarithmic.
fn line_chart(title: &str, curves: &[Curve]) -> Result<String> {
    let points = || curves.iter().flat_map(|curve| &curve.points).filter(|(_, y)| y.is_finite());
    let x = points().map(|point| point.0).fold(1.0, f64::max);
    let (low, high) =
        points().fold((f64::INFINITY, 0.0_f64), |(low, high), &(_, y)| (low.min(y), high.max(y)));
    if !low.is_finite() {
        return svg(TOP, |_| Ok(()));
    }
    svg(360, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(format!("{title}: makespan over pool size"), ("sans-serif", 15))
            .margin(10)
            .x_label_area_size(34)
            .y_label_area_size(64)
            .build_cartesian_2d(
                (1.0..x).log_scale().base(2.0),
                (low / 1e9 * 0.9..high / 1e9 * 1.1).log_scale(),
            )?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("threads").x_label_formatter(&|threads| format!("{threads:.0}"));
        mesh.y_desc("s").light_line_style(WHITE).draw()?;
        for (place, curve) in curves.iter().enumerate() {
            let colour = Palette99::pick(place).to_rgba();
            let line = curve.points.iter().filter(|(_, y)| y.is_finite());
            let line = LineSeries::new(line.map(|&(x, y)| (x, y / 1e9)), &colour);
            let series = chart.draw_series(line)?.label(curve.name.clone());
            series.legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
        }
        chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
        Ok(())
    })
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn svg(
    height: i32,
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Drawn,
) -> Result<String> {
    let mut text = String::new();
    {
        let size = (WIDTH, u32::try_from(height)?);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let drawn = area.fill(&WHITE).map_err(Into::into).and_then(|()| draw(&area));
        let drawn = drawn.and_then(|()| area.present().map_err(Into::into));
        drawn.map_err(|error| anyhow!("drawing a plot: {error}"))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, median: f64) -> Bar {
        let label = median.to_string();
        Bar { name: name.to_owned(), role: Role::Peer, median, min: median, max: median, label }
    }

    #[test]
    fn bars_name_every_system_also_one_that_never_got_there() {
        let text = bar_chart("a title", &[bar("one", 3.0), bar("two", f64::INFINITY)]).unwrap();
        for expected in ["<svg", "a title", "one", "two", "inf"] {
            assert!(text.contains(expected), "{expected} is missing in {text}");
        }
        let wide = bar_chart("a title", &[bar("one", 3.0), bar("two", 3000.0)]).unwrap();
        assert!(wide.contains("logarithmic"));
        assert!(bar_chart("nothing", &[]).is_ok());
    }

    #[test]
    fn lines_leave_out_what_never_ended() {
        let points = vec![(1.0, f64::INFINITY), (2.0, 5e9), (4.0, 3e9)];
        let curve = |points| Curve { name: "rayon".to_owned(), points };
        let text = line_chart("sizes", &[curve(points)]).unwrap();
        assert!(text.contains("rayon") && text.contains("polyline"), "{text}");
        assert!(line_chart("sizes", &[curve(vec![(1.0, f64::INFINITY)])]).is_ok());
    }
}
