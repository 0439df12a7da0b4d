/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (f) cancel_work_sync() of an item that always queues itself again comes to an end, and the item is idle. */
#include <linux/workqueue.h>
#include "harness.h"

static struct workqueue_struct *wq;
static atomic_t runs, inside;

static void again(struct work_struct *work)
{
	atomic_inc(&inside);
	atomic_inc(&runs);
	queue_work(wq, work);
	if (atomic_read(&runs) % 3 == 0)
		usleep_range(20, 40);
	atomic_dec(&inside);
}

static void again_later(struct work_struct *work)
{
	atomic_inc(&inside);
	atomic_inc(&runs);
	queue_delayed_work(wq, to_delayed_work(work), 1);
	atomic_dec(&inside);
}

static DECLARE_WORK(item, again);
static DECLARE_DELAYED_WORK(dwork, again_later);

static void row_work(void)
{
	wq = alloc_workqueue("again", WQ_PERCPU, 0);
	for (int round = 0; round < 50; round++) {
		atomic_set(&runs, 0);
		CHECK(queue_work(wq, &item));
		AWAIT(atomic_read(&runs) > round % 7);
		cancel_work_sync(&item);
		CHECK(!work_busy(&item) && atomic_read(&inside) == 0);
		CHECK(!cancel_work_sync(&item) && !flush_work(&item));
	}
	destroy_workqueue(wq);
}

static void row_delayed_work(void)
{
	wq = alloc_workqueue("later", WQ_UNBOUND, 0);
	for (int round = 0; round < 20; round++) {
		atomic_set(&runs, 0);
		CHECK(queue_delayed_work(wq, &dwork, 0));
		AWAIT(atomic_read(&runs) > round % 3);
		cancel_delayed_work_sync(&dwork);
		CHECK(!work_busy(&dwork.work) && !timer_pending(&dwork.timer) && atomic_read(&inside) == 0);
		CHECK(!cancel_delayed_work_sync(&dwork));
	}
	destroy_workqueue(wq);
}

ROWS(ROW(work), ROW(delayed_work));
