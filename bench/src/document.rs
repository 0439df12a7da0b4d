//! REPORT.md, made of what is kept of each experiment.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::commit::NOT_RECORDED;
use crate::machine::{Machine, Meanwhile};
use crate::versions;

/// What is kept of an experiment.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Kept {
    /// Where and when, of which commit, and the command that repeats it.
    pub(crate) machine: Machine,
    pub(crate) meanwhile: Meanwhile,
    /// Of the peers; none in what was kept before there were any.
    #[serde(default)]
    pub(crate) versions: Vec<String>,
    /// Title, table, ratios and notes of each section, in Markdown.
    pub(crate) sections: Vec<String>,
}

impl Kept {
    /// The file of an experiment.
    pub(crate) fn file(folder: &Path, experiment: &str) -> PathBuf {
        folder.join(format!("{experiment}.json"))
    }

    /// `None`: it has not been measured.
    fn read(folder: &Path, experiment: &str) -> Result<Option<Self>> {
        let file = Self::file(folder, experiment);
        let Ok(text) = fs::read_to_string(&file) else { return Ok(None) };
        let kept = serde_json::from_str(&text);
        kept.map(Some).with_context(|| {
            format!("reading {}, which `report` did not write: remove it", file.display())
        })
    }
}

/// An experiment's line in the table that the document begins with.
#[derive(Debug)]
struct Line {
    experiment: String,
    /// Where it is told of.
    place: String,
    commit: String,
    kernel: String,
    date: String,
    load: String,
    others: String,
}

impl Line {
    fn of(experiment: &str, kept: &Kept) -> Self {
        let Machine { commit, kernel, date, load, .. } = &kept.machine;
        Self {
            experiment: experiment.to_owned(),
            place: format!("#{experiment}"),
            commit: commit.clone().unwrap_or_else(|| NOT_RECORDED.to_owned()),
            kernel: kernel.clone(),
            date: date.clone(),
            load: load.clone(),
            others: kept.meanwhile.share(),
        }
    }

    /// Of what a program or a script of its own wrote: its line "2 CPUs, Linux 6.18, load before
    /// 0.5, 2026-11-22T10:00:00Z, …".
    fn of_text(experiment: &str, place: &str, text: &str) -> Self {
        let told = text.lines().find(|line| line.contains(" CPU") && line.contains("Linux "));
        let parts: Vec<_> =
            told.unwrap_or_default().trim_end().trim_end_matches('.').split(", ").collect();
        let part = |name: &str| {
            let found = parts.iter().find_map(|part| part.strip_prefix(name));
            found.unwrap_or(NOT_RECORDED).to_owned()
        };
        let is_date = |part: &&&str| part.starts_with("20") && part.contains('-');
        let date = parts.iter().find(is_date).unwrap_or(&NOT_RECORDED);
        Self {
            experiment: experiment.to_owned(),
            place: place.to_owned(),
            commit: part("commit "),
            kernel: part("Linux "),
            date: (*date).to_owned(),
            load: part("load before "),
            others: NOT_RECORDED.to_owned(),
        }
    }
}

/// Writes the document; `experiments` are in its order.
pub(crate) fn write(out: &Path, folder: &Path, experiments: &[&str]) -> Result<()> {
    let (mut lines, mut missing, mut body) = (Vec::new(), Vec::new(), String::new());
    for &experiment in experiments {
        let Some(kept) = Kept::read(folder, experiment)? else {
            missing.push(experiment);
            continue;
        };
        lines.push(Line::of(experiment, &kept));
        let Kept { machine, meanwhile, versions, sections } = kept;
        let (command, place, beside) = (&machine.command, machine.place(), meanwhile.sentence());
        // Writing to a String cannot fail.
        let _ = write!(body, "\n## {experiment}\n\n`{command}`  \n{place}.  \n{beside}");
        if !versions.is_empty() {
            let _ = write!(body, "  \n{}", versions::line(&versions));
        }
        body.push('\n');
        for section in sections {
            let _ = write!(body, "\n{section}");
        }
    }
    // Measured by a program of its own, which writes this itself.
    if let Ok(thumbs) = fs::read_to_string(folder.join("thumbs.md")) {
        lines.push(Line::of_text("thumbs", "#thumbs", &thumbs));
        let _ = write!(body, "\n## thumbs\n\n{thumbs}");
    }
    // Measured by scripts, whose tables stay where they are.
    for script in ["commands", "builds"] {
        if let Ok(text) = fs::read_to_string(folder.join(format!("{script}.md"))) {
            lines.push(Line::of_text(script, &format!("report/{script}.md"), &text));
        }
    }
    let text = format!("{HEAD}{}{}{body}", table(&lines), remarks(&lines, &missing));
    let file = out.join("REPORT.md");
    fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
}

fn table(lines: &[Line]) -> String {
    let mut text = String::from(
        "\n| experiment | commit | kernel | date | load before | other programs |\n\
         |---|---|---|---|---:|---:|\n",
    );
    for Line { experiment, place, commit, kernel, date, load, others } in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| [{experiment}]({place}) | {commit} | {kernel} | {date} | {load} | {others} |"
        );
    }
    text
}

/// Whether all is of one commit, and what is missing.
fn remarks(lines: &[Line], missing: &[&str]) -> String {
    let different = |value: fn(&Line) -> &str| lines.iter().map(value).collect::<BTreeSet<_>>();
    let commits = different(|line| &line.commit);
    let (kernels, dates) = (different(|line| &line.kernel).len(), different(|line| &line.date));
    let (first, last) = (dates.first().unwrap_or(&""), dates.last().unwrap_or(&""));
    let plural = if kernels == 1 { "kernel" } else { "kernels" };
    let mut text = match commits.first() {
        Some(&commit) if commits.len() == 1 && commit != NOT_RECORDED => {
            format!("\nAll of it is of commit {commit}.")
        }
        Some(_) => {
            let recorded = commits.iter().filter(|&&commit| commit != NOT_RECORDED).count();
            let are = if recorded > 1 { "are not" } else { "are not known to be" };
            format!(
                "\n**These experiments {are} all of one commit**: they were taken between \
                 {first} and {last},\non {kernels} {plural}. `git log bench/report/NAME.json` \
                 tells when a result was kept."
            )
        }
        None => "\nNothing has been measured yet.".to_owned(),
    };
    if !missing.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(text, " Not measured, and so without a section: {}.", missing.join(", "));
    }
    text + "\n"
}

const HEAD: &str = "\
# Report

Written by `cargo run --release -p cmwq-bench -- report`; [README.md](README.md) says what each \
experiment does and how
each system is used. Figures are medians over the rounds, in brackets the smallest and the \
largest value. Each experiment
was taken by itself, at the time that the table says, so only numbers of one of its tables are \
comparable. *Load before* is
the load average of the minute before, the experiment before it included; *other programs* is \
the part of all CPU time that
they had meanwhile: where that is more than a small part, the line below the command says so. \
`cmwq run` is measured by
scripts: [commands](report/commands.md), [builds](report/builds.md).
";

#[cfg(test)]
mod tests {
    use super::*;

    fn line(experiment: &str, commit: &str, date: &str) -> Line {
        let text = format!("2 CPUs, Linux 6.18, load before 0.5, {date}, commit {commit}.  \n");
        Line::of_text(experiment, "#", &text)
    }

    #[test]
    fn it_is_said_when_experiments_are_not_of_one_commit() {
        let one = || line("items", "abc", "2026-11-22T00:00:00Z");
        let said = remarks(&[one(), line("mixed", "abc", "2026-11-25T00:00:00Z")], &[]);
        assert_eq!(said, "\nAll of it is of commit abc.\n");
        let said = remarks(&[one(), line("mixed", "def", "2026-11-25T00:00:00Z")], &["pictures"]);
        for expected in ["are not all of one", "22T00", "25T00", "1 kernel.", "section: pictures."]
        {
            assert!(said.contains(expected), "{expected} is missing in {said}");
        }
        let unknown = || line("items", NOT_RECORDED, "2026-11-22T00:00:00Z");
        assert!(remarks(&[unknown(), unknown()], &[]).contains("not known to be all of one"));
        assert!(remarks(&[], &["items"]).contains("Nothing"), "an empty folder");
    }

    #[test]
    fn a_line_of_another_program_is_read() {
        let text = "`thumbs bench`  \n2 CPUs, Linux 6.18.44, load before 76.29, \
                    2026-11-23T19:24:28Z.  \n100 % are 254.8 requests.\n";
        let said = table(&[Line::of_text("thumbs", "#thumbs", text)]);
        let expected = "| [thumbs](#thumbs) | not recorded | 6.18.44 | 2026-11-23T19:24:28Z | \
                        76.29 | not recorded |\n";
        assert!(said.ends_with(expected), "{said}");
        let text = "# Builds\n\n2 CPUs, Linux 6.18.44, load before 2.02, 2026-11-28, commit abc, \
                    3 rounds in turn.\n";
        let said = table(&[Line::of_text("builds", "report/builds.md", text)]);
        let expected = "| [builds](report/builds.md) | abc | 6.18.44 | 2026-11-28 | 2.02 | \
                        not recorded |\n";
        assert!(said.ends_with(expected), "{said}");
    }
}
