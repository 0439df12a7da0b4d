//! Completions for shells, and manual pages: made from what `--help` is made of.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::roff::{Roff, roman};

use crate::{Cli, exit, message, output};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("manual/completions.txt"))]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write the manual pages of the command and its verbs
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("manual/man.txt"))]
pub(crate) struct Man {
    /// The directory for cmwq.1, cmwq-sum.1 and so on; without it, cmwq.1 goes to standard output
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Runs the verb.
pub(crate) fn completions(args: &Completions) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cmwq", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Runs the verb.
pub(crate) fn man(args: &Man) -> ExitCode {
    let mut command = Cli::command();
    command.build();
    let Some(directory) = &args.directory else {
        return match page(&command) {
            Ok((_, text)) => output::print(&text),
            Err(error) => failed(Path::new("cmwq.1"), &error),
        };
    };
    let verbs = command.get_subcommands().filter(|verb| verb.get_name() != "help");
    for command in std::iter::once(&command).chain(verbs) {
        let written = page(command).and_then(|(name, text)| {
            fs::create_dir_all(directory)?;
            fs::write(directory.join(name), text)
        });
        if let Err(error) = written {
            return failed(directory, &error);
        }
    }
    ExitCode::from(exit::DONE)
}

fn failed(path: &Path, error: &io::Error) -> ExitCode {
    message::say(format_args!("{}: {error}", path.display()));
    ExitCode::from(exit::FAILED)
}

/// A page and its name.
fn page(command: &Command) -> io::Result<(String, String)> {
    let title = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    // What follows the options has its own layout, which a page keeps.
    let words = command.get_after_long_help().or(command.get_after_help());
    let words = words.map(ToString::to_string).unwrap_or_default();
    let command = command.clone().after_long_help(None).after_help(None).name(title.clone());
    let man = clap_mangen::Man::new(command.clone())
        .title(title.to_uppercase())
        .source(concat!("cmwq ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut title_line = Vec::new();
    man.render_title(&mut title_line)?;
    // A date would make two builds differ; an absent one would make the source the date.
    let title_line = String::from_utf8_lossy(&title_line).replace(" 1  ", " 1 \"\" ");
    let mut text = title_line.into_bytes();
    man.render_name_section(&mut text)?;
    synopsis(command.clone()).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    sections(&words).to_writer(&mut text)?;
    let others = ["cmwq(1)", "workqueue(7)"];
    let others = others.into_iter().filter(|other| *other != format!("{title}(1)"));
    let mut end = Roff::new();
    end.control("SH", ["SEE ALSO"]);
    end.text([roman(others.collect::<Vec<_>>().join(", "))]);
    end.to_writer(&mut text)?;
    Ok((format!("{title}.1"), String::from_utf8_lossy(&text).into_owned()))
}

/// As `--help` has it: clap_mangen's has each option, and none of what they and the verb take.
fn synopsis(mut command: Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for (index, line) in command.render_usage().to_string().lines().enumerate() {
        if index > 0 {
            roff.control("br", []);
        }
        roff.text([roman(line.trim_start_matches("Usage:").trim())]);
    }
    roff
}

/// Each paragraph of the words that begins with a line at the margin which ends with a colon is a
/// section; all is shown as it is written.
fn sections(words: &str) -> Roff {
    let mut roff = Roff::new();
    for (index, paragraph) in words.trim_end().split("\n\n").enumerate() {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        let heading = first.strip_suffix(':').filter(|_| rest.starts_with(' '));
        match heading {
            Some("Exit code") => drop(roff.control("SH", ["EXIT STATUS"])),
            Some(heading) => drop(roff.control("SH", [heading.to_uppercase().as_str()])),
            None if index == 0 => drop(roff.control("SH", ["NOTES"])),
            None => drop(roff.control("PP", [])),
        }
        // At the left, where lines of 80 columns fit.
        roff.control("in", ["2n"]);
        roff.control("nf", []);
        let lines = if heading.is_some() { rest } else { paragraph };
        for line in lines.lines() {
            roff.text([roman(
                line.strip_prefix("  ").filter(|_| heading.is_some()).unwrap_or(line),
            )]);
        }
        roff.control("fi", []);
        roff.control("in", []);
    }
    roff
}
