//! `cmwq run`: commands nobody has to size.
//!
//! Each command is an item of one managed queue that counts as running while the command does, so
//! as many run as there are CPUs, and the next starts the moment one of them waits (or a CPU idles,
//! where they wait soon after they were started: `cmwq-core`, `pool/processes`). [`input`] has
//! the arguments, [`source`] how many of them a command gets, [`template`] what it becomes with
//! them, [`work`] what is done with one, [`child`] the process, [`sink`] its output. `--jobserver`
//! is another matter: [`jobserver`].

mod base64;
mod captured;
mod captures;
mod child;
mod deadline;
mod grace;
mod group;
mod halt;
mod input;
mod jobserver;
mod journal;
mod limit;
mod lines;
mod memory;
mod pipe;
mod progress;
mod report;
mod room;
mod running;
mod signals;
mod sink;
mod source;
mod spool;
mod template;
mod turns;
mod work;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::{exit, message, output};
use halt::Halt;
use input::{Cut, Lists};
use journal::{Done, Journal};
use memory::Floor;
use source::Source;
use template::Template;

/// Run a command for each argument, as many at once as keep the CPUs busy
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = include_str!("run/help.txt"),
    override_usage = "cmwq run [OPTIONS] <COMMAND>... [::: <ARG>...]..."
)]
pub(crate) struct Args {
    /// The command, and after ::: its arguments, if they are not read from standard input
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,

    /// Arguments end with a zero byte
    #[arg(short = '0', long)]
    null: bool,

    /// Arguments end with this character
    #[arg(
        short,
        long,
        value_name = "CHAR",
        conflicts_with = "null",
        value_parser = input::delimiter
    )]
    delimiter: Option<u8>,

    /// Read arguments from this file, or standard input (-)
    #[arg(short = 'a', long, value_name = "FILE")]
    arg_file: Option<PathBuf>,

    /// How many arguments a command gets, unless its line would be too long
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(1..))]
    max_args: u32,

    /// What stands for the argument, in place of {} and its relatives
    #[arg(short = 'I', long, value_name = "TEXT")]
    replace: Option<OsString>,

    /// Print in the order of the arguments
    #[arg(short = 'k', long)]
    keep_order: bool,

    /// Print each line when it comes
    #[arg(long, conflicts_with = "keep_order")]
    line_buffer: bool,

    /// Leave output as it comes
    #[arg(short = 'u', long, conflicts_with_all = ["keep_order", "line_buffer", "tag", "json"])]
    ungroup: bool,

    /// Print the argument before each line
    #[arg(long)]
    tag: bool,

    /// How many commands there may be at once, also while they wait
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2048))]
    max_active: Option<u32>,

    /// One command after the other
    #[arg(long, conflicts_with = "max_active")]
    ordered: bool,

    /// The niceness of the commands
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(-20..=19))]
    nice: Option<i32>,

    /// Before others: niceness -20, where that is allowed
    #[arg(long, conflicts_with = "nice")]
    highpri: bool,

    /// Commands do not keep others from starting
    #[arg(long)]
    cpu_intensive: bool,

    /// Between two starts, at least; commands start in order
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    delay: Option<Duration>,

    /// After so long a command is ended; 0 is never
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// How often a command that failed is run again
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    retries: u32,

    /// When enough is enough: never, or WHEN,WHAT=N as now,fail=1
    #[arg(long, value_name = "WHEN")]
    halt: Option<Halt>,

    /// Write a line for each command that has ended
    #[arg(long, value_name = "FILE")]
    joblog: Option<PathBuf>,

    /// Leave out what has succeeded according to --joblog
    #[arg(long, requires = "joblog")]
    resume: bool,

    /// How much memory has to be left for a command to start: 500M, 10% or off
    #[arg(long, value_name = "SIZE")]
    memory: Option<Floor>,

    /// Print the commands, and run nothing
    #[arg(long)]
    dry_run: bool,

    /// Print each command on standard error before it starts
    #[arg(short = 't', long)]
    verbose: bool,

    /// Show no progress bar
    #[arg(long)]
    no_progress: bool,

    /// Print a line of JSON for each command, which has its output, and one about all
    #[arg(long, conflicts_with_all = ["tag", "line_buffer", "dry_run"])]
    json: bool,

    /// Run the command once, and be its jobserver
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true,
        default_missing_value = "pipe", conflicts_with_all = NOT_OF_BUILDS)]
    jobserver: Option<jobserver::Kind>,
}

/// What has no meaning for a command that runs once, as it is.
const NOT_OF_BUILDS: [&str; 23] = [
    "null",
    "delimiter",
    "arg_file",
    "max_args",
    "replace",
    "keep_order",
    "line_buffer",
    "ungroup",
    "tag",
    "max_active",
    "ordered",
    "nice",
    "highpri",
    "cpu_intensive",
    "delay",
    "timeout",
    "retries",
    "halt",
    "joblog",
    "resume",
    "dry_run",
    "no_progress",
    "json",
];

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|s| (0.0..=1e9).contains(s));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write seconds, as 10 or 0.5".to_owned())
}

/// The verb with what xargs and GNU parallel want to know, which is refused with a hint. It is not
/// among the options, which completions offer.
pub(crate) fn with_hints(verb: clap::Command) -> clap::Command {
    let jobs = clap::Arg::new("jobs").short('j').long("jobs").short_alias('P').alias("max-procs");
    verb.arg(jobs.value_name("N").hide(true).value_parser(no_size))
}

fn no_size(_: &str) -> Result<u32, String> {
    let text = "nobody has to say how many: as many run as keep the CPUs busy, and --max-active is \
                a limit for what must not be more";
    Err(text.to_owned())
}

impl Args {
    /// As for timeout(1), 0 is none: so a script can say that there is none.
    fn timeout(&self) -> Option<Duration> {
        self.timeout.filter(|timeout| !timeout.is_zero())
    }

    fn source(&self, template: &Template, lists: Option<Lists>) -> io::Result<Source> {
        let per_command = self.max_args as usize;
        if let Some(lists) = lists {
            return Ok(Source::of_lists(lists, per_command, template));
        }
        let cut = match self.delimiter {
            _ if self.null => Cut::At(0),
            Some(byte) => Cut::At(byte),
            // A line is an argument where its place is said, as for xargs.
            None if template.has_holes() => Cut::Lines,
            None => Cut::Blanks,
        };
        Source::of_stream(self.arg_file.as_deref(), cut, per_command, template)
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    if let Some(kind) = args.jobserver {
        return jobserver::run(&args.command, kind, args.verbose, args.memory);
    }
    if let Some(hint) = input::hint(&args.command) {
        message::say(hint);
        return ExitCode::from(exit::USAGE);
    }
    let (command, lists) = input::part(&args.command);
    if lists.is_some() && (args.null || args.delimiter.is_some() || args.arg_file.is_some()) {
        message::say(
            "arguments come from ::: or from standard input: -0, -d and -a do not go with :::",
        );
        return ExitCode::from(exit::USAGE);
    }
    if command.is_empty() {
        message::say("no command is given before :::");
        return ExitCode::from(exit::USAGE);
    }
    let template = Template::new(&command, args.replace.as_deref());
    let source = match args.source(&template, lists) {
        Ok(source) => source,
        Err(error) => {
            let path = args.arg_file.clone().unwrap_or_default();
            message::say(format_args!("{}: {error}", path.display()));
            return ExitCode::from(exit::FAILED);
        }
    };
    if args.dry_run {
        return dry_run(args, &template, source);
    }
    signals::survive_long_files();
    let journal = args.joblog.as_ref().map(|path| Journal::open(path, args.resume));
    let journal = match journal.transpose() {
        Ok(journal) => journal,
        Err(error) => return log_failed(args, &error),
    };
    // SAFETY: the first thread is made by `work`.
    unsafe { grace::tell_commands() };
    work::run(args, template, source, journal)
}

/// Prints each command at once: there may be no end of arguments.
fn dry_run(args: &Args, template: &Template, mut source: Source) -> ExitCode {
    let log = args.joblog.as_ref().filter(|_| args.resume);
    let done = match log.map(|path| Done::read(path)).transpose() {
        Ok(done) => done.unwrap_or_default(),
        Err(error) => return log_failed(args, &error),
    };
    for number in 1.. {
        match source.next(template) {
            Ok(Some(arguments)) => {
                let words = template.fill(number, &arguments);
                if done.has(number, &words) {
                    continue;
                }
                if let Err(code) = output::write(&(journal::typed(&words) + "\n")) {
                    return code;
                }
            }
            Ok(None) => break,
            Err(error) => {
                message::say(format_args!("cannot read the arguments: {error}"));
                return ExitCode::from(exit::FAILED);
            }
        }
    }
    ExitCode::from(exit::DONE)
}

fn log_failed(args: &Args, error: &io::Error) -> ExitCode {
    let path = args.joblog.clone().unwrap_or_default();
    message::say(format_args!("{}: {error}", path.display()));
    ExitCode::from(exit::FAILED)
}
