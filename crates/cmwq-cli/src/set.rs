//! `cmwq set`: reading and changing the attributes of a running process's queues.
//!
//! The library speaks with the process ([`cmwq_observe::control::Client`]); here arguments are read
//! ([`assignment`]) and what comes of it is printed ([`report`]).

mod assignment;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use cmwq_observe::control::{Client, ClientError, ConnectError, Target};
use os_display::Quotable as _;

use crate::look::Which;
use crate::meant::did_you_mean;
use crate::{exit, message, output};
use assignment::Assignment;
use report::{Changed, Failure};

/// Change attributes of a running process's workqueues, or list them
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("set/help.txt"))]
pub(crate) struct Args {
    /// The process: its number or name; `-` is the only one that uses cmwq
    #[arg(value_name = "PROCESS", default_value = "-", value_parser = Which::parse)]
    process: Which,

    /// The workqueue; . for the attributes of the process
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// What to set
    #[arg(value_name = "ATTR=VALUE")]
    assignments: Vec<String>,

    /// List the attributes, of NAME or of all
    #[arg(long)]
    list: bool,

    /// Set attributes of the process, in place of `.` for NAME
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
        Ok(Err(failure)) => {
            return (Asked { args, pid: args.process.number().unwrap_or(0) }).fail(
                &[],
                None,
                &failure,
            );
        }
        Err(usage) => {
            let kind = ErrorKind::MissingRequiredArgument;
            let mut command = crate::Cli::command();
            command.build();
            let verb = command.find_subcommand_mut("set").expect("the verb that was run");
            verb.error(kind, usage).exit()
        }
    };
    let pid = match (&args.socket, &args.process) {
        // Who listens there is known to the socket.
        (Some(_), Which::Only) => Ok(0),
        (_, process) => process.find(),
    };
    let asked = match pid {
        Ok(pid) => Asked { args, pid },
        Err(text) => {
            return (Asked { args, pid: args.process.number().unwrap_or(0) }).fail(
                &[],
                None,
                &Failure::new("no-process", text),
            );
        }
    };
    let mut client = match connect(args, asked.pid) {
        Ok(client) => client,
        Err(error) => return asked.fail(&[], None, &Failure::connecting(&error)),
    };
    match job {
        Job::List(target) => asked.list(&mut client, target.as_ref()),
        Job::Set(target, assignments) => asked.set(&mut client, &target, &assignments),
    }
}

/// Reads the arguments; the outer error is wrong usage, the inner one an attribute that there is
/// not.
fn job(args: &Args) -> Result<Result<Job, Failure>, &'static str> {
    const PROCESS_FIRST: &str = "PROCESS and NAME come first; `-` is the only process: \
                                 cmwq set - NAME ATTR=VALUE…, or cmwq set - --global ATTR=VALUE…";
    let is_assignment = |word: &str| word.contains('=');
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
        let begins_late = match &args.process {
            Which::Name(process) if is_assignment(process) => true,
            _ => args.name.as_deref().is_some_and(is_assignment),
        };
        return Err(if begins_late {
            PROCESS_FIRST
        } else {
            "say what to set: NAME ATTR=VALUE…, or --list"
        });
    };
    let mut assignments = Vec::new();
    for word in words {
        match Assignment::parse(word, &target) {
            Ok(assignment) => assignments.push(assignment),
            Err(assignment::Wrong::NoValue) if args.global => {
                return Err("write ATTR=VALUE after the process; --global takes no NAME");
            }
            Err(assignment::Wrong::NoValue) => return Err("write ATTR=VALUE after the name"),
            Err(assignment::Wrong::NoAttribute(text)) => {
                return Ok(Err(Failure::new("absent", text)));
            }
        }
    }
    Ok(Ok(Job::Set(target, assignments)))
}

fn connect(args: &Args, pid: u32) -> Result<Client, ConnectError> {
    let patience = Duration::from_secs(args.timeout.into());
    let end = Instant::now() + patience;
    let mut client = match &args.socket {
        Some(path) if args.process == Which::Only => Client::connect_at(path, patience)?,
        Some(path) => Client::connect_at_of(pid, path, patience)?,
        None => Client::connect_within(pid, patience)?,
    };
    client.end_at(end);
    Ok(client)
}

/// What failed, with what the user may have meant.
fn explain(client: &mut Client, target: Option<&Target>, error: ClientError) -> Failure {
    let ClientError::Refused { kind, mut text } = error else {
        return Failure::new("protocol", error.to_string());
    };
    if let (Some(Target::Queue(name)), "no-queue") = (target, kind.as_str()) {
        let names = client.names().unwrap_or_default();
        let near = did_you_mean(name, names.iter().map(String::as_str));
        text = format!("there is no workqueue {}", name.quote());
        text += if near.is_empty() { "; --list shows those that there are" } else { &near };
    }
    Failure::new(&kind, text)
}

/// What is asked, of which process.
struct Asked<'a> {
    args: &'a Args,
    /// 0: not known.
    pid: u32,
}

impl Asked<'_> {
    fn list(&self, client: &mut Client, target: Option<&Target>) -> ExitCode {
        match client.show(target) {
            Ok(listing) if self.args.json => {
                output::print_json(&report::listing_json(self.pid, &listing))
            }
            Ok(listing) => output::print_foreign(&report::listing_text(&listing)),
            Err(error) => self.fail(&[], target, &explain(client, target, error)),
        }
    }

    fn set(&self, client: &mut Client, target: &Target, assignments: &[Assignment]) -> ExitCode {
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
                    return self.fail(&changed, Some(target), &failure);
                }
            }
        }
        if self.args.json {
            output::print_json(&report::changes_json(self.pid, Some(target), &changed, None))
        } else {
            output::print_foreign(&report::changes_text(target, &changed))
        }
    }

    fn fail(&self, changed: &[Changed], target: Option<&Target>, failure: &Failure) -> ExitCode {
        message::say(&failure.text);
        let printed = if self.args.json {
            output::print_json(&report::changes_json(self.pid, target, changed, Some(failure)))
        } else {
            target.map_or(ExitCode::SUCCESS, |target| {
                output::print_foreign(&report::changes_text(target, changed))
            })
        };
        if printed == ExitCode::SUCCESS { ExitCode::from(exit::FAILED) } else { printed }
    }
}
