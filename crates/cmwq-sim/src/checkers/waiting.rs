//! What waits where and may run, as the events tell: shared by the checkers `stall` and `help`.

use crate::event::{Event, GroupNo, PoolNo, Site, What};
use crate::plan::Plan;

/// What shares a limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    limit: u32,
    running: u32,
    /// Queueings that wait for an earlier one of the same item; they may hold slots meanwhile.
    tied: u32,
    /// How many items wait, by pool; none twice.
    waiting: Vec<(PoolNo, u32)>,
}

impl Group {
    /// Pools with items of which at least one may run now, if the limit leaves room: what is
    /// admitted but does not run yet is among those that wait.
    pub(super) fn pools(&self) -> impl Iterator<Item = PoolNo> {
        let may_run = self.running + self.tied < self.limit;
        let waiting = self.waiting.iter().filter(move |(_, n)| may_run && *n > 0);
        waiting.map(|(pool, _)| *pool)
    }

    fn change(&mut self, pool: PoolNo, change: i32) {
        let index =
            self.waiting.iter().position(|(other, _)| *other == pool).unwrap_or_else(|| {
                self.waiting.push((pool, 0));
                self.waiting.len() - 1
            });
        let count = &mut self.waiting[index].1;
        *count = count.wrapping_add_signed(change);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Item {
    /// Where it is queued, and whether that queueing waits for an earlier one that still runs.
    queued: Option<(Site, bool)>,
    running: Option<Site>,
}

/// See the module header.
#[derive(Debug)]
pub(super) struct Waiting {
    items: Vec<Item>,
    pub(super) groups: Vec<Group>,
    /// The groups of each pool.
    by_pool: Vec<Vec<GroupNo>>,
    /// Groups that changed since they were last asked for.
    changed: Vec<GroupNo>,
}

impl Waiting {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            items: vec![Item::default(); plan.items.len()],
            groups: Vec::new(),
            by_pool: Vec::new(),
            changed: Vec::new(),
        }
    }

    pub(super) fn observe(&mut self, event: &Event) {
        match event.what {
            What::LimitSet(group, limit) => self.group(group).limit = limit,
            What::Queued(what, site) => {
                let is_tied = self.items[what.item].running.is_some();
                self.items[what.item].queued = Some((site, is_tied));
                self.introduce(site);
                self.count(site, is_tied, 1);
            }
            What::Cancelled(what) => self.leave(what.item),
            What::Started(what, site, _) => {
                self.leave(what.item);
                self.items[what.item].running = Some(site);
                self.group(site.group).running += 1;
            }
            What::Finished(what, _) => {
                if let Some(site) = self.items[what.item].running.take() {
                    self.group(site.group).running -= 1;
                }
                // Whoever waited for this run waits like the others now.
                if let Some((site, is_tied @ true)) = &mut self.items[what.item].queued {
                    *is_tied = false;
                    let site = *site;
                    self.count(site, true, -1);
                    self.count(site, false, 1);
                }
            }
            _ => {}
        }
    }

    fn leave(&mut self, item: usize) {
        if let Some((site, is_tied)) = self.items[item].queued.take() {
            self.count(site, is_tied, -1);
        }
    }

    fn count(&mut self, site: Site, is_tied: bool, change: i32) {
        let group = self.group(site.group);
        if is_tied {
            group.tied = group.tied.wrapping_add_signed(change);
        } else {
            group.change(site.pool, change);
        }
    }

    fn group(&mut self, group: GroupNo) -> &mut Group {
        if self.groups.len() <= group {
            self.groups.resize(group + 1, Group::default());
        }
        if self.changed.last() != Some(&group) {
            self.changed.push(group);
        }
        &mut self.groups[group]
    }

    fn introduce(&mut self, site: Site) {
        if self.by_pool.len() <= site.pool {
            self.by_pool.resize(site.pool + 1, Vec::new());
        }
        let groups = &mut self.by_pool[site.pool];
        if !groups.contains(&site.group) {
            groups.push(site.group);
        }
    }

    /// The groups that changed, or that lead to one of these pools; each once.
    pub(super) fn take_changed(&mut self, touched: &[PoolNo]) -> Vec<GroupNo> {
        let mut changed = std::mem::take(&mut self.changed);
        for &pool in touched {
            changed.extend(self.by_pool.get(pool).into_iter().flatten());
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }
}
