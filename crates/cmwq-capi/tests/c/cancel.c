/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cancelling says what was pending; disabling nests; items that queue themselves come to an end. */
#include <linux/workqueue.h>
#include "check.h"

static struct workqueue_struct *wq;
static struct gate gate = GATE_SHUT;
static int started, runs;

static void hold(struct work_struct *work)
{
	(void)work;
	count(&started);
	gate_wait(&gate);
}

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static void again(struct work_struct *work)
{
	count(&runs);
	queue_work(wq, work);
}

static DECLARE_WORK(holder, hold);
static DECLARE_WORK(behind, count_run);
static DECLARE_WORK(restless, again);

int main(void)
{
	struct work_struct never;

	wq = alloc_ordered_workqueue("cancel", 0);
	CHECK(wq);
	CHECK(queue_work(wq, &holder));
	AWAIT(load(&started) == 1);
	CHECK(!cancel_work(&holder));
	CHECK(queue_work(wq, &behind) && work_busy(&behind) == WORK_BUSY_PENDING);
	CHECK(cancel_work(&behind) && !cancel_work(&behind));
	CHECK(queue_work(wq, &behind));
	CHECK(cancel_work_sync(&behind) && !cancel_work_sync(&behind));

	CHECK(!disable_work(&behind) && !disable_work_sync(&behind));
	CHECK(!queue_work(wq, &behind));
	CHECK(!enable_work(&behind));
	CHECK(!enable_and_queue_work(wq, &behind) == 0);
	CHECK(work_pending(&behind));
	CHECK(disable_work(&behind));
	CHECK(enable_work(&behind) && !work_pending(&behind));
	CHECK(load(&runs) == 0);

	gate_open(&gate);
	CHECK(flush_work(&holder) || !work_busy(&holder));
	CHECK(queue_work(wq, &restless));
	AWAIT(load(&runs) > 10);
	cancel_work_sync(&restless);
	CHECK(!work_busy(&restless));
	drain_workqueue(wq);

	/* Nobody initialised it: nothing to wait for. */
	memset(&never, 0, sizeof(never));
	CHECK(!flush_work(&never) && !cancel_work_sync(&never));
	destroy_workqueue(wq);
	return 0;
}
