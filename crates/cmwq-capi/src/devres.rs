//! Queues that go with a device, for programs that have no device resources of their own: what to
//! do at a device's end, by the device's address.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

use crate::face::say_null;
use crate::fork::Lock;
use crate::queueing::c_functions;

/// What to do at the end, with what.
type Action = unsafe extern "C-unwind" fn(*mut c_void);

pub(crate) struct Resource {
    action: Action,
    data: *mut c_void,
}

// SAFETY: C says that whoever releases a device may use what was given for it.
unsafe impl Send for Resource {}

pub(crate) static DEVICES: Lock<Devices> = Lock::new(BTreeMap::new());
pub(crate) type Devices = BTreeMap<usize, Vec<Resource>>;

c_functions! {
    /// Notes that `action(data)` is to be called at the device's end: 0; `-EINVAL` without a
    /// function, `-EAGAIN` in a handler of a fork. The device is an address, nothing more.
    fn cmwq_devm_add_action(dev: *mut c_void, action: Option<Action>, data: *mut c_void) -> c_int {
        let Some(action) = action else {
            say_null(HERE, "function");
            return -libc::EINVAL;
        };
        let Some(mut devices) = DEVICES.lock() else { return -libc::EAGAIN };
        devices.entry(dev.addr()).or_default().push(Resource { action, data });
        0
    }

    /// The device's end: does what was noted for it, last first, and returns how much that was.
    fn cmwq_devres_release_all(dev: *mut c_void) -> c_int {
        let mut nr_released = 0;
        loop {
            // One by one: an action may note more, and must not find the lock held.
            let Some(mut devices) = DEVICES.lock() else { return nr_released };
            let resource = devices.get_mut(&dev.addr()).and_then(Vec::pop);
            if resource.is_none() {
                devices.remove(&dev.addr());
            }
            drop(devices);
            let Some(Resource { action, data }) = resource else { return nr_released };
            // SAFETY: passed on to the caller: it is fit to be called until now.
            unsafe { action(data) };
            nr_released += 1;
        }
    }
}
