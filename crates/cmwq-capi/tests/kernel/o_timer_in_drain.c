/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (o) A timer that expires while its queue drains: its item is refused, idle, and can be used again. */
#include <linux/workqueue.h>
#include "harness.h"
#include "draining.h"

static DECLARE_COMPLETION(drain_gate);
static atomic_t runs, begun;

static void run(struct work_struct *work)
{
	(void)work;
	atomic_inc(&runs);
}

static DECLARE_DELAYED_WORK(armed_before, run);
static DECLARE_DELAYED_WORK(armed_inside, run);

/* What this item queues is let in; what its timer queues is not. */
static void arm(struct work_struct *work)
{
	(void)work;
	atomic_inc(&begun);
	wait_for_completion(&drain_gate);
	CHECK(queue_delayed_work(drained, &armed_inside, 1));
	AWAIT(!delayed_work_pending(&armed_inside));
	AWAIT(!delayed_work_pending(&armed_before));
}

static DECLARE_WORK(item, arm);

static void check_idle(struct delayed_work *dwork)
{
	CHECK(!work_busy(&dwork->work) && !timer_pending(&dwork->timer));
	CHECK(!cancel_delayed_work(dwork) && !cancel_delayed_work_sync(dwork));
	CHECK(!flush_delayed_work(dwork));
	CHECK(queue_delayed_work(drained, dwork, 600 * HZ));
	CHECK(cancel_delayed_work(dwork));
}

static void row_the_item_is_idle(void)
{
	drained = alloc_workqueue("drained", WQ_UNBOUND, 1);
	CHECK(drained && queue_work(drained, &item));
	AWAIT(atomic_read(&begun));
	begin_drain();
	CHECK(queue_delayed_work(drained, &armed_before, HZ / 50));
	complete_all(&drain_gate);
	end_drain();
	CHECK(atomic_read(&runs) == 0);
	check_idle(&armed_before);
	check_idle(&armed_inside);
	CHECK(queue_delayed_work(drained, &armed_inside, 1));
	flush_delayed_work(&armed_inside);
	CHECK(atomic_read(&runs) == 1);
	destroy_workqueue(drained);
}

ROWS(ROW(the_item_is_idle));
