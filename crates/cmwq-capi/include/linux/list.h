/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A doubly linked ring of nodes that are embedded in what they link. */
#ifndef CMWQ_LINUX_LIST_H
#define CMWQ_LINUX_LIST_H

#include <stdbool.h>
#include <linux/container_of.h>

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD_INIT(name) { &(name), &(name) }
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline void list_add_tail(struct list_head *node, struct list_head *head)
{
	struct list_head *last = head->prev;

	node->next = head;
	node->prev = last;
	last->next = node;
	head->prev = node;
}

static inline void list_del_init(struct list_head *node)
{
	node->next->prev = node->prev;
	node->prev->next = node->next;
	INIT_LIST_HEAD(node);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)

#endif
