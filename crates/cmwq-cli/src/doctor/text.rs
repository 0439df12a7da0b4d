//! The output for people: the verdict, what is degraded and what to do, and then everything that
//! was found.
//!
//! Everything is one [`String`]: sections of rows with a name and what is to be said about it,
//! wrapped and aligned.

mod detection;
mod limits;
mod machine;

use std::fmt::{Display, Write as _};

use cmwq_observe::doctor::{ChosenBy, Degradation, Setting};
use textwrap::Options;

use super::Findings;
use crate::paint::Paint;

/// Lines are no longer than this, and than a terminal that is not too narrow for this report, if
/// words allow.
const MOST_COLUMNS: usize = 100;
const FEWEST_COLUMNS: usize = 60;

/// The whole report, for a terminal with so many columns, or for something else.
pub(super) fn report(findings: &Findings, paint: Paint, columns: Option<usize>) -> String {
    let diagnosis = &findings.diagnosis;
    let mut report = Report::new(paint, columns);
    report.verdict(findings);
    machine::write(&mut report, &diagnosis.machine, &diagnosis.confinement);
    machine::write_pods(&mut report, &diagnosis.machine);
    detection::write(&mut report, findings);
    limits::write(&mut report, &diagnosis.limits);
    report.settings(&diagnosis.settings);
    report.notices(&findings.notices);
    report.text
}

/// Who chose the source of detection, in a word.
pub(super) fn chosen_by(chooser: ChosenBy) -> &'static str {
    match chooser {
        ChosenBy::Environment => "CMWQ_DETECT",
        ChosenBy::Program => "program",
        _ => "trying",
    }
}

/// A report that grows.
struct Report {
    text: String,
    paint: Paint,
    width: usize,
}

impl Report {
    fn new(paint: Paint, columns: Option<usize>) -> Self {
        let width = columns.unwrap_or(MOST_COLUMNS).clamp(FEWEST_COLUMNS, MOST_COLUMNS);
        Self { text: String::new(), paint, width }
    }

    fn verdict(&mut self, findings: &Findings) {
        let verdict = findings.verdict();
        let degradations = findings.degradations();
        if degradations.is_empty() {
            let verdict = self.paint.good(verdict);
            self.line(format_args!("{verdict}"));
            return;
        }
        let verdict = self.paint.warning(verdict);
        self.line(format_args!("{verdict}:"));
        for (index, degradation) in degradations.iter().enumerate() {
            let Degradation { what, why, advice, .. } = degradation;
            self.line("");
            self.wrapped(&format!("{:>3}. ", index + 1), what);
            self.wrapped("     why: ", why);
            self.wrapped("     do:  ", advice);
        }
    }

    fn settings(&mut self, settings: &[Setting]) {
        self.section("Settings (CMWQ_PARAMS, CMWQ_DETECT)");
        let width = settings.iter().map(|setting| setting.name.len()).max().unwrap_or(0);
        for Setting { name, value, is_default, .. } in settings {
            let value = if value.is_empty() { "not set" } else { value };
            let origin = if *is_default { "  (default)" } else { "" };
            self.line(format_args!("  {name:width$}  {value}{origin}"));
        }
    }

    fn notices(&mut self, notices: &[String]) {
        self.section("Notices so far");
        if notices.is_empty() {
            self.line("  none");
        }
        for notice in notices {
            self.wrapped("  - ", notice);
        }
    }

    fn section(&mut self, heading: &str) {
        let heading = self.paint.heading(heading);
        self.line("");
        self.line(heading);
    }

    /// A row of a section.
    fn row(&mut self, name: &str, text: impl Display) {
        self.wrapped(&format!("  {name:23} "), &text.to_string());
    }

    /// Text behind `start`, its further lines below its first.
    fn wrapped(&mut self, start: &str, text: &str) {
        let rest = " ".repeat(start.len());
        let options = Options::new(self.width).initial_indent(start).subsequent_indent(&rest);
        let wrapped = textwrap::fill(text, options.break_words(false));
        self.line(wrapped);
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

/// `1 core`, `2 cores`.
fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_the_terminal() {
        for (columns, width) in [(None, 100), (Some(200), 100), (Some(80), 80), (Some(20), 60)] {
            let mut report = Report::new(Paint::OFF, columns);
            report.row("user", "0 with ".to_owned() + &"CAP_SYS_NICE ".repeat(12));
            let longest = report.text.lines().map(str::len).max().unwrap();
            // Another word of 13 would not have fitted.
            assert!((width - 13..=width).contains(&longest), "{columns:?}: {}", report.text);
        }
    }
}
