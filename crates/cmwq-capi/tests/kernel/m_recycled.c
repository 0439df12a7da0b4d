/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (m) The address of an item that still runs is used again: with another function it is another item. */
#include <linux/workqueue.h>
#include "harness.h"

static struct workqueue_struct *wq;
static struct work_struct item;
static struct completion gate;
static atomic_t first, second;

static void one(struct work_struct *work)
{
	(void)work;
	atomic_inc(&first);
	wait_for_completion(&gate);
}

static void other(struct work_struct *work)
{
	(void)work;
	atomic_inc(&second);
}

static void begin(unsigned int flags)
{
	wq = alloc_workqueue("recycled", flags, 0);
	CHECK(wq);
	init_completion(&gate);
	atomic_set(&first, 0);
	atomic_set(&second, 0);
	INIT_WORK(&item, one);
	CHECK(queue_work_on(harness_cpu(0), wq, &item));
	AWAIT(atomic_read(&first) == 1);
}

static void another_function(unsigned int flags)
{
	begin(flags);
	INIT_WORK(&item, other);
	CHECK(queue_work_on(harness_cpu(0), wq, &item));
	AWAIT(atomic_read(&second) == 1);
	complete_all(&gate);
	destroy_workqueue(wq);
}

static void row_another_function_runs_beside(void)
{
	another_function(WQ_PERCPU);
	another_function(WQ_UNBOUND);
}

static void row_the_same_function_waits(void)
{
	struct work_struct later;

	begin(WQ_PERCPU);
	/* It has the pool in its word as an item that is queued again has. */
	CHECK(queue_work_on(harness_cpu(0), wq, &item));
	INIT_WORK_ONSTACK(&later, other);
	CHECK(queue_work_on(harness_cpu(0), wq, &later));
	flush_work(&later);
	CHECK(atomic_read(&first) == 1 && work_busy(&item) == (WORK_BUSY_PENDING | WORK_BUSY_RUNNING));
	complete_all(&gate);
	flush_work(&item);
	CHECK(atomic_read(&first) == 2);
	destroy_work_on_stack(&later);
	destroy_workqueue(wq);
}

static struct workqueue_struct *elsewhere;
static bool is_made_anew;

static void queue_itself_elsewhere(struct work_struct *work)
{
	if (is_made_anew)
		INIT_WORK(work, work->func);
	CHECK(queue_work(elsewhere, work));
}

/* It waits for an item at its own address, which runs beside it: in another pool, for another queue. */
static void wait_beside(struct work_struct *work)
{
	if (atomic_inc_return(&first) > 1) {
		msleep(20);
		atomic_inc(&second);
		return;
	}
	if (is_made_anew) {
		INIT_WORK(work, wait_beside);
		CHECK(!flush_work(work) && !cancel_work_sync(work));
	}
	queue_itself_elsewhere(work);
	flush_work(work);
	CHECK(atomic_read(&second) == 1);
	/* It has run there. */
	CHECK(!flush_work(work) && !cancel_work_sync(work));
	queue_itself_elsewhere(work);
	if (!disable_work_sync(work))
		CHECK(atomic_read(&second) == 2);
	CHECK(enable_work(work));
	complete_all(&gate);
}

static void waits_beside(bool anew)
{
	is_made_anew = anew;
	wq = alloc_workqueue("recycled", WQ_PERCPU, 0);
	elsewhere = alloc_workqueue("elsewhere", WQ_UNBOUND, 0);
	CHECK(wq && elsewhere);
	init_completion(&gate);
	atomic_set(&first, 0);
	atomic_set(&second, 0);
	INIT_WORK(&item, wait_beside);
	CHECK(queue_work(wq, &item));
	wait_for_completion(&gate);
	destroy_workqueue(wq);
	destroy_workqueue(elsewhere);
}

static void row_an_item_made_anew_inside_is_waited_for(void)
{
	waits_beside(true);
}

static void row_an_item_that_went_elsewhere_is_waited_for(void)
{
	waits_beside(false);
}

ROWS(ROW(another_function_runs_beside), ROW(the_same_function_waits),
     ROW(an_item_made_anew_inside_is_waited_for), ROW(an_item_that_went_elsewhere_is_waited_for));
