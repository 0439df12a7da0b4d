//! Tables for people, and the same numbers as JSON.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::job::Bench;
use crate::machine::Machine;
use crate::plot::Bar;
use crate::rounds::Outcome;
use crate::stats::Spread;
use crate::systems::{Role, System};
use crate::versions;

/// What a number counts, and so how it is shown. All times are nanoseconds inside.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    #[serde(rename = "ns")]
    Time,
    Count,
    #[serde(rename = "ratio")]
    Plain,
}

impl Unit {
    /// A number with its unit, three to four digits long.
    pub(crate) fn show(self, value: f64) -> String {
        if value.is_infinite() {
            return "never".to_owned();
        }
        match self {
            Self::Count => format!("{value:.0}"),
            Self::Plain => format!("{value:.3}"),
            Self::Time => {
                let (scale, name) = scale_of(value);
                format!("{} {name}", digits(value / scale))
            }
        }
    }

    /// A median with the range it came from, in one unit of time.
    fn show_spread(self, spread: Spread) -> String {
        let Spread { median, min, max } = spread;
        if min == max || median.is_infinite() {
            return self.show(median);
        }
        let (scale, suffix) = match self {
            Self::Time => scale_of(median),
            Self::Count | Self::Plain => (1.0, ""),
        };
        let plain = |value: f64| match self {
            _ if value.is_infinite() => "never".to_owned(),
            Self::Time => digits(value / scale),
            Self::Count | Self::Plain => self.show(value),
        };
        let space = if suffix.is_empty() { "" } else { " " };
        format!("{}{space}{suffix} ({}–{})", plain(median), plain(min), plain(max))
    }
}

fn scale_of(ns: f64) -> (f64, &'static str) {
    match ns {
        _ if ns < 1e3 => (1.0, "ns"),
        _ if ns < 1e6 => (1e3, "µs"),
        _ if ns < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

fn digits(value: f64) -> String {
    let decimals = match value {
        _ if value >= 100.0 => 0,
        _ if value >= 10.0 => 1,
        _ => 2,
    };
    // Whole hundreds of milliseconds are where the interesting per cents are.
    if (100.0..10_000.0).contains(&value) {
        format!("{value:.1}")
    } else {
        format!("{value:.decimals$}")
    }
}

/// One column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    title: String,
    unit: Unit,
}

impl Column {
    pub(crate) fn new(title: &str, unit: Unit) -> Self {
        Self { title: title.to_owned(), unit }
    }
}

/// One system's line of a table.
#[derive(Debug)]
pub(crate) struct Row {
    system: System,
    /// Said in place of the system's name, where it has several rows.
    label: Option<String>,
    role: Role,
    figures: Vec<Option<Spread>>,
    /// Why figures are missing.
    problem: Option<String>,
}

/// The row of a measured cell.
pub(crate) fn row_of<S>(outcome: &Outcome<S>, bench: Bench, figures: Vec<Option<Spread>>) -> Row {
    let system = outcome.system;
    let role = system.role(bench).unwrap_or(Role::Reference);
    Row { system, label: None, role, figures, problem: outcome.problem.clone() }
}

/// One side of a ratio.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Side {
    name: String,
    value: f64,
    /// The least and the greatest of the rounds; `None` for what was not measured.
    #[serde(skip)]
    range: Option<(f64, f64)>,
}

impl Side {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn named(name: &str, value: f64) -> Self {
        Self { name: name.to_owned(), value, range: None }
    }

    /// The lowest of them that there is.
    pub(crate) fn least(sides: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        sides
            .into_iter()
            .flatten()
            .filter(|side| side.value.is_finite())
            .min_by(|left, right| left.value.total_cmp(&right.value))
    }

    /// A system's median in a column, infinite if it never got there; `None` if it is absent.
    pub(crate) fn of(rows: &[Row], system: System, column: usize) -> Option<Self> {
        rows.iter().find(|row| row.system == system)?.side(column)
    }
}

impl Row {
    /// A row that was computed, or simulated: nothing of it was measured on `system`.
    pub(crate) fn computed(system: System, label: &str, figures: Vec<Option<Spread>>) -> Self {
        let (label, role) = (Some(label.to_owned()), Role::Reference);
        Self { system, label, role, figures, problem: None }
    }

    /// The same row under a name of its own.
    pub(crate) fn labelled(self, label: String) -> Self {
        Self { label: Some(label), ..self }
    }

    /// The system, if there is anything of it.
    pub(crate) fn measured(&self) -> Option<System> {
        self.problem.is_none().then_some(self.system)
    }

    #[cfg(test)]
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name() == name
    }

    #[cfg(test)]
    pub(crate) fn medians(&self) -> Vec<f64> {
        self.figures.iter().flatten().map(|spread| spread.median).collect()
    }

    /// What stands in the first column.
    fn name(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.system.name())
    }

    fn side(&self, column: usize) -> Option<Side> {
        let Spread { median, min, max } = *self.figures.get(column)?.as_ref()?;
        Some(Side { name: self.name(), value: median, range: Some((min, max)) })
    }
}

/// The lowest median of a column among the peers proper.
pub(crate) fn best_peer(rows: &[Row], column: usize) -> Option<Side> {
    let peers = rows.iter().filter(|row| row.role == Role::Peer);
    Side::least(peers.map(|row| row.side(column)))
}

/// Two numbers of the same run, one divided by the other.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ratio {
    what: String,
    ours: Side,
    theirs: Side,
    unit: Unit,
    ratio: f64,
    /// The ratio to stay at or below, where the project has set itself one.
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<f64>,
    /// The least and the greatest ratio of a round, where both were measured in the same rounds, or
    /// one of them is a constant.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<(f64, f64)>,
}

/// A ratio that exists only if both of its sides were measured.
#[derive(Debug)]
pub(crate) struct MaybeRatio(Option<Ratio>);

impl Ratio {
    #[expect(clippy::new_ret_no_self, reason = "either side may not have been measured")]
    pub(crate) fn new(
        what: impl Into<String>,
        unit: Unit,
        ours: Option<Side>,
        theirs: Option<Side>,
    ) -> MaybeRatio {
        // Ours may be infinite, which misses every goal; dividing by "never" would meet them all.
        let theirs = theirs.filter(|theirs| theirs.value.is_finite());
        MaybeRatio(ours.zip(theirs).map(|(ours, theirs)| {
            let ratio = ours.value / theirs.value;
            let rounds = match (ours.range, theirs.range) {
                (Some((least, most)), None) => Some((least / theirs.value, most / theirs.value)),
                (None, Some((least, most))) => Some((ours.value / most, ours.value / least)),
                _ => None,
            };
            let rounds = rounds.filter(|(least, most)| least < most);
            Self { what: what.into(), ours, theirs, unit, ratio, goal: None, rounds }
        }))
    }

    fn line(&self) -> String {
        let Self { what, ours, theirs, unit, ratio, goal, rounds } = self;
        // Where two digits look like the goal, a third tells on which side of it this is.
        let near = goal.is_some_and(|goal| (ratio - goal).abs() < 0.01);
        let digits = if near { 3 } else { 2 };
        let mut line = format!(
            "{what}: {} {} / {} {} = {ratio:.digits$}",
            ours.name,
            unit.show(ours.value),
            theirs.name,
            unit.show(theirs.value),
        );
        // Writing to a String cannot fail.
        let _ = match (*goal, *rounds) {
            (None, None) => Ok(()),
            (None, Some((least, most))) => write!(line, " (rounds {least:.2}–{most:.2})"),
            (Some(goal), rounds) => {
                let verdict = if *ratio <= goal { "met" } else { "missed" };
                let _ = write!(line, " (goal: at most {goal}, {verdict}");
                match rounds {
                    // One round would have said this, and another one that.
                    Some((least, most)) if (least <= goal) != (most <= goal) => {
                        write!(line, ", but not decided: rounds {least:.3}–{most:.3})")
                    }
                    Some((least, most)) => write!(line, "; rounds {least:.3}–{most:.3})"),
                    None => write!(line, ")"),
                }
            }
        };
        line
    }
}

impl MaybeRatio {
    /// With a goal.
    pub(crate) fn goal(self, goal: f64) -> Option<Ratio> {
        self.0.map(|ratio| Ratio { goal: Some(goal), ..ratio })
    }

    /// Both sides as they were measured, round by round in the same order: what lies between the
    /// least and the greatest ratio of five rounds is, 15 times of 16, where the median of many
    /// would be.
    pub(crate) fn rounds(self, ours: &[f64], theirs: &[f64]) -> Self {
        let ratios: Vec<f64> =
            ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        let is_paired = ours.len() == theirs.len() && ratios.len() > 1;
        let rounds = Spread::of(&ratios).filter(|_| is_paired).map(|it| (it.min, it.max));
        Self(self.0.map(|ratio| Ratio { rounds, ..ratio }))
    }

    /// Without one.
    pub(crate) fn value(self) -> Option<Ratio> {
        self.0
    }
}

/// One benchmark's result.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) notes: Vec<String>,
    pub(crate) curves: Vec<Curve>,
}

/// How something depends on a number, for one system.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Section {
    /// A system's median in the first column.
    pub(crate) fn median_of(&self, system: System) -> Option<f64> {
        Some(Side::of(&self.rows, system, 0)?.value)
    }

    /// Title, table, ratios, notes.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![self.title.clone(), self.table().to_string()];
        let problems = self.rows.iter().filter_map(|row| {
            row.problem.as_ref().map(|problem| format!("{}: {problem}", row.name()))
        });
        lines.extend(problems);
        lines.extend(self.ratios.iter().map(Ratio::line));
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines.join("\n")
    }

    /// The same in Markdown.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let titles = self.columns.iter().map(|column| column.title.clone());
        let mut text = format!("**{}**\n\n", self.title);
        text += &line(std::iter::once("system".to_owned()).chain(titles).collect());
        text += &format!("|---|{}\n", "---:|".repeat(self.columns.len()));
        for row in &self.rows {
            text += &line(self.cells(row));
        }
        text.push('\n');
        let problems = self.rows.iter().filter_map(|row| {
            row.problem.as_ref().map(|problem| format!("{}: {problem}", row.name()))
        });
        let remarks = self.ratios.iter().map(Ratio::line).chain(problems);
        let remarks = remarks.chain(self.notes.iter().map(|note| format!("note: {note}")));
        remarks.for_each(|remark| text += &format!("- {remark}\n"));
        text
    }

    /// What is worth a plot: a column's title, and a bar for each system that has a figure there.
    pub(crate) fn bars(&self) -> Vec<(String, Vec<Bar>)> {
        let plotted: &[usize] = match self.name.as_str() {
            // Slowdown and lateness.
            name if name.starts_with("perf-wq") => &[1, 6],
            // 1 s behind limits of 5 and 256.
            "ten" => &[4, 5],
            // One, and a thousand times as many.
            "scaling-queues" | "scaling-pending" => &[0, 3],
            // Rows that count different things.
            "queues-computed" => &[],
            _ => &[0],
        };
        let of_column = |&place: &usize| {
            let column = self.columns.get(place)?;
            let bar = |row: &Row| {
                let Spread { median, min, max } = row.figures.get(place).copied().flatten()?;
                let (name, role) = (row.name(), row.role);
                Some(Bar { name, role, median, min, max, label: column.unit.show(median) })
            };
            Some((column.title.clone(), self.rows.iter().filter_map(bar).collect()))
        };
        plotted.iter().filter_map(of_column).collect()
    }

    /// A row's line in a table.
    fn cells(&self, row: &Row) -> Vec<String> {
        let mark = if row.role == Role::Reference { " (reference)" } else { "" };
        let figures = self.columns.iter().zip(&row.figures).map(|(column, figure)| {
            figure.map_or_else(|| "–".to_owned(), |spread| column.unit.show_spread(spread))
        });
        std::iter::once(row.name() + mark).chain(figures).collect()
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(UTF8_BORDERS_ONLY);
        let titles = self.columns.iter().map(|column| column.title.clone());
        table.set_header(std::iter::once("system".to_owned()).chain(titles));
        for row in &self.rows {
            table.add_row(self.cells(row));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

impl Serialize for Section {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let figures = |row: &Row| -> Map<String, Value> {
            let columns = self.columns.iter().zip(&row.figures);
            columns.map(|(column, figure)| (column.title.clone(), json!(figure))).collect()
        };
        let row = |row: &Row| {
            json!({
                "system": row.system.name(),
                "label": row.label,
                "how": row.system.how(),
                "role": row.role,
                "figures": figures(row),
                "problem": row.problem,
            })
        };
        let units: Map<String, Value> =
            self.columns.iter().map(|column| (column.title.clone(), json!(column.unit))).collect();
        json!({
            "benchmark": self.name,
            "title": self.title,
            "units": units,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "ratios": self.ratios,
            "notes": self.notes,
            "curves": self.curves,
        })
        .serialize(serializer)
    }
}

/// Everything a run has to say.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) versions: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) sections: Vec<Section>,
}

impl Report {
    /// Text for a terminal.
    pub(crate) fn text(&self) -> String {
        let versions = versions::line(&self.versions);
        let versions = if versions.is_empty() { versions } else { versions + "\n" };
        let head = format!("{}\n{versions}seed {}", self.machine.line(), self.seed);
        let sections = self.sections.iter().map(Section::text);
        std::iter::once(head).chain(sections).collect::<Vec<_>>().join("\n\n") + "\n"
    }
}

#[cfg(test)]
mod tests;
