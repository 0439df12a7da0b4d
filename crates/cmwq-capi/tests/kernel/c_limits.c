/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (c) An unbound queue runs at most max_active items, and min_active of them whatever its share of a node. */
#include <linux/workqueue.h>
#include "harness.h"

#define NR 40

static struct work_struct items[NR];
static atomic_t inside, runs;
static int limit;
static struct completion gate;

static void bounded(struct work_struct *work)
{
	(void)work;
	CHECK(atomic_inc_return(&inside) <= READ_ONCE(limit));
	usleep_range(50, 100);
	atomic_dec(&inside);
	atomic_inc(&runs);
}

static void held(struct work_struct *work)
{
	(void)work;
	atomic_inc(&inside);
	wait_for_completion(&gate);
	atomic_dec(&inside);
	atomic_inc(&runs);
}

static void queue_all(struct workqueue_struct *wq, work_func_t func)
{
	atomic_set(&runs, 0);
	for (int i = 0; i < NR; i++) {
		INIT_WORK(&items[i], func);
		CHECK(queue_work_on(harness_cpu(i % 2) < 0 ? WORK_CPU_UNBOUND : harness_cpu(i % 2), wq, &items[i]));
	}
}

static void row_never_more_than_max_active(void)
{
	for (limit = 1; limit < 20; limit += 6) {
		struct workqueue_struct *wq = alloc_workqueue("max-%d", WQ_UNBOUND, limit, limit);

		CHECK(wq);
		queue_all(wq, bounded);
		flush_workqueue(wq);
		CHECK(atomic_read(&runs) == NR);

		/* As many as that there are, and no more. */
		init_completion(&gate);
		queue_all(wq, held);
		AWAIT(atomic_read(&inside) == limit);
		CHECK(workqueue_congested(harness_cpu(0), wq) == (limit < NR));
		complete_all(&gate);
		flush_workqueue(wq);
		CHECK(atomic_read(&runs) == NR);
		destroy_workqueue(wq);
	}
}

static struct completion chain[8];

static void wait_for_the_next(struct work_struct *work)
{
	long n = work - items;

	if (n < 7)
		wait_for_completion(&chain[n + 1]);
	complete_all(&chain[n]);
	atomic_inc(&runs);
}

/* So many may depend on each other on one node. */
static void row_min_active_items_may_depend_on_each_other(void)
{
	struct workqueue_struct *wq = alloc_workqueue("min", WQ_UNBOUND, 8);

	atomic_set(&runs, 0);
	for (int i = 0; i < 8; i++)
		init_completion(&chain[i]);
	for (int i = 0; i < 8; i++) {
		INIT_WORK(&items[i], wait_for_the_next);
		CHECK(queue_work_on(harness_cpu(0), wq, &items[i]));
	}
	flush_workqueue(wq);
	CHECK(atomic_read(&runs) == WQ_DFL_MIN_ACTIVE);
	destroy_workqueue(wq);
}

ROWS(ROW(never_more_than_max_active), ROW(min_active_items_may_depend_on_each_other));
