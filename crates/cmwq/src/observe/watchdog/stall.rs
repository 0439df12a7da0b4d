//! What a stall looks like to whoever is told of it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::os::topo::CpuSet;

/// Work waits, and nothing has happened there for the threshold or longer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// Where.
    pub place: Place,
    /// For how long, at least.
    pub duration: Duration,
    /// Who is in the way: the items that run there, or that wait for each other.
    pub running: Vec<RunningItem>,
    /// What waits.
    pub waiting: Vec<WaitingItems>,
    /// What else is known, in a sentence.
    pub hint: Option<String>,
}

/// Where nothing happens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Items wait for a worker of this pool, and none was started.
    #[non_exhaustive]
    Pool {
        /// Its number.
        id: u32,
        /// Where its workers may run: one CPU for a per-CPU pool.
        cpus: CpuSet,
        /// Their niceness.
        nice: i32,
    },
    /// Items of this queue wait because as many as `max_active` allows run, and none of those was
    /// started or ended.
    #[non_exhaustive]
    Queue {
        /// Its name.
        name: String,
    },
    /// Items wait for each other in a circle. Who flushes a queue waits for what was queued there
    /// before.
    Circle,
}

/// An item that runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunningItem {
    /// Its queue.
    pub workqueue: String,
    /// Its function: of the program, if the stack tells, or the one that was queued.
    pub function: Frame,
    /// The thread's name.
    pub worker: String,
    /// The thread's number, if known.
    pub tid: Option<i32>,
    /// For how long it has been running at least: since the watchdog saw it first.
    pub running_for: Duration,
    /// Whether it is blocked, as far as its pool knows.
    pub is_blocked: bool,
    /// What it waits for, if that is a queue or an item.
    pub waits_for: Option<String>,
    /// Where it is.
    pub stack: Stack,
}

/// Items of one queue and function that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingItems {
    /// Their queue.
    pub workqueue: String,
    /// Their function.
    pub function: String,
    /// How many.
    pub count: u32,
}

/// The stack of a thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Stack {
    /// The frames from where the thread is to the item's function.
    Frames(Vec<Frame>),
    /// It could not be had, for this reason.
    Missing(String),
}

/// A function in execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The address, of the call if it is one.
    pub address: u64,
    /// The function's name.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<PathBuf>,
    /// The line.
    pub line: Option<u32>,
}

impl Frame {
    /// Whether this is the function, or one of its instances.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.function.as_ref().is_some_and(|function| function.starts_with(name))
    }

    /// Whether it belongs to the program, not to the machinery that called it. Of inlined
    /// functions, short debug information has the names without their paths; then the file tells.
    pub(crate) fn is_of_program(&self) -> bool {
        let Some(name) = &self.function else { return false };
        let is_machinery = if self.has_path() {
            let name = name.trim_start_matches('<');
            ["cmwq::", "std::", "core::", "alloc::"].iter().any(|path| name.starts_with(path))
        } else {
            self.is_in_library_file()
        };
        !name.starts_with("__") && !is_machinery
    }

    /// Whether its name tells where it belongs.
    pub(crate) fn has_path(&self) -> bool {
        let name = self.function.as_deref().unwrap_or_default();
        name.starts_with('<') || name.split('<').next().is_some_and(|front| front.contains("::"))
    }

    /// Whether its source is the standard library's, or this one's.
    pub(crate) fn is_in_library_file(&self) -> bool {
        self.file.as_ref().is_some_and(|file| is_library_file(&file.to_string_lossy()))
    }
}

/// A source file of the standard library's, or of this one's: `cmwq/src/wq.rs`,
/// `cmwq-0.1.0/src/wq.rs`.
fn is_library_file(file: &str) -> bool {
    if file.starts_with("library/") || file.starts_with("/rustc/") || file.contains("/rustlib/src/")
    {
        return true;
    }
    let mut parts = file.split('/').rev();
    let is_ours = |folder: &str| {
        let version = folder.strip_prefix("cmwq").map(|rest| rest.trim_start_matches("-core"));
        version.is_some_and(|version| {
            version.trim_start_matches('-').chars().all(|c| c.is_ascii_digit() || c == '.')
        })
    };
    parts.any(|part| part == "src") && parts.next().is_some_and(is_ours)
}

impl Stack {
    /// The frames, if there are any.
    #[must_use]
    pub fn frames(&self) -> &[Frame] {
        match self {
            Self::Frames(frames) => frames,
            Self::Missing(_) => &[],
        }
    }

    /// The program's function that the library called.
    pub(crate) fn item_function(&self) -> Option<&Frame> {
        self.frames().iter().rev().find(|frame| frame.is_of_program())
    }
}

/// `main::refresh at src/main.rs:40`, or as much of it as is known.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => f.write_str(function)?,
            None => write!(f, "{:#x}", self.address)?,
        }
        let Some(file) = &self.file else { return Ok(()) };
        write!(f, " at {}", file.display())?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// `pool 3 (cpus=0 nice=0)`, `workqueue 'fetch'`, or `items`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool { id, cpus, nice } => write!(f, "pool {id} (cpus={cpus} nice={nice})"),
            Self::Queue { name } => write!(f, "workqueue '{name}'"),
            Self::Circle => f.write_str("items"),
        }
    }
}

/// Several lines: what stands still, what waits, and who is in the way, with stacks.
impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.place {
            Place::Pool { .. } => "has work waiting and started none",
            Place::Queue { .. } => "is at max_active, and none of its items started or ended",
            Place::Circle => "wait for each other, in a circle,",
        };
        let seconds = self.duration.as_secs_f64();
        write!(f, "stall: {} {what} for {seconds:.1} s", self.place)?;
        for waiting in &self.waiting {
            let WaitingItems { workqueue, function, count } = waiting;
            write!(f, "\n  waiting: {count} of workqueue '{workqueue}': {function}")?;
        }
        for item in &self.running {
            write!(f, "\n  running: {item}")?;
        }
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\n  {hint}"))
    }
}

/// As in the report of a stall.
impl fmt::Display for RunningItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of workqueue '{}', on {}", self.function, self.workqueue, self.worker)?;
        if let Some(tid) = self.tid {
            write!(f, " (thread {tid})")?;
        }
        let state = if self.is_blocked { ", blocked" } else { "" };
        write!(f, "{state}, for {:.1} s at least", self.running_for.as_secs_f64())?;
        if let Some(what) = &self.waits_for {
            write!(f, ", waits for {what}")?;
        }
        match &self.stack {
            Stack::Missing(reason) => write!(f, "\n    no stack: {reason}"),
            Stack::Frames(frames) => frames
                .iter()
                .enumerate()
                .try_for_each(|(index, frame)| write!(f, "\n    {index}: {frame}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, line: u32) -> Frame {
        let file = Some("src/main.rs".into());
        Frame { address: 16, function: Some(function.into()), file, line: Some(line) }
    }

    fn running(stack: Stack) -> RunningItem {
        RunningItem {
            workqueue: "fetch".into(),
            function: stack.item_function().cloned().unwrap_or_default(),
            worker: "kworker/0:1".into(),
            tid: Some(4711),
            running_for: Duration::from_millis(31_250),
            is_blocked: true,
            waits_for: Some("workqueue 'store'".into()),
            stack,
        }
    }

    #[test]
    fn a_report_says_what_where_and_who() {
        let stack = Stack::Frames(vec![
            frame("__futex_wait", 1),
            frame("cmwq::wq::Wq::flush", 2),
            frame("main::inner", 3),
            frame("main::refresh", 4),
            frame("core::ops::function::FnOnce::call_once", 5),
            frame("std::panicking::catch_unwind", 6),
        ]);
        let waiting = WaitingItems { workqueue: "fetch".into(), function: "0x10".into(), count: 2 };
        let stall = Stall {
            place: Place::Pool { id: 3, cpus: [0, 1].into_iter().collect(), nice: -20 },
            duration: Duration::from_secs(30),
            running: vec![running(stack)],
            waiting: vec![waiting],
            hint: Some("it is late".into()),
        };
        let text = stall.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "stall: pool 3 (cpus=0-1 nice=-20) has work waiting and started none for 30.0 s"
        );
        assert_eq!(lines[1], "  waiting: 2 of workqueue 'fetch': 0x10");
        let item = "main::refresh at src/main.rs:4 of workqueue 'fetch', on kworker/0:1 (thread \
                    4711), blocked, \
                    for 31.2 s at least, waits for workqueue 'store'";
        assert_eq!(lines[2], format!("  running: {item}"));
        assert_eq!(lines[3], "    0: __futex_wait at src/main.rs:1");
        assert_eq!(lines.len(), 3 + 6 + 1);
        assert_eq!(lines[9], "  it is late");
    }

    #[test]
    fn short_debug_information_does_not_make_the_library_the_program() {
        let at = |function: &str, file: &str| Frame {
            function: Some(function.into()),
            file: Some(file.into()),
            ..Frame::default()
        };
        let own = [
            at("{closure#0}", "/home/me/cmwqueue/src/main.rs"),
            at("sync<u8>", "src/main.rs"),
            at("main::sync", "/anywhere.rs"),
        ];
        let library = [
            at("blocking<bool, main::sync>", "/x/registry/cmwq-0.1.0/src/current.rs"),
            at("flush", "/x/crates/cmwq/src/wq.rs"),
            at("next", "/x/cmwq-core-1.2/src/pool/next.rs"),
            at("call_once<(), main::sync>", "library/core/src/panic.rs"),
            at("<core::panic::X as FnOnce>::call_once", "src/main.rs"),
        ];
        assert!(own.iter().all(Frame::is_of_program), "{own:?}");
        assert!(!library.iter().any(Frame::is_of_program), "{library:?}");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let item = running(Stack::Missing("the thread is stopped".into()));
        let text = item.to_string();
        assert!(text.starts_with("0x0 of workqueue 'fetch'"), "{text}");
        assert!(text.ends_with("\n    no stack: the thread is stopped"), "{text}");
    }
}
