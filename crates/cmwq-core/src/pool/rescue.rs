//! Forward progress when no worker can be had: maydays, and the visits of rescuers.
//!
//! A queue that must make progress whatever happens (`WQ_MEM_RECLAIM`) has a thread of its own, its
//! *rescuer*, made when the queue was. While a pool has work that no worker will come for, the
//! driver asks at intervals for which pwqs to call the rescuer ([`PoolState::mayday`]). The rescuer
//! then visits the pool on behalf of one pwq and runs its items, one at a time, as a guest: it is
//! not counted, so no worker of the pool is kept from starting.
//!
//! Named invariants, checked by [`PoolState::check`]:
//!
//! - *(cursor)* between two items of a visit a dummy item on the worklist, the cursor, marks the
//!   rescuer's position. A cursor is never inside a chain (an item and the barriers linked to it)
//!   and never first: a rescuer without a cursor begins at the first item anyway. So a worker that
//!   takes the first item never meets a cursor, and no worklist has only cursors.
//! - *(called)* `RescueState::is_called` is true from the call until the visit begins; meanwhile
//!   the rescuer is not called again for that pwq.
//!
//! KERNEL: `pool_mayday_timeout`, `send_mayday`, `rescuer_thread` — same, except for the place of
//! the cursor; there workers unlink it when they meet it.
//!
//! Why: docs/decisions/rescuer-is-a-guest.md

use alloc::boxed::Box;
use core::ptr::NonNull;

use super::{Kick, PoolState, Rule};
use crate::consts::{MAYDAY_INITIAL_TIMEOUT_NS, MAYDAY_INTERVAL_NS, RESCUER_BATCH};
use crate::ids::{Nanos, PwqId, PwqRef, WorkerId, WqKey};
use crate::list::{self, Node};
use crate::word::WorkWord;
use crate::work::WorkItem;
use crate::worker::Claim;

/// A rescuer's stay in a pool, on behalf of one pwq.
#[must_use = "a visit ends with `rescue_end`"]
#[derive(Debug)]
pub struct RescueVisit {
    id: WorkerId,
    pwq: PwqId,
    nr_rescued: u32,
    is_called_again: bool,
}

impl RescueVisit {
    /// The rescuer's record in the pool, for [`PoolState::finish`] and reports of blocking.
    #[must_use]
    pub const fn worker(&self) -> WorkerId {
        self.id
    }

    /// The pwq that is visited.
    #[must_use]
    pub const fn pwq(&self) -> PwqId {
        self.pwq
    }
}

/// What a visiting rescuer must do now.
#[must_use]
#[derive(Debug)]
pub enum Rescue {
    /// Call the claimed item's function, then [`finish`](PoolState::finish), then ask again.
    Run(Claim),
    /// Other pwqs wait for the rescuer and this pwq has had its share: end the visit and come back
    /// after the others.
    CallAgain,
    /// Nothing left to do here: end the visit.
    Leave,
}

/// What a pwq has for its queue's rescuer.
#[derive(Debug)]
pub(crate) struct RescueState {
    cursor: Cursor,
    is_called: bool,
    /// Keeps the pwq in being.
    is_visited: bool,
}

/// The dummy item that marks a rescuer's place on the worklist. On the heap, because the table of
/// pwqs moves when it grows.
#[derive(Debug)]
struct Cursor(NonNull<WorkItem>);

// SAFETY: the dummy is owned, and list invariant (locked) governs every access to its link.
unsafe impl Send for Cursor {}
// SAFETY: as above.
unsafe impl Sync for Cursor {}

unsafe extern "C" fn never(_: *mut WorkItem) {
    unreachable!("a rescuer's cursor was run");
}

impl Cursor {
    fn new(at: PwqRef) -> Self {
        let item = WorkItem::new(never);
        let _ = item.claim();
        // As a barrier's: it holds no slot of `max_active`.
        item.set_queued(WorkWord::queued(at, 0, true));
        Self(NonNull::from(Box::leak(Box::new(item))))
    }

    fn node(&self) -> Node {
        WorkItem::node(self.0)
    }

    /// Caller holds the pool's lock.
    fn is_linked(&self) -> bool {
        // SAFETY: owned, hence valid; (locked) by the caller.
        unsafe { list::is_linked(self.node()) }
    }
}

impl RescueState {
    pub(crate) const fn is_visited(&self) -> bool {
        self.is_visited
    }

    /// The rescuer was called, or is here.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.is_called || self.is_visited
    }

    /// Whether `node` is the cursor of this pwq.
    pub(crate) fn is_mark(&self, node: Node) -> bool {
        self.cursor.node() == node
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        debug_assert!(!self.is_linked(), "a cursor was dropped on a list");
        // SAFETY: allocated by `Box` in `new`, freed once, on no list.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// When to look whether a pool's rescuers have to be called: 10 ms after the pool was first found
/// to need one, then every 100 ms while it does.
///
/// KERNEL: `pool->mayday_timer` — same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaydayTimer {
    at: Option<Nanos>,
}

impl MaydayTimer {
    /// The pool [needs a rescuer](PoolState::needs_rescuer), and no worker was kicked. Returns when
    /// to look, in nanoseconds; `None`: a look is due already.
    #[inline]
    pub fn arm(&mut self, now: impl FnOnce() -> Nanos) -> Option<Nanos> {
        if self.at.is_some() {
            return None;
        }
        self.at = Some(now() + MAYDAY_INITIAL_TIMEOUT_NS);
        self.at
    }

    /// When the next look is due; `None`: none is.
    #[must_use]
    pub const fn due_at(&self) -> Option<Nanos> {
        self.at
    }

    /// A look was made at `now`; `is_needed`: what [`PoolState::mayday`] answered. Returns when the
    /// next one is due.
    pub fn after(&mut self, is_needed: bool, now: Nanos) -> Option<Nanos> {
        self.at = is_needed.then_some(now + MAYDAY_INTERVAL_NS);
        self.at
    }
}

impl PoolState {
    /// Whether work waits that no worker of this pool will come for, and some queue here has a
    /// rescuer.
    #[inline]
    #[must_use]
    pub fn needs_rescuer(&self) -> bool {
        self.nr_rescuers != 0 && self.need_to_create_worker()
    }

    /// Calls rescuers: `call` gets each pwq with waiting items whose queue has one, unless it has
    /// been called already. To be asked when the pool has needed a rescuer for a while, and then at
    /// intervals. `false`: the pool needs none (any more).
    ///
    /// KERNEL: `pool_mayday_timeout`, `send_mayday` — same.
    pub fn mayday(&mut self, mut call: impl FnMut(PwqRef, WqKey)) -> bool {
        if !self.needs_rescuer() {
            return false;
        }
        let mut at = self.worklist.first();
        while let Some(node) = at {
            at = self.worklist.after(node);
            let pwq = self.pwq_of(node);
            if self.cursor_of(node).is_none() && self.set_called(pwq) {
                call(self.pwq_ref(pwq), self.pwq(pwq).wq);
            }
        }
        true
    }

    /// Records that the rescuer is called for `pwq`. `false`: the pwq has none, or it has been
    /// called.
    fn set_called(&mut self, pwq: PwqId) -> bool {
        let is_once = self.keeps(Rule::CalledOnce);
        let p = self.pwq(pwq);
        let Some(rescue) = p.rescue.as_mut().filter(|rescue| !(rescue.is_called && is_once)) else {
            return false;
        };
        rescue.is_called = true;
        p.rare_stats().mayday += 1;
        self.touch(pwq);
        true
    }

    // ---- a visit

    /// The rescuer of `wq` answers a call for `pwq`. `None`: that pwq is gone.
    pub fn rescue_begin(&mut self, pwq: PwqId, wq: WqKey) -> Option<RescueVisit> {
        let p = self.pwqs.get_mut(pwq.0).filter(|p| p.wq == wq)?;
        let rescue = p.rescue.as_mut()?;
        debug_assert!(!rescue.is_visited, "a queue has one rescuer");
        (rescue.is_called, rescue.is_visited) = (false, true);
        let id = self.guest_enter();
        Some(RescueVisit { id, pwq, nr_rescued: 0, is_called_again: false })
    }

    /// What the visiting rescuer must do now. `others_wait`: it has been called for other pwqs of
    /// its queue, too.
    ///
    /// KERNEL: `assign_rescuer_work` and the batch in `rescuer_thread` — differs: a pwq of which
    /// only barriers are left (their target was cancelled) is served, too; the kernel looks at
    /// `nr_active`.
    pub fn rescue_next(&mut self, visit: &mut RescueVisit, others_wait: bool) -> Rescue {
        if let Some(node) = self.worker(visit.id).scheduled.pop_front() {
            return Rescue::Run(self.start(visit.id, node));
        }
        // It looks for items on the worklist.
        self.catch_up();
        if self.pwq(visit.pwq).is_idle() {
            return Rescue::Leave;
        }
        let is_needed = self.need_to_create_worker();
        if is_needed && others_wait && visit.nr_rescued > RESCUER_BATCH {
            let _ = self.set_called(visit.pwq);
            visit.is_called_again = true;
            return Rescue::CallAgain;
        }
        if !is_needed && (others_wait || !self.is_short_of_workers()) {
            return Rescue::Leave;
        }
        match self.rescue_pick(visit) {
            Some(node) => Rescue::Run(self.start(visit.id, node)),
            None => Rescue::Leave,
        }
    }

    /// The rescuer goes. KERNEL: the end of `rescuer_thread`'s visit — same.
    pub fn rescue_end(&mut self, visit: RescueVisit) -> Kick {
        if !visit.is_called_again {
            self.unlink_cursor(visit.pwq);
        }
        if let Some(rescue) = self.pwq(visit.pwq).rescue.as_mut() {
            rescue.is_visited = false;
        }
        self.guest_leave(visit.id)
    }

    /// A worker is being created, or could not be and nobody stands by. The kernel's manager keeps
    /// its role between two attempts; ours does not, and works meanwhile.
    fn is_short_of_workers(&self) -> bool {
        self.manager.is_some() || (self.no_create_before != 0 && self.nr_idle == 0)
    }

    /// The rescuer takes the next item of the pwq, with the barriers linked to it.
    fn rescue_pick(&mut self, visit: &mut RescueVisit) -> Option<Node> {
        loop {
            let node = self.rescue_find(visit.pwq)?;
            self.put_cursor_behind(visit.pwq, node);
            if self.assign(node, visit.id) {
                visit.nr_rescued += 1;
                self.pwq(visit.pwq).rare_stats().rescued += 1;
                self.touch(visit.pwq);
                return Some(node);
            }
        }
    }

    /// The first item of `pwq` behind its cursor, or, without a cursor, on the worklist.
    fn rescue_find(&self, pwq: PwqId) -> Option<Node> {
        let cursor = self.cursor(pwq).filter(|cursor| cursor.is_linked());
        let mut at = match cursor {
            Some(cursor) => self.worklist.after(cursor.node()),
            None => self.worklist.first(),
        };
        while let Some(node) = at {
            if self.pwq_of(node) == pwq {
                return Some(node);
            }
            at = self.worklist.after(node);
        }
        None
    }

    // ---- cursors

    fn put_cursor_behind(&mut self, pwq: PwqId, first: Node) {
        self.unlink_cursor(pwq);
        let mut last = first;
        while self.is_glued_to_next(last) {
            last = self.worklist.after(last).expect("a glued item has a successor");
        }
        if let Some(cursor) = self.cursor(pwq) {
            // SAFETY: `last` is linked on the worklist; the cursor is not, and lives until it is
            // unlinked by `unlink_cursor`, which `remove_rescuer` calls.
            unsafe { list::insert_after(cursor.node(), last) };
            self.nr_cursors += 1;
        }
    }

    fn unlink_cursor(&mut self, pwq: PwqId) {
        if let Some(cursor) = self.cursor(pwq).filter(|cursor| cursor.is_linked()) {
            // SAFETY: linked on the worklist, (locked) by `&mut self`.
            unsafe { list::unlink(cursor.node()) };
            self.nr_cursors -= 1;
        }
    }

    /// Keeps *(cursor)* after an item was taken off the worklist.
    #[inline]
    pub(crate) fn fix_cursors(&mut self) {
        if self.nr_cursors != 0 && self.keeps(Rule::CursorsAreNeverFirst) {
            self.drop_leading_cursors();
        }
    }

    #[cold]
    fn drop_leading_cursors(&mut self) {
        while let Some(pwq) = self.worklist.first().and_then(|first| self.cursor_of(first)) {
            self.unlink_cursor(pwq);
        }
    }

    fn cursor(&self, pwq: PwqId) -> Option<&Cursor> {
        Some(&self.pwqs.get(pwq.0)?.rescue.as_ref()?.cursor)
    }

    /// The pwq whose cursor `node` is, if it is a cursor.
    fn cursor_of(&self, node: Node) -> Option<PwqId> {
        let pwq = self.pwq_of(node);
        self.cursor(pwq).is_some_and(|cursor| cursor.node() == node).then_some(pwq)
    }

    /// The pwq of an item on the worklist.
    fn pwq_of(&self, node: Node) -> PwqId {
        // SAFETY: `node` is linked on the worklist, hence (alive) and (locked).
        let word = unsafe { WorkItem::of_node(node).as_ref() }.word();
        word.pwq().expect("a listed item is not queued").pwq
    }

    fn is_glued_to_next(&self, node: Node) -> bool {
        // SAFETY: as in `pwq_of`.
        unsafe { WorkItem::of_node(node).as_ref() }.word().is_linked()
    }

    // ---- a pwq comes and goes

    pub(super) fn add_rescuer(&mut self, pwq: PwqId) {
        let cursor = Cursor::new(self.pwq_ref(pwq));
        self.pwq(pwq).rescue = Some(RescueState { cursor, is_called: false, is_visited: false });
        self.nr_rescuers += 1;
    }

    /// Also where the rescuer was called again and has not come.
    pub(super) fn remove_rescuer(&mut self, pwq: PwqId) {
        self.unlink_cursor(pwq);
        if self.pwq(pwq).rescue.take().is_some() {
            self.nr_rescuers -= 1;
        }
    }

    pub(super) fn check_cursors(&self) {
        let rescues = || self.pwqs.iter().filter_map(|(_, pwq)| pwq.rescue.as_ref());
        assert_eq!(rescues().count() as u32, self.nr_rescuers, "nr_rescuers");
        let linked = rescues().filter(|rescue| rescue.cursor.is_linked()).count();
        assert_eq!(linked as u32, self.nr_cursors, "nr_cursors");
        let (mut at, mut is_free, mut found) = (self.worklist.first(), false, 0);
        while let Some(node) = at.filter(|_| linked > 0) {
            if self.cursor_of(node).is_some() {
                assert!(is_free, "(cursor): first, or inside a chain");
                found += 1;
            } else {
                is_free = !self.is_glued_to_next(node);
            }
            at = self.worklist.after(node);
        }
        assert_eq!(found, linked, "(cursor): not on the worklist");
    }
}
