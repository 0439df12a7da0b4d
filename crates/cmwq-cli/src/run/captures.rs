//! All that commands write, taken out of their pipes while they run.
//!
//! By one thread, which sleeps while nobody writes, also when commands end: what has come by then
//! is taken by whoever has waited for that.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use super::captured::Captured;
use super::pipe::Pipe;

/// So much is taken at once: what a pipe has room for, usually.
const ROOM: usize = 64 << 10;
/// So many pipes are looked at together.
const TOGETHER: usize = 64;
/// What has come may gather for so long: who writes line by line does not wake this up for each.
const GATHERS: Duration = Duration::from_millis(1);
/// But not where so much has come, which a pipe has little room beside,
const MUCH: usize = 16 << 10;
/// nor the next so many times.
const HURRY: u32 = 64;

/// See the module header.
#[derive(Debug)]
pub(super) struct Captures {
    epoll: OwnedFd,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    last: u64,
    by_number: HashMap<u64, Weak<Captured>>,
}

impl Captures {
    /// With its thread.
    ///
    /// # Errors
    /// If descriptors or threads are scarce.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let captures = Arc::new(Self { epoll, all: Mutex::default() });
        let taker = Arc::clone(&captures);
        thread::Builder::new().name("output".into()).spawn(move || taker.take_out())?;
        Ok(captures)
    }

    /// One for a command, which gets the descriptor.
    ///
    /// # Errors
    /// If descriptors or memory are scarce.
    pub(super) fn open(self: &Arc<Self>) -> io::Result<(Arc<Captured>, OwnedFd)> {
        let (pipe, writing) = Pipe::new()?;
        let mut all = self.lock();
        all.last += 1;
        let number = all.last;
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.epoll, &pipe, data, epoll::EventFlags::IN)?;
        let captured = Arc::new(Captured::new(Arc::clone(self), number, pipe));
        all.by_number.insert(number, Arc::downgrade(&captured));
        Ok((captured, writing))
    }

    /// Nothing more is taken out of this pipe. To be closed does not do: a command that is just
    /// being started has it open, too.
    pub(super) fn leave(&self, pipe: &Pipe) {
        // It fails where it is not there.
        let _ = epoll::delete(&self.epoll, pipe);
    }

    /// It is done with.
    pub(super) fn forget(&self, number: u64) {
        self.lock().by_number.remove(&number);
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, number: u64) -> Option<Arc<Captured>> {
        self.lock().by_number.get(&number)?.upgrade()
    }

    fn take_out(&self) {
        let (mut ready, mut room) = (Vec::with_capacity(TOGETHER), Vec::with_capacity(ROOM));
        let mut hurry = 0;
        loop {
            ready.clear();
            // It only fails when it is interrupted.
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut ready), None);
            let most = ready.iter().filter_map(|event| self.get(event.data.u64()));
            match most.map(|one| one.take(&mut room)).max() {
                Some(MUCH..) => hurry = HURRY,
                _ => hurry = u32::saturating_sub(hurry, 1),
            }
            if hurry == 0 {
                thread::sleep(GATHERS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_done_with_are_forgotten() {
        let captures = Captures::new().unwrap();
        let (one, other) = (captures.open().unwrap(), captures.open().unwrap());
        drop(one);
        assert_eq!(captures.lock().by_number.len(), 1);
        drop(other);
        assert_eq!(captures.lock().by_number.len(), 0);
    }
}
