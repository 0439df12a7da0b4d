//! In whose functions a thread is.

use std::cell::RefCell;
use std::ptr;
use std::sync::Arc;

use crate::error::Error;
use crate::item::Item;
use crate::names::Address;
use crate::queue::SharedQueue;

thread_local! {
    /// The innermost last: a function may wait for an item of another machine, and run it itself.
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// One that has not returned.
struct Call {
    /// The machine's address, as long as the call lasts.
    machine: *const (),
    queue: SharedQueue,
    address: Address,
}

/// Calls a function of a machine, which must not panic, for an item.
pub(crate) fn call<M, T>(
    machine: &M,
    queue: &SharedQueue,
    item: &Item,
    function: impl FnOnce() -> T,
) -> T {
    let (queue, address) = (queue.clone(), item.address().clone());
    CALLS.with_borrow_mut(|calls| calls.push(Call { machine: of(machine), queue, address }));
    let result = function();
    let ended = CALLS.with_borrow_mut(Vec::pop);
    // Outside of the borrow: it may have the last handle of a connection, whose end is waited for.
    drop(ended);
    result
}

/// Whether the caller is one of this machine's functions.
pub(crate) fn is_inside<M>(machine: &M) -> bool {
    CALLS.with_borrow(|calls| calls.iter().any(|call| ptr::eq(call.machine, of(machine))))
}

fn of<M>(machine: &M) -> *const () {
    ptr::from_ref(machine).cast()
}

/// Refuses to wait for the caller's own item, one of `waited_for`, which is done only when the
/// function has returned. Of another connection it is not known whether its queue is the same one.
pub(crate) fn refuse_own(
    what: &str,
    queue: &SharedQueue,
    waited_for: impl Fn(&Address) -> bool,
) -> Result<(), Error> {
    let is_own = |call: &&Call| {
        Arc::ptr_eq(&call.queue.broker.inner, &queue.broker.inner)
            && call.queue.name() == queue.name()
            && waited_for(&call.address)
    };
    let own = CALLS
        .with_borrow(|calls| calls.iter().find(is_own).map(|call| call.address.function.clone()));
    own.map_or(Ok(()), |function| {
        Err(Error::invalid(format!(
            "could not {what}: function '{function}' waits for its own item, which is done only \
             when the function has returned; wait elsewhere, or for other items by their tickets"
        )))
    })
}
