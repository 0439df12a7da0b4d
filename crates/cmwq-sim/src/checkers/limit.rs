//! `max_active`: of what shares a limit, no more items run at once.

use super::{Checker, World};
use crate::event::{Event, GroupNo, What};
use crate::grown::grown;

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    limit: u32,
    /// The limit under which what is queued or runs may have been admitted: lowering a limit
    /// recalls nobody.
    admitted_under: u32,
    queued: u32,
    running: u32,
}

#[derive(Debug, Default)]
pub(super) struct Limit {
    groups: Vec<Group>,
    /// By which group each item is queued and by which it runs.
    sites: Vec<(Maybe, Maybe)>,
}

/// A group, or none, in 4 bytes: there are two for every item of the run. One more than its number;
/// 0: none.
#[derive(Clone, Copy, Debug, Default)]
struct Maybe(u32);

impl Maybe {
    const fn some(group: GroupNo) -> Self {
        Self(group as u32 + 1)
    }

    const fn take(&mut self) -> Option<GroupNo> {
        (std::mem::replace(self, Self(0)).0 as GroupNo).checked_sub(1)
    }
}

impl Group {
    fn forget_old_limit(&mut self) {
        if self.queued + self.running <= self.limit {
            self.admitted_under = self.limit;
        }
    }
}

impl Checker for Limit {
    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::LimitSet(group, limit) => {
                let group = grown(&mut self.groups, group);
                group.limit = limit;
                group.admitted_under = group.admitted_under.max(limit);
                group.forget_old_limit();
            }
            What::Queued(what, site) => {
                grown(&mut self.sites, what.item).0 = Maybe::some(site.group);
                grown(&mut self.groups, site.group).queued += 1;
            }
            What::Cancelled(what) => {
                if let Some(group) = grown(&mut self.sites, what.item).0.take() {
                    let group = grown(&mut self.groups, group);
                    group.queued -= 1;
                    group.forget_old_limit();
                }
            }
            What::Started(what, site, _) => {
                let sites = grown(&mut self.sites, what.item);
                let queued = sites.0.take();
                sites.1 = Maybe::some(site.group);
                if let Some(queued) = queued {
                    grown(&mut self.groups, queued).queued -= 1;
                }
                let group = grown(&mut self.groups, site.group);
                group.running += 1;
                if group.running > group.admitted_under {
                    return Err(format!(
                        "item {} of queue {} is number {} to run at once, the limit is {}",
                        what.item, what.queue, group.running, group.limit
                    ));
                }
            }
            What::Finished(what, _) => {
                if let Some(group) = grown(&mut self.sites, what.item).1.take() {
                    let group = grown(&mut self.groups, group);
                    group.running -= 1;
                    group.forget_old_limit();
                }
            }
            _ => {}
        }
        Ok(())
    }
}
