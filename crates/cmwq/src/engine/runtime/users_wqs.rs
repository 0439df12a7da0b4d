//! The program's queues, without the [reaper](crate::engine::queue::reaper), and which of them can
//! be found by name.

use super::Runtime;
use crate::engine::wq::Wq;
use crate::os::error::Error;
use crate::os::sync::{Arc, lock};

impl Runtime {
    /// Makes a queue's attributes writable under its name. KERNEL: `workqueue_sysfs_register` —
    /// same: a name can be registered once.
    ///
    /// # Errors
    /// If the name is registered.
    pub(crate) fn enter_sysfs(&self, wq: &Wq) -> Result<(), Error> {
        let registry = lock(&self.registry);
        let is_taken =
            registry.wqs.iter().flatten().any(|other| other.is_in_sysfs() && other.name == wq.name);
        if is_taken {
            return Err(Error::exists(format!(
                "workqueue '{}' cannot be registered: one of that name is, and attributes are \
                 found by name",
                wq.name
            )));
        }
        wq.set_in_sysfs();
        Ok(())
    }

    /// All queues except the reaper and those that are being destroyed.
    pub(crate) fn users_wqs(&self) -> Vec<Arc<Wq>> {
        self.users_wqs_that(|_| true)
    }

    /// The queues of this name.
    pub(crate) fn users_wqs_named(&self, name: &str) -> Vec<Arc<Wq>> {
        self.users_wqs_that(|wq| &*wq.name == name)
    }

    fn users_wqs_that(&self, is: impl Fn(&Wq) -> bool) -> Vec<Arc<Wq>> {
        let registry = lock(&self.registry);
        let is_reaper =
            |wq: &Arc<Wq>| registry.reaper.as_ref().is_some_and(|reaper| Arc::ptr_eq(reaper, wq));
        let users = registry.wqs.iter().flatten().filter(|wq| is(wq));
        users.filter(|wq| !is_reaper(wq) && !wq.is_going()).cloned().collect()
    }
}
