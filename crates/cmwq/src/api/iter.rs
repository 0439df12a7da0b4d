//! Functions over iterators, on a queue, with bounded look-ahead.

use std::collections::VecDeque;
use std::iter::{Fuse, FusedIterator};
use std::{fmt, mem};

use crate::api::closure::AbortOnDrop;
use crate::api::workqueue::{DroppedLater, Workqueue};
use crate::engine::threads::current;
use crate::os::generation;
use crate::os::sync::plain::{Receiver, Sender, channel};
use crate::os::sync::{Arc, AtomicBool, Ordering};

/// Runs a function for each item of an iterator, on a queue, as an extension of all iterators.
///
/// The function may block: other items start meanwhile. `ahead` items at most are queued or running
/// at a time, or have results that nobody has taken yet; 0 is taken as 1. The iterator itself runs
/// on the calling thread, and only when a result is asked for. Waiting for results counts as
/// blocking at once if the caller is a work function; it must not be one of a queue that runs one
/// item at a time, for items of that queue.
pub trait IteratorOn: Iterator + Sized {
    /// The results of `func`, in the order of the items. Lazy, as [`Iterator::map`]: nothing is
    /// queued before the first result is asked for. Dropped, it cancels what has not begun, and
    /// does not wait for what has: that runs to its end, and its result is dropped on the worker.
    /// It keeps the queue alive; if it is the last that does, the queue is destroyed later.
    ///
    /// # Panics
    /// The iterator, in `next`: with the panic of `func`, if it panicked for that item; if the
    /// queue refused one, being drained or closed; and where [`queue`](Workqueue::queue) does. In a
    /// child that was forked while items were under way, once for each of them: the parent has
    /// their results.
    ///
    /// ```
    /// use cmwq::IteratorOn;
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// let lengths: Vec<_> =
    ///     ["to", "be", "or"].into_iter().map_on(&wq, 8, |word| word.len()).collect();
    /// assert_eq!(lengths, [2, 2, 2]);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    fn map_on<F, T>(self, wq: &Workqueue, ahead: usize, func: F) -> MapOn<Self, F, T>
    where
        Self::Item: Send + 'static,
        F: Fn(Self::Item) -> T + Send + Sync + 'static,
        T: Send + 'static,
    {
        let (wq, func, ahead) = (DroppedLater::new(wq), Arc::new(func), ahead.max(1));
        MapOn { running: VecDeque::new(), items: self.fuse(), wq, func, ahead }
    }

    /// As [`map_on`](Self::map_on), with the results as they come, whichever item they are of.
    ///
    /// # Panics
    /// As there, but in such a child only once.
    ///
    /// ```
    /// use cmwq::IteratorOn;
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// let sum: u32 = (1..=100).map_unordered_on(&wq, 8, |n| n * 2).sum();
    /// assert_eq!(sum, 10_100);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    fn map_unordered_on<F, T>(
        self,
        wq: &Workqueue,
        ahead: usize,
        func: F,
    ) -> MapUnorderedOn<Self, F, T>
    where
        Self::Item: Send + 'static,
        F: Fn(Self::Item) -> T + Send + Sync + 'static,
        T: Send + 'static,
    {
        let (wq, func, ahead) = (DroppedLater::new(wq), Arc::new(func), ahead.max(1));
        let (running, free, answers) = (Vec::new(), Vec::new(), OwnEnd::new(channel()));
        MapUnorderedOn { running, items: self.fuse(), wq, func, ahead, free, answers }
    }

    /// Calls `func`, which may borrow, for each item, and returns when all calls have ended. After
    /// a panic it begins no more calls and takes no more items; items that were taken and not begun
    /// are dropped.
    ///
    /// # Panics
    /// If `func` panicked, or the queue refused an item, being drained or closed; when everything
    /// that had begun has ended; so in a child that the iterator has forked while items were under
    /// way, which are the parent's. Also where [`queue`](Workqueue::queue) does.
    ///
    /// ```
    /// use cmwq::IteratorOn;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// let sum = AtomicU32::new(0);
    /// (1..=100).for_each_on(&wq, 8, |n| _ = sum.fetch_add(n, Ordering::Relaxed));
    /// assert_eq!(sum.into_inner(), 5050);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    fn for_each_on<F>(self, wq: &Workqueue, ahead: usize, func: F)
    where
        Self::Item: Send,
        F: Fn(Self::Item) + Sync,
    {
        let (func, has_failed) = (&func, &AtomicBool::new(false));
        wq.scope(|scope| {
            let (mut items, ahead) = (self, ahead.max(1));
            let (mut answers, mut room) = (OwnEnd::new(channel()), ahead);
            loop {
                if room == 0 {
                    wait_for(&answers.own().1);
                    room += 1;
                }
                // ORDERING (all accesses): no pairing: what ran one after the other is ordered by
                // its queue, and of what runs at the same time either may be first.
                if has_failed.load(Ordering::Relaxed) {
                    break;
                }
                let Some(item) = items.next() else { break };
                if answers.is_inherited() {
                    // The scope says in the end that the parent has the others.
                    (answers, room) = (OwnEnd::new(channel()), ahead);
                }
                room -= 1;
                let send = answers.own().0.clone();
                let call = Call { send, has_failed, is_well: false };
                scope.queue_for::<F, _, _>(None, move || {
                    let mut call = call;
                    if !has_failed.load(Ordering::Relaxed) {
                        func(item);
                    }
                    call.is_well = true;
                });
            }
        });
    }
}

impl<I: Iterator> IteratorOn for I {}

/// The results of [`IteratorOn::map_on`].
#[must_use = "iterators do nothing unless they are asked for items"]
pub struct MapOn<I: Iterator, F, T> {
    /// Dropped first: what has not begun is not to begin meanwhile.
    running: VecDeque<AbortOnDrop<T>>,
    /// Asked for more than there are, with items that still run.
    items: Fuse<I>,
    wq: DroppedLater,
    func: Arc<F>,
    ahead: usize,
}

impl<I, F, T> Iterator for MapOn<I, F, T>
where
    I: Iterator,
    I::Item: Send + 'static,
    F: Fn(I::Item) -> T + Send + Sync + 'static,
    T: Send + 'static,
{
    type Item = T;

    fn next(&mut self) -> Option<T> {
        while self.running.len() < self.ahead
            && let Some(item) = self.items.next()
        {
            let func = Arc::clone(&self.func);
            let handle = self.wq.queue_closure::<F, _, T>(None, move || func(item));
            self.running.push_back(handle.abort_on_drop());
        }
        self.running.pop_front().map(|first| first.join().unwrap_or_else(|error| error.raise()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        more(self.items.size_hint(), self.running.len())
    }
}

/// The results of [`IteratorOn::map_unordered_on`].
#[must_use = "iterators do nothing unless they are asked for items"]
pub struct MapUnorderedOn<I: Iterator, F, T> {
    /// Those that have not answered, by their numbers. Dropped first: see [`MapOn`].
    running: Vec<Option<AbortOnDrop<()>>>,
    /// See [`MapOn`].
    items: Fuse<I>,
    wq: DroppedLater,
    func: Arc<F>,
    ahead: usize,
    /// Numbers of which there is none.
    free: Vec<usize>,
    answers: OwnEnd<Ends<T>>,
}

impl<I, F, T> MapUnorderedOn<I, F, T>
where
    I: Iterator,
    I::Item: Send + 'static,
    F: Fn(I::Item) -> T + Send + Sync + 'static,
    T: Send + 'static,
{
    fn begin(&mut self, item: I::Item) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.running.push(None);
            self.running.len() - 1
        });
        let (func, ticket) = (Arc::clone(&self.func), Ticket::new(number, &self.answers.own().0));
        let handle = self.wq.queue_closure::<F, _, ()>(None, move || ticket.answer(func(item)));
        self.running[number] = Some(handle.abort_on_drop());
    }
}

impl<I: Iterator, F, T> MapUnorderedOn<I, F, T> {
    fn nr_running(&self) -> usize {
        self.running.len() - self.free.len()
    }

    /// In a forked child: what was queued before answers to the parent.
    #[cold]
    fn begin_anew(&mut self) {
        let nr_inherited = self.nr_running();
        self.running.clear();
        self.free.clear();
        self.answers = OwnEnd::new(channel());
        assert!(
            nr_inherited == 0,
            "{nr_inherited} items were queued by the parent of this forked process, whose results \
             they have"
        );
    }
}

impl<I, F, T> Iterator for MapUnorderedOn<I, F, T>
where
    I: Iterator,
    I::Item: Send + 'static,
    F: Fn(I::Item) -> T + Send + Sync + 'static,
    T: Send + 'static,
{
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.answers.is_inherited() {
            self.begin_anew();
        }
        while self.nr_running() < self.ahead
            && let Some(item) = self.items.next()
        {
            self.begin(item);
        }
        if self.nr_running() == 0 {
            return None;
        }
        let answer = wait_for(&self.answers.own().1);
        let handle = self.running[answer.number].take().expect("it has not answered before");
        self.free.push(answer.number);
        if answer.outcome.is_none() {
            handle.join().unwrap_or_else(|error| error.raise());
        }
        answer.outcome
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        more(self.items.size_hint(), self.nr_running())
    }
}

impl<I: Iterator, F, T> FusedIterator for MapOn<I, F, T> where Self: Iterator {}

impl<I: Iterator, F, T> FusedIterator for MapUnorderedOn<I, F, T> where Self: Iterator {}

fn more((least, most): (usize, Option<usize>), by: usize) -> (usize, Option<usize>) {
    (least.saturating_add(by), most.and_then(|most| most.checked_add(by)))
}

/// A call's duty to answer, and to say if it has failed: it panicked, or was refused.
struct Call<'a> {
    send: Sender<()>,
    has_failed: &'a AtomicBool,
    is_well: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.is_well {
            // ORDERING: see `for_each_on`.
            self.has_failed.store(true, Ordering::Relaxed);
        }
        // Nobody may want to know any more.
        let _ = self.send.send(());
    }
}

/// What came of the item of that number. No outcome: it panicked, or was refused.
struct Answer<T> {
    number: usize,
    outcome: Option<T>,
}

/// An end of the way of the answers, for the process that has made it. In a forked child it is left
/// as it is: a thread that only the parent has may have been at it, and be waited for.
struct OwnEnd<E> {
    end: Option<E>,
    generation: u32,
}

impl<E> OwnEnd<E> {
    fn new(end: E) -> Self {
        Self { end: Some(end), generation: generation::current() }
    }

    fn is_inherited(&self) -> bool {
        self.generation != generation::current()
    }

    /// `None`: this process has inherited it.
    fn get(&self) -> Option<&E> {
        self.end.as_ref().filter(|_| !self.is_inherited())
    }

    fn own(&self) -> &E {
        self.get().expect("a child begins anew")
    }
}

impl<E> Drop for OwnEnd<E> {
    fn drop(&mut self) {
        if self.is_inherited() {
            mem::forget(self.end.take());
        }
    }
}

type Ends<T> = (Sender<Answer<T>>, Receiver<Answer<T>>);

/// An item's duty to answer, which it does whatever becomes of it.
struct Ticket<T> {
    number: usize,
    send: OwnEnd<Sender<Answer<T>>>,
    outcome: Option<T>,
}

impl<T> Ticket<T> {
    fn new(number: usize, send: &Sender<Answer<T>>) -> Self {
        Self { number, send: OwnEnd::new(send.clone()), outcome: None }
    }

    fn answer(mut self, outcome: T) {
        self.outcome = Some(outcome);
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        let Some(send) = self.send.get() else { return };
        let answer = Answer { number: self.number, outcome: self.outcome.take() };
        // Nobody may want to know any more.
        drop(send.send(answer));
    }
}

fn wait_for<A>(answers: &Receiver<A>) -> A {
    answers
        .try_recv()
        .or_else(|_| current::blocking(|| answers.recv()))
        .unwrap_or_else(|_| unreachable!("a sender is at hand"))
}

impl<I: Iterator, F, T> fmt::Debug for MapOn<I, F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapOn")
            .field("wq", &*self.wq)
            .field("ahead", &self.ahead)
            .field("running", &self.running.len())
            .finish_non_exhaustive()
    }
}

impl<I: Iterator, F, T> fmt::Debug for MapUnorderedOn<I, F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapUnorderedOn")
            .field("wq", &*self.wq)
            .field("ahead", &self.ahead)
            .field("running", &self.nr_running())
            .finish_non_exhaustive()
    }
}
