//! What waits where and may run, as the events tell: gathered once for all checkers that ask.
//!
//! All of it is kept up event by event, and nothing is ever walked that did not change: a run may
//! have a hundred thousand queues at thousands of pools. A group is *ready* while its limit leaves
//! room; a pool knows the ready groups with items at it, and nothing of the others.

use crate::event::{Event, GroupNo, PoolNo, Site, What};
use crate::grown::grown;
use crate::plan::Plan;

const NONE: u32 = u32::MAX;

/// Items of a group that wait at a pool.
#[derive(Clone, Copy, Debug)]
struct Waiters {
    pool: u32,
    nr: u32,
    /// Where the pool lists the group, if it does.
    slot: u32,
}

/// What shares a limit.
#[derive(Clone, Debug, Default)]
struct Group {
    limit: u32,
    running: u32,
    /// Queueings that wait for an earlier one of the same item; they may hold slots meanwhile.
    tied: u32,
    /// Workers that have not done yet what an item left to do. That may be a slot on its way to a
    /// pool which until then does not ask for others, or an older pwq to be removed.
    unlocked: u32,
    is_ready: bool,
    is_changed: bool,
    /// By pool; none twice, none empty.
    waiting: Vec<Waiters>,
}

impl Group {
    fn find(&self, pool: PoolNo) -> Option<usize> {
        self.waiting.iter().position(|waiters| waiters.pool as PoolNo == pool)
    }
}

/// An item's place, in 16 bytes: there is one for every item of the run.
#[derive(Clone, Copy, Debug)]
struct Item {
    queued: Option<Queued>,
    /// The group by which it runs.
    running: u32,
}

/// Where an item is queued, and whether that queueing waits for an earlier one that still runs.
#[derive(Clone, Copy, Debug)]
struct Queued {
    pool: u32,
    group: u32,
    is_tied: bool,
}

/// See the module header.
#[derive(Debug)]
pub(super) struct Waiting {
    items: Vec<Item>,
    groups: Vec<Group>,
    /// The ready groups with items at each pool.
    ready: Vec<Vec<GroupNo>>,
    /// Groups that changed at this moment; each once.
    changed: Vec<GroupNo>,
    /// Groups that the last event changed.
    latest: Vec<GroupNo>,
}

impl Waiting {
    pub(super) fn new(plan: &Plan) -> Self {
        let nowhere = Item { queued: None, running: NONE };
        Self {
            items: vec![nowhere; plan.items.len()],
            groups: Vec::new(),
            ready: Vec::new(),
            changed: Vec::new(),
            latest: Vec::new(),
        }
    }

    pub(super) fn observe(&mut self, event: &Event) {
        self.latest.clear();
        match event.what {
            What::LimitSet(group, limit) => self.change(group, |group| group.limit = limit),
            What::Queued(what, site) => {
                let is_tied = self.items[what.item].running != NONE;
                let (pool, group) = (site.pool as u32, site.group as u32);
                self.items[what.item].queued = Some(Queued { pool, group, is_tied });
                self.arrive(site, is_tied);
            }
            What::Cancelled(what) => self.leave(what.item),
            What::Started(what, site, _) => {
                self.leave(what.item);
                self.items[what.item].running = site.group as u32;
                self.change(site.group, |group| group.running += 1);
            }
            What::Finished(what, _) => self.finish(what.item),
            What::Unlocked(group) => self.change(group, |group| group.unlocked += 1),
            What::Relocked(group) => self.change(group, |group| group.unlocked -= 1),
            _ => {}
        }
    }

    fn finish(&mut self, item: usize) {
        let item = &mut self.items[item];
        let running = std::mem::replace(&mut item.running, NONE);
        // Whoever waited for this run waits like the others now.
        let freed = item.queued.as_mut().filter(|queued| queued.is_tied).map(|queued| {
            queued.is_tied = false;
            Site { pool: queued.pool as PoolNo, group: queued.group as GroupNo }
        });
        if running != NONE {
            self.change(running as GroupNo, |group| group.running -= 1);
        }
        if let Some(site) = freed {
            self.change(site.group, |group| group.tied -= 1);
            self.arrive(site, false);
        }
    }

    fn arrive(&mut self, site: Site, is_tied: bool) {
        if is_tied {
            return self.change(site.group, |group| group.tied += 1);
        }
        self.change(site.group, |_| ());
        let group = &mut self.groups[site.group];
        if let Some(at) = group.find(site.pool) {
            group.waiting[at].nr += 1;
            return;
        }
        group.waiting.push(Waiters { pool: site.pool as u32, nr: 1, slot: NONE });
        if group.is_ready {
            let at = group.waiting.len() - 1;
            self.list(site.group, at);
        }
    }

    fn leave(&mut self, item: usize) {
        let Some(queued) = self.items[item].queued.take() else { return };
        let (pool, group) = (queued.pool as PoolNo, queued.group as GroupNo);
        if queued.is_tied {
            return self.change(group, |group| group.tied -= 1);
        }
        self.change(group, |_| ());
        let Some(at) = self.groups[group].find(pool) else { return };
        self.groups[group].waiting[at].nr -= 1;
        if self.groups[group].waiting[at].nr == 0 {
            self.unlist(group, at);
            self.groups[group].waiting.swap_remove(at);
        }
    }

    /// Changes a group's counts, and with them whether it is ready.
    fn change(&mut self, number: GroupNo, change: impl FnOnce(&mut Group)) {
        self.latest.push(number);
        let group = grown(&mut self.groups, number);
        change(group);
        if !std::mem::replace(&mut group.is_changed, true) {
            self.changed.push(number);
        }
        // What is admitted but does not run yet is among those that wait.
        let is_ready = group.running + group.tied < group.limit && group.unlocked == 0;
        if std::mem::replace(&mut group.is_ready, is_ready) == is_ready {
            return;
        }
        for at in 0..group.waiting.len() {
            if is_ready {
                self.list(number, at);
            } else {
                self.unlist(number, at);
            }
        }
    }

    /// Its pool lists the group from now on.
    fn list(&mut self, number: GroupNo, at: usize) {
        let waiters = &mut self.groups[number].waiting[at];
        let ready = grown(&mut self.ready, waiters.pool as PoolNo);
        waiters.slot = ready.len() as u32;
        ready.push(number);
    }

    fn unlist(&mut self, number: GroupNo, at: usize) {
        let waiters = &mut self.groups[number].waiting[at];
        let (pool, slot) = (waiters.pool as PoolNo, std::mem::replace(&mut waiters.slot, NONE));
        if slot == NONE {
            return;
        }
        self.ready[pool].swap_remove(slot as usize);
        // The last one of the list has moved here.
        if let Some(&moved) = self.ready[pool].get(slot as usize)
            && let Some(at) = self.groups[moved].find(pool)
        {
            self.groups[moved].waiting[at].slot = slot;
        }
    }

    /// Pools with items of the group of which at least one may run now, if the limit leaves room.
    pub(super) fn pools(&self, group: GroupNo) -> impl Iterator<Item = PoolNo> {
        let group = &self.groups[group];
        let ready = group.waiting.iter().filter(|_| group.is_ready);
        ready.map(|waiters| waiters.pool as PoolNo)
    }

    /// Whether the limit leaves room for all items of the group.
    pub(super) fn has_room_for_all(&self, group: GroupNo) -> bool {
        let group = &self.groups[group];
        let waiting: u32 = group.waiting.iter().map(|waiters| waiters.nr).sum();
        group.is_ready && group.running + group.tied + waiting <= group.limit
    }

    /// Whether as many items of the group run as the limit allows, and others wait.
    pub(super) fn is_held_up(&self, group: GroupNo) -> bool {
        self.groups.get(group).is_some_and(|group| {
            let is_full = group.running >= group.limit && group.unlocked == 0;
            is_full && !group.waiting.is_empty()
        })
    }

    /// The groups that changed at this moment; each once.
    pub(super) fn changed(&self) -> &[GroupNo] {
        &self.changed
    }

    /// The groups that the last event changed, some of them more than once.
    pub(super) fn latest(&self) -> &[GroupNo] {
        &self.latest
    }

    /// The moment has ended.
    pub(super) fn moment_has_ended(&mut self) {
        for group in self.changed.drain(..) {
            self.groups[group].is_changed = false;
        }
    }

    /// The groups that would run something at `pool`.
    pub(super) fn ready_at(&self, pool: PoolNo) -> &[GroupNo] {
        self.ready.get(pool).map_or(&[], Vec::as_slice)
    }
}
