/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A queue that goes runs what it has; what comes later is refused, and no harm is done. */
#include <linux/workqueue.h>
#include "check.h"

static struct workqueue_struct *wq;
static int runs;

static void chain(struct work_struct *work)
{
	if (load(&runs) < 10)
		queue_work(wq, work);
	count(&runs);
}

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static void destroy_own(struct work_struct *work)
{
	(void)work;
	destroy_workqueue(wq);
	count(&runs);
}

static DECLARE_WORK(chained, chain);
static DECLARE_WORK(late, count_run);
static DECLARE_DELAYED_WORK(armed, count_run);
static DECLARE_WORK(last, destroy_own);

int main(void)
{
	wq = alloc_workqueue("goes", WQ_UNBOUND, 0);
	CHECK(wq && queue_work(wq, &chained));
	CHECK(queue_delayed_work(wq, &armed, HZ / 5));
	destroy_workqueue(wq);
	CHECK(load(&runs) == 11);

	/* As in the kernel, whoever is refused is told that it was queued, and the item is idle. */
	CHECK(queue_work(wq, &late));
	CHECK(!work_busy(&late) && !flush_work(&late));
	CHECK(timer_pending(&armed.timer));
	AWAIT(!delayed_work_pending(&armed));
	CHECK(!flush_delayed_work(&armed) && load(&runs) == 11);

	destroy_workqueue(system_percpu_wq);
	CHECK(schedule_work(&late));
	flush_work(&late);
	CHECK(load(&runs) == 12);

	/* Many queues, more than are remembered. */
	for (int i = 0; i < 200; i++) {
		wq = alloc_workqueue("many-%d", WQ_PERCPU | (i % 10 ? 0 : WQ_MEM_RECLAIM), 0, i);
		CHECK(wq && queue_work(wq, &late));
		destroy_workqueue(wq);
		CHECK(load(&runs) == 13 + i);
	}

	/* From inside: it goes when it is empty. */
	wq = alloc_workqueue("inside", WQ_UNBOUND, 0);
	CHECK(wq && queue_work(wq, &last));
	AWAIT(load(&runs) == 213);
	return 0;
}
