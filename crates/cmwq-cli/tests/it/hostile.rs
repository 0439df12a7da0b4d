//! Processes and servers that mean harm to who looks at them: nothing hangs, dies, or takes memory
//! without end, and nothing that they say reaches the terminal as a command.

mod forge;
mod servers;
mod special;

use std::io::Read as _;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Resource;

use crate::refusing::limit;

/// What came of a command that may have been killed because it took too long.
struct Outcome {
    status: ExitStatus,
    stdout: String,
    stderr: String,
    took: Duration,
}

/// Runs the command with this much memory (address space) and [`CPU_SECONDS`], and kills it when
/// it hangs.
#[track_caller]
fn run(arguments: &[&str], memory: u64) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null());
    limit(&mut command, Resource::As, memory);
    limit(&mut command, Resource::Cpu, CPU_SECONDS);
    let begin = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let text = |mut from: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            String::from_utf8(bytes).expect("what the command prints is UTF-8")
        })
    };
    let stdout = text(Box::new(child.stdout.take().unwrap()));
    let stderr = text(Box::new(child.stderr.take().unwrap()));
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("cmwq {} hangs: it takes longer than {PATIENCE:?}", arguments.join(" "));
        }
        // Between two looks at the child.
        thread::sleep(Duration::from_millis(5));
    };
    let took = begin.elapsed();
    Outcome { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap(), took }
}

const MIB: u64 = 1 << 20;
/// Much more than the command needs for a process that means no harm.
const MEMORY: u64 = 1024 * MIB;
/// Of CPU time: many times what it takes. A command that computes for longer is killed.
const CPU_SECONDS: u64 = 60;
/// For one that waits. Where others compute, too, a few seconds of CPU time have taken a minute.
const PATIENCE: Duration = Duration::from_secs(600);

impl Outcome {
    /// It failed, and said why.
    #[track_caller]
    fn refused(&self, part: &str) {
        assert_eq!(self.status.code(), Some(1), "{:?}: {}", self.status, self.stderr);
        assert!(self.stderr.contains(part), "{part} is not in {}", self.stderr);
    }

    #[track_caller]
    fn done(&self) -> &str {
        assert_eq!(self.status.code(), Some(0), "{:?}: {}", self.status, self.stderr);
        &self.stdout
    }
}
