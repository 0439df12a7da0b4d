/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (h) A draining queue takes only what its own items queue, from the thread that runs them. */
#include <linux/workqueue.h>
#include "harness.h"
#include "draining.h"

#define LINKS 20

static DECLARE_COMPLETION(drain_gate);
static atomic_t runs;

static void follow(struct work_struct *work)
{
	/* The first one waits until the drain has begun. */
	if (atomic_inc_return(&runs) == 1)
		wait_for_completion(&drain_gate);
	if (atomic_read(&runs) < LINKS)
		CHECK(queue_work(drained, work) && work_pending(work));
}

static DECLARE_WORK(chain, follow);

static void check(unsigned int flags)
{
	drained = alloc_workqueue("drained", flags, 1);
	CHECK(drained);
	atomic_set(&runs, 0);
	reinit_completion(&drain_gate);
	CHECK(queue_work_on(harness_cpu(0), drained, &chain));
	AWAIT(atomic_read(&runs) == 1);
	begin_drain();
	/* It was refused, though that is not what the caller is told. */
	CHECK(!work_pending(&outsider) && !work_busy(&outsider) && !flush_work(&outsider));
	CHECK(atomic_read(&runs) == 1);
	complete_all(&drain_gate);
	end_drain();
	CHECK(atomic_read(&runs) == LINKS && atomic_read(&outsiders) == 0);
	/* Open again. */
	CHECK(queue_work(drained, &outsider));
	flush_workqueue(drained);
	CHECK(atomic_read(&outsiders) == 1);
	destroy_workqueue(drained);
}

static void row_percpu(void)
{
	check(WQ_PERCPU);
}

static void row_unbound(void)
{
	check(WQ_UNBOUND);
}

static void row_ordered(void)
{
	check(WQ_UNBOUND | __WQ_ORDERED);
}

ROWS(ROW(percpu), ROW(unbound), ROW(ordered));
