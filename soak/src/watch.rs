//! Who watches: that each call returns in time, that memory and threads stay bounded; and how a
//! failure ends the program.

use std::io::{IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::summary::Summary;
use crate::sys;
use crate::world::World;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(100);
/// How often memory is measured, and the progress shown.
const MEASURE: Duration = Duration::from_secs(1);

/// The command that does the same again.
static COMMAND: OnceLock<String> = OnceLock::new();
static POSTS: Mutex<Vec<Arc<Post>>> = Mutex::new(Vec::new());

pub(crate) fn set_command(command: String) {
    COMMAND.get_or_init(|| command);
}

/// What a thread is doing, and since when.
#[derive(Debug)]
pub(crate) struct Post {
    who: String,
    what: Mutex<Option<(&'static str, Instant)>>,
}

impl Post {
    pub(crate) fn new(who: String) -> Arc<Self> {
        let post = Arc::new(Self { who, what: Mutex::new(None) });
        POSTS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&post));
        post
    }

    fn now(&self) -> Option<(&'static str, Instant)> {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call that must return in time.
    pub(crate) fn doing<T>(&self, what: &'static str, call: impl FnOnce() -> T) -> T {
        let set = |now| *self.what.lock().unwrap_or_else(PoisonError::into_inner) = now;
        set(Some((what, Instant::now())));
        let value = call();
        set(None);
        value
    }
}

/// Ends the program: something was wrong. Says what, what everybody does, and how to see it again.
#[expect(clippy::print_stderr, reason = "a failure is told to whoever runs this")]
pub(crate) fn fail(what: &str) -> ! {
    static IS_FAILING: AtomicBool = AtomicBool::new(false);
    if IS_FAILING.swap(true, Ordering::SeqCst) {
        // Another one has come first.
        loop {
            thread::park();
        }
    }
    eprintln!("\nsoak: FAILED: {what}");
    // What is wrong may be a lock that nobody gives back: the report is not waited for long.
    let (tell, told) = std::sync::mpsc::channel();
    let report = move || {
        for post in POSTS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if let Some((what, since)) = post.now() {
                eprintln!("{}: {what}, for {:.1?}", post.who, since.elapsed());
            }
        }
        cmwq::show_all_workqueues();
        let _ = tell.send(());
    };
    // Also in a forked child.
    let _told = sys::plain_thread(report);
    if told.recv_timeout(Duration::from_secs(10)).is_err() {
        eprintln!("soak: the report does not end");
    }
    if let Some(command) = COMMAND.get() {
        eprintln!("soak: to do the same again: {command}");
    }
    sys::exit_now(1)
}

/// The bounds of what is watched.
pub(crate) struct Bounds {
    pub(crate) secs: u64,
    pub(crate) patience: Duration,
    pub(crate) max_rss: u64,
    pub(crate) max_threads: u64,
}

/// Measured once a second.
#[derive(Debug, Default)]
pub(crate) struct Course {
    /// In MiB.
    pub(crate) rss: Vec<u64>,
    pub(crate) threads: Vec<u64>,
}

/// Fails if a call has not returned in time.
pub(crate) fn check_posts(patience: Duration) {
    let posts: Vec<_> = POSTS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for post in posts {
        if let Some((what, since)) = post.now().filter(|(_, since)| since.elapsed() > patience) {
            fail(&format!("{}: {what}: has not returned for {:.1?}", post.who, since.elapsed()));
        }
    }
}

/// Watches until the time is up.
pub(crate) fn watch(world: &World, bounds: &Bounds) -> Course {
    let start = Instant::now();
    let (mut course, mut measured) = (Course::default(), Instant::now());
    while start.elapsed() < Duration::from_secs(bounds.secs) {
        thread::sleep(LOOK);
        check_posts(bounds.patience);
        if measured.elapsed() < MEASURE {
            continue;
        }
        measured = Instant::now();
        let (rss, threads) = (sys::rss_mib(), sys::nr_threads());
        if rss > bounds.max_rss {
            fail(&format!("{rss} MiB of memory are more than {}", bounds.max_rss));
        }
        if threads > bounds.max_threads {
            fail(&format!("{threads} threads are more than {}", bounds.max_threads));
        }
        course.rss.push(rss);
        course.threads.push(threads);
        progress(world, start, bounds.secs, rss, threads);
    }
    if std::io::stderr().is_terminal() {
        let _ = std::io::stderr().write_all(b"\r\x1b[K");
    }
    course
}

fn progress(world: &World, start: Instant, secs: u64, rss: u64, threads: u64) {
    if std::io::stderr().is_terminal() {
        let calls = world.totals.calls.load(Ordering::SeqCst);
        let line = format!(
            "\r\x1b[K{}/{secs} s: {calls} calls, {rss} MiB, {threads} threads",
            start.elapsed().as_secs()
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

impl Course {
    /// Medians of memory in the second quarter of the time and in the last.
    pub(crate) fn trend(&self) -> Option<(u64, u64)> {
        let quarter = self.rss.len() / 4;
        let median = |part: &[u64]| {
            let mut sorted = part.to_vec();
            sorted.sort_unstable();
            sorted.get(sorted.len() / 2).copied()
        };
        // Shorter ones are all beginning.
        (quarter >= 30).then_some(())?;
        median(&self.rss[quarter..2 * quarter]).zip(median(&self.rss[3 * quarter..]))
    }

    /// Memory that grows and grows.
    pub(crate) fn check(&self) {
        if let Some((early, late)) =
            self.trend().filter(|(early, late)| late > &(early * 3 / 2 + 32))
        {
            fail(&format!(
                "memory grows: {early} MiB in the second quarter of the time, {late} MiB in the \
                 last"
            ));
        }
    }
}

/// The end, as text or JSON.
#[expect(clippy::print_stdout, reason = "this is what the program is for")]
pub(crate) fn tell(summary: &Summary, as_json: bool) {
    if as_json {
        println!("{}", serde_json::to_string_pretty(summary).unwrap_or_default());
    } else {
        println!("{summary}");
    }
}
