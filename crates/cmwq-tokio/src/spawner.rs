//! Where closures are spawned: the process-wide queue, and queues of one's own.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};

use cmwq::{Refused, Waiting, Workqueue};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::context::Context;
use crate::handle::JoinHandle;
use crate::refused::TrySpawnError;
use crate::task::{Job, Run, Task};

/// The name of the process-wide queue, as `cmwq top` shows it.
const NAME: &str = "tokio-blocking";
/// The most there can be: whatever is spawned may block for ever.
const MAX_ACTIVE: u32 = 2048;

/// Runs a closure that may block or compute for long on the process-wide managed queue, and gives a
/// handle to await: `tokio::task::spawn_blocking` with the same signature, and without a number of
/// threads. As many closures compute at once as there are CPUs; one that blocks is replaced.
///
/// Inside, the runtime is entered: `Handle::current`, `Handle::block_on` and `tokio::spawn` work.
/// With the feature `tracing` the caller's span is entered, too. Never waits, and is never refused
/// for want of room: see [`Spawner`] for that.
///
/// # Panics
/// Outside of a runtime, as tokio's. If it is the process's first use of cmwq, and the service
/// thread cannot be created; and as [`spawner`] after a shutdown.
///
/// ```
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # runtime.block_on(async {
/// let text = cmwq_tokio::spawn_blocking(|| std::fs::read_to_string("/proc/self/comm")).await;
/// assert!(text.expect("it did not panic").is_ok());
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn spawn_blocking<F, T>(func: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let runtime = Handle::current();
    spawner().spawn_blocking_on(func, &runtime)
}

/// Runs a closure that blocks, here and now: `tokio::task::block_in_place` for both places. On a
/// worker of tokio's the other tasks of that worker move to another thread; inside a spawned
/// closure the next one starts at once. Elsewhere it only calls `func`.
///
/// # Panics
/// On a current-thread runtime's thread, as tokio's.
#[track_caller]
pub fn block_in_place<F, T>(func: F) -> T
where
    F: FnOnce() -> T,
{
    // tokio's is outside, so that its panic names our caller's line: a closure of ours would not.
    tokio::task::block_in_place(|| cmwq::blocking(func))
}

/// The process-wide spawner, whose queue is named `tokio-blocking`: to flush it, or to see its
/// [statistics](Workqueue::stats).
///
/// # Panics
/// If it is the process's first use of cmwq, and the service thread cannot be created; and after a
/// [`shutdown`](cmwq::shutdown) before which the process-wide spawner was never used.
#[track_caller]
pub fn spawner() -> &'static Spawner {
    static SPAWNER: OnceLock<Spawner> = OnceLock::new();
    if let Some(spawner) = SPAWNER.get() {
        return spawner;
    }
    // Outside of a closure, so that a panic names our caller's line. Of two that are made at the
    // same time, one is dropped before anything was queued on it.
    match Workqueue::builder(NAME).max_active(MAX_ACTIVE).build() {
        Ok(queue) => {
            // Of several NUMA nodes each may have them all: who waits for one that is spawned later
            // would otherwise wait for ever where one node spawns more than its part.
            queue.set_min_active(MAX_ACTIVE).expect("a managed queue has limits per node");
            SPAWNER.get_or_init(|| Spawner::new(queue))
        }
        Err(error) => panic!("cannot make the workqueue '{NAME}': {error}"),
    }
}

/// A [`Workqueue`] as tokio's tasks see it: handles that give tokio's errors, and back-pressure
/// that can be awaited. Clones are the same spawner.
///
/// A queue with [`max_queued`](cmwq::Builder::max_queued) has so many places for closures that have
/// not begun. [`reserve`](Self::reserve) waits for one, first come, first served;
/// [`try_reserve`](Self::try_reserve) does not wait. A closure's place is free when it begins or is
/// cancelled. So a server answers "try again later" before it has read a body, or lets its client
/// wait.
///
/// Dropping the last clone, or the last handle of the queue, does not wait: what was queued still
/// runs. [`close`](Self::close) waits.
///
/// ```
/// let queue = cmwq_tokio::cmwq::Workqueue::builder("thumbnails").max_queued(64).build()?;
/// let thumbnails = cmwq_tokio::Spawner::new(queue);
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # runtime.block_on(async {
/// let place = thumbnails.reserve().await.expect("nobody has closed it");
/// let sum = place.spawn_blocking(|| (1..=10).sum::<u32>());
/// assert_eq!(sum.await.unwrap(), 55);
/// thumbnails.close().await;
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Spawner(Arc<Inner>);

struct Inner {
    /// Until it is dropped.
    queue: Option<Workqueue>,
    /// Places for closures that have not begun. `None`: without a limit.
    room: Option<Arc<Semaphore>>,
}

// As cmwq's queues. tokio's semaphore is or is not, by the features that others turn on.
impl UnwindSafe for Spawner {}
impl RefUnwindSafe for Spawner {}
impl UnwindSafe for Permit {}
impl RefUnwindSafe for Permit {}

impl Spawner {
    /// A spawner on this queue. Closures that others queue there count as far as
    /// [`try_spawn_blocking`](Self::try_spawn_blocking) goes, and take no places from
    /// [`reserve`](Self::reserve); so does what another spawner on the same queue does.
    #[must_use]
    pub fn new(queue: Workqueue) -> Self {
        let room = queue.max_queued().map(|most| Arc::new(Semaphore::new(most as usize)));
        Self(Arc::new(Inner { queue: Some(queue), room }))
    }

    /// The queue: for its statistics and limits.
    ///
    /// # Panics
    /// Never: the queue is there until the spawner is dropped.
    #[must_use]
    pub fn queue(&self) -> &Workqueue {
        self.0.queue.as_ref().expect("a queue is there until the spawner is dropped")
    }

    /// As the [function](spawn_blocking) of that name, on this queue. It goes beyond
    /// [`max_queued`](cmwq::Builder::max_queued), and takes no place from those who reserve. If the
    /// queue is closed or being drained, the handle is ready with an error that is cancelled.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn_blocking<F, T>(&self, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let runtime = Handle::current();
        self.spawn_blocking_on(func, &runtime)
    }

    /// As [`spawn_blocking`](Self::spawn_blocking), with this runtime entered: from threads that
    /// are in none.
    pub fn spawn_blocking_on<F, T>(&self, func: F, runtime: &Handle) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn(func, runtime, None)
    }

    /// As [`spawn_blocking`](Self::spawn_blocking), if there is a place. Never waits.
    ///
    /// # Errors
    /// The closure, and whether there is no place, or the queue is closed or being drained.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[track_caller]
    pub fn try_spawn_blocking<F, T>(&self, func: F) -> Result<JoinHandle<T>, TrySpawnError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let runtime = Handle::current();
        self.try_spawn_blocking_on(func, &runtime)
    }

    /// As [`try_spawn_blocking`](Self::try_spawn_blocking), with this runtime entered: from threads
    /// that are in none.
    ///
    /// # Errors
    /// As `try_spawn_blocking`.
    pub fn try_spawn_blocking_on<F, T>(
        &self,
        func: F,
        runtime: &Handle,
    ) -> Result<JoinHandle<T>, TrySpawnError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let place = match self.try_reserve() {
            Ok(permit) => permit.place,
            Err(why) => return Err(TrySpawnError { func, why }),
        };
        let task = Task::new(Job { func, context: Context::with(runtime.clone()), place });
        let run = Run(Arc::clone(&task));
        match cmwq::raw::try_queue_as::<F, _, _>(self.queue(), move || run.run()) {
            Ok(item) => {
                task.set_item(item);
                Ok(JoinHandle::new(task))
            }
            Err(error) => {
                let why = error.why();
                let job = task.take_job().expect("what was not queued has not begun");
                Err(TrySpawnError { func: job.func, why })
            }
        }
    }

    /// Waits for a place on the queue: ready at once while there is one, or if the queue has no
    /// limit. Those who wait are served in order. Cancel safe: a future that is dropped has taken
    /// nothing, and loses its turn. With a `max_queued` of 0 it waits for ever.
    ///
    /// # Errors
    /// [`Refused::Closed`], [`Refused::Draining`] or [`Refused::ShutDown`]. Whoever waits is told
    /// at once if [`close`](Self::close) is called, and when it is his turn if somebody else closes
    /// the queue, such as another spawner.
    pub async fn reserve(&self) -> Result<Permit, Refused> {
        self.check_open()?;
        let place = match &self.0.room {
            Some(room) => {
                Some(Arc::clone(room).acquire_owned().await.map_err(|_| Refused::Closed)?)
            }
            None => None,
        };
        // Others may have closed it meanwhile; they do not know who waits here.
        self.check_open()?;
        Ok(Permit { spawner: self.clone(), place })
    }

    /// As [`reserve`](Self::reserve), without waiting.
    ///
    /// # Errors
    /// Whether there is no place, or the queue is closed, being drained, or shut down.
    pub fn try_reserve(&self) -> Result<Permit, Refused> {
        self.check_open()?;
        let place = match &self.0.room {
            Some(room) => {
                Some(Arc::clone(room).try_acquire_owned().map_err(|error| match error {
                    TryAcquireError::NoPermits => Refused::Full,
                    TryAcquireError::Closed => Refused::Closed,
                })?)
            }
            None => None,
        };
        Ok(Permit { spawner: self.clone(), place })
    }

    /// Whether the queue takes closures from the caller, whoever has closed it.
    fn check_open(&self) -> Result<(), Refused> {
        cmwq::raw::refusal(self.queue()).map_or(Ok(()), Err)
    }

    /// Waits until everything that was queued before this call has ended; see
    /// [`Workqueue::flush_async`].
    pub fn flush(&self) -> Waiting {
        self.queue().flush_async()
    }

    /// Waits until the queue is empty. Until then only closures of the queue's own may queue there;
    /// the handles of others are cancelled. See [`Workqueue::drain_async`].
    pub fn drain(&self) -> Waiting {
        self.queue().drain_async()
    }

    /// Closes the queue for good, for all who have it: what was queued still runs, and the result
    /// can be awaited for that; what comes later is refused. The [process-wide](spawner) queue is
    /// closed for the whole process. See [`Workqueue::close`].
    pub fn close(&self) -> Waiting {
        if let Some(room) = &self.0.room {
            room.close();
        }
        self.queue().clone().close()
    }

    fn spawn<F, T>(
        &self,
        func: F,
        runtime: &Handle,
        place: Option<OwnedSemaphorePermit>,
    ) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let task = Task::new(Job { func, context: Context::with(runtime.clone()), place });
        let run = Run(Arc::clone(&task));
        // Refused, it drops the run, which cancels the task.
        task.set_item(cmwq::raw::queue_as::<F, _, _>(self.queue(), move || run.run()));
        JoinHandle::new(task)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last handle of a queue waits for its items, which no task of a runtime should.
        if let Some(queue) = self.queue.take() {
            cmwq::raw::drop_later(queue);
        }
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.0.room.as_ref().map(|room| room.available_permits());
        f.debug_struct("Spawner").field("queue", self.queue()).field("places", &places).finish()
    }
}

/// A place on a queue, for one closure; see [`Spawner::reserve`]. Dropping it gives the place back.
#[must_use = "dropping it gives the place back"]
pub struct Permit {
    spawner: Spawner,
    place: Option<OwnedSemaphorePermit>,
}

impl Permit {
    /// As [`Spawner::spawn_blocking`], in this place.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn_blocking<F, T>(self, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let runtime = Handle::current();
        self.spawn_blocking_on(func, &runtime)
    }

    /// As [`spawn_blocking`](Self::spawn_blocking), with this runtime entered: from threads that
    /// are in none.
    pub fn spawn_blocking_on<F, T>(self, func: F, runtime: &Handle) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawner.spawn(func, runtime, self.place)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("queue", &self.spawner.queue().name()).finish()
    }
}
