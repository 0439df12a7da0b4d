//! What is done with the commands: they are queued as there is room, wait for their turn, run, are
//! tried again, and are counted.

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use cmwq::{AffinityScope, Config, Detect, Workqueue};
use rustix::process::Signal;

use super::captures::Captures;
use super::child::{Call, Capture, End, is_scarce};
use super::deadline::Deadline;
use super::grace::grace;
use super::halt::{Halt, Tally, Verdict};
use super::journal::{Entry, Journal, typed};
use super::limit::{self, Limit};
use super::lines::Lines;
use super::memory::Memory;
use super::progress::{Progress, Stand};
use super::report::{self, Record, Summary, Times};
use super::running::{Going, Running};
use super::sink::{Output, Sink};
use super::source::Source;
use super::template::Template;
use super::turns::{Job, SHORT_WAIT, Turn, Turns};
use super::{Args, signals};
use crate::descriptors::raise_limit;
use crate::programs::Programs;
use crate::{exit, message};

/// So many commands more than may run are known ahead.
const AHEAD: u64 = 64;
/// Between two looks whether a limit holds commands back, or one does not end.
const LOOK: Duration = Duration::from_millis(100);
/// Between two pictures of the progress bar.
const REDRAW: Duration = Duration::from_millis(100);
/// Nothing has ended for so long, after a signal, and what runs was killed: nobody reads output, or
/// commands cannot be killed.
const STALL: Duration = Duration::from_secs(1);
/// So long the last message waits for its reader.
const LAST_WORD: Duration = Duration::from_millis(100);

/// What became of the commands so far.
#[derive(Clone, Copy, Debug, Default)]
struct Books {
    known: u64,
    /// There are no others.
    is_all: bool,
    /// Queued or running.
    outstanding: u64,
    tally: Tally,
    /// By us, since enough is enough: they have not failed.
    ended: u64,
    left_out: u64,
    resumed: u64,
}

/// What all items share.
#[derive(Debug)]
pub(super) struct Work {
    queue: Workqueue,
    is_ordered: bool,
    limit: Limit,
    room: u64,
    capture: Capture,
    tag: bool,
    json: bool,
    verbose: bool,
    timeout: Option<Duration>,
    retries: u32,
    halt: Halt,
    turns: Turns,
    running: Running,
    programs: Programs,
    captures: Option<Arc<Captures>>,
    sink: Sink,
    books: Mutex<Books>,
    changed: Condvar,
    /// When those are killed that were to end, and do not. `None`: they are not to end.
    kill_at: Mutex<Option<Deadline>>,
    /// Something could not be written.
    is_output_lost: AtomicBool,
    /// The exit code so far.
    worst: AtomicU8,
    /// The signal that was the last word, 0: none.
    signal: AtomicU8,
}

/// Runs everything.
pub(super) fn run(
    args: &Args,
    template: Template,
    source: Source,
    journal: Option<Journal>,
) -> ExitCode {
    let began = Instant::now();
    let work = match Work::new(args, journal) {
        Ok(work) => Arc::new(work),
        Err(text) => {
            message::say(text);
            return ExitCode::from(exit::NO_RESULT);
        }
    };
    let is_stream = source.is_stream();
    let feed = {
        let work = Arc::clone(&work);
        move || work.feed(&template, source)
    };
    let feeder = || thread::Builder::new().name("arguments".into()).spawn(feed);
    if let Err(error) = signals::listen(&work).and_then(|()| feeder()) {
        message::say(format_args!("cannot start a thread: {error}"));
        return ExitCode::from(exit::NO_RESULT);
    }
    // Without what would wait for a reader, too: the bar, and the last words.
    let Some(books) = work.wait() else {
        work.say_what_goes_on();
        return work.leave(Duration::ZERO);
    };
    work.sink.progress().end();
    let summary = Summary {
        done: books.tally.done,
        failed: books.tally.failed,
        ended: books.ended,
        left_out: books.left_out,
        resumed: books.resumed,
        seconds: began.elapsed().as_secs_f64(),
    };
    if work.json {
        work.heed(work.sink.write(0, &report::last(summary)));
    } else if books.left_out > 0 || !books.is_all {
        // What a stream has left nobody knows.
        let rest = match books.left_out {
            0 if is_stream => "ended before all arguments were read",
            _ => "not all were started",
        };
        let ended = match summary.ended {
            0 => String::new(),
            ended => format!(", {ended} ended"),
        };
        message::say(format_args!(
            "{} done, {} of them failed{ended}; {rest}",
            summary.done, summary.failed
        ));
    }
    work.leave(grace())
}

impl Work {
    fn new(args: &Args, journal: Option<Journal>) -> Result<Self, String> {
        let capture = match () {
            () if args.ungroup => Capture::Nothing,
            () if args.line_buffer => Capture::Lines,
            () => Capture::Whole,
        };
        let asked = if args.ordered { Some(1) } else { args.max_active };
        let fds_per_command = limit::fds_per_command(capture, args.timeout().is_some());
        let fds = raise_limit(limit::fds_wanted(asked, fds_per_command));
        let limit = Limit::new(asked, fds, fds_per_command);
        let max_active = limit.most();
        // Commands inherit the CPUs of the worker that starts them.
        detected(Config::builder().managed_affinity_scope(AffinityScope::System))
            .install()
            .and_then(|()| {
                let queue = Workqueue::builder("run").managed().max_active(max_active);
                let queue = if args.cpu_intensive { queue.cpu_intensive() } else { queue };
                let queue = if args.highpri { queue.highpri() } else { queue };
                match args.nice {
                    Some(nice) => queue.nice(nice).build(),
                    None => queue.build(),
                }
            })
            .map_err(|error| format!("cannot start the workqueue: {error}"))
            .and_then(|queue| Self::with(args, queue, limit, capture, journal))
    }

    fn with(
        args: &Args,
        queue: Workqueue,
        limit: Limit,
        capture: Capture,
        journal: Option<Journal>,
    ) -> Result<Self, String> {
        let progress = Progress::new(!args.no_progress && !args.ungroup);
        let keeps_order = args.keep_order && !args.line_buffer;
        let sink = Sink::new(keeps_order, progress, journal)
            .map_err(|error| format!("cannot use standard output: {error}"))?;
        let captures = (capture == Capture::Whole).then(Captures::new).transpose();
        let captures =
            captures.map_err(|error| format!("cannot take commands' output: {error}"))?;
        Ok(Self {
            queue,
            is_ordered: args.ordered,
            room: u64::from(limit.most()) + AHEAD,
            limit,
            capture,
            tag: args.tag,
            json: args.json,
            verbose: args.verbose,
            timeout: args.timeout(),
            retries: args.retries,
            halt: args.halt.unwrap_or(Halt::Usual),
            turns: Turns::new(args.delay.unwrap_or_default(), Memory::new(args.memory)),
            running: Running::default(),
            programs: Programs::default(),
            captures,
            sink,
            books: Mutex::default(),
            changed: Condvar::new(),
            kill_at: Mutex::default(),
            is_output_lost: AtomicBool::new(false),
            worst: AtomicU8::new(exit::DONE),
            signal: AtomicU8::new(0),
        })
    }

    pub(super) fn running(&self) -> &Running {
        &self.running
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- arguments

    /// Queues commands as there is room for them, on a thread of its own: it may wait for its input
    /// for ever.
    fn feed(self: &Arc<Self>, template: &Template, mut source: Source) {
        for number in 1.. {
            if !self.has_room() {
                return;
            }
            match source.next(template) {
                Ok(None) => break,
                Ok(Some(arguments)) => {
                    let tag = self.tag.then(|| tag_of(&arguments));
                    let words = template.fill(number, &arguments);
                    let is_last = source.is_empty();
                    self.add(Job { number, words, tag }, is_last);
                    if is_last {
                        break;
                    }
                }
                Err(error) => {
                    message::say(format_args!("cannot read the arguments: {error}"));
                    self.worst.fetch_max(exit::FAILED, Relaxed);
                    break;
                }
            }
        }
        self.books().is_all = true;
        self.changed.notify_all();
    }

    /// Waits until another command may be known. `false`: none is wanted any more.
    fn has_room(&self) -> bool {
        let mut books = self.books();
        while books.outstanding >= self.room && self.running.going() == Going::On {
            books = self.changed.wait(books).unwrap_or_else(PoisonError::into_inner);
        }
        self.running.going() == Going::On
    }

    fn add(self: &Arc<Self>, job: Job, is_last: bool) {
        let mut books = self.books();
        books.known += 1;
        books.is_all = is_last;
        if self.sink.journal().is_some_and(|log| log.is_done(job.number, &job.words)) {
            books.resumed += 1;
            books.known -= 1;
            drop(books);
            self.heed(self.sink.finish(job.number, Output::Nothing, None));
            return;
        }
        books.outstanding += 1;
        drop(books);
        self.turns.add(job);
        self.queue(Duration::ZERO);
    }

    /// Queues an item for one of the commands that wait: the oldest, when its turn has come.
    fn queue(self: &Arc<Self>, after: Duration) {
        let work = Arc::clone(self);
        // Nobody joins an item: what became of it is in the books.
        if after.is_zero() {
            drop(self.queue.queue(move || work.turn(false)));
        } else {
            drop(self.queue.queue_delayed(move || work.turn(true), after));
        }
    }

    /// Waits until all that was started has ended, and no more will be. `None`: somebody has had
    /// enough, and what is left are items whose output nobody reads, or whose commands cannot be
    /// killed. It writes nothing that would have to wait for a reader itself.
    fn wait(&self) -> Option<Books> {
        let (mut look_at, mut stall) = (Instant::now() + LOOK, None);
        loop {
            let pause = self.insist();
            let books = self.books();
            let waited =
                self.changed.wait_timeout_while(books, pause, |books| !self.is_over(books));
            let books = *waited.unwrap_or_else(PoisonError::into_inner).0;
            if self.is_over(&books) {
                return Some(books);
            }
            self.sink.progress().show(&self.stand(&books));
            if Instant::now() < look_at {
                continue;
            }
            look_at = Instant::now() + LOOK;
            self.limit.say_if_it_holds(self.running.count() as u64, books.outstanding);
            if self.is_stalled(&books, &mut stall) {
                return None;
            }
        }
    }

    fn is_over(&self, books: &Books) -> bool {
        books.outstanding == 0 && (books.is_all || self.running.going() != Going::On)
    }

    /// Kills those that were to end, and do not, when it is time: when to look again.
    fn insist(&self) -> Duration {
        match self.time_to_kill() {
            Some(Duration::ZERO) => self.running.end_now(Signal::KILL),
            Some(left) => return left.min(REDRAW),
            None => {}
        }
        REDRAW
    }

    /// How long those that are to end have still. `None`: they are not to.
    fn time_to_kill(&self) -> Option<Duration> {
        let kill_at = *self.kill_at.lock().unwrap_or_else(PoisonError::into_inner);
        kill_at.map(|kill_at| kill_at.left(&self.running))
    }

    /// Whether items do not end although a signal asked for it and their commands were killed: they
    /// wait for a reader, or for commands that we may not kill (`sudo`), or cannot (those that wait
    /// for a disk that is gone). `stall`: how many of both there are, and since when.
    fn is_stalled(&self, books: &Books, stall: &mut Option<((u64, usize), Instant)>) -> bool {
        let has_had_enough =
            self.signal.load(Relaxed) != 0 && self.time_to_kill() == Some(Duration::ZERO);
        let left = (books.outstanding, self.running.count());
        match stall {
            _ if !has_had_enough => *stall = None,
            Some((before, since)) if *before == left => return since.elapsed() >= STALL,
            _ => *stall = Some((left, Instant::now())),
        }
        false
    }

    /// Of what could not be ended.
    fn say_what_goes_on(&self) {
        let nr = self.running.count();
        if nr > 0 {
            let text = format_args!("{nr} that run could not be ended, and go on");
            message::say_within(LAST_WORD, text);
        }
    }

    fn stand(&self, books: &Books) -> Stand {
        Stand {
            done: books.tally.done + books.left_out,
            failed: books.tally.failed,
            running: self.running.count() as u64,
            known: books.known,
            is_all: books.is_all,
        }
    }

    // ---- items

    /// Some command's turn has come: it runs, or waits again, or is left out.
    fn turn(self: Arc<Self>, has_waited: bool) {
        let ask = |waited| self.turns.ask(&self.running, self.sink.is_behind(), waited);
        let mut turn = ask(has_waited);
        while let Turn::Wait(wait) = turn {
            if !self.is_ordered {
                return self.queue(wait);
            }
            // Nobody else's turn comes before.
            thread::sleep(wait);
            turn = ask(true);
        }
        if matches!(turn, Turn::Never) {
            return;
        }
        if self.turns.next() {
            self.queue(Duration::ZERO);
        }
        let _settled = Settled(&self);
        match turn {
            Turn::Now(job) => {
                let _ended = Ended(&self.turns);
                self.complete(&job);
            }
            Turn::LeftOut(job) => self.leave_out(&job),
            Turn::Wait(_) | Turn::Never => unreachable!("it has a command"),
        }
    }

    fn complete(&self, job: &Job) {
        if self.verbose {
            message::say(typed(&job.words));
        }
        let (mut attempts, mut last) = (0, None);
        while let Some((end, output, time)) = self.start(job) {
            attempts += 1;
            last = Some((end, output, time));
            let is_enough = end.is_success() || attempts > self.retries;
            if is_enough || !self.turns.again(&self.running) {
                break;
            }
        }
        let Some((end, output, (began, took))) = last else { return self.leave_out(job) };
        let times = Times { began, took, attempts };
        self.say_end(job, end);
        // Without a line `--resume` runs it again.
        let line = output.as_ref().and_then(|output| self.line(job, end, times, output));
        let output = output.unwrap_or(Output::Nothing);
        let output = if self.json { json(job, end, times, output) } else { Ok(output) };
        self.heed(output.and_then(|output| self.sink.finish(job.number, output, line)));
        self.count(end);
    }

    /// Runs it, when the system has room for another process, as xargs: how it ended, what it has
    /// written, and when that began and how long it took. `None`: nothing starts any more, and so
    /// it does not.
    fn start(&self, job: &Job) -> Option<(End, Option<Output>, (SystemTime, Duration))> {
        loop {
            let had_started = self.running.has_started();
            let (began, started) = (SystemTime::now(), Instant::now());
            let ran = self.attempt(job);
            let time = (began, started.elapsed());
            let error = match ran {
                Ok((end, output)) => return Some((end, output, time)),
                Err(error) => error,
            };
            let is_on = self.running.going() == Going::On;
            // What runs gives back what it has; where nothing runs, waiting does not help. What ran
            // before the attempt may have given it back since.
            let has_others = had_started || self.running.count() > 0;
            if !is_scarce(&error) || (is_on && !has_others) {
                let command = typed(&job.words);
                message::say(format_args!("{command}: cannot be started: {error}"));
                return Some((End::NotStarted, Some(Output::Nothing), time));
            }
            if is_on {
                self.turns.hold(&error);
                thread::sleep(SHORT_WAIT);
            }
            if self.running.going() != Going::On {
                return None;
            }
        }
    }

    fn leave_out(&self, job: &Job) {
        self.books().left_out += 1;
        self.heed(self.sink.finish(job.number, Output::Nothing, None));
    }

    /// Runs it: how it ended, and what it has written. `None`: lines of that are lost.
    fn attempt(&self, job: &Job) -> io::Result<(End, Option<Output>)> {
        let lines =
            (self.capture == Capture::Lines).then(|| Lines::new(&self.sink, job.tag.as_deref()));
        let call = Call {
            words: &job.words,
            programs: &self.programs,
            captures: self.captures.as_ref(),
            capture: self.capture,
            timeout: self.timeout,
        };
        let ran = call.run(&self.running, lines.as_ref())?;
        let written = ran.written.and_then(|()| lines.map_or(Ok(()), |lines| lines.end()));
        let output = written.is_ok().then(|| Output::captured(ran.output, job.tag.as_deref()));
        self.heed(written);
        Ok((ran.end, output))
    }

    fn say_end(&self, job: &Job, end: End) {
        let name = job.words.first().cloned().unwrap_or_default();
        let program = typed(std::slice::from_ref(&name));
        match end {
            End::Exit(255) => message::say(format_args!("{program}: exited with status 255")),
            End::Signal(signal) if self.running.going() != Going::Ended => {
                message::say(format_args!("{program}: ended by signal {signal}"));
            }
            End::TimedOut => message::say(format_args!("{}: took too long", typed(&job.words))),
            End::NotFound => {
                message::say(format_args!("{program}: {}", self.programs.why_absent(&name)));
            }
            End::NotStarted | End::Exit(_) | End::Signal(_) => {}
        }
    }

    /// What the log says of it, if there is one.
    fn line(&self, job: &Job, end: End, times: Times, output: &Output) -> Option<String> {
        self.sink.journal()?;
        let written = match output {
            Output::Nothing => 0,
            Output::Files(files, _) => files[0].len(),
            Output::Bytes(both, _) => both[0].len() as u64,
        };
        let entry = Entry {
            number: job.number,
            words: &job.words,
            end,
            started: times.began,
            took: times.took,
            written,
        };
        Some(entry.line())
    }

    fn count(&self, end: End) {
        let mut books = self.books();
        books.tally.done += 1;
        // Those that are ended since enough is enough do not say how it went.
        if !end.is_success() && self.running.going() == Going::Ended {
            books.ended += 1;
            return;
        }
        books.tally.failed += u64::from(!end.is_success());
        let verdict = self.halt.verdict(end, books.tally);
        drop(books);
        self.worst.fetch_max(code(end), Relaxed);
        match verdict {
            Verdict::GoOn => {}
            Verdict::EndSoon => _ = self.running.end_soon(),
            Verdict::EndNow => self.end_now(),
        }
    }

    // ---- the end

    /// Of what is written: without a reader there is nothing left to do.
    fn heed(&self, written: io::Result<()>) {
        let Err(error) = written else { return };
        if self.running.going() != Going::Ended && !self.sink.is_closed() {
            message::say(format_args!("cannot write: {error}"));
        }
        self.is_output_lost.store(true, Relaxed);
        self.end_now();
    }

    /// Ends those that run, and kills those that do not end.
    pub(super) fn end_now(&self) {
        // Counted from here, and not from when somebody looks: who sent us a signal may kill us.
        let now = Deadline::after(&self.running, grace());
        let mut kill_at = self.kill_at.lock().unwrap_or_else(PoisonError::into_inner);
        *kill_at = kill_at.or(now);
        drop(kill_at);
        self.running.end_now(Signal::TERM);
    }

    /// Somebody has had enough, by this signal. `true`: it is the first.
    pub(super) fn note_signal(&self, signal: i32) -> bool {
        self.signal.swap(signal.unsigned_abs() as u8, Relaxed) == 0
    }

    /// Something has changed for who waits to start the next command.
    pub(super) fn look_again(&self) {
        self.changed.notify_all();
    }

    /// Ends the process by the signal that says how it went, or says the exit code.
    fn leave(&self, patience: Duration) -> ExitCode {
        if let Some(signal) = self.ended_by() {
            signals::end_by(signal, patience);
        }
        ExitCode::from(self.code())
    }

    /// The signal that says how it went.
    fn ended_by(&self) -> Option<i32> {
        let signal = self.signal.load(Relaxed);
        let is_written = !self.sink.is_closed() && !self.is_output_lost.load(Relaxed);
        (signal != 0 && is_written).then_some(signal.into())
    }

    fn code(&self) -> u8 {
        match self.signal.load(Relaxed) {
            _ if self.sink.is_closed() => exit::OUTPUT_CLOSED,
            // Not what became of those that were ended for it.
            _ if self.is_output_lost.load(Relaxed) => exit::FAILED,
            0 => self.worst.load(Relaxed),
            // Where we could not end by it.
            signal => 128 + signal,
        }
    }
}

/// One command less is busy when this is dropped, whatever became of it.
struct Ended<'a>(&'a Turns);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// One command less is outstanding when this is dropped, whatever became of it.
struct Settled<'a>(&'a Work);

impl Drop for Settled<'_> {
    fn drop(&mut self) {
        let work = self.0;
        let mut books = work.books();
        books.outstanding -= 1;
        let left = books.outstanding;
        drop(books);
        // Who waits for the end, who waits for room, and after an end that was asked for both.
        if left == 0 || left + 1 >= work.room || work.running.going() != Going::On {
            work.changed.notify_all();
        }
    }
}

/// What xargs exits with after such a command.
fn code(end: End) -> u8 {
    match end {
        End::Exit(0) => exit::DONE,
        End::Exit(255) => exit::SAID_STOP,
        End::Exit(_) | End::TimedOut => exit::SOME_FAILED,
        End::Signal(_) => exit::SIGNALLED,
        End::NotStarted => exit::NOT_STARTED,
        End::NotFound => exit::NOT_FOUND,
    }
}

fn json(job: &Job, end: End, times: Times, output: Output) -> io::Result<Output> {
    let both = match output {
        Output::Nothing => Default::default(),
        Output::Bytes(both, _) => both,
        Output::Files([out, err], _) => [out.contents()?, err.contents()?],
    };
    let record = Record::new(job.number, &job.words, end, times, &both);
    Ok(Output::Bytes([report::line(&record), Vec::new()], None))
}

fn tag_of(arguments: &[OsString]) -> Vec<u8> {
    arguments.join(" ".as_ref()).into_encoded_bytes()
}

/// Without switch records, unless somebody insists. They are of the workers, which only wait for
/// their commands, and the first thread on a machine to be recorded waits for the kernel: 10 ms.
fn detected(config: Config) -> Config {
    match env::var_os("CMWQ_DETECT") {
        Some(name) if !name.is_empty() => config,
        _ => config.detect(Detect::Sentinel),
    }
}
