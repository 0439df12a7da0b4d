//! `cmwq trace`: what a process's workqueues do, event by event.
//!
//! [`live`] reads a running process, [`begun`] what runs there already, [`replay`] a file that
//! `CMWQ_TRACE` made. Both feed [`merge`], which puts the rings' events in order and says when they
//! were; [`chosen`] says which are wanted; [`chrome`] and [`text`] write them down as they come, in
//! memory that does not grow with the trace; [`timeline`] is the same as values, of which [`svg`]
//! makes a picture.

mod begun;
mod chosen;
mod chrome;
mod lanes;
mod live;
mod merge;
mod out;
mod replay;
mod running;
mod svg;
mod text;
mod timeline;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::ValueEnum;
use cmwq::trace::{ALL, Kind, NAMES};
use os_display::Quotable as _;
use regex::RegexSet;

use crate::launch::{self, Group, Launched};
use crate::look::{self, Symbols, Which};
use crate::meant::did_you_mean;
use crate::{exit, message, output};
use chosen::Chosen;
use merge::{Merge, Timed};
use out::Outs;

/// Record what the workqueues of a process do
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("trace/help.txt"))]
pub(crate) struct Args {
    /// A process, by its number or name, `-` for the only one that uses cmwq; or a file that a
    /// process with CMWQ_TRACE=FILE has written
    #[arg(value_name = "PROCESS|FILE", default_value = "-")]
    source: PathBuf,

    /// Only queues whose names match one of these
    #[arg(value_name = "REGEX")]
    queues: Vec<String>,

    /// Start this program and trace all of it; what stands before the -- are REGEXes then
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "duration")]
    program: Vec<OsString>,

    /// Stop after so long; otherwise at Ctrl-C, or when the process ends
    #[arg(short, long, value_name = "SECS", value_parser = parse_seconds)]
    duration: Option<Duration>,

    /// Where to write the trace; `-` is standard output [default: cmwq-trace.json, unless --svg is
    /// given]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,

    /// Only these events, separated by commas; --help lists them
    #[arg(long, value_name = "EVENTS", value_parser = parse_events, default_value = "all")]
    events: u32,

    /// Draw what ran where and when as a picture; `-` is standard output
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Where the picture begins, in milliseconds from the first run
    #[arg(long, value_name = "MS", value_parser = parse_milliseconds, requires = "svg")]
    from: Option<u64>,

    /// Where the picture ends
    #[arg(long, value_name = "MS", value_parser = parse_milliseconds, requires = "svg")]
    to: Option<u64>,

    /// Say at the end on standard output, as one JSON object, what was written where
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Expressions for names of queues.
    fn expressions(&self) -> Vec<String> {
        let mut expressions = self.queues.clone();
        if !self.program.is_empty() && self.source != Path::new("-") {
            expressions.push(self.source.to_string_lossy().into_owned());
        }
        expressions
    }

    /// Where the trace goes, if anywhere.
    fn output(&self) -> Option<&Path> {
        let default = self.svg.is_none().then_some(Path::new("cmwq-trace.json"));
        self.output.as_deref().or(default)
    }

    fn writes_to_stdout(&self) -> bool {
        [self.output(), self.svg.as_deref()].contains(&Some(Path::new("-")))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For <https://ui.perfetto.dev> and chrome://tracing
    Json,
    /// A line for each event
    Text,
    /// One JSON document with what ran where and when; keeps it all in memory
    Spans,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Nanoseconds.
fn parse_milliseconds(text: &str) -> Result<u64, String> {
    let ms: f64 = text.parse().map_err(|_| "not a number of milliseconds".to_owned())?;
    let is_sensible = (0.0..1e12).contains(&ms);
    if is_sensible { Ok((ms * 1e6).round() as u64) } else { Err("not that many".to_owned()) }
}

/// Names of events, with or without the kernel's prefix.
fn parse_events(text: &str) -> Result<u32, String> {
    let mut mask = 0;
    for wanted in text.split(',').map(str::trim) {
        if wanted == "all" {
            mask |= ALL;
            continue;
        }
        let is_it = |name: &str| name == wanted || name.strip_prefix("workqueue_") == Some(wanted);
        let known = NAMES.iter().find(|(_, name)| is_it(name));
        let Some((kind, _)) = known else {
            let names: Vec<_> = NAMES.iter().map(|(_, name)| *name).collect();
            let short = names.iter().filter_map(|name| name.strip_prefix("workqueue_"));
            let meant = did_you_mean(wanted, names.iter().copied().chain(short));
            return Err(format!("'{wanted}' is none of all, {}{meant}", names.join(", ")));
        };
        mask |= kind.bit();
    }
    Ok(mask)
}

/// These events, and those without which they cannot be shown as something that lasts.
fn with_other_halves(kinds: u32) -> u32 {
    const PAIRS: [[Kind; 2]; 2] =
        [[Kind::ExecuteStart, Kind::ExecuteEnd], [Kind::WorkerBlocked, Kind::WorkerResumed]];
    let bits = PAIRS.map(|[one, other]| one.bit() | other.bit());
    bits.into_iter().filter(|bits| kinds & bits != 0).fold(kinds, |all, bits| all | bits)
}

/// What is known of the process, besides its events.
pub(crate) struct Subject {
    /// Its id, as it knows itself.
    pid: u32,
    name: String,
    symbols: Symbols,
}

/// Where events go, in the order of their times.
trait Sink {
    /// Which events it has to be told of where these were asked for. What runs is shown from a
    /// start to an end: it would go on to the end of the trace for who knows only of the start.
    fn kinds(&self, asked: u32) -> u32 {
        with_other_halves(asked)
    }

    fn event(&mut self, subject: &mut Subject, event: &Timed<'_>) -> io::Result<()>;
    /// After the last one.
    fn end(&mut self, subject: &mut Subject, end: End) -> io::Result<()>;
}

/// How a trace ended.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    ns: u64,
    /// How many events are missing.
    lost: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    events: u64,
    lost: u64,
}

/// What is wanted of the events. Made first of all: a program that was started should not have run
/// in vain.
struct Wanted {
    /// Names of queues; all, if there are none.
    queues: RegexSet,
    /// What the picture shows, in nanoseconds from the first run.
    window: Range<u64>,
}

impl Wanted {
    /// # Errors
    /// What is wrong with the words of the command line.
    fn new(args: &Args) -> Result<Self, String> {
        if args.json && args.writes_to_stdout() {
            let why = "--json says on standard output what was written: write the trace to a file";
            return Err(why.to_owned());
        }
        let dash = Some(Path::new("-"));
        if args.output() == dash && args.svg.as_deref() == dash {
            return Err("-o and --svg cannot both be standard output".to_owned());
        }
        let queues = RegexSet::new(args.expressions()).map_err(|error| error.to_string())?;
        let window = args.from.unwrap_or(0)..args.to.unwrap_or(u64::MAX);
        if window.is_empty() {
            return Err("--from must be less than --to".to_owned());
        }
        Ok(Self { queues, window })
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    let wanted = match Wanted::new(args) {
        Ok(wanted) => wanted,
        Err(why) => {
            message::say(why);
            return ExitCode::from(exit::USAGE);
        }
    };
    let (opened, status) = if args.program.is_empty() {
        (Source::open(args).and_then(|source| Ok((source, Outs::open(args)?))), None)
    } else {
        match whole(args) {
            Ok((opened, status)) => (opened, Some(status)),
            Err(code) => return code,
        }
    };
    let traced =
        opened.map_err(Failure::from).and_then(|(source, outs)| trace(args, &wanted, source, outs));
    match traced {
        Ok(summary) => {
            let said = say_summary(args, summary);
            if said == ExitCode::from(exit::DONE) {
                status.map_or(said, launch::code)
            } else {
                said
            }
        }
        Err(failure) => failure.say(),
    }
}

/// What there is to read, and where it goes; or why not.
type Opened = Result<(Source, Outs), String>;

/// Runs the program to its end. It writes a trace by itself, so nothing that it does first is
/// missed.
fn whole(args: &Args) -> Result<(Opened, ExitStatus), ExitCode> {
    let failed = |error: io::Error| {
        message::say(format_args!("a place for the trace: {error}"));
        ExitCode::from(exit::FAILED)
    };
    let outs = Outs::open(args).map_err(|why| Failure::from(why).say())?;
    outs.check(None).map_err(Failure::say)?;
    let folder = tempfile::Builder::new().prefix("cmwq-trace-").tempdir().map_err(failed)?;
    let file = folder.path().join("trace");
    let launched = Launched::start(&args.program, Group::Ours, |command| {
        command.env("CMWQ_TRACE", &file);
        Ok(())
    })?;
    let status = launched.wait().map_err(failed)?;
    // Not before: the program would inherit it.
    look::bound_memory();
    if !file.exists() {
        let text = format!(
            "{} used no workqueue, or it has privileges of its own and reads no variable",
            args.program[0].maybe_quote()
        );
        return Ok((Err(text), status));
    }
    match launch::beside(&file) {
        0 => {}
        more => message::say(format_args!(
            "{more} more of its processes used workqueues; CMWQ_TRACE=FILE keeps the traces of all"
        )),
    }
    // Open, it is there without its name.
    Ok((replay::Replay::open(&file).map(|replay| (Source::File(replay), outs)), status))
}

/// Why there is no trace, or not all of it.
enum Failure {
    /// The reader of standard output went away.
    Closed,
    /// The command line cannot be meant.
    Usage(String),
    Said(String),
}

impl Failure {
    /// Says it; the exit code.
    fn say(self) -> ExitCode {
        let (text, code) = match self {
            Self::Closed => return ExitCode::from(exit::OUTPUT_CLOSED),
            Self::Usage(text) => (text, exit::USAGE),
            Self::Said(text) => (text, exit::FAILED),
        };
        message::say(text);
        ExitCode::from(code)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Said(text)
    }
}

fn trace(args: &Args, wanted: &Wanted, source: Source, outs: Outs) -> Result<Summary, Failure> {
    outs.check(source.file())?;
    let mut sinks = outs.begin(args, &wanted.window)?;
    let kinds = sinks.iter().fold(0, |kinds, sink| kinds | sink.kinds(args.events));
    let mut chosen = Chosen::new(&wanted.queues);
    let recorded = chosen.kinds(kinds);
    let (mut subject, mut merge) = (source.subject(), Merge::new());
    let mut events = 0;
    let mut write = |subject: &mut Subject, event: &Timed<'_>| {
        let kind = event.event.kind.bit();
        if recorded & kind == 0 || !chosen.wants(event) || kinds & kind == 0 {
            return Ok(());
        }
        events += 1;
        let mut takers = sinks.iter_mut().filter(|sink| sink.kinds(args.events) & kind != 0);
        takers.try_for_each(|sink| sink.event(subject, event))
    };
    let end = match source {
        Source::Process(live) => {
            live.run(args.duration, recorded, &mut subject, &mut merge, &mut write)
        }
        Source::File(replay) => replay.run(&mut subject, &mut merge, &mut write),
    };
    let end = end.map_err(|error| failure(args, &error))?;
    for sink in &mut sinks {
        sink.end(&mut subject, end).map_err(|error| failure(args, &error))?;
    }
    Ok(Summary { events, lost: end.lost })
}

enum Source {
    Process(live::Live),
    File(replay::Replay),
}

impl Source {
    fn open(args: &Args) -> Result<Self, String> {
        look::bound_memory();
        let process = match args.source.to_str() {
            Some(text) if !text.contains('/') => Which::parse(text)?,
            _ => return replay::Replay::open(&args.source).map(Self::File),
        };
        if matches!(process, Which::Name(_)) && args.source.exists() {
            return replay::Replay::open(&args.source).map(Self::File);
        }
        let pid = process.find().map_err(|error| match process {
            Which::Name(_) => format!("{error}; nor is there a file of that name"),
            _ => error,
        })?;
        live::Live::attach(pid).map(Self::Process)
    }

    /// The file that is read, if it is one.
    fn file(&self) -> Option<&File> {
        match self {
            Self::Process(_) => None,
            Self::File(replay) => Some(replay.file()),
        }
    }

    fn subject(&self) -> Subject {
        match self {
            Self::Process(live) => live.subject(),
            Self::File(_) => Subject { pid: 0, name: String::new(), symbols: Symbols::of_file() },
        }
    }
}

fn failure(args: &Args, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe && args.writes_to_stdout() {
        return Failure::Closed;
    }
    Failure::Said(error.to_string())
}

fn say_summary(args: &Args, summary: Summary) -> ExitCode {
    let Summary { events, lost } = summary;
    let files = [args.output(), args.svg.as_deref()];
    let files: Vec<_> =
        files.into_iter().flatten().filter(|file| *file != Path::new("-")).collect();
    if args.json {
        let names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
        let document = serde_json::json!({ "events": events, "lost": lost, "files": names });
        return output::print_json(&format!("{document}\n"));
    }
    if lost > 0 {
        message::say(format_args!(
            "{lost} events were lost: they came faster than they could be read"
        ));
    }
    let noun = if events == 1 { "event" } else { "events" };
    for file in files {
        message::say(format_args!("{events} {noun} in {}", file.display()));
    }
    ExitCode::from(exit::DONE)
}

/// What targets of fuzzing begin with.
#[cfg(any(test, fuzzing))]
pub(crate) mod for_fuzzing {
    use super::*;

    /// What each format makes of a trace file, as far as it can be read.
    pub(crate) fn replay(file: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        let [mut json, mut text, mut spans, mut svg] = <[Vec<u8>; 4]>::default();
        let Ok(replay) = replay::Replay::new(file) else { return Vec::new() };
        {
            let mut sinks: [Box<dyn Sink + '_>; 4] = [
                Box::new(chrome::Chrome::new(&mut json)),
                Box::new(text::Text::new(&mut text)),
                Box::new(timeline::Spans::new(&mut spans)),
                Box::new(svg::Svg::new(&mut svg, 0..u64::MAX)),
            ];
            let mut subject = Subject { pid: 0, name: String::new(), symbols: Symbols::of_file() };
            let mut write = |subject: &mut Subject, event: &Timed<'_>| {
                sinks.iter_mut().try_for_each(|sink| sink.event(subject, event))
            };
            let end = replay.run(&mut subject, &mut Merge::new(), &mut write);
            let Ok(end) = end else {
                // What came before has been written by then.
                drop(sinks);
                return vec![("text", text)];
            };
            for sink in &mut sinks {
                sink.end(&mut subject, end).expect("there is memory");
            }
        }
        vec![("json", json), ("text", text), ("spans", spans), ("svg", svg)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_go_by_the_kernels_names_or_shorter() {
        let start = Kind::ExecuteStart.bit();
        assert_eq!(parse_events("workqueue_execute_start"), Ok(start));
        assert_eq!(parse_events("execute_start, mayday"), Ok(start | Kind::Mayday.bit()));
        assert_eq!(parse_events("all"), Ok(ALL));
        assert!(parse_events("execute").unwrap_err().contains("workqueue_execute_start"));
    }

    #[test]
    fn seconds_may_have_fractions_and_no_sign() {
        assert_eq!(parse_seconds("0.25"), Ok(Duration::from_millis(250)));
        for bad in ["-1", "", "1h", "inf", "nan"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
