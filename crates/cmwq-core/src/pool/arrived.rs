//! Items that have *arrived*: they were queued behind others, for which a worker of the pool runs,
//! or has been woken. They are younger than those on the worklist, and still in transit. Most are
//! never on a list, because a [batch](super::batch) takes them.
//!
//! - *(coloured)* The arrived items of a pwq that a flush has found have a colour, and are counted
//!   in flight. They are older than those without one. So their number says which have which
//!   ([`Arrived`]), and a flush that colours them touches none.

use core::mem;
use core::ptr::NonNull;

use super::PoolState;
use crate::consts::WORK_NR_COLORS;
use crate::flush::next_color;
use crate::ids::PwqId;
use crate::inbox::Transit;
use crate::list::Node;
use crate::work::WorkItem;

/// LIMIT: so many items may have arrived, since one hold of the lock may have to list them all:
/// some milliseconds, in a pool that has work for more.
pub(super) const ARRIVED_MAX: u32 = 1 << 18;

/// How many items of a pwq have arrived: first those of the oldest colour, and last those without.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrived {
    of_color: [u32; WORK_NR_COLORS as usize],
    /// The colour of the oldest one, if it has one.
    oldest: u8,
    nr_colored: u32,
    nr_plain: u32,
}

impl Arrived {
    pub(crate) const fn len(&self) -> u32 {
        self.nr_colored + self.nr_plain
    }

    /// Those that are counted in flight.
    pub(crate) const fn nr_colored(&self) -> u32 {
        self.nr_colored
    }

    /// The oldest one goes. Returns its colour.
    #[inline]
    fn pop(&mut self) -> Option<u8> {
        if self.nr_colored == 0 {
            self.nr_plain -= 1;
            return None;
        }
        let color = self.oldest;
        self.remove_colored(1);
        Some(color)
    }

    /// The colours of all of them, oldest first.
    #[cfg(feature = "explore")]
    pub(crate) fn colors(&self) -> impl Iterator<Item = Option<u8>> {
        let mut left = self.clone();
        core::iter::from_fn(move || (left.len() > 0).then(|| left.pop()))
    }

    /// One more, the oldest: it is back.
    fn put_back(&mut self, color: Option<u8>) {
        match color {
            Some(color) => {
                self.of_color[usize::from(color)] += 1;
                self.oldest = color;
                self.nr_colored += 1;
            }
            None => self.nr_plain += 1,
        }
    }

    /// How many of the oldest ones are, or would be, of that colour: with a colour, and without.
    /// `work_color`: what those without would get.
    #[inline]
    pub(super) fn first_of(&self, color: u8, work_color: u8) -> (u32, u32) {
        let is_oldest = self.nr_colored > 0 && self.oldest == color;
        let colored = if is_oldest { self.of_color[usize::from(color)] } else { 0 };
        let is_plain_next = colored == self.nr_colored && work_color == color;
        (colored, if is_plain_next { self.nr_plain } else { 0 })
    }

    /// The oldest ones go: so many of the oldest colour, and so many without.
    #[inline]
    pub(super) fn remove_first(&mut self, colored: u32, plain: u32) {
        self.nr_plain -= plain;
        if colored > 0 {
            self.remove_colored(colored);
        }
    }

    fn remove_colored(&mut self, count: u32) {
        self.of_color[usize::from(self.oldest)] -= count;
        self.nr_colored -= count;
        while self.nr_colored > 0 && self.of_color[usize::from(self.oldest)] == 0 {
            self.oldest = next_color(self.oldest);
        }
    }

    /// Gives a colour to those that have none. Returns how many these are.
    fn color(&mut self, color: u8) -> u32 {
        let count = mem::take(&mut self.nr_plain);
        if self.nr_colored == 0 {
            self.oldest = color;
        }
        self.of_color[usize::from(color)] += count;
        self.nr_colored += count;
        count
    }
}

impl PoolState {
    /// Takes over items in transit to the pool, which are younger than all that wait there.
    #[inline]
    pub(crate) fn arrive(&mut self, items: Transit) {
        let mut run = None;
        for (pwq, _) in items.iter() {
            match &mut run {
                Some((of, count)) if *of == pwq => *count += 1,
                _ => self.count_arrived(run.replace((pwq, 1))),
            }
        }
        self.count_arrived(run);
        self.arrived.append(items);
        self.list_excess();
    }

    /// Lists the oldest ones, if more have arrived than may.
    #[inline]
    fn list_excess(&mut self) {
        while self.arrived.len() > self.arrived_max() {
            self.call_back();
            let _ = self.list_first_arrived();
        }
    }

    #[inline]
    fn count_arrived(&mut self, run: Option<(PwqId, u32)>) {
        if let Some((pwq, count)) = run {
            self.pwq(pwq).arrived.nr_plain += count;
        }
    }

    /// An item that had arrived, and was not begun, is the oldest one again.
    ///
    /// # Safety
    /// As for [`Transit::push_front`].
    pub(super) unsafe fn arrive_again(
        &mut self,
        pwq: PwqId,
        item: NonNull<WorkItem>,
        color: Option<u8>,
    ) {
        // SAFETY: passed on to the caller.
        unsafe { self.arrived.push_front(item, pwq) };
        self.pwq(pwq).arrived.put_back(color);
    }

    /// Takes the oldest arrived item, and its colour if it is counted in flight.
    #[inline]
    pub(super) fn pop_arrived(&mut self) -> Option<(PwqId, NonNull<WorkItem>, Option<u8>)> {
        let (pwq, item) = self.arrived.pop()?;
        let arrived = &mut self.pwq(pwq).arrived;
        Some((pwq, item, arrived.pop()))
    }

    /// Makes the counts right, and puts the arrived items on the worklist, where they can be found.
    /// To be called before an item is looked for or waited for. The worker that the items arrived
    /// for is at work and comes for them, so nobody has to be kicked; and nobody is taken for woken
    /// by it, since nobody is told. The inbox stays as it is.
    #[inline]
    pub(crate) fn catch_up(&mut self) {
        if self.has_batch_out() {
            self.call_back();
        }
        self.list_arrived();
    }

    /// As [`catch_up`](Self::catch_up), but only up to the first item that may start, and none if
    /// one is on the worklist. Those before it have to wait for their limits. To be called before
    /// anything is decided because work waits: afterwards it waits for a worker.
    #[inline]
    pub(crate) fn catch_up_to_first(&mut self) {
        if self.has_batch_out() {
            self.call_back();
        }
        let _ = self.first_to_start();
    }

    /// The first item of the worklist, or of those that have arrived the first that is within its
    /// limit, which is listed then.
    #[inline]
    pub(super) fn first_to_start(&mut self) -> Option<Node> {
        loop {
            let first = self.worklist.first();
            if first.is_some() || !self.list_first_arrived() {
                return first;
            }
        }
    }

    #[inline]
    fn list_arrived(&mut self) {
        if !self.arrived.is_empty() {
            while self.list_first_arrived() {}
        }
    }

    /// Puts the first arrived item on the worklist, or behind the limit of its pwq.
    #[inline]
    fn list_first_arrived(&mut self) -> bool {
        let Some((pwq, item, color)) = self.pop_arrived() else { return false };
        if let Some(color) = color {
            self.pwq(pwq).nr_in_flight[usize::from(color)] -= 1;
        }
        // SAFETY: the thread that pushed the item into the inbox owned its PENDING and keeps it
        // alive.
        unsafe { self.list(pwq, item, color) };
        true
    }

    /// Gives the arrived items of a pwq its colour, which is about to change or to be waited for.
    pub(super) fn color_arrived(&mut self, pwq: PwqId) {
        let p = self.pwq(pwq);
        let color = p.work_color;
        p.nr_in_flight[usize::from(color)] += p.arrived.color(color);
    }

    /// Prepares a pwq for a flush; `true` if the flush has to wait for it.
    ///
    /// KERNEL: `flush_workqueue_prep_pwqs`, one pwq — same.
    #[must_use]
    pub(crate) fn flush_prep(
        &mut self,
        pwq: PwqId,
        flush: Option<u8>,
        work_color: Option<u8>,
    ) -> bool {
        self.assert_caught_up();
        self.color_arrived(pwq);
        let p = self.pwq(pwq);
        if let Some(color) = work_color {
            p.work_color = color;
        }
        let Some(color) = flush else { return false };
        debug_assert!(p.flush_color.is_none(), "two flushes wait for one pwq");
        if p.nr_in_flight[usize::from(color)] == 0 {
            return false;
        }
        p.flush_color = Some(color);
        true
    }
}

#[cfg(feature = "explore")]
impl PoolState {
    /// What has arrived, as values: each item's address, pwq and colour.
    pub(super) fn arrived_value(&self) -> alloc::vec::Vec<(usize, PwqId, Option<u8>)> {
        let mut colors: alloc::vec::Vec<_> =
            self.pwqs.iter().map(|(id, p)| (PwqId(id), p.arrived.colors())).collect();
        let value = self.arrived.iter().map(|(pwq, item)| {
            let (_, colors) = colors.iter_mut().find(|(id, _)| *id == pwq).expect("it has a pwq");
            (item.as_ptr() as usize, pwq, colors.next().expect("an item that is not counted"))
        });
        let value = value.collect();
        let is_exact = colors.iter_mut().all(|(_, colors)| colors.next().is_none());
        assert!(is_exact, "(coloured): a pwq counts an item that has not arrived");
        value
    }
}
