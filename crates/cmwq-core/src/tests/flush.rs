//! Flush colours: nobody returns too early, and everybody returns.

use core::cell::Cell;
use std::vec::Vec;

use super::support::{Crowd, ItemPtr, Rng, pwq_config, steps, with_seeds, work};
use crate::consts::WORK_NR_COLORS;
use crate::flush::next_color;
use crate::policy::UNMANAGED;
use crate::{Colors, Effects, FlushState, Kick, PoolConfig, PoolId, PwqId, Start, WqKey};

#[derive(Debug)]
struct Flusher {
    /// Not even a colour was free for it when it came.
    overflowed: bool,
    returned: bool,
    /// The items that were queued before it came.
    covers: Vec<ItemPtr>,
}

/// One workqueue with three pwqs in two pools, and a driver that counts pwqs and wakes flushers.
struct Queue {
    flush: FlushState<usize>,
    pools: Vec<Crowd>,
    /// `(pool, pwq)`.
    links: Vec<(usize, PwqId)>,
    /// `nr_pwqs_to_flush`.
    to_flush: usize,
    /// The first flusher was woken and has not run yet.
    woken: bool,
    flushers: Vec<Flusher>,
    in_flight: Vec<ItemPtr>,
}

impl Queue {
    fn new() -> Self {
        let mut pools: Vec<Crowd> =
            (0..2).map(|id| Crowd::new(PoolConfig::new(PoolId(id), UNMANAGED))).collect();
        // A small limit on the last, so that flushes also wait for inactive items.
        let links = [(0, 100), (1, 100), (1, 2)].map(|(pool, max)| (pool, pools[pool].f.pwq(max)));
        Self {
            flush: FlushState::new(),
            pools,
            links: links.to_vec(),
            to_flush: 0,
            woken: false,
            flushers: Vec::new(),
            in_flight: Vec::new(),
        }
    }

    fn queue(&mut self, link: usize) -> ItemPtr {
        let (pool, pwq) = self.links[link];
        let item = self.pools[pool].queue(pwq);
        self.in_flight.push(item);
        item
    }

    /// Items that could finish now.
    fn running(&self) -> Vec<ItemPtr> {
        self.pools.iter().flat_map(|pool| &pool.busy).map(|&(_, item)| item).collect()
    }

    fn finish(&mut self, item: ItemPtr) {
        let pool = self.pools.iter_mut().find(|pool| pool.is_running(item)).expect("not running");
        let mut effects = Effects::NONE;
        pool.finish(item, |e| effects = e);
        self.left(item, effects);
    }

    fn cancel(&mut self, item: ItemPtr) {
        let at = work(item).word().pwq().expect("not queued");
        let pool = &mut self.pools[at.pool.0 as usize];
        let (kick, effects) = pool.f.cancel(item);
        pool.act(kick);
        self.left(item, effects);
    }

    fn left(&mut self, item: ItemPtr, effects: Effects) {
        self.in_flight.retain(|&other| other != item);
        if effects.flush_done.is_some() {
            self.to_flush -= 1;
            self.woken = self.to_flush == 0;
        }
    }

    fn start_flush(&mut self) -> usize {
        let me = self.flushers.len();
        let before = self.flush.work_color();
        let Self { flush, pools, links, to_flush, .. } = self;
        let start = flush.start(me, &mut |flush, color| prep(pools, links, to_flush, flush, color));
        let overflowed = self.flush.work_color() == before;
        let covers = self.in_flight.clone();
        self.flushers.push(Flusher { overflowed, returned: false, covers });
        if start == Start::Done {
            self.return_flusher(me);
        }
        me
    }

    /// The woken first flusher runs.
    fn cascade(&mut self) {
        if !core::mem::take(&mut self.woken) {
            return;
        }
        let me = self.flush.first().expect("somebody was woken");
        assert!(self.flush.is_first(me) && !self.flush.is_first(me + 1));
        let mut done = Vec::from([me]);
        let Self { flush, pools, links, to_flush, .. } = self;
        flush.cascade(&mut |flush, color| prep(pools, links, to_flush, flush, color), |flusher| {
            done.push(flusher)
        });
        for flusher in done {
            self.return_flusher(flusher);
        }
    }

    fn return_flusher(&mut self, flusher: usize) {
        let Self { flushers, in_flight, .. } = self;
        let flusher = &mut flushers[flusher];
        assert!(!flusher.returned, "returned twice");
        flusher.returned = true;
        let early = flusher.covers.iter().find(|item| in_flight.contains(item));
        assert_eq!(early, None, "a flusher returned before an item queued before it was done");
    }

    /// No flusher waits for anything but items queued before it; those that found no colour may.
    fn check(&self) {
        if self.woken {
            return;
        }
        for (id, flusher) in self.flushers.iter().enumerate() {
            self.check_awaited(id, flusher);
            if flusher.overflowed {
                continue;
            }
            let done = !flusher.covers.iter().any(|item| self.in_flight.contains(item));
            assert_eq!(flusher.returned, done, "flusher {id}");
        }
    }

    /// What is said to be awaited: with a colour, what was queued before, and nothing newer.
    fn check_awaited(&self, id: usize, flusher: &Flusher) {
        let awaited = self.flush.awaited(id);
        for item in &self.in_flight {
            let is_older = flusher.covers.contains(item);
            let is_awaited = awaited.has(self.color_of(*item));
            let is_right = if flusher.returned {
                awaited == Colors::NONE
            } else if flusher.overflowed {
                is_awaited || !is_older
            } else {
                is_awaited == is_older
            };
            assert!(is_right, "flusher {id} waits for {awaited:?}, {flusher:?}");
        }
    }

    fn color_of(&self, item: ItemPtr) -> u8 {
        let runs = |pool: &Crowd| {
            let (id, _) = pool.busy.iter().copied().find(|(_, other)| *other == item)?;
            pool.f.look().color_of(id)
        };
        self.pools.iter().find_map(runs).unwrap_or_else(|| work(item).word().color())
    }

    fn all_returned(&self) -> bool {
        self.flushers.iter().all(|flusher| flusher.returned)
    }
}

fn prep(
    pools: &mut [Crowd],
    links: &[(usize, PwqId)],
    to_flush: &mut usize,
    flush: Option<u8>,
    color: Option<u8>,
) -> bool {
    let mut n = 0;
    for &(pool, pwq) in links {
        n += usize::from(pools[pool].f.flush_prep(pwq, flush, color));
    }
    if flush.is_some() {
        assert_eq!(*to_flush, 0, "two flushes count pwqs at once");
        *to_flush = n;
    }
    n > 0
}

#[test]
fn colours_are_a_ring_of_sixteen() {
    let ring = [0_u8, 1, 14, 15].map(next_color);
    assert_eq!(ring, [1, 2, 15, 0]);
    assert_eq!(WORK_NR_COLORS, 16);
}

#[test]
fn an_idle_queue_is_flushed_at_once() {
    let mut q = Queue::new();
    for _ in 0..40 {
        let flusher = q.start_flush();
        assert!(q.flushers[flusher].returned, "also when the colours go round");
    }
    assert_eq!(q.flush.first(), None);
}

#[test]
fn a_flush_waits_for_all_pwqs_and_for_nothing_newer() {
    let mut q = Queue::new();
    let old = [0, 1, 2].map(|link| q.queue(link));
    let flusher = q.start_flush();
    let new = [0, 1, 2].map(|link| q.queue(link));
    assert_eq!(q.flush.first(), Some(flusher));
    for item in old {
        q.cascade();
        assert!(!q.flushers[flusher].returned);
        q.finish(item);
    }
    q.cascade();
    assert!(q.flushers[flusher].returned);
    assert_eq!(q.flush.first(), None);
    assert_eq!(q.in_flight, new);
    q.check();
}

#[test]
fn an_item_that_queues_itself_for_ever_does_not_hold_up_a_flush() {
    let mut q = Queue::new();
    let mut running = q.queue(0);
    for _ in 0..50 {
        let flusher = q.start_flush();
        let next = q.queue(0);
        q.finish(running);
        q.cascade();
        assert!(q.flushers[flusher].returned);
        running = next;
    }
}

#[test]
fn flushers_of_an_earlier_colour_return_together() {
    let mut q = Queue::new();
    let first = q.queue(0);
    let a = q.start_flush();
    let (b, c) = (q.start_flush(), q.start_flush());
    let second = q.queue(1);
    let d = q.start_flush();
    q.finish(second);
    q.cascade();
    assert!(!q.flushers[d].returned, "what came before it is not done yet");
    q.finish(first);
    q.cascade();
    assert!(
        [a, b, c, d].iter().all(|&f| q.flushers[f].returned),
        "none had to be woken in between"
    );
}

#[test]
fn more_flushes_than_colours_wait_their_turn() {
    let mut q = Queue::new();
    let mut items = Vec::new();
    for n in 0..20 {
        items.push(q.queue(n % 2));
        q.start_flush();
    }
    let overflowed: Vec<bool> = q.flushers.iter().map(|f| f.overflowed).collect();
    assert_eq!(overflowed[..15], [false; 15], "fifteen can be outstanding");
    assert_eq!(overflowed[15..], [true; 5]);
    for (n, &item) in items.iter().enumerate() {
        assert!(!q.flushers[n].returned);
        q.finish(item);
        q.cascade();
        q.check();
        if n == 14 {
            assert_eq!(q.flush.first(), Some(15), "who overflowed first waits for the others");
        }
        // The five that overflowed share one colour, that of the last of their items.
        assert_eq!(q.flushers[n].returned, n < 15 || n == 19, "flusher {n}");
    }
    assert!(q.all_returned());
    let late = q.start_flush();
    assert!(q.flushers[late].returned, "and there are colours again");
}

#[test]
fn an_overflowed_flusher_waits_for_what_came_before_it_got_a_colour() {
    let mut q = Queue::new();
    let items: Vec<ItemPtr> = (0..15)
        .map(|_| {
            let item = q.queue(0);
            q.start_flush();
            item
        })
        .collect();
    let over = q.start_flush();
    assert!(q.flushers[over].overflowed);
    let between = q.queue(1);
    for item in items {
        q.finish(item);
        q.cascade();
    }
    assert!(!q.flushers[over].returned);
    q.finish(between);
    q.cascade();
    assert!(q.all_returned());
}

#[test]
fn a_pwq_that_is_added_later_takes_part() {
    let mut q = Queue::new();
    let first = q.queue(0);
    let a = q.start_flush();
    let mut config = pwq_config(1, 100);
    config.work_color = q.flush.work_color();
    let pwq = q.pools[0].f.add_pwq(config);
    q.links.push((0, pwq));
    let second = q.queue(3);
    let b = q.start_flush();
    q.finish(first);
    q.cascade();
    assert!(q.flushers[a].returned && !q.flushers[b].returned);
    q.finish(second);
    q.cascade();
    assert!(q.flushers[b].returned);
}

#[test]
fn a_pwq_reports_once_and_only_its_own_colour() {
    let mut q = Queue::new();
    let (pool, pwq) = q.links[0];
    let crowd = &mut q.pools[pool];
    let (one, two) = (crowd.queue(pwq), crowd.queue(pwq));
    assert!(!crowd.f.flush_prep(pwq, None, Some(1)), "a change of colour waits for nothing");
    let other = crowd.queue(pwq);
    assert!(!crowd.f.flush_prep(pwq, Some(5), None), "nothing of that colour is there");
    assert!(crowd.f.flush_prep(pwq, Some(0), None));
    crowd.finish(one, |effects| assert_eq!(effects.flush_done, None));
    crowd.finish(other, |effects| assert_eq!(effects.flush_done, None));
    crowd.finish(two, |effects| assert_eq!(effects.flush_done, Some(WqKey(1))));
    let again = crowd.queue(pwq);
    crowd.finish(again, |effects| assert_eq!(effects.flush_done, None));
    assert_eq!(crowd.f.kick(), Kick::None);
}

fn random_step(q: &mut Queue, rng: &mut Rng, busy_percent: usize) {
    match rng.below(10) {
        0..=2 => {
            q.start_flush();
        }
        3 => q.cascade(),
        4 => {
            let queued: Vec<ItemPtr> =
                q.in_flight.iter().copied().filter(|&item| work(item).is_pending()).collect();
            if let Some(item) = rng.pick(&queued) {
                q.cancel(item);
            }
        }
        _ if rng.percent(busy_percent) => {
            q.queue(rng.below(3));
        }
        _ => {
            if let Some(item) = rng.pick(&q.running()) {
                q.finish(item);
            }
        }
    }
}

#[test]
fn random_flushes_return_neither_early_nor_never() {
    let overflowed = Cell::new(0);
    with_seeds(40, |rng| {
        let mut q = Queue::new();
        // From mostly idle to so busy that colours run out.
        let busy_percent = 40 + rng.below(30);
        for _ in 0..steps(500, 80) {
            random_step(&mut q, rng, busy_percent);
            q.check();
        }
        q.cascade();
        while let Some(item) = q.running().first().copied() {
            q.finish(item);
            q.cascade();
            q.check();
        }
        assert!(q.in_flight.is_empty() && q.all_returned());
        assert_eq!((q.flush.first(), q.to_flush), (None, 0));
        overflowed.set(overflowed.get() + q.flushers.iter().filter(|f| f.overflowed).count());
    });
    assert!(cfg!(miri) || overflowed.get() >= 20, "colours ran out {overflowed:?} times only");
}
