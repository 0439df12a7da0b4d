//! `cmwq top` in a terminal, driven by keys, at a process with known queues.

mod screenshots;

use std::fs::File;
use std::io::{BufRead as _, Read as _, Write as _};
use std::num::NonZero;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cmwq::Workqueue;
use cmwq_observe::inspect::Target;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;

use crate::looking::Victim;
use crate::sum_terminal::terminal;
use crate::support::{check_code, stderr};

/// For everything that only a broken or overloaded machine does not do in time.
const PATIENCE: Duration = Duration::from_secs(120);

/// A queue `narrow` with one item that waits and two behind it, a queue `spins` with one that
/// computes, and a queue `idle`. A line on standard input lets `narrow` go on.
#[test]
#[ignore = "a program for other tests"]
fn program() {
    let unbound = |name| Workqueue::builder(name).unbound();
    let narrow = unbound("narrow").max_active(1).build().unwrap();
    let spins = unbound("spins").build().unwrap();
    let _idle = unbound("idle").build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let began = begin.clone();
    let first = narrow.queue(move || {
        began.send(()).unwrap();
        waits_to_be_released(&released);
    });
    let others = [(); 2].map(|()| narrow.queue(|| ()));
    let spinner = spins.queue(move || {
        begin.send(()).unwrap();
        spins_for_ever();
    });
    (0..2).for_each(|_| begun.recv().unwrap());
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready").unwrap();
    out.flush().unwrap();
    drop(out);
    let mut lines = std::io::stdin().lines();
    if lines.next().is_some() {
        release.send(()).unwrap();
        first.join().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
        // Until the other side has seen enough.
        let _ = lines.next();
    }
    drop(spinner);
    std::process::exit(0);
}

#[inline(never)]
fn waits_to_be_released(released: &mpsc::Receiver<()>) {
    let _ = released.recv();
}

#[inline(never)]
fn spins_for_ever() {
    loop {
        std::hint::spin_loop();
    }
}

fn start_program() -> Victim {
    Victim::run("top::program")
}

fn number(of: u16) -> NonZero<u16> {
    NonZero::new(of).unwrap()
}

/// `cmwq top` in a terminal of its own.
struct Screen {
    user: File,
    parser: vt100::Parser,
    child: Child,
    cooked: Termios,
}

impl Screen {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
        command.arg("top").args(arguments);
        Self::run(command)
    }

    /// A program in a terminal of its own.
    fn run(mut command: Command) -> Self {
        let (user, program) = terminal();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&user, size).unwrap();
        let cooked = tcgetattr(&user).unwrap();
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        command.stdin(program.try_clone().unwrap()).stdout(program.try_clone().unwrap());
        command.stderr(program);
        let own_session = || {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(std::io::stdin())?;
            Ok(())
        };
        // SAFETY: the closure only makes system calls, which is allowed between fork and exec.
        unsafe { command.pre_exec(own_session) };
        let child = command.spawn().unwrap();
        Self { user, parser: vt100::Parser::new(number(24), number(80), 0), child, cooked }
    }

    fn contents(&self) -> String {
        self.parser.screen().contents()
    }

    /// Whether lines are edited and shown by the terminal again, as before.
    fn is_cooked(&self) -> bool {
        let line_wise = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        let now = tcgetattr(self.user.as_fd()).unwrap();
        now.local_modes & line_wise == self.cooked.local_modes & line_wise
    }

    fn keys(&mut self, keys: &str) {
        self.user.write_all(keys.as_bytes()).unwrap();
    }

    /// Takes what the program has written. `false`: there was nothing for a while, or there will be
    /// nothing any more.
    fn read(&mut self) -> bool {
        let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let mut fds = [PollFd::new(&self.user, PollFlags::IN)];
        if poll(&mut fds, Some(&wait)).is_ok_and(|ready| ready == 0) {
            return false;
        }
        let mut buffer = [0; 4096];
        match self.user.read(&mut buffer) {
            Ok(len) if len > 0 => {
                self.parser.process(&buffer[..len]);
                true
            }
            _ => false,
        }
    }

    /// Reads until the screen is as wanted.
    #[track_caller]
    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(&self.contents()) {
            self.read();
            assert!(Instant::now() < end, "never {what}:\n{}", self.contents());
        }
    }

    #[track_caller]
    fn until_shows(&mut self, text: &str) {
        self.until(text, |screen| screen.contains(text));
    }

    /// The row that begins with `name`, once it is as wanted: its words.
    #[track_caller]
    fn row(&mut self, name: &str, is_so: impl Fn(&[&str]) -> bool) {
        self.until(name, |screen| {
            let rows = screen.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            rows.into_iter().any(|words| words.first() == Some(&name) && is_so(&words))
        });
    }

    /// Reads until the program has ended, and checks that the terminal is as it was.
    #[track_caller]
    fn end(mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            self.read();
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "does not end:\n{}", self.contents());
        };
        while self.read() {}
        let screen = self.parser.screen();
        assert!(!screen.alternate_screen(), "{}", screen.contents());
        assert!(!screen.hide_cursor());
        if let Ok(now) = tcgetattr(self.user.as_fd()) {
            let line_wise = LocalModes::ICANON | LocalModes::ECHO;
            assert_eq!(now.local_modes & line_wise, self.cooked.local_modes & line_wise);
        }
        status
    }
}

#[test]
fn keys_lead_through_it() {
    let mut victim = start_program();
    let mut screen = Screen::start(&["-i", "0.1", &victim.pid()]);
    // Name, type, rate, in flight, admitted of max_active with others behind, CPU, age, total.
    screen.row("narrow", |row| {
        row.len() == 8 && (row[1], row[3], row[4], row[7]) == ("unbound", "1", "1+/1", "1")
    });
    screen.row("idle", |row| (row[2], row[3], row[6], row[7]) == ("0", "0", "-", "0"));
    screen.row("spins", |row| row[3] == "1" && row[5].parse::<u32>().is_ok_and(|cpu| cpu > 0));

    screen.keys("s");
    screen.until_shows("by INFL ▼");
    screen.keys("S");
    screen.until_shows("by INFL ▲");
    screen.keys("+");
    screen.until_shows("every 200 ms");
    screen.keys("?");
    screen.until_shows("any key goes back");
    screen.keys("x");
    screen.until("help is gone", |shown| !shown.contains("any key goes back"));

    screen.keys("/narrow\r");
    screen.until_shows("1 row, by INFL ▲, /narrow/");
    screen.keys("\r");
    screen.until_shows("[Workers]");
    screen.until_shows("others wait behind it");
    screen.until("the worker waits", |shown| {
        let row = shown.lines().find(|line| line.starts_with("kworker/u")).unwrap_or_default();
        row.contains(" waits ") && row.contains(" narrow ") && row.contains("::{{closure}}")
    });
    screen.keys("t");
    screen.until("where it waits, or why that is not told", |shown| {
        shown.contains("At it/top.rs:") || shown.contains("There is none: ")
    });
    screen.until_shows("any key goes back");
    screen.keys("x4");
    screen.until_shows("= max_active reached");
    screen.keys("\x7f");
    screen.until_shows("[Queues]");

    // While it is paused the process goes on, and the screen does not.
    screen.keys("p");
    screen.until_shows("PAUSED");
    victim.say("go on");
    let target = Target::open(victim.pid().parse().unwrap()).unwrap();
    let end = Instant::now() + PATIENCE;
    let all_done = || {
        let seen = target.snapshot().unwrap();
        let narrow = seen.queues.iter().find(|queue| queue.name == "narrow").unwrap();
        seen.stats_of(narrow).completed == 3
    };
    while !all_done() {
        assert!(Instant::now() < end, "the items never ran");
        std::thread::yield_now();
    }
    screen.keys("S");
    screen.until_shows("by INFL ▼");
    screen.row("narrow", |row| (row[3], row[7]) == ("1", "1"));
    screen.keys("p");
    screen.row("narrow", |row| (row[3], row[4], row[7]) == ("0", "0/1", "3"));

    screen.keys("q");
    assert!(screen.end().success());
}

#[test]
fn states_and_functions_of_workers_are_told() {
    let victim = start_program();
    let mut screen = Screen::start(&["-i", "0.1", "--view", "workers", &victim.pid()]);
    let row = |shown: &str, queue: &str, states: &[&str]| {
        let is_it =
            |line: &&str| line.starts_with("kworker/u") && line.contains(&format!(" {queue} "));
        let line = shown.lines().find(is_it).unwrap_or_default().to_owned();
        states.iter().any(|state| line.contains(&format!(" {state} ")))
    };
    screen.until("all of them", |shown| {
        row(shown, "narrow", &["waits"]) && row(shown, "spins", &["runs", "preempted", "runs!"])
    });
    screen.keys("/idle\r");
    screen.until_shows("Nothing matches /idle/.");
    screen.keys("\x1b");
    assert!(screen.end().success());
}

#[test]
fn it_follows_the_size_of_the_terminal() {
    let victim = start_program();
    // No look is due for an hour: the signal of the terminal has it drawn again.
    let mut screen = Screen::start(&["-i", "3600", &victim.pid()]);
    screen.until_shows("[Queues]");
    assert!(!screen.contents().contains("CPUITSV"), "{}", screen.contents());
    screen.parser.screen_mut().set_size(number(40), number(120));
    let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&screen.user, size).unwrap();
    screen.until_shows("CPUITSV");
    screen.keys("q");
    assert!(screen.end().success());
}

#[test]
fn signals_give_the_terminal_back() {
    let victim = start_program();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut screen = Screen::start(&["-i", "3600", &victim.pid()]);
        screen.until_shows("[Queues]");
        assert!(screen.parser.screen().alternate_screen());
        kill_process(Pid::from_raw(screen.child.id() as i32).unwrap(), signal).unwrap();
        assert!(screen.end().success());
    }
}

/// By a shell with job control, as a user would: without one nobody could continue it.
#[test]
fn ctrl_z_gives_the_terminal_back_until_it_is_continued() {
    let victim = start_program();
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        r#"set -m; "$@"; echo "status $?, stopped"; read answer; fg; echo "status $?, over""#,
    ]);
    shell.args(["sh", env!("CARGO_BIN_EXE_cmwq"), "top", "-i", "3600", &victim.pid()]);
    let mut screen = Screen::run(shell);
    screen.until_shows("[Queues]");
    assert!(screen.parser.screen().alternate_screen() && !screen.is_cooked());
    screen.keys("\x1a");
    // 128 and the number of SIGTSTP.
    screen.until_shows("status 148, stopped");
    assert!(!screen.parser.screen().alternate_screen() && !screen.parser.screen().hide_cursor());
    assert!(screen.is_cooked());
    assert!(!screen.contents().contains("[Queues]"), "{}", screen.contents());
    screen.keys("go on\n");
    screen.until_shows("[Queues]");
    screen.until_shows("narrow");
    assert!(screen.parser.screen().alternate_screen() && !screen.is_cooked());
    screen.keys("\t");
    screen.until_shows("[Pools]");
    screen.keys("q");
    screen.until_shows("status 0, over");
    assert!(screen.end().success());
}

#[test]
#[ignore = "a program for other tests"]
fn talks_and_stays() {
    let talking = Workqueue::new("talking").unwrap();
    writeln!(std::io::stdout(), "said aside").unwrap();
    talking.queue(|| ()).join().unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_program_that_it_starts_leaves_the_screen_alone_and_its_words_come_afterwards() {
    let this = std::env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    let program = ["--exact", "top::talks_and_stays", "--ignored", "--nocapture"];
    let mut screen = Screen::start(&[&["-i", "0.1", "--", this][..], &program].concat());
    screen.row("talking", |row| row.last() == Some(&"1"));
    assert!(!screen.contents().contains("said aside"), "{}", screen.contents());
    screen.keys("q");
    screen.until_shows("said aside");
    assert!(screen.end().success());
}

#[test]
fn the_last_state_of_a_process_that_ends_stays() {
    let mut victim = start_program();
    let mut screen = Screen::start(&["-i", "3600", &victim.pid()]);
    screen.until_shows("narrow");
    victim.kill();
    screen.until_shows("ENDED");
    assert!(screen.contents().contains("narrow"), "{}", screen.contents());
    screen.keys("q");
    assert!(screen.end().success());
}

#[test]
fn a_stopped_process_is_shown() {
    let victim = start_program();
    kill_process(Pid::from_raw(victim.pid().parse().unwrap()).unwrap(), Signal::STOP).unwrap();
    let mut screen = Screen::start(&["-i", "0.1", "--view", "workers", &victim.pid()]);
    screen.until("it and its workers", |shown| {
        shown.contains("STOPPED") && shown.contains(" stopped ")
    });
    screen.keys("q");
    assert!(screen.end().success());
}

fn top(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.arg("top").args(arguments).env_remove("COLUMNS").stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn without_a_terminal_there_are_text_and_json() {
    let victim = start_program();
    let pid = victim.pid();
    let output = top(&["--once", "-i", "0.1", &pid, "^narrow$"]);
    check_code(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("narrow ")), "{text}");
    assert!(!text.contains('\x1b') && !text.contains("spins"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");

    let output = top(&["--once", "--json", "-i", "0.1", &pid]);
    check_code(&output, 0);
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = |list: &str, key: &str, name: &str| {
        let all = seen[list].as_array().unwrap();
        all.iter().find(|it| it[key] == name).unwrap_or_else(|| panic!("{name}: {seen:#}")).clone()
    };
    let narrow = named("queues", "name", "narrow");
    assert_eq!((&narrow["in_flight"], &narrow["started"]), (&1.into(), &1.into()));
    assert_eq!(narrow["waits_behind_max_active"], true);
    assert_eq!(narrow["per_second"], 0.0);
    assert_eq!(named("workers", "queue", "narrow")["state"], "waits");
    let pools = seen["pools"].as_array().unwrap();
    let pool = pools.iter().find(|pool| pool["id"] == narrow["pools"][0]).unwrap();
    let decisions = pool["decisions"].as_array().unwrap();
    let is_told = |reason: &str| decisions.iter().any(|decision| decision["reason"] == reason);
    assert!(is_told("max_active reached") && is_told("created a worker"), "{pool:#}");
}

#[test]
fn json_comes_line_by_line_until_the_process_ends() {
    let mut victim = start_program();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.args(["top", "--json", "-i", "0.05", &victim.pid()]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["queues"][0]["per_second"], Value::Null, "there was no look before");
    assert!(next()["timestamp"].is_f64());
    victim.kill();
    lines.by_ref().for_each(|line| drop(line.unwrap()));
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_shown_is_said() {
    let mut gone = Command::new("true").spawn().unwrap();
    let pid = gone.id().to_string();
    gone.wait().unwrap();
    let output = top(&["--once", &pid]);
    check_code(&output, 1);
    assert!(stderr(&output).contains("no such process"), "{output:?}");
    let output = top(&[&pid]);
    check_code(&output, 1);
    assert!(
        stderr(&output).contains("must be a terminal; --once and --json need none"),
        "{output:?}"
    );
    check_code(&top(&["-i", "0", &pid]), 2);
    check_code(&top(&[&pid, "("]), 2);
}
