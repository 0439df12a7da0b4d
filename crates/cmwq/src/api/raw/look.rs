//! What C programs ask of workers by the ids of their threads.

use crate::observe::show;
use crate::record::symbol;

/// `Workqueue: NAME FUNCTION (DESC)` for a worker that runs an item, whose thread is `tid`.
#[must_use]
pub fn worker_info(tid: i32) -> Option<String> {
    let info = show::worker_info(tid)?;
    let mut text = format!("Workqueue: {} {}", info.wq, symbol::short(info.func));
    if let Some(desc) = info.desc.filter(|desc| *desc != info.wq) {
        text.push_str(&format!(" ({desc})"));
    }
    Some(text)
}

/// The name of the worker whose thread is `tid`, in full: `kworker/0:1+queue`.
#[must_use]
pub fn worker_comm(tid: i32) -> Option<String> {
    show::worker_comm(tid)
}

/// The function that the worker whose thread is `tid` ran last.
#[must_use]
pub fn last_func(tid: i32) -> Option<usize> {
    show::last_func(tid)
}

/// The name of a function, or its address.
#[must_use]
pub fn function_name(func: usize) -> String {
    symbol::name_of(func)
}
