//! Where the work is done: a managed queue, or, to compare with, other pools of a given size.
//!
//! All have so many places for jobs that have not begun, and refuse more. Of those that have begun
//! and not ended each has its own limit: [`Kind::at_once`].

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use cmwq::Workqueue;
use cmwq_tokio::{Permit, Spawner};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::limits::at_least_one;

/// How many jobs may be begun and not ended on the managed queue: as many connections to a database
/// are used at most.
const MAX_ACTIVE: u32 = 32;
const KINDS: &str = "a pool is cmwq, blocking:THREADS, semaphore:JOBS or rayon:THREADS";

/// Which pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A managed queue, without a number of threads.
    Cmwq,
    /// tokio's `spawn_blocking` with so many threads.
    Blocking(usize),
    /// tokio's `spawn_blocking` with its own number of threads, of which a semaphore lets so many
    /// jobs begin.
    Semaphore(usize),
    /// rayon with so many threads.
    Rayon(usize),
}

impl Kind {
    /// How many jobs may be begun and not ended: as many use the database at most.
    #[must_use]
    pub fn at_once(self) -> usize {
        match self {
            Self::Cmwq => MAX_ACTIVE as usize,
            Self::Blocking(size) | Self::Semaphore(size) | Self::Rayon(size) => size,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cmwq => f.write_str("cmwq"),
            Self::Blocking(size) => write!(f, "blocking:{size}"),
            Self::Semaphore(size) => write!(f, "semaphore:{size}"),
            Self::Rayon(size) => write!(f, "rayon:{size}"),
        }
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let Some((name, size)) = text.split_once(':') else {
            return match text {
                "cmwq" => Ok(Self::Cmwq),
                _ => bail!(KINDS),
            };
        };
        let size = at_least_one(size).ok().context(KINDS)? as usize;
        match name {
            "blocking" => Ok(Self::Blocking(size)),
            "semaphore" => Ok(Self::Semaphore(size)),
            "rayon" => Ok(Self::Rayon(size)),
            _ => bail!(KINDS),
        }
    }
}

/// A pool.
#[derive(Clone, Debug)]
pub enum Pool {
    /// See [`Kind::Cmwq`].
    Cmwq(Spawner),
    /// The runtime's `spawn_blocking`, whose threads the runtime was built with; and the places.
    Blocking(Arc<Semaphore>),
    /// See [`Kind::Semaphore`].
    Semaphore {
        /// Of jobs that have not begun.
        places: Arc<Semaphore>,
        /// Of jobs that have begun and not ended.
        turns: Arc<Semaphore>,
    },
    /// See [`Kind::Rayon`]; and the places.
    Rayon(Arc<rayon::ThreadPool>, Arc<Semaphore>),
}

/// A place for one job.
#[derive(Debug)]
pub enum Place {
    /// On the queue.
    Cmwq(Permit),
    /// Beside `spawn_blocking`.
    Blocking(OwnedSemaphorePermit),
    /// Before the semaphore whose turns those are.
    Semaphore(OwnedSemaphorePermit, Arc<Semaphore>),
    /// Beside rayon.
    Rayon(Arc<rayon::ThreadPool>, OwnedSemaphorePermit),
}

/// A job was lost: it panicked, or its pool was closed.
#[derive(Debug)]
pub struct Lost;

impl Pool {
    /// Makes one, with so many places. The threads of `spawn_blocking` are the runtime's affair.
    ///
    /// # Errors
    /// If threads cannot be had.
    pub fn new(kind: Kind, places: u32) -> anyhow::Result<Self> {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let waiting = places as usize;
        Ok(match kind {
            Kind::Cmwq => {
                let queue = Workqueue::builder("pictures").max_queued(places).sample_times(1);
                Self::Cmwq(Spawner::new(queue.max_active(MAX_ACTIVE).build()?))
            }
            Kind::Blocking(_) => Self::Blocking(semaphore(waiting)),
            Kind::Semaphore(size) => {
                Self::Semaphore { places: semaphore(waiting), turns: semaphore(size) }
            }
            Kind::Rayon(size) => {
                let threads = rayon::ThreadPoolBuilder::new().num_threads(size);
                // Whoever awaits the job hears of it; without a handler the process would end.
                let threads = threads.panic_handler(|_| {}).build()?;
                Self::Rayon(Arc::new(threads), semaphore(waiting))
            }
        })
    }

    /// A place for a job, if there is one.
    #[must_use]
    pub fn try_reserve(&self) -> Option<Place> {
        match self {
            Self::Cmwq(spawner) => spawner.try_reserve().ok().map(Place::Cmwq),
            Self::Blocking(places) => {
                Arc::clone(places).try_acquire_owned().ok().map(Place::Blocking)
            }
            Self::Semaphore { places, turns } => {
                let place = Arc::clone(places).try_acquire_owned().ok()?;
                Some(Place::Semaphore(place, Arc::clone(turns)))
            }
            Self::Rayon(threads, places) => {
                let place = Arc::clone(places).try_acquire_owned().ok()?;
                Some(Place::Rayon(Arc::clone(threads), place))
            }
        }
    }

    /// Takes nothing more, and waits for what was taken. The pools to compare with know only of
    /// what somebody awaits, so after the last client nothing is left to wait for.
    pub async fn close(&self) {
        if let Self::Cmwq(spawner) = self {
            spawner.close().await;
        }
    }
}

impl Place {
    /// Runs a job that may block and compute. If the future is dropped, as a server's is when its
    /// client goes away, a job that has not begun does not begin any more: cmwq takes it off the
    /// queue at once, with `spawn_blocking` it keeps its place until its turn comes. Only rayon,
    /// which has no means for that, runs it for nobody.
    ///
    /// # Errors
    /// If the job panicked.
    pub async fn run<T: Send + 'static>(
        self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Lost> {
        match self {
            Self::Cmwq(place) => place.spawn_blocking(job).abort_on_drop().await.map_err(|_| Lost),
            Self::Blocking(place) => {
                let begun = move || {
                    drop(place);
                    job()
                };
                AbortOnDrop(tokio::task::spawn_blocking(begun)).ended().await
            }
            Self::Semaphore(place, turns) => {
                // As servers do it: whoever waits for a turn has no thread.
                let turn = turns.acquire_owned().await.map_err(|_| Lost)?;
                let begun = move || {
                    drop(place);
                    let value = job();
                    drop(turn);
                    value
                };
                AbortOnDrop(tokio::task::spawn_blocking(begun)).ended().await
            }
            Self::Rayon(threads, place) => {
                let (done, value) = tokio::sync::oneshot::channel();
                threads.spawn(move || {
                    drop(place);
                    // Nobody may wait any more.
                    let _ = done.send(job());
                });
                value.await.map_err(|_| Lost)
            }
        }
    }
}

/// A closure that need not begin if nobody waits for it any more.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn ended(mut self) -> Result<T, Lost> {
        (&mut self.0).await.map_err(|_| Lost)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::Poll;

    use super::*;

    #[test]
    fn kinds_are_written_as_they_are_read() {
        for text in ["cmwq", "blocking:4", "semaphore:32", "rayon:16"] {
            assert_eq!(text.parse::<Kind>().unwrap().to_string(), text);
        }
        for text in ["tokio", "blocking", "blocking:0", "rayon:x", "rayon:4294967296", "other:3"] {
            assert!(text.parse::<Kind>().is_err(), "{text}");
        }
    }

    /// Of the semaphore, and not of the threads: pairs meet, and there is never a third.
    #[tokio::test]
    async fn a_semaphore_lets_so_many_begin() {
        let pool = Pool::new(Kind::Semaphore(2), 8).unwrap();
        let meeting = Arc::new(std::sync::Barrier::new(2));
        let begun = Arc::new(AtomicUsize::new(0));
        let jobs = [(); 8].map(|()| {
            let (meeting, begun) = (Arc::clone(&meeting), Arc::clone(&begun));
            tokio::spawn(pool.try_reserve().unwrap().run(move || {
                let at_once = 1 + begun.fetch_add(1, Ordering::SeqCst);
                meeting.wait();
                begun.fetch_sub(1, Ordering::SeqCst);
                at_once
            }))
        });
        assert!(pool.try_reserve().is_none(), "nobody has begun yet");
        for job in jobs {
            assert!(job.await.unwrap().unwrap() <= 2);
        }
    }

    /// Lets it begin; it has not ended.
    async fn begin<F: Future>(mut job: Pin<&mut F>) {
        let once = poll_fn(|context| Poll::Ready(job.as_mut().poll(context).is_pending()));
        assert!(once.await);
    }

    /// With one thread, or one turn, on which another job is.
    #[test]
    fn a_job_that_nobody_awaits_does_not_begin() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            for kind in [Kind::Blocking(1), Kind::Semaphore(1)] {
                let pool = Pool::new(kind, 8).unwrap();
                let has_run = Arc::new(AtomicBool::new(false));
                let (go_on, waits) = std::sync::mpsc::channel::<()>();
                let mut first = Box::pin(pool.try_reserve().unwrap().run(move || waits.recv()));
                begin(first.as_mut()).await;
                let second = Arc::clone(&has_run);
                let second = move || second.store(true, Ordering::SeqCst);
                let mut second = Box::pin(pool.try_reserve().unwrap().run(second));
                begin(second.as_mut()).await;
                drop(second);
                let mut third = Box::pin(pool.try_reserve().unwrap().run(|| ()));
                begin(third.as_mut()).await;
                drop(go_on);
                assert!(first.await.unwrap().is_err(), "the other end of its channel is gone");
                third.await.unwrap();
                assert!(!has_run.load(Ordering::SeqCst), "{kind}");
            }
        });
    }

    #[tokio::test]
    async fn a_job_that_panics_is_lost_and_no_other_one() {
        for kind in [Kind::Cmwq, Kind::Blocking(1), Kind::Semaphore(1), Kind::Rayon(1)] {
            let pool = Pool::new(kind, 8).unwrap();
            let panics = pool.try_reserve().unwrap().run(|| panic!("as this test wants it"));
            let ended: Result<(), Lost> = panics.await;
            assert!(ended.is_err(), "{kind}");
            assert_eq!(pool.try_reserve().unwrap().run(|| 7).await.unwrap(), 7, "{kind}");
        }
    }
}
