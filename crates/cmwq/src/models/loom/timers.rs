//! The reference that all armed timers of a queue share is there as long as one of them is.

use std::ptr::NonNull;
use std::time::Duration;

use cmwq_core::{Closed, WorkItem};
use loom::thread;

use super::check;
use crate::engine::item::delayed::DelayedItem;
use crate::engine::process::on_one_cpu;
use crate::engine::queue::handle::Handle;
use crate::engine::wq::{Kind, Queueing, Spec, Wq};
use crate::os::sync::Arc;

const LATER: Duration = Duration::from_millis(1);

unsafe extern "C" fn never(_: *mut WorkItem) {
    unreachable!("no timer of these models comes");
}

fn refused(_: NonNull<DelayedItem>, _: Closed) {}

/// An item whose timer is to be armed.
fn item() -> &'static DelayedItem {
    Box::leak(Box::new(DelayedItem::new(never, refused)))
}

fn arm(item: &'static DelayedItem, wq: &Handle) {
    // SAFETY: it lives for ever.
    let queued = unsafe { DelayedItem::queue(NonNull::from(item), wq, None, LATER) };
    assert_eq!(queued, Queueing::Queued);
}

/// A timer of a queue has come, and the service counts it off, while another one is armed and
/// cancelled again: what is left then is the references of the handles.
#[test]
fn the_shared_reference_is_given_back_once() {
    check(|| {
        let runtime = on_one_cpu();
        let wq: Arc<Wq> =
            runtime.new_wq("model", Spec::of(Kind::Percpu)).expect("it is not shut down");
        let handle = Handle::new(Arc::clone(&wq), None);
        let (first, second) = (item(), item());
        arm(first, &handle);
        let came = handle.for_timer();
        let service = thread::spawn(move || {
            // SAFETY: the first timer is counted; it is never looked at again.
            drop(unsafe { runtime.service.forget_timers(came, 1) });
        });
        arm(second, &handle);
        assert!(second.cancel_timer(runtime));
        service.join().unwrap();
        assert_eq!((handle.nr_timers(), handle.nr_references()), (0, 1));
        // Nothing is left that could be taken down by a runtime without threads.
        std::mem::forget(handle);
    });
}
