//! A line for each event, as tracefs shows the kernel's.

use std::io::{self, Write};

use cmwq::trace::{ANY_CPU, Kind};

use super::merge::Timed;
use super::{End, Sink, Subject};

/// See the module header.
pub(super) struct Text<W>(W);

impl<W: Write> Text<W> {
    pub(super) fn new(out: W) -> Self {
        Self(out)
    }
}

impl<W: Write> Sink for Text<W> {
    /// A line for each needs no other.
    fn kinds(&self, asked: u32) -> u32 {
        asked
    }

    fn event(&mut self, subject: &mut Subject, event: &Timed<'_>) -> io::Result<()> {
        let Timed { ns, thread, event: e, queue, ago } = *event;
        let (seconds, micros) = (ns / 1_000_000_000, ns / 1_000 % 1_000_000);
        let who = format!("{}-{}", thread.name, thread.tid);
        write!(self.0, "{who:>24} [{:03}] {seconds}.{micros:06}: {}:", e.cpu, e.kind.name())?;
        let queue = queue.map_or_else(|| format!("queue {}", e.wq), str::to_owned);
        match e.kind {
            Kind::QueueWork => {
                let function = subject.symbols.name(e.func);
                let requested = e.requested_cpu;
                let asked = if requested == ANY_CPU { "any".into() } else { requested.to_string() };
                writeln!(
                    self.0,
                    " work struct={:#x} function={function} workqueue={queue} req_cpu={asked} \
                     cpu={} pool={}",
                    e.work, e.pool_cpu, e.pool
                )
            }
            Kind::ActivateWork | Kind::ExecuteStart | Kind::ExecuteEnd => {
                let function = subject.symbols.name(e.func);
                write!(self.0, " work struct={:#x} function={function} workqueue={queue}", e.work)?;
                match ago {
                    0 => writeln!(self.0),
                    _ => writeln!(self.0, " ({:.6} s before)", ago as f64 / 1e9),
                }
            }
            Kind::Mayday => writeln!(self.0, " workqueue={queue} pool={}", e.pool),
            Kind::WorkerBlocked | Kind::WorkerResumed | Kind::CpuHog => {
                writeln!(self.0, " worker={} pool={}", e.tid, e.pool)
            }
            _ => writeln!(self.0, " pool={}", e.pool),
        }
    }

    fn end(&mut self, _subject: &mut Subject, end: End) -> io::Result<()> {
        if end.lost > 0 {
            writeln!(self.0, "# {} events lost", end.lost)?;
        }
        self.0.flush()
    }
}
