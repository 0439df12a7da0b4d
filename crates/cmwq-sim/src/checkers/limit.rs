//! `max_active`: of what shares a limit, no more items run at once.

use super::{Checker, World};
use crate::event::{Event, GroupNo, What};

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

/// A group, or none, in 4 bytes: there are two for every item of the run.
#[derive(Clone, Copy, Debug)]
struct Maybe(u32);

impl Maybe {
    const NONE: Self = Self(u32::MAX);

    const fn some(group: GroupNo) -> Self {
        Self(group as u32)
    }

    const fn take(&mut self) -> Option<GroupNo> {
        let group = std::mem::replace(self, Self::NONE).0;
        if group == u32::MAX { None } else { Some(group as GroupNo) }
    }
}

impl Limit {
    fn site(&mut self, item: usize) -> &mut (Maybe, Maybe) {
        if self.sites.len() <= item {
            self.sites.resize(item + 1, (Maybe::NONE, Maybe::NONE));
        }
        &mut self.sites[item]
    }

    fn group(&mut self, group: GroupNo) -> &mut Group {
        if self.groups.len() <= group {
            self.groups.resize(group + 1, Group::default());
        }
        &mut self.groups[group]
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
    fn name(&self) -> &'static str {
        "limit"
    }

    fn observe(&mut self, event: &Event, _world: &World<'_>) -> Result<(), String> {
        match event.what {
            What::LimitSet(group, limit) => {
                let group = self.group(group);
                group.limit = limit;
                group.admitted_under = group.admitted_under.max(limit);
                group.forget_old_limit();
            }
            What::Queued(what, site) => {
                self.site(what.item).0 = Maybe::some(site.group);
                self.group(site.group).queued += 1;
            }
            What::Cancelled(what) => {
                if let Some(group) = self.site(what.item).0.take() {
                    let group = self.group(group);
                    group.queued -= 1;
                    group.forget_old_limit();
                }
            }
            What::Started(what, site, _) => {
                let sites = self.site(what.item);
                let queued = sites.0.take();
                sites.1 = Maybe::some(site.group);
                if let Some(queued) = queued {
                    self.group(queued).queued -= 1;
                }
                let group = self.group(site.group);
                group.running += 1;
                if group.running > group.admitted_under {
                    return Err(format!(
                        "item {} of queue {} is number {} to run at once, the limit is {}",
                        what.item, what.queue, group.running, group.limit
                    ));
                }
            }
            What::Finished(what, _) => {
                if let Some(group) = self.site(what.item).1.take() {
                    let group = self.group(group);
                    group.running -= 1;
                    group.forget_old_limit();
                }
            }
            _ => {}
        }
        Ok(())
    }
}
