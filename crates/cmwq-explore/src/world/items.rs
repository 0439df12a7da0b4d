//! The work items of a world, in a row, so that an address is a number.

use std::ptr::NonNull;

use cmwq_core::WorkItem;

/// See the module header. Never freed: the arena is forgotten as a whole.
#[derive(Debug)]
pub(crate) struct Items {
    first: NonNull<WorkItem>,
    count: usize,
}

unsafe extern "C" fn item_fn(_: *mut WorkItem) {
    unreachable!("the search runs programs in place of functions");
}

impl Items {
    pub(super) fn new(count: usize) -> Self {
        let items: Box<[WorkItem]> = (0..count).map(|_| WorkItem::new(item_fn)).collect();
        Self { first: NonNull::from(Box::leak(items)).cast(), count }
    }

    pub(crate) fn get(&self, number: usize) -> &WorkItem {
        // SAFETY: valid as long as the world; only `renew` writes, which has no reference to it.
        unsafe { self.pointer(number).as_ref() }
    }

    pub(super) fn pointer(&self, number: usize) -> NonNull<WorkItem> {
        assert!(number < self.count, "there is no such item");
        // SAFETY: in bounds.
        unsafe { self.first.add(number) }
    }

    /// Makes an idle item of it, which was never queued.
    pub(super) fn renew(&mut self, number: usize) {
        // SAFETY: valid; it is on no list, because who waited with it has been told.
        unsafe { self.pointer(number).write(WorkItem::new(item_fn)) };
    }

    /// Where item `number` is.
    pub(crate) fn addr(&self, number: u8) -> usize {
        self.pointer(usize::from(number)).as_ptr() as usize
    }

    /// The number of the item at `addr`.
    pub(super) fn number(&self, addr: usize) -> usize {
        (addr - self.first.as_ptr() as usize) / size_of::<WorkItem>()
    }
}
