/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Doubly linked rings of nodes that are embedded in what they link. A node that was taken off with list_del() has null
 * pointers, and must not be taken off again.
 */
#ifndef CMWQ_LINUX_LIST_H
#define CMWQ_LINUX_LIST_H

#include <cmwq/shims.h>

#ifdef CMWQ_NO_LIST_SHIM
#if __has_include_next(<linux/list.h>)
/* -Wpedantic warns of what follows. */
#pragma GCC system_header
#include_next <linux/list.h>
#endif
#else

#include <stdbool.h>
#include <stddef.h>
#include <linux/container_of.h>

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD_INIT(name) { &(name), &(name) }
/* <sys/queue.h> has another of this name, which stays where it is included before. */
#ifndef LIST_HEAD
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)
#endif

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

/* ---- asking */

static inline bool list_empty(const struct list_head *head)
{
	return __atomic_load_n(&head->next, __ATOMIC_RELAXED) == head;
}

/* Also while another thread takes the last node off with list_del_init_careful(): then all that it did before is seen. */
static inline bool list_empty_careful(const struct list_head *head)
{
	const struct list_head *next = __atomic_load_n(&head->next, __ATOMIC_ACQUIRE);

	return next == head && __atomic_load_n(&head->prev, __ATOMIC_RELAXED) == head;
}

static inline bool list_is_head(const struct list_head *node, const struct list_head *head)
{
	return node == head;
}

static inline bool list_is_first(const struct list_head *node, const struct list_head *head)
{
	return head->next == node;
}

static inline bool list_is_last(const struct list_head *node, const struct list_head *head)
{
	return head->prev == node;
}

static inline bool list_is_singular(const struct list_head *head)
{
	return head->next != head && head->next == head->prev;
}

static inline size_t list_count_nodes(struct list_head *head)
{
	const struct list_head *at;
	size_t count = 0;

	for (at = head->next; at != head; at = at->next)
		count++;
	return count;
}

/* ---- putting on and taking off */

/* Makes two nodes neighbours. */
static inline void cmwq_list_join(struct list_head *before, struct list_head *after)
{
	after->prev = before;
	__atomic_store_n(&before->next, after, __ATOMIC_RELAXED);
}

/* Behind `head`: first, if that is the list's head. */
static inline void list_add(struct list_head *node, struct list_head *head)
{
	struct list_head *second = head->next;

	cmwq_list_join(node, second);
	cmwq_list_join(head, node);
}

/* Before `head`: last, if that is the list's head. */
static inline void list_add_tail(struct list_head *node, struct list_head *head)
{
	list_add(node, head->prev);
}

static inline void list_del(struct list_head *node)
{
	cmwq_list_join(node->prev, node->next);
	node->next = NULL;
	node->prev = NULL;
}

static inline void list_del_init(struct list_head *node)
{
	cmwq_list_join(node->prev, node->next);
	INIT_LIST_HEAD(node);
}

/* For who looks with list_empty_careful(), and without a lock. */
static inline void list_del_init_careful(struct list_head *node)
{
	cmwq_list_join(node->prev, node->next);
	__atomic_store_n(&node->prev, node, __ATOMIC_RELAXED);
	__atomic_store_n(&node->next, node, __ATOMIC_RELEASE);
}

/* Puts `node` where `old` is, whose pointers stay as they are. */
static inline void list_replace(struct list_head *old, struct list_head *node)
{
	cmwq_list_join(node, old->next);
	cmwq_list_join(old->prev, node);
}

/* An empty `old` leaves an empty list. */
static inline void list_replace_init(struct list_head *old, struct list_head *node)
{
	list_replace(old, node);
	INIT_LIST_HEAD(old);
}

static inline void list_move(struct list_head *node, struct list_head *head)
{
	cmwq_list_join(node->prev, node->next);
	list_add(node, head);
}

static inline void list_move_tail(struct list_head *node, struct list_head *head)
{
	cmwq_list_join(node->prev, node->next);
	list_add_tail(node, head);
}

/* Two nodes change places, on one list or on two. */
static inline void list_swap(struct list_head *one, struct list_head *other)
{
	struct list_head mark;

	list_add(&mark, one);
	list_move(one, other);
	list_move(other, &mark);
	list_del(&mark);
}

/* The first becomes the last. */
static inline void list_rotate_left(struct list_head *head)
{
	if (!list_empty(head))
		list_move_tail(head->next, head);
}

/* Turns the list until `node` is the first. */
static inline void list_rotate_to_front(struct list_head *node, struct list_head *head)
{
	list_move_tail(head, node);
}

/* ---- parts of lists */

/* All of `list` goes behind `at`; the pointers of `list` stay as they are. */
static inline void list_splice(const struct list_head *list, struct list_head *at)
{
	struct list_head *after = at->next;

	if (list_empty(list))
		return;
	cmwq_list_join(list->prev, after);
	cmwq_list_join(at, list->next);
}

static inline void list_splice_tail(struct list_head *list, struct list_head *head)
{
	list_splice(list, head->prev);
}

static inline void list_splice_init(struct list_head *list, struct list_head *at)
{
	list_splice(list, at);
	INIT_LIST_HEAD(list);
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	list_splice_tail(list, head);
	INIT_LIST_HEAD(list);
}

/* The nodes from the first to `last` become those of `part`, which need not be initialised; none, if `last` is `head`. */
static inline void list_cut_position(struct list_head *part, struct list_head *head, struct list_head *last)
{
	struct list_head *first = head->next, *rest = last->next;

	INIT_LIST_HEAD(part);
	if (last == head || list_empty(head))
		return;
	cmwq_list_join(head, rest);
	cmwq_list_join(part, first);
	cmwq_list_join(last, part);
}

/* The same, up to the one before `end`. */
static inline void list_cut_before(struct list_head *part, struct list_head *head, struct list_head *end)
{
	list_cut_position(part, head, end->prev);
}

/* ---- from nodes to what holds them */

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member) CMWQ_LIST_END(head, next, type, member)
#define list_last_entry_or_null(head, type, member) CMWQ_LIST_END(head, prev, type, member)
/* `head` and its pointer are read once: another thread may take the only node off meanwhile. */
#define CMWQ_LIST_END(head, pointer, type, member)                                            \
	__extension__({                                                                       \
		const struct list_head *cmwq_head = (head);                                   \
		struct list_head *cmwq_at = __atomic_load_n(&cmwq_head->pointer, __ATOMIC_RELAXED); \
                                                                                              \
		cmwq_at != cmwq_head ? list_entry(cmwq_at, type, member) : (type *)NULL;      \
	})
#define list_next_entry(pos, member) list_entry((pos)->member.next, __typeof__(*(pos)), member)
#define list_prev_entry(pos, member) list_entry((pos)->member.prev, __typeof__(*(pos)), member)
#define list_entry_is_head(pos, head, member) (&(pos)->member == (head))
#define list_next_entry_circular(pos, head, member)                                         \
	(list_is_last(&(pos)->member, head) ? list_first_entry(head, __typeof__(*(pos)), member) \
					    : list_next_entry(pos, member))
#define list_prev_entry_circular(pos, head, member)                                         \
	(list_is_first(&(pos)->member, head) ? list_last_entry(head, __typeof__(*(pos)), member) \
					     : list_prev_entry(pos, member))

/* ---- walks over nodes; the _safe ones may take off the node that they are at */

#define list_for_each(pos, head) for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
#define list_for_each_prev(pos, head) \
	for ((pos) = (head)->prev; (pos) != (head); (pos) = (pos)->prev)
#define list_for_each_continue(pos, head) \
	for ((pos) = (pos)->next; (pos) != (head); (pos) = (pos)->next)
#define list_for_each_safe(pos, after, head)                                    \
	for ((pos) = (head)->next, (after) = (pos)->next; (pos) != (head);      \
	     (pos) = (after), (after) = (pos)->next)
#define list_for_each_prev_safe(pos, after, head)                               \
	for ((pos) = (head)->prev, (after) = (pos)->prev; (pos) != (head);      \
	     (pos) = (after), (after) = (pos)->prev)

/* ---- walks over what holds the nodes */

/* On from `pos`, up to the head, by list_next_entry or list_prev_entry. */
#define CMWQ_LIST_WALK(pos, start, step, head, member) \
	for (start; !list_entry_is_head(pos, head, member); (pos) = step(pos, member))
/* The same, with the step made before the body, which may take `pos` off. */
#define CMWQ_LIST_WALK_SAFE(pos, after, start, step, head, member)                          \
	for (start, (after) = step(pos, member); !list_entry_is_head(pos, head, member);    \
	     (pos) = (after), (after) = step(after, member))

#define list_for_each_entry(pos, head, member)                                              \
	CMWQ_LIST_WALK(pos, (pos) = list_first_entry(head, __typeof__(*(pos)), member),     \
		       list_next_entry, head, member)
#define list_for_each_entry_reverse(pos, head, member)                                      \
	CMWQ_LIST_WALK(pos, (pos) = list_last_entry(head, __typeof__(*(pos)), member),      \
		       list_prev_entry, head, member)
#define list_for_each_entry_continue(pos, head, member) \
	CMWQ_LIST_WALK(pos, (pos) = list_next_entry(pos, member), list_next_entry, head, member)
#define list_for_each_entry_continue_reverse(pos, head, member) \
	CMWQ_LIST_WALK(pos, (pos) = list_prev_entry(pos, member), list_prev_entry, head, member)
#define list_for_each_entry_from(pos, head, member) \
	CMWQ_LIST_WALK(pos, (void)0, list_next_entry, head, member)
#define list_for_each_entry_from_reverse(pos, head, member) \
	CMWQ_LIST_WALK(pos, (void)0, list_prev_entry, head, member)
#define list_for_each_entry_safe(pos, after, head, member)                                  \
	CMWQ_LIST_WALK_SAFE(pos, after,                                                     \
			    (pos) = list_first_entry(head, __typeof__(*(pos)), member),     \
			    list_next_entry, head, member)
#define list_for_each_entry_safe_reverse(pos, after, head, member)                          \
	CMWQ_LIST_WALK_SAFE(pos, after,                                                     \
			    (pos) = list_last_entry(head, __typeof__(*(pos)), member),      \
			    list_prev_entry, head, member)
#define list_for_each_entry_safe_continue(pos, after, head, member)                         \
	CMWQ_LIST_WALK_SAFE(pos, after, (pos) = list_next_entry(pos, member),               \
			    list_next_entry, head, member)
#define list_for_each_entry_safe_from(pos, after, head, member) \
	CMWQ_LIST_WALK_SAFE(pos, after, (void)0, list_next_entry, head, member)

/* Where a later list_for_each_entry_continue() begins: at `pos`, or at the head. */
#define list_prepare_entry(pos, head, member) \
	((pos) ? (pos) : list_entry(head, __typeof__(*(pos)), member))
/* In a _safe walk whose lock was dropped: what follows `pos` now. */
#define list_safe_reset_next(pos, after, member) (after) = list_next_entry(pos, member)

#include <cmwq/hlist.h>

#endif
#endif
