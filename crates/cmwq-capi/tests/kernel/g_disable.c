/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (g) Disabling nests: as many enables as disables, and nothing is queued in between. */
#include <linux/workqueue.h>
#include "harness.h"

#define DEPTH 100

static atomic_t runs;

static void count(struct work_struct *work)
{
	(void)work;
	atomic_inc(&runs);
}

static DECLARE_WORK(item, count);
static DECLARE_DELAYED_WORK(dwork, count);

static void row_work(void)
{
	struct workqueue_struct *wq = alloc_workqueue("nests", WQ_PERCPU, 0);

	for (int i = 0; i < DEPTH; i++) {
		CHECK(!(i % 2 ? disable_work(&item) : disable_work_sync(&item)));
		CHECK(!queue_work(wq, &item) && !work_pending(&item) && !work_busy(&item));
	}
	for (int i = 1; i < DEPTH; i++) {
		CHECK(!(i % 2 ? enable_work(&item) : enable_and_queue_work(wq, &item)));
		CHECK(!queue_work(wq, &item));
	}
	CHECK(enable_work(&item));
	flush_workqueue(wq);
	/* What was refused meanwhile is lost. */
	CHECK(atomic_read(&runs) == 0);
	CHECK(queue_work(wq, &item));
	flush_work(&item);
	CHECK(atomic_read(&runs) == 1);
	destroy_workqueue(wq);
}

static void row_delayed_work(void)
{
	struct workqueue_struct *wq = alloc_workqueue("nests", WQ_UNBOUND, 0);

	atomic_set(&runs, 0);
	CHECK(queue_delayed_work(wq, &dwork, 600 * HZ));
	CHECK(disable_delayed_work_sync(&dwork) && !timer_pending(&dwork.timer));
	CHECK(!disable_delayed_work(&dwork));
	CHECK(!queue_delayed_work(wq, &dwork, 1) && !queue_delayed_work(wq, &dwork, 0));
	CHECK(!mod_delayed_work(wq, &dwork, 0) && !delayed_work_pending(&dwork));
	CHECK(!enable_delayed_work(&dwork));
	CHECK(enable_delayed_work(&dwork));
	CHECK(queue_delayed_work(wq, &dwork, 1));
	flush_delayed_work(&dwork);
	CHECK(atomic_read(&runs) == 1);
	destroy_workqueue(wq);
}

ROWS(ROW(work), ROW(delayed_work));
