//! Scenario files: TOML to [`Scenario`], with errors that show the line.

use std::fmt;
use std::ops::Range;

use cmwq_sim::Scenario;
use cmwq_sim::scenario::{Flag, QueueSpec, WorkSpec};
use cmwq_sim::script::Step;
use serde::Deserialize;
use textwrap::core::display_width;
use toml::Spanned;

use crate::meant::did_you_mean;

/// LIMIT: columns of a line that is shown.
const MOST_COLUMNS: usize = 120;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cpus: Option<Spanned<u32>>,
    #[serde(default, rename = "workqueue")]
    workqueues: Vec<Queue>,
    #[serde(default, rename = "work")]
    works: Vec<Work>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {
    name: Spanned<String>,
    #[serde(default)]
    flags: Vec<Spanned<String>>,
    #[serde(default)]
    max_active: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Work {
    name: Spanned<String>,
    workqueue: Spanned<String>,
    cpu: Option<Spanned<u32>>,
    at_ms: Option<Spanned<f64>>,
    delay_ms: Option<Spanned<f64>>,
    #[serde(default)]
    script: Vec<Spanned<String>>,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// From which byte to which.
    span: Option<Range<usize>>,
    /// The number of the line, from 1.
    line: Option<usize>,
    what: String,
}

impl Wrong {
    fn new(what: impl fmt::Display, span: Option<Range<usize>>) -> Self {
        let what = what.to_string().trim().replace('\n', ", ");
        Self { span, line: None, what }
    }

    fn in_text(mut self, text: &str) -> Self {
        let before = |end: usize| text.as_bytes()[..end.min(text.len())].iter();
        let count = |span: &Range<usize>| before(span.start).filter(|byte| **byte == b'\n').count();
        self.line = self.span.as_ref().map(|span| 1 + count(span));
        self
    }

    /// With the file's name in front, and the line of `text` that it is about below.
    pub(crate) fn shown(&self, file: impl fmt::Display, text: &str) -> String {
        let Some((line, span)) = self.line.zip(self.span.as_ref()) else {
            return format!("{file}: {}", self.what);
        };
        let mut shown = format!("{file}:{line}: {}", self.what);
        let begin =
            text.get(..span.start).map_or(0, |before| before.rfind('\n').map_or(0, |at| at + 1));
        let source = text.get(begin..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        if source.trim().is_empty() || display_width(source) > MOST_COLUMNS {
            return shown;
        }
        let source = source.replace('\t', " ");
        let gutter = format!("{line:>5} | ");
        shown += &format!("\n{gutter}{source}");
        let (from, to) = (span.start - begin, span.end.saturating_sub(begin).min(source.len()));
        if let Some(before) = source.get(..from) {
            let marked = source.get(from..to).map_or(1, display_width).max(1);
            let indent = " ".repeat(display_width(before));
            shown += &format!("\n{:>5} | {indent}{}", "", "^".repeat(marked));
        }
        shown
    }
}

impl fmt::Display for Wrong {
    /// On one line, behind the number of the line that it is about.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Reads a scenario and checks it.
pub(crate) fn parse(text: &str) -> Result<Scenario, Wrong> {
    scenario(text).map_err(|wrong| wrong.in_text(text))
}

fn scenario(text: &str) -> Result<Scenario, Wrong> {
    let file: File = toml::from_str(text)
        .map_err(|error| Wrong::new(with_meant(error.message()), error.span()))?;
    let queues = file.workqueues.iter().map(Queue::spec).collect::<Result<Vec<_>, _>>()?;
    let works = file.works.iter().map(|work| work.spec(&queues)).collect::<Result<Vec<_>, _>>()?;
    let cpus = file.cpus.as_ref().map_or(1, |cpus| *cpus.get_ref());
    let scenario = Scenario { cpus, workqueues: queues, works };
    scenario.validate().map_err(|error| {
        let error = error.to_string();
        let span = file.place_of(&error);
        Wrong::new(error, span)
    })?;
    Ok(scenario)
}

/// A message about a name that there is not, which has it and those that there are in backticks,
/// with those that may have been meant.
fn with_meant(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next().filter(|_| message.starts_with("unknown "));
    let meant = unknown.map(|unknown| did_you_mean(unknown, names));
    message.to_owned() + &meant.unwrap_or_default()
}

impl File {
    /// Where that is which an error about the whole calls by its name.
    fn place_of(&self, error: &str) -> Option<Range<usize>> {
        let of = |what: &str, name: &Spanned<String>| {
            let is_it = error.contains(&format!("{what} '{}'", name.get_ref()))
                || error.contains(&format!("{what}s are called '{}'", name.get_ref()));
            is_it.then(|| name.span())
        };
        let work = || {
            self.works.iter().rev().find_map(|work| {
                let cpu =
                    work.cpu.as_ref().filter(|_| error.contains(": cpu = ")).map(Spanned::span);
                of("work", &work.name).map(|name| cpu.unwrap_or(name))
            })
        };
        let queue = || self.workqueues.iter().rev().find_map(|queue| of("workqueue", &queue.name));
        let cpus = || self.cpus.as_ref().filter(|_| error.starts_with("cpus")).map(Spanned::span);
        work().or_else(queue).or_else(cpus)
    }
}

impl Queue {
    fn spec(&self) -> Result<QueueSpec, Wrong> {
        let name = self.name.get_ref();
        let flag = |flag: &Spanned<String>| {
            flag.get_ref().parse::<Flag>().map_err(|error| {
                let meant = did_you_mean(flag.get_ref(), Flag::ALL.iter().map(|(_, name)| *name));
                Wrong::new(format!("workqueue '{name}': {error}{meant}"), Some(flag.span()))
            })
        };
        let flags = self.flags.iter().map(flag).collect::<Result<_, _>>()?;
        let (name, max_active) = (name.clone(), self.max_active);
        Ok(QueueSpec { name, flags, max_active, ..QueueSpec::default() })
    }
}

impl Work {
    fn spec(&self, queues: &[QueueSpec]) -> Result<WorkSpec, Wrong> {
        let (name, wanted) = (self.name.get_ref(), self.workqueue.get_ref());
        let Some(workqueue) = queues.iter().position(|queue| queue.name == *wanted) else {
            let meant = did_you_mean(wanted, queues.iter().map(|queue| queue.name.as_str()));
            let what = format!("work '{name}': there is no workqueue '{wanted}'{meant}");
            return Err(Wrong::new(what, Some(self.workqueue.span())));
        };
        let step = |step: &Spanned<String>| {
            let wrong = |error| Wrong::new(format!("work '{name}': {error}"), Some(step.span()));
            step.get_ref().parse::<Step>().map_err(wrong)
        };
        let script = self.script.iter().map(step).collect::<Result<_, _>>()?;
        Ok(WorkSpec {
            name: name.clone(),
            workqueue,
            cpu: self.cpu.as_ref().map(|cpu| *cpu.get_ref()),
            at_ns: nanoseconds(name, "at_ms", self.at_ms.as_ref())?,
            delay_ns: nanoseconds(name, "delay_ms", self.delay_ms.as_ref())?,
            script,
        })
    }
}

/// The latest time that makes sense, in milliseconds: a year.
const LONGEST_MS: f64 = 365.0 * 86_400_000.0;

fn nanoseconds(work: &str, field: &str, ms: Option<&Spanned<f64>>) -> Result<u64, Wrong> {
    let Some(ms) = ms else { return Ok(0) };
    let (ms, span) = (*ms.get_ref(), ms.span());
    if (0.0..=LONGEST_MS).contains(&ms) {
        return Ok((ms * 1e6).round() as u64);
    }
    let what = format!("work '{work}': {field} = {ms} is out of range: use 0 to {LONGEST_MS}");
    Err(Wrong::new(what, Some(span)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmwq_sim::scenario::Flags;

    const FULL: &str = r#"
        cpus = 2
        [[workqueue]]
        name = "q"
        flags = ["managed", "highpri"]
        max_active = 7
        [[work]]
        name = "w"
        workqueue = "q"
        cpu = 1
        at_ms = 1.5
        delay_ms = 3
        script = ["burn 5ms", "sleep 250us"]
    "#;

    #[test]
    fn every_field_is_read() {
        let scenario = parse(FULL).unwrap();
        assert_eq!(scenario.cpus, 2);
        let flags = Flags::NONE.with(Flag::Managed).with(Flag::Highpri);
        let queue = QueueSpec { name: "q".into(), flags, max_active: 7, ..QueueSpec::default() };
        assert_eq!(scenario.workqueues, [queue]);
        let work = WorkSpec {
            name: "w".into(),
            workqueue: 0,
            cpu: Some(1),
            at_ns: 1_500_000,
            delay_ns: 3_000_000,
            script: vec![Step::Burn(5_000_000), Step::Sleep(250_000)],
        };
        assert_eq!(scenario.works, [work]);
    }

    #[track_caller]
    fn check_refused(from: &str, to: &str, expected: &str) {
        assert!(FULL.contains(from), "the test is out of date: {from}");
        let error = parse(&FULL.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn errors_say_where_and_what() {
        check_refused("cpus = 2", "cpus = \"two\"", "line 2");
        check_refused("cpus = 2", "cpu = 2", "unknown field `cpu`");
        check_refused("max_active = 7", "max_active = ", "line 6");
        check_refused("\"managed\"", "\"fast\"", "workqueue 'q': unknown flag 'fast'");
        check_refused("workqueue = \"q\"", "workqueue = \"p\"", "no workqueue 'p'");
        check_refused("burn 5ms", "run 5ms", "work 'w': unknown step 'run'");
        check_refused("at_ms = 1.5", "at_ms = -1.5", "at_ms = -1.5 is out of range");
        check_refused("delay_ms = 3", "delay_ms = nan", "delay_ms = NaN");
        check_refused("cpu = 1", "cpu = 2", "only CPUs 0 to 1");
    }

    #[track_caller]
    fn check_shown(from: &str, to: &str, expected: &[&str]) {
        let text = FULL.replace(from, to);
        let shown = parse(&text).unwrap_err().shown("a.toml", &text);
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[1..], *expected, "{shown}");
        assert!(lines[0].starts_with("a.toml:"), "{shown}");
    }

    #[test]
    fn the_line_is_shown_and_the_place_marked() {
        check_shown(
            "\"managed\"",
            "\"manged\"",
            &[
                "    5 |         flags = [\"manged\", \"highpri\"]",
                "      |                  ^^^^^^^^",
            ],
        );
        check_shown(
            "at_ms = 1.5",
            "at_ms = -1",
            &["   11 |         at_ms = -1", "      |                 ^^"],
        );
        check_shown("cpu = 1", "cpu = 2", &["   10 |         cpu = 2", "      |               ^"]);
        check_shown(
            "cpus = 2",
            "cpus = 0",
            &["    2 |         cpus = 0", "      |                ^"],
        );
    }

    #[test]
    fn names_that_are_nearly_right_are_offered() {
        check_refused("\"managed\"", "\"manged\"", "did you mean 'managed'?");
        check_refused("workqueue = \"q\"", "workqueue = \"Q\"", "did you mean 'q'?");
        check_refused("workqueue = \"q\"", "workqeue = \"q\"", "did you mean 'workqueue'?");
        check_refused("cpus = 2", "cpu = 2", "did you mean 'cpus'?");
    }

    #[test]
    fn the_least_that_is_a_scenario() {
        let scenario = parse("").unwrap();
        assert_eq!((scenario.cpus, scenario.works.len()), (1, 0));
    }
}
