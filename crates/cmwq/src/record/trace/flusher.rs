//! `CMWQ_TRACE=FILE`: the process reads its own trace into a file, from the start to the end.
//!
//! A thread does that, which exists only then, comes every 10 ms and writes what the rings have.
//! The last of it is written when the process exits or shuts the library down. `cmwq trace FILE`
//! shows it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::destination::Bounded;
use super::file::{self, Blocks};
use super::turns::Turns;
use super::{Session, control, destination, event};
use crate::os::environment;
use crate::os::notice;
use crate::os::sense;
use crate::os::sync::PlainGuard;
use crate::os::text;

const PAUSE: Duration = Duration::from_millis(10);
/// The mappings are looked at again after so many rounds: 1 s.
const ROUNDS_PER_LOOK: u32 = 100;

/// What is being written.
#[derive(Debug)]
pub(crate) struct Flusher {
    session: Session,
    out: BufWriter<Bounded>,
    path: PathBuf,
    maps: String,
    rounds: u32,
    blocks: Blocks,
}

/// Lock: held during rounds, one after the other while events come faster than they are written; so
/// the end of the process and forks have to have their turn. Nothing else is locked inside.
static FLUSHER: Turns<Option<Flusher>> = Turns::new(None);

/// See `fork`.
pub(crate) type FlusherGuard = PlainGuard<'static, Option<Flusher>>;

pub(crate) fn lock_flusher() -> FlusherGuard {
    FLUSHER.lock()
}

/// Begins, if the environment wants it.
pub(super) fn start(own: io::Result<OwnedFd>) {
    let path = environment::var_os("CMWQ_TRACE").filter(|path| !path.is_empty());
    let Some(path) = path else { return };
    let shown = PathBuf::from(&path);
    let begun = own.and_then(|fd| Flusher::begin(fd, path));
    let begun = begun.and_then(|flusher| {
        *lock_flusher() = Some(flusher);
        sense::thread::start("cmwq/trace", None, run).map(drop)
    });
    match begun {
        // SAFETY: the function lives as long as the process, as the library does.
        Ok(()) => drop(unsafe { libc::atexit(at_exit) }),
        Err(error) => {
            *lock_flusher() = None;
            control::set_own_reader(false);
            notice::always(format!("CMWQ_TRACE={}: {error}; nothing is traced", shown.display()));
        }
    }
}

fn run() {
    loop {
        let is_pressed = match &mut *FLUSHER.lock_last() {
            Some(flusher) => flusher.round(),
            None => return,
        };
        match is_pressed {
            Ok(true) => {}
            Ok(false) => thread::sleep(PAUSE),
            Err(error) => {
                let flusher = lock_flusher().take();
                give_up(flusher, &error);
                return;
            }
        }
    }
}

extern "C" fn at_exit() {
    finish();
}

/// Writes the rest and ends.
pub(crate) fn finish() {
    let Some(mut flusher) = lock_flusher().take() else { return };
    flusher.session.stop();
    control::set_own_reader(false);
    let written = flusher.round().and_then(|_| flusher.out.flush());
    if let Err(error) = written {
        give_up(Some(flusher), &error);
    }
}

fn give_up(flusher: Option<Flusher>, error: &io::Error) {
    control::set_own_reader(false);
    if let Some(flusher) = flusher {
        let path = flusher.path.display();
        notice::always(format!("CMWQ_TRACE={path}: {error}; the trace ends there"));
    }
}

/// The process is a child: the file and the session are its parent's, and not to be touched.
pub(super) fn leave_behind(flusher: &mut Option<Flusher>) {
    std::mem::forget(flusher.take());
    FLUSHER.begin_anew();
}

impl Flusher {
    fn begin(fd: OwnedFd, path: OsString) -> io::Result<Self> {
        let (out, path) = destination::open(path)?;
        let mut session = Session::open(fd)?;
        // Before it is switched on, so that no event finds the lease that is not needed wanting.
        control::set_own_reader(true);
        session.begin(event::ALL)?;
        let mut flusher = Self {
            session,
            out: BufWriter::with_capacity(1 << 20, out),
            path,
            maps: String::new(),
            rounds: 0,
            blocks: Blocks::default(),
        };
        let name = text::read("/proc/self/comm").unwrap_or_default();
        file::write_head(&mut flusher.out, std::process::id(), name.trim_end())?;
        flusher.look_at_maps()?;
        Ok(flusher)
    }

    /// Writes what there is. `true`: there will be more at once.
    fn round(&mut self) -> io::Result<bool> {
        self.rounds += 1;
        if self.rounds.is_multiple_of(ROUNDS_PER_LOOK) {
            self.look_at_maps()?;
        }
        let Self { session, out, blocks, .. } = self;
        let round = session.round(|ring, words| blocks.push(ring, words, out))?;
        blocks.finish(out)?;
        if round.events > 0 {
            file::write_round(out, &round)?;
        }
        if !round.is_pressed {
            // Whoever is killed leaves what he has done.
            out.flush()?;
        }
        Ok(round.is_pressed)
    }

    fn look_at_maps(&mut self) -> io::Result<()> {
        let code = code_in(&fs::read("/proc/self/maps").unwrap_or_default());
        if code != self.maps {
            file::write_maps(&mut self.out, &code)?;
            self.maps = code;
        }
        Ok(())
    }
}

/// What is executable of a list of mappings: only that matters, and it changes less. Directories
/// may have names that are no text.
fn code_in(maps: &[u8]) -> String {
    let maps = String::from_utf8_lossy(maps);
    maps.split_inclusive('\n').filter(|line| line.contains("r-xp ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_name_is_no_text_hides_no_other() {
        let maps = b"1000-2000 r--p 00000000 fe:01 1 /home/m\xfcller/data\n\
            2000-3000 r-xp 00000000 fe:01 2 /usr/bin/prog\n";
        assert_eq!(code_in(maps), "2000-3000 r-xp 00000000 fe:01 2 /usr/bin/prog\n");
    }
}
