//! `cmwq set`: reading and changing the attributes of a running process's queues.
//!
//! The library speaks with the process ([`cmwq::control::Client`]); here arguments are read
//! ([`assignment`]) and what comes of it is printed ([`report`]).

mod assignment;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use cmwq::control::{Client, ClientError, ConnectError, Target};
use os_display::Quotable as _;

use crate::{exit, message, output};
use assignment::{Assignment, nearest};
use report::{Changed, Failure};

/// Change attributes of a running process's workqueues, or list them
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("set/help.txt"))]
pub(crate) struct Args {
    /// The process
    #[arg(value_name = "PID")]
    pid: u32,

    /// The workqueue; . for the attributes of the process
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// What to set
    #[arg(value_name = "ATTR=VALUE")]
    assignments: Vec<String>,

    /// List the attributes, of NAME or of all
    #[arg(long)]
    list: bool,

    /// Set attributes of the process: as NAME .
    #[arg(long)]
    global: bool,

    /// The control socket, where it is not found by the PID
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// How long all of it may take
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "10",
        value_parser = clap::value_parser!(u32).range(1..=86_400)
    )]
    timeout: u32,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// What is asked for.
enum Job {
    List(Option<Target>),
    Set(Target, Vec<Assignment>),
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    let job = match job(args) {
        Ok(Ok(job)) => job,
        Ok(Err(failure)) => return fail(args, &[], None, &failure),
        Err(usage) => {
            let kind = ErrorKind::MissingRequiredArgument;
            let mut command = crate::Cli::command();
            command.build();
            let verb = command.find_subcommand_mut("set").expect("the verb that was run");
            verb.error(kind, usage).exit()
        }
    };
    let mut client = match connect(args) {
        Ok(client) => client,
        Err(error) => return fail(args, &[], None, &Failure::connecting(&error)),
    };
    match job {
        Job::List(target) => list(args, &mut client, target.as_ref()),
        Job::Set(target, assignments) => set(args, &mut client, &target, &assignments),
    }
}

/// Reads the arguments; the outer error is wrong usage, the inner one an attribute that there is
/// not.
fn job(args: &Args) -> Result<Result<Job, Failure>, &'static str> {
    let mut words: Vec<&str> = args.name.iter().map(String::as_str).collect();
    words.extend(args.assignments.iter().map(String::as_str));
    let target = if args.global {
        Some(Target::Process)
    } else if words.is_empty() {
        None
    } else {
        Some(match words.remove(0) {
            "." => Target::Process,
            name => Target::Queue(name.to_owned()),
        })
    };
    if args.list {
        return if words.is_empty() {
            Ok(Ok(Job::List(target)))
        } else {
            Err("--list changes nothing: leave ATTR=VALUE out")
        };
    }
    let Some(target) = target.filter(|_| !words.is_empty()) else {
        return Err("say what to set: NAME ATTR=VALUE…, or --list");
    };
    let mut assignments = Vec::new();
    for word in words {
        match Assignment::parse(word, &target) {
            Ok(assignment) => assignments.push(assignment),
            Err(assignment::Wrong::NoValue) => return Err("write ATTR=VALUE after the name"),
            Err(assignment::Wrong::NoAttribute(text)) => {
                return Ok(Err(Failure::new("absent", text)));
            }
        }
    }
    Ok(Ok(Job::Set(target, assignments)))
}

fn connect(args: &Args) -> Result<Client, ConnectError> {
    let patience = Duration::from_secs(args.timeout.into());
    let end = Instant::now() + patience;
    let mut client = match &args.socket {
        Some(path) => Client::connect_at(path, patience)?,
        None => Client::connect_within(args.pid, patience)?,
    };
    client.end_at(end);
    Ok(client)
}

fn list(args: &Args, client: &mut Client, target: Option<&Target>) -> ExitCode {
    match client.show(target) {
        Ok(listing) if args.json => output::print_json(&report::listing_json(args.pid, &listing)),
        Ok(listing) => output::print_foreign(&report::listing_text(&listing)),
        Err(error) => fail(args, &[], target, &explain(client, target, error)),
    }
}

fn set(args: &Args, client: &mut Client, target: &Target, assignments: &[Assignment]) -> ExitCode {
    let mut changed = Vec::new();
    for Assignment { attribute, value } in assignments {
        let outcome = client.get(target, attribute).and_then(|was| {
            let is = client.set(target, attribute, value)?;
            Ok(Changed { attribute: attribute.clone(), was, is })
        });
        match outcome {
            Ok(change) => changed.push(change),
            Err(error) => {
                let failure = explain(client, Some(target), error);
                return fail(args, &changed, Some(target), &failure);
            }
        }
    }
    if args.json {
        output::print_json(&report::changes_json(args.pid, Some(target), &changed, None))
    } else {
        output::print_foreign(&report::changes_text(target, &changed))
    }
}

/// What failed, with what the user may have meant.
fn explain(client: &mut Client, target: Option<&Target>, error: ClientError) -> Failure {
    let ClientError::Refused { kind, mut text } = error else {
        return Failure::new("protocol", error.to_string());
    };
    if let (Some(Target::Queue(name)), "no-queue") = (target, kind.as_str()) {
        let names = client.names().unwrap_or_default();
        let near = nearest(name, names.iter().map(String::as_str));
        text = format!("there is no workqueue {}", name.quote());
        if !near.is_empty() {
            let near: Vec<_> = near.iter().map(|name| name.quote().to_string()).collect();
            text += &format!("; did you mean {}?", near.join(" or "));
        } else {
            text += "; --list shows those that there are";
        }
    }
    Failure::new(&kind, text)
}

fn fail(args: &Args, changed: &[Changed], target: Option<&Target>, failure: &Failure) -> ExitCode {
    message::say(&failure.text);
    let printed = if args.json {
        output::print_json(&report::changes_json(args.pid, target, changed, Some(failure)))
    } else {
        target.map_or(ExitCode::SUCCESS, |target| {
            output::print_foreign(&report::changes_text(target, changed))
        })
    };
    if printed == ExitCode::SUCCESS { ExitCode::from(exit::FAILED) } else { printed }
}
