//! What tracing costs per item, in CPU time of the process: off and on by turns, in batches that a
//! ring can hold, while nobody reads. CPU time, because a machine that does other things as well
//! stretches the time of day.
//!
//! Built with `RUSTFLAGS="--cfg cmwq_no_trace"` the hooks are not there, and the first number is
//! what "off" has to be compared with. `trace_cost 10 off` makes 10 rounds, all of them off:
//! instructions per item are what valgrind's callgrind counts for many rounds, less what it counts
//! for few, by the items between them.

#![expect(clippy::print_stdout, reason = "what was measured is what it says")]

use std::env;
use std::error::Error;
use std::fs::{self, File};

use cmwq::trace::{ALL, Session};
use cmwq::{Work, Workqueue};

const ITEMS: usize = 8_000;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = env::args().nth(1).map_or(Ok(400), |rounds| rounds.parse::<usize>())?;
    let is_off = env::args().nth(2).is_some_and(|word| word == "off");
    let wq = Workqueue::builder("cost").percpu().build()?;
    let works: Vec<Work> = (0..ITEMS).map(|_| Work::new(|| ())).collect();
    let mut session = if is_off { None } else { open() };
    for _ in 0..20 {
        batch(&wq, &works);
    }
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        off.push(batch(&wq, &works));
        if let Some(session) = &mut session {
            session.begin(ALL)?;
            on.push(batch(&wq, &works));
            session.stop();
            let round = session.round(|_, _| ())?;
            assert_eq!(round.lost, 0, "a batch fits");
            session.release();
        }
    }
    println!("off {}", Spread::of(off));
    if !on.is_empty() {
        println!("on  {}", Spread::of(on));
    }
    Ok(())
}

/// Nanoseconds of CPU time per item.
fn batch(wq: &Workqueue, works: &[Work]) -> f64 {
    let begin = cpu_time();
    for work in works {
        wq.queue_work(work);
    }
    wq.flush();
    (cpu_time() - begin) / works.len() as f64
}

fn cpu_time() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// This process's trace, if it has one.
fn open() -> Option<Session> {
    let entries = fs::read_dir("/proc/self/fd").ok()?.flatten().map(|entry| entry.path());
    let path = entries.into_iter().find(|path| {
        fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains("memfd:cmwq-trace"))
    })?;
    let file = File::options().read(true).write(true).open(path).ok()?;
    Session::open(file.into()).ok()
}

struct Spread([f64; 3]);

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self([1, 2, 3].map(|quarter| values[values.len() * quarter / 4]))
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [low, median, high] = self.0;
        write!(f, "{median:.1} ns per item (quartiles {low:.1} to {high:.1})")
    }
}
