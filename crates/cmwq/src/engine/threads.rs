//! The threads, and how they run an item; what a thread is just now, and whether it is blocked.

pub(crate) mod bh_thread;
pub(crate) mod creator;
pub(crate) mod current;
pub(crate) mod detection;
pub(crate) mod invoke;
pub(crate) mod rescuer;
pub(crate) mod running;
pub(crate) mod service_thread;
pub(crate) mod thread_hooks;
pub(crate) mod worker;
