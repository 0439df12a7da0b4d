//! Machines: processes that serve a queue, which a test starts and kills. Each is this test binary
//! again, told to run only the test [`machine`], which is nothing without [`ROLE`].

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::{Server, text};

/// The variable with what a machine is to do: the broker, the queue and the log, by commas.
const ROLE: &str = "CMWQ_NATS_TEST_MACHINE";

/// What machines have done: a line for each run that begins and each that ends.
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn new(directory: &Path) -> Self {
        Self(directory.join("log"))
    }

    /// How often each payload was begun, and ended.
    pub(crate) fn counts(&self) -> HashMap<String, (u32, u32)> {
        let mut counts = HashMap::<String, (u32, u32)>::new();
        for line in fs::read_to_string(&self.0).unwrap_or_default().lines() {
            let (what, payload) = line.split_once(' ').expect("a whole line");
            let count = counts.entry(payload.to_owned()).or_default();
            match what {
                "begin" => count.0 += 1,
                "end" => count.1 += 1,
                _ => panic!("{line}"),
            }
        }
        counts
    }
}

/// One write, so lines of processes do not mix.
fn note(log: &Path, what: &str, payload: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(log).unwrap();
    file.write_all(format!("{what} {payload}\n").as_bytes()).unwrap();
}

/// Processes that serve a queue.
pub(crate) struct Machines {
    role: String,
    children: Vec<Child>,
}

impl Machines {
    pub(crate) fn start(server: &Server, queue: &str, log: &Log, many: usize) -> Self {
        let role = format!("{},{queue},{}", server.address(), log.0.display());
        let children = (0..many).map(|_| spawn(&role)).collect();
        Self { role, children }
    }

    /// Kills one and starts another one in its place.
    pub(crate) fn replace(&mut self, which: usize) {
        end(&mut self.children[which]);
        self.children[which] = spawn(&self.role);
    }

    /// Starts others for those that have died by themselves. How many.
    pub(crate) fn replace_the_dead(&mut self) -> usize {
        let mut dead = 0;
        for child in &mut self.children {
            if child.try_wait().unwrap().is_some() {
                *child = spawn(&self.role);
                dead += 1;
            }
        }
        dead
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(end);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    child.wait().unwrap();
}

fn spawn(role: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "support::machines::machine", "--nocapture"]).env(ROLE, role);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Serves until it is killed.
#[test]
fn machine() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let [server, queue, log] = role.split(',').collect::<Vec<_>>()[..] else { panic!("{role}") };
    let log = PathBuf::from(log);
    let broker = cmwq_nats::Broker::connect(server).unwrap();
    let queue = broker.queue(queue).open().unwrap();
    let poisoned = log.clone();
    let serving = queue
        .serve()
        .function("work", move |item| {
            note(&log, "begin", &text(item));
            thread::sleep(Duration::from_millis(5));
            note(&log, "end", &text(item));
            Ok(())
        })
        .function("poison", move |item| {
            note(&poisoned, "begin", &text(item));
            process::abort();
        })
        .attempts(3)
        .retry_after(Duration::from_millis(10));
    // Killing machines under load must not give up what only was there at the time.
    let serving = if queue.name() == "killed" { serving.attempts(100) } else { serving };
    let _serving = serving.start().unwrap();
    loop {
        thread::park();
    }
}
