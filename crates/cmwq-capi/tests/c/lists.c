/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lists of the small headers: compiled and run as gnu89, C11, gnu11 and C++17. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/list.h>
#include "check.h"

struct entry {
	char name;
	struct list_head link;
	struct hlist_node hash;
};

static struct entry entries[8];
static char text[64];

/* The names on a list, forwards; backwards they must be the same. */
static const char *names(struct list_head *head)
{
	struct entry *entry;
	size_t at = 0;

	list_for_each_entry(entry, head, link)
		text[at++] = entry->name;
	text[at] = 0;
	list_for_each_entry_reverse(entry, head, link)
		CHECK(text[--at] == entry->name);
	CHECK(at == 0 && list_count_nodes(head) == strlen(text));
	return text;
}

#define IS(head, expected) CHECK(strcmp(names(head), expected) == 0)

static void fill(struct list_head *head, int from, int to)
{
	int i;

	INIT_LIST_HEAD(head);
	for (i = from; i < to; i++)
		list_add_tail(&entries[i].link, head);
}

static void one_list(void)
{
	LIST_HEAD(head);
	struct list_head copy, *at = &head;
	struct entry *entry, *after;

	CHECK(list_empty(&head) && list_empty_careful(&head) && !list_is_singular(&head));
	CHECK(list_first_entry_or_null(&head, struct entry, link) == NULL);
	CHECK(list_last_entry_or_null(&head, struct entry, link) == NULL);
	list_add(&entries[1].link, &head);
	CHECK(list_is_singular(&head) && !list_empty(&head));
	list_add(&entries[0].link, &head);
	list_add_tail(&entries[2].link, &head);
	IS(&head, "abc");
	CHECK(list_first_entry(&head, struct entry, link) == &entries[0]);
	CHECK(list_last_entry(&head, struct entry, link) == &entries[2]);
	CHECK(list_last_entry_or_null(&head, struct entry, link) == &entries[2]);
	/* What names the head is evaluated once. */
	CHECK(list_first_entry_or_null(at++, struct entry, link) == &entries[0] && at == &head + 1);
	at = &head;
	CHECK(list_last_entry_or_null(at++, struct entry, link) == &entries[2] && at == &head + 1);
	CHECK(list_is_first(&entries[0].link, &head) && list_is_last(&entries[2].link, &head));
	CHECK(list_is_head(&head, &head) && !list_is_head(&entries[0].link, &head));
	CHECK(list_next_entry(&entries[0], link) == &entries[1]);
	CHECK(list_prev_entry(&entries[2], link) == &entries[1]);
	CHECK(list_next_entry_circular(&entries[2], &head, link) == &entries[0]);
	CHECK(list_prev_entry_circular(&entries[0], &head, link) == &entries[2]);
	CHECK(list_next_entry_circular(&entries[0], &head, link) == &entries[1]);

	list_rotate_left(&head);
	IS(&head, "bca");
	list_rotate_to_front(&entries[0].link, &head);
	IS(&head, "abc");
	list_move(&entries[2].link, &head);
	IS(&head, "cab");
	list_move_tail(&entries[2].link, &head);
	IS(&head, "abc");
	list_swap(&entries[0].link, &entries[2].link);
	IS(&head, "cba");
	list_swap(&entries[1].link, &entries[0].link);
	IS(&head, "cab");
	list_swap(&entries[1].link, &entries[0].link);
	IS(&head, "cba");
	list_replace(&entries[1].link, &entries[3].link);
	IS(&head, "cda");
	list_replace_init(&entries[3].link, &entries[1].link);
	CHECK(list_empty(&entries[3].link));
	IS(&head, "cba");
	list_replace_init(&head, &copy);
	CHECK(list_empty(&head));
	IS(&copy, "cba");

	list_del(&entries[1].link);
	CHECK(entries[1].link.next == NULL && entries[1].link.prev == NULL);
	IS(&copy, "ca");
	list_del_init(&entries[2].link);
	CHECK(list_empty(&entries[2].link));
	list_del_init_careful(&entries[0].link);
	CHECK(list_empty_careful(&entries[0].link) && list_empty(&copy));

	/* What the _safe walks are for. */
	fill(&head, 0, 5);
	list_for_each_entry_safe(entry, after, &head, link)
		if (entry->name == 'b' || entry->name == 'e')
			list_del_init(&entry->link);
	IS(&head, "acd");
	list_for_each_entry_safe_reverse(entry, after, &head, link)
		if (entry->name != 'c')
			list_del(&entry->link);
	IS(&head, "c");
}

static void walks(void)
{
	LIST_HEAD(head);
	struct list_head *at, *next;
	struct entry *entry, *after;
	int count = 0;

	fill(&head, 0, 4);
	list_for_each(at, &head)
		CHECK(list_entry(at, struct entry, link) == &entries[count++]);
	list_for_each_prev(at, &head)
		CHECK(list_entry(at, struct entry, link) == &entries[--count]);
	at = &entries[1].link;
	list_for_each_continue(at, &head)
		count++;
	CHECK(count == 2);
	entry = &entries[1];
	list_for_each_entry_continue(entry, &head, link)
		count++;
	CHECK(count == 4);
	entry = &entries[1];
	list_for_each_entry_continue_reverse(entry, &head, link)
		count++;
	CHECK(count == 5);
	entry = &entries[1];
	list_for_each_entry_from(entry, &head, link)
		count++;
	CHECK(count == 8);
	entry = &entries[1];
	list_for_each_entry_from_reverse(entry, &head, link)
		count++;
	CHECK(count == 10);
	entry = list_prepare_entry((struct entry *)NULL, &head, link);
	list_for_each_entry_continue(entry, &head, link)
		count++;
	CHECK(count == 14);
	entry = &entries[0];
	list_for_each_entry_safe_continue(entry, after, &head, link)
		list_del_init(&entry->link);
	IS(&head, "a");
	fill(&head, 0, 4);
	entry = &entries[2];
	list_for_each_entry_safe_from(entry, after, &head, link) {
		list_safe_reset_next(entry, after, link);
		list_del(&entry->link);
	}
	IS(&head, "ab");
	list_for_each_safe(at, next, &head)
		list_del(at);
	CHECK(list_empty(&head));
	fill(&head, 0, 4);
	list_for_each_prev_safe(at, next, &head)
		list_del(at);
	CHECK(list_empty(&head));
}

static void parts(void)
{
	LIST_HEAD(head);
	LIST_HEAD(other);
	struct list_head part;

	fill(&head, 0, 2);
	fill(&other, 2, 4);
	list_splice(&other, &head);
	IS(&head, "cdab");
	INIT_LIST_HEAD(&other);
	list_splice_init(&other, &head);
	IS(&head, "cdab");
	list_add(&entries[4].link, &other);
	list_splice_tail(&other, &head);
	IS(&head, "cdabe");
	INIT_LIST_HEAD(&other);
	list_add(&entries[5].link, &other);
	list_splice_tail_init(&other, &head);
	IS(&head, "cdabef");
	CHECK(list_empty(&other));

	list_cut_position(&part, &head, &entries[0].link);
	IS(&part, "cda");
	IS(&head, "bef");
	list_cut_before(&part, &head, &entries[5].link);
	IS(&part, "be");
	IS(&head, "f");
	list_cut_before(&part, &head, &entries[5].link);
	CHECK(list_empty(&part));
	list_cut_position(&part, &head, &head);
	CHECK(list_empty(&part));
	IS(&head, "f");
	list_cut_before(&part, &head, &head);
	IS(&part, "f");
	CHECK(list_empty(&head));
}

static const char *chain(struct hlist_head *head)
{
	struct entry *entry;
	size_t at = 0;

	hlist_for_each_entry(entry, head, hash)
		text[at++] = entry->name;
	text[at] = 0;
	CHECK(hlist_count_nodes(head) == at);
	return text;
}

#define CHAIN_IS(head, expected) CHECK(strcmp(chain(head), expected) == 0)

static void hlists(void)
{
	HLIST_HEAD(head);
	struct hlist_head other = HLIST_HEAD_INIT;
	struct hlist_node *at, *next;
	struct entry *entry;
	int count = 0;

	CHECK(hlist_empty(&head) && hlist_entry_safe(head.first, struct entry, hash) == NULL);
	INIT_HLIST_NODE(&entries[0].hash);
	CHECK(hlist_unhashed(&entries[0].hash) && hlist_unhashed_lockless(&entries[0].hash));
	hlist_del_init(&entries[0].hash);
	hlist_add_head(&entries[1].hash, &head);
	CHECK(hlist_is_singular_node(&entries[1].hash, &head));
	hlist_add_before(&entries[0].hash, &entries[1].hash);
	hlist_add_behind(&entries[3].hash, &entries[1].hash);
	hlist_add_behind(&entries[2].hash, &entries[1].hash);
	CHAIN_IS(&head, "abcd");
	CHECK(hlist_entry(head.first, struct entry, hash) == &entries[0] && !hlist_unhashed(&entries[3].hash));
	hlist_for_each(at, &head)
		count++;
	CHECK(count == 4);
	entry = &entries[1];
	hlist_for_each_entry_continue(entry, hash)
		count++;
	CHECK(count == 6);
	entry = &entries[1];
	hlist_for_each_entry_from(entry, hash)
		count++;
	CHECK(count == 9);
	hlist_for_each_entry_safe(entry, next, &head, hash)
		if (entry->name == 'a' || entry->name == 'c')
			hlist_del(&entry->hash);
	CHAIN_IS(&head, "bd");
	hlist_move_list(&head, &other);
	CHECK(hlist_empty(&head));
	CHAIN_IS(&other, "bd");
	hlist_for_each_safe(at, next, &other)
		hlist_del_init(at);
	CHECK(hlist_empty(&other) && hlist_unhashed(&entries[1].hash));
	hlist_add_fake(&entries[4].hash);
	CHECK(hlist_fake(&entries[4].hash) && !hlist_unhashed(&entries[4].hash));
	hlist_del_init(&entries[4].hash);
	INIT_HLIST_HEAD(&head);
	CHECK(hlist_empty(&head));
}

/* const is kept. */
static void containers(void)
{
	const struct entry *fixed = &entries[3];
	const struct list_head *link = &fixed->link;
	struct list_head *changeable = &entries[3].link;
	struct entry *entry = container_of_const(changeable, struct entry, link);

	CHECK(container_of_const(link, struct entry, link) == fixed && entry == &entries[3]);
}

int main(void)
{
	int i;

	for (i = 0; i < 8; i++)
		entries[i].name = (char)('a' + i);
	one_list();
	walks();
	parts();
	hlists();
	containers();
	return 0;
}
