/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lists whose head is one pointer, as tables of hash chains have: a part of <linux/list.h>. */
#ifndef CMWQ_HLIST_H
#define CMWQ_HLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/container_of.h>

struct hlist_node {
	struct hlist_node *next;
	/* The pointer that leads here. */
	struct hlist_node **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

#define HLIST_HEAD_INIT { NULL }
#define HLIST_HEAD(name) struct hlist_head name = HLIST_HEAD_INIT
#define INIT_HLIST_HEAD(ptr) ((ptr)->first = NULL)

static inline void INIT_HLIST_NODE(struct hlist_node *node)
{
	node->next = NULL;
	node->pprev = NULL;
}

/* On no list. */
static inline bool hlist_unhashed(const struct hlist_node *node)
{
	return node->pprev == NULL;
}

static inline bool hlist_unhashed_lockless(const struct hlist_node *node)
{
	return __atomic_load_n(&node->pprev, __ATOMIC_RELAXED) == NULL;
}

static inline bool hlist_empty(const struct hlist_head *head)
{
	return __atomic_load_n(&head->first, __ATOMIC_RELAXED) == NULL;
}

/* Makes `at` lead to `node`, which may be null. */
static inline void cmwq_hlist_lead(struct hlist_node **at, struct hlist_node *node)
{
	__atomic_store_n(at, node, __ATOMIC_RELAXED);
	if (node != NULL)
		node->pprev = at;
}

static inline void hlist_add_head(struct hlist_node *node, struct hlist_head *head)
{
	cmwq_hlist_lead(&node->next, head->first);
	cmwq_hlist_lead(&head->first, node);
}

static inline void hlist_add_before(struct hlist_node *node, struct hlist_node *next)
{
	struct hlist_node **at = next->pprev;

	cmwq_hlist_lead(&node->next, next);
	cmwq_hlist_lead(at, node);
}

static inline void hlist_add_behind(struct hlist_node *node, struct hlist_node *prev)
{
	cmwq_hlist_lead(&node->next, prev->next);
	cmwq_hlist_lead(&prev->next, node);
}

/* Looks as if it were on a list, and can be taken off. */
static inline void hlist_add_fake(struct hlist_node *node)
{
	node->pprev = &node->next;
}

static inline bool hlist_fake(struct hlist_node *node)
{
	return node->pprev == &node->next;
}

static inline bool hlist_is_singular_node(struct hlist_node *node, struct hlist_head *head)
{
	return node->next == NULL && node->pprev == &head->first;
}

static inline void hlist_del(struct hlist_node *node)
{
	cmwq_hlist_lead(node->pprev, node->next);
	INIT_HLIST_NODE(node);
}

/* Nothing for a node that is on no list. */
static inline void hlist_del_init(struct hlist_node *node)
{
	if (!hlist_unhashed(node))
		hlist_del(node);
}

/* All of `old` goes to `to`, whose nodes are forgotten. */
static inline void hlist_move_list(struct hlist_head *old, struct hlist_head *to)
{
	cmwq_hlist_lead(&to->first, old->first);
	old->first = NULL;
}

static inline size_t hlist_count_nodes(struct hlist_head *head)
{
	const struct hlist_node *at;
	size_t count = 0;

	for (at = head->first; at != NULL; at = at->next)
		count++;
	return count;
}

#define hlist_entry(ptr, type, member) container_of(ptr, type, member)
#define hlist_entry_safe(ptr, type, member)                                             \
	__extension__({                                                                 \
		__typeof__(ptr) cmwq_at = (ptr);                                        \
		cmwq_at != NULL ? hlist_entry(cmwq_at, type, member) : (type *)NULL;    \
	})
#define CMWQ_HLIST_AFTER(pos, member) \
	hlist_entry_safe((pos)->member.next, __typeof__(*(pos)), member)

#define hlist_for_each(pos, head) for ((pos) = (head)->first; (pos) != NULL; (pos) = (pos)->next)
#define hlist_for_each_safe(pos, after, head)                                               \
	for ((pos) = (head)->first; (pos) != NULL && ((after) = (pos)->next, 1); (pos) = (after))
#define hlist_for_each_entry(pos, head, member)                                             \
	for ((pos) = hlist_entry_safe((head)->first, __typeof__(*(pos)), member);           \
	     (pos) != NULL; (pos) = CMWQ_HLIST_AFTER(pos, member))
#define hlist_for_each_entry_continue(pos, member)                                          \
	for ((pos) = CMWQ_HLIST_AFTER(pos, member); (pos) != NULL;                          \
	     (pos) = CMWQ_HLIST_AFTER(pos, member))
#define hlist_for_each_entry_from(pos, member) \
	for (; (pos) != NULL; (pos) = CMWQ_HLIST_AFTER(pos, member))
/* `after` is a node. */
#define hlist_for_each_entry_safe(pos, after, head, member)                                 \
	for ((pos) = hlist_entry_safe((head)->first, __typeof__(*(pos)), member);           \
	     (pos) != NULL && ((after) = (pos)->member.next, 1);                            \
	     (pos) = hlist_entry_safe((after), __typeof__(*(pos)), member))

#endif
