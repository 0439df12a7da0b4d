//! The intrusive list against `VecDeque`.

use core::ptr::NonNull;
use std::boxed::Box;
use std::collections::VecDeque;
use std::format;
use std::vec::Vec;

use super::support::{Rng, steps, with_seeds};
use crate::list::{List, ListHead, Node, insert_after, is_linked, unlink};

fn new_node() -> Node {
    NonNull::from(Box::leak(Box::new(ListHead::unlinked())))
}

/// # Safety
/// `node` must come from [`new_node`] and be on no list.
unsafe fn free_node(node: Node) {
    // SAFETY: made by `Box`.
    drop(unsafe { Box::from_raw(node.as_ptr()) });
}

fn contents(list: &List) -> Vec<Node> {
    core::iter::successors(list.first(), |&node| list.after(node)).collect()
}

/// Two lists, so that nodes also move from one to the other.
struct Lists {
    real: [List; 2],
    model: [VecDeque<Node>; 2],
    free: Vec<Node>,
}

impl Lists {
    fn step(&mut self, rng: &mut Rng) {
        let which = rng.below(2);
        let at = rng.below(self.model[which].len().max(1));
        match (rng.below(5), self.free.pop(), self.model[which].get(at).copied()) {
            (0, Some(node), _) => {
                // SAFETY: unlinked, and freed only after it was unlinked again.
                unsafe { self.real[which].push_back(node) };
                self.model[which].push_back(node);
            }
            (1, Some(node), _) => {
                // SAFETY: as above.
                unsafe { self.real[which].push_front(node) };
                self.model[which].push_front(node);
            }
            (2, Some(node), Some(place)) => {
                // SAFETY: as above; `place` is linked.
                unsafe { insert_after(node, place) };
                self.model[which].insert(at + 1, node);
            }
            (_, free, Some(place)) => {
                self.free.extend(free);
                // SAFETY: linked.
                unsafe { unlink(place) };
                self.model[which].remove(at);
                self.free.push(place);
            }
            (_, free, None) => self.free.extend(free),
        }
    }

    fn check(&self) {
        for (real, model) in self.real.iter().zip(&self.model) {
            assert_eq!(real.assert_valid(), model.len());
            assert_eq!(contents(real), Vec::from_iter(model.iter().copied()));
            assert_eq!(real.is_empty(), model.is_empty());
            assert_eq!(real.first(), model.front().copied());
            // SAFETY: valid nodes of this test.
            assert!(model.iter().all(|&node| unsafe { is_linked(node) }));
        }
        // SAFETY: as above.
        assert!(self.free.iter().all(|&node| unsafe { !is_linked(node) }));
    }
}

#[test]
fn behaves_like_a_deque() {
    with_seeds(20, |rng| {
        let mut lists = Lists {
            real: [List::new(), List::default()],
            model: Default::default(),
            free: (0..8).map(|_| new_node()).collect(),
        };
        for _ in 0..steps(500, 60) {
            lists.step(rng);
            lists.check();
        }
        let Lists { real, model, free } = lists;
        for &node in model.iter().flatten() {
            // SAFETY: linked.
            unsafe { unlink(node) };
        }
        drop(real);
        for node in model.into_iter().flatten().chain(free) {
            // SAFETY: unlinked above.
            unsafe { free_node(node) };
        }
    });
}

#[test]
fn a_list_may_move_while_nodes_hang_on_it() {
    let node = new_node();
    let mut list = List::new();
    // SAFETY: freed after it was unlinked.
    unsafe { list.push_back(node) };
    let moved = Box::new(list);
    assert_eq!((moved.first(), moved.assert_valid()), (Some(node), 1));
    assert_eq!(format!("{moved:?}"), "List(1 nodes)");
    // SAFETY: linked; then unlinked and no longer referred to.
    unsafe {
        unlink(node);
        free_node(node);
    }
    assert!(moved.is_empty());
}

#[test]
fn a_node_that_points_at_itself_is_unlinked() {
    // That is how the kernel's initialisers leave it. The ring of an empty list is such a node.
    let node = new_node();
    // SAFETY: valid.
    unsafe {
        assert!(!is_linked(node));
        insert_into_own_ring(node);
        assert!(!is_linked(node));
        free_node(node);
    }
}

/// # Safety
/// `node` must be valid and unlinked.
unsafe fn insert_into_own_ring(node: Node) {
    // `struct list_head` is two pointers, the same from C.
    let links = node.cast::<[Node; 2]>();
    // SAFETY: same size and alignment, asserted here.
    unsafe {
        assert_eq!(size_of::<ListHead>(), size_of::<[Node; 2]>());
        links.write([node, node]);
    }
}

#[test]
fn assert_valid_notices_a_broken_ring() {
    let nodes = [(); 2].map(|()| new_node());
    let mut list = List::new();
    // SAFETY: freed after they were unlinked.
    unsafe {
        list.push_back(nodes[0]);
        list.push_back(nodes[1]);
    }
    // SAFETY: `struct list_head` is two pointers.
    let links = unsafe { nodes[1].cast::<[Node; 2]>().read() };
    // SAFETY: broken on purpose, and mended below.
    unsafe { nodes[1].cast::<[Node; 2]>().write([nodes[1]; 2]) };
    let found = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| list.assert_valid()));
    // SAFETY: as it was; then unlinked and no longer referred to.
    unsafe {
        nodes[1].cast::<[Node; 2]>().write(links);
        for node in nodes {
            unlink(node);
            free_node(node);
        }
    }
    let panic = found.expect_err("the ring is broken");
    let message = panic.downcast_ref::<std::string::String>().expect("a formatted message");
    assert_eq!(message, "broken list after 1 nodes");
}
