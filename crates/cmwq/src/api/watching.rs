//! Items that wait for processes, and count as running while these do.

use std::marker::PhantomData;

use crate::engine::threads::current::{self, Watch};

/// Lets the calling item count as running while the programs that it starts, or their descendants,
/// do, until the guard is dropped.
///
/// An item that starts a program and waits for it is blocked, so another item would start although
/// the program has the CPU. With a watch the pool looks at the program instead: as long as one
/// thread of it or of its descendants can run, the item counts as running; as soon as all of them
/// wait, for a disk, the network, a lock, a pipe, the next item starts; and when one of them runs
/// again, the item counts again. So a queue keeps as many programs runnable as there are CPUs,
/// whatever they do and however many there are. Where the last four waited within 10 ms of their
/// start, and those that run have just begun, an idle CPU is enough for the next item, without a
/// look: if these compute after all, up to three times as many run until some wait or end.
///
/// To be called before the program is started, by the thread that starts it: meant are the
/// processes that the calling thread has started and nobody has waited for yet. For a program that
/// another thread has started there is [`watch_process`].
///
/// Several watches of one item stand together: it counts while any of the processes runs, or the
/// item itself. [`blocking`](crate::blocking) makes no room meanwhile. A watch ends with its item,
/// also where the guard was leaked.
///
/// A program with several threads counts as one. Descendants whose parent has ended (daemons)
/// are not found. What runs is read from `/proc` within microseconds to some milliseconds, and for
/// a tenth of the time at most: of programs with very many threads it is known later. Where `/proc`
/// does not tell (`hidepid`, a kernel without `CONFIG_PROC_CHILDREN`), or there are more than 1,024
/// threads, the program is taken to be running.
///
/// In an item of a managed queue it also [leaves the CPU](leave_cpu), so that the program may run
/// on all of them.
///
/// Outside of a work function, and in one of a [BH queue](crate::Builder::bh), it does nothing.
/// Takes a lock for a moment; never blocks otherwise. No errors, no panics.
///
/// ```
/// use std::process::Command;
///
/// let wq = cmwq::Workqueue::new("programs")?;
/// let status = wq.queue(|| {
///     let _watch = cmwq::watch_children();
///     Command::new("true").status()
/// });
/// assert!(status.join().unwrap()?.success());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn watch_children() -> ProcessWatch {
    ProcessWatch { watch: current::watch(None), here: PhantomData }
}

/// Lets the calling item's worker run on all CPUs that its queue may use, until the worker has been
/// idle; what the item starts from now on, programs and threads, inherits them.
///
/// Items of a [managed](crate::Builder::managed) queue begin on one CPU, to which their worker is
/// bound until it waits. Linux lets a program or a thread run on the CPUs of the thread that starts
/// it: on that one for ever, with a
/// [parallelism](std::thread::available_parallelism) of 1. So an item that starts a program with
/// many threads, a thread pool or a runtime calls this first, unless it has a [`watch_children`].
///
/// The affinity of an item's own computing hardly matters; the CPU that is left is the scheduler's
/// to fill. In items of other queues it does nothing: workers of unbound queues are bound to no
/// CPU, and who wants a [per-CPU](crate::Builder::percpu) queue wants its CPU, as in the kernel,
/// where programs are started from an unbound queue for that reason. Outside of a work function,
/// and where a caller runs the item itself ([`Workqueue::run`](crate::Workqueue::run)), it does
/// nothing either.
///
/// Takes a lock for a moment, and a microsecond; never blocks otherwise. No errors, no panics.
///
/// ```
/// let wq = cmwq::Workqueue::new("builds")?;
/// let cpus = wq.queue(|| {
///     cmwq::leave_cpu();
///     std::thread::available_parallelism()
/// });
/// assert_eq!(cpus.join().unwrap()?, std::thread::available_parallelism()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn leave_cpu() {
    current::leave_cpu();
}

/// As [`watch_children`], for the process `pid` and its descendants.
///
/// `pid` is to be a child of this process that nobody has waited for yet, so that the number is its
/// own. One that has ended does not run.
///
/// ```
/// use std::process::Command;
///
/// let wq = cmwq::Workqueue::new("programs")?;
/// let mut child = Command::new("true").spawn()?;
/// let status = wq.queue(move || {
///     let _watch = cmwq::watch_process(child.id());
///     child.wait()
/// });
/// assert!(status.join().unwrap()?.success());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn watch_process(pid: u32) -> ProcessWatch {
    ProcessWatch { watch: current::watch(Some(pid)), here: PhantomData }
}

/// The calling item counts as running while processes do; see [`watch_children`]. Stays on its
/// thread.
#[derive(Debug)]
#[must_use = "the watch ends when the guard is dropped"]
pub struct ProcessWatch {
    /// `None`: no item's.
    watch: Option<Watch>,
    here: PhantomData<*const ()>,
}

impl ProcessWatch {
    /// Whether an item counts by this watch: `false` outside of work functions.
    #[must_use]
    pub fn is_effective(&self) -> bool {
        self.watch.is_some()
    }
}

impl Drop for ProcessWatch {
    fn drop(&mut self) {
        if let Some(watch) = self.watch {
            current::unwatch(watch);
        }
    }
}
