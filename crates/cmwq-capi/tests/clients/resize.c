/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A hash table that grows and shrinks behind its users' backs: whoever inserts into a table that is too full schedules
 * the table's item (schedule_work), which moves entries in portions with a mutex held and schedules itself again as
 * long as there is more to do; the table's end is cancel_work_sync().
 */
#include <linux/workqueue.h>
#include "harness.h"

#define NR_THREADS 4
#define NR_KEYS 3000
#define PORTION 8

struct entry {
	struct entry *next;
	unsigned long key;
};

struct buckets {
	unsigned long size;
	unsigned long moved;
	struct entry **heads;
};

struct table {
	/* Held by the worker through a portion; who changes a chain holds `lock`. */
	struct mutex resizing;
	spinlock_t lock;
	struct buckets *now, *future;
	unsigned long nr_entries;
	struct work_struct work;
	atomic_t runs, resizes, inside;
	bool is_gone;
};

static struct table table;

static struct buckets *new_buckets(unsigned long size)
{
	struct buckets *buckets = kzalloc(sizeof(*buckets), GFP_KERNEL);

	CHECK(buckets);
	buckets->size = size;
	buckets->heads = kcalloc(size, sizeof(struct entry *), GFP_KERNEL);
	CHECK(buckets->heads);
	return buckets;
}

static void free_buckets(struct buckets *buckets)
{
	kfree(buckets->heads);
	kfree(buckets);
}

static struct entry **chain(unsigned long key)
{
	struct buckets *buckets = table.now;
	unsigned long hash = key * 0x9e3779b97f4a7c15UL >> 20;

	if (table.future && hash % buckets->size < buckets->moved)
		buckets = table.future;
	return &buckets->heads[hash % buckets->size];
}

static unsigned long wanted_size(void)
{
	unsigned long size = table.now->size;

	if (table.nr_entries > size * 3 / 4)
		return size * 2;
	if (size > 16 && table.nr_entries < size / 4)
		return size / 2;
	return size;
}

/* One chain; the caller holds the lock. */
static void move_chain(unsigned long from)
{
	struct entry *entry = table.now->heads[from], *next;

	table.now->heads[from] = NULL;
	table.now->moved = from + 1;
	for (; entry; entry = next) {
		struct entry **to = chain(entry->key);

		next = entry->next;
		entry->next = *to;
		*to = entry;
	}
}

static void resize(struct work_struct *work)
{
	bool is_more;

	CHECK(container_of(work, struct table, work) == &table);
	CHECK(atomic_inc_return(&table.inside) == 1 && !READ_ONCE(table.is_gone));
	atomic_inc(&table.runs);
	mutex_lock(&table.resizing);
	spin_lock(&table.lock);
	if (!table.future && wanted_size() != table.now->size)
		table.future = new_buckets(wanted_size());
	for (int i = 0; table.future && i < PORTION; i++) {
		move_chain(table.now->moved);
		if (table.now->moved == table.now->size) {
			free_buckets(table.now);
			table.now = table.future;
			table.future = NULL;
			atomic_inc(&table.resizes);
		}
	}
	is_more = table.future || wanted_size() != table.now->size;
	spin_unlock(&table.lock);
	if (atomic_read(&table.runs) % 64 == 0)
		usleep_range(50, 100);
	mutex_unlock(&table.resizing);
	atomic_dec(&table.inside);
	if (is_more)
		schedule_work(&table.work);
}

static bool insert(unsigned long key)
{
	struct entry *entry = kmalloc(sizeof(*entry), GFP_KERNEL), **head;
	bool is_full;

	CHECK(entry);
	entry->key = key;
	spin_lock(&table.lock);
	head = chain(key);
	entry->next = *head;
	*head = entry;
	table.nr_entries++;
	is_full = wanted_size() != table.now->size;
	spin_unlock(&table.lock);
	return is_full && schedule_work(&table.work);
}

static bool remove_key(unsigned long key)
{
	struct entry *found = NULL;
	bool is_empty;

	spin_lock(&table.lock);
	for (struct entry **at = chain(key); *at; at = &(*at)->next) {
		if ((*at)->key == key) {
			found = *at;
			*at = found->next;
			table.nr_entries--;
			break;
		}
	}
	is_empty = wanted_size() != table.now->size;
	spin_unlock(&table.lock);
	if (is_empty)
		schedule_work(&table.work);
	kfree(found);
	return found != NULL;
}

static int user(void *arg)
{
	unsigned long first = *(unsigned long *)arg * NR_KEYS;

	for (unsigned long key = first; key < first + NR_KEYS; key++) {
		insert(key);
		/* Somebody looks at the whole table now and then. */
		if (key % 500 == 0) {
			mutex_lock(&table.resizing);
			mutex_unlock(&table.resizing);
		}
	}
	/* Every third one stays. */
	for (unsigned long key = first; key < first + NR_KEYS; key++)
		if (key % 3)
			CHECK(remove_key(key));
	return 0;
}

static void begin(void)
{
	memset(&table, 0, sizeof(table));
	mutex_init(&table.resizing);
	spin_lock_init(&table.lock);
	table.now = new_buckets(4);
	INIT_WORK(&table.work, resize);
}

/* Returns how many entries there were. */
static unsigned long end(void)
{
	unsigned long number = 0;

	cancel_work_sync(&table.work);
	WRITE_ONCE(table.is_gone, true);
	CHECK(!work_busy(&table.work));
	for (struct buckets *buckets = table.now; buckets; buckets = buckets == table.now ? table.future : NULL) {
		for (unsigned long i = 0; i < buckets->size; i++) {
			for (struct entry *entry = buckets->heads[i], *next; entry; entry = next) {
				next = entry->next;
				kfree(entry);
				number++;
			}
		}
	}
	if (table.future)
		free_buckets(table.future);
	free_buckets(table.now);
	return number;
}

static void row_grows_and_shrinks_while_it_is_used(void)
{
	struct harness_thread threads[NR_THREADS];
	unsigned long numbers[NR_THREADS];

	begin();
	for (unsigned long i = 0; i < NR_THREADS; i++) {
		numbers[i] = i;
		harness_run(&threads[i], user, &numbers[i]);
	}
	for (int i = 0; i < NR_THREADS; i++)
		harness_join(&threads[i]);
	/* Until there is no more to do: it was always scheduled again. */
	AWAIT(!work_busy(&table.work));
	CHECK(!table.future && wanted_size() == table.now->size && atomic_read(&table.resizes) > 8);
	for (unsigned long key = 0; key < NR_THREADS * NR_KEYS; key++) {
		struct entry *entry = *chain(key);

		while (entry && entry->key != key)
			entry = entry->next;
		CHECK((entry != NULL) == (key % 3 == 0));
	}
	CHECK(end() == NR_THREADS * NR_KEYS / 3);
}

static void row_ends_in_the_middle(void)
{
	for (unsigned long round = 0; round < 100; round++) {
		unsigned long number = 200 + round * 13 % 400;

		begin();
		for (unsigned long key = 0; key < number; key++)
			insert(key);
		CHECK(end() == number);
	}
}

ROWS(ROW(grows_and_shrinks_while_it_is_used), ROW(ends_in_the_middle));
