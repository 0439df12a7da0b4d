/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (d) A flush returns although items queue themselves again and again. */
#include <linux/workqueue.h>
#include "harness.h"

#define NR 4

static struct workqueue_struct *wq;
static struct work_struct items[NR];
static atomic_t runs;
static bool stop;

static void again(struct work_struct *work)
{
	atomic_inc(&runs);
	if (!READ_ONCE(stop))
		CHECK(queue_work(wq, work));
}

static void check(unsigned int flags)
{
	int before;

	wq = alloc_workqueue("again", flags, 0);
	CHECK(wq);
	WRITE_ONCE(stop, false);
	for (int i = 0; i < NR; i++) {
		INIT_WORK(&items[i], again);
		CHECK(queue_work(wq, &items[i]));
	}
	for (int i = 0; i < 20; i++) {
		flush_workqueue(wq);
		flush_work(&items[i % NR]);
	}
	before = atomic_read(&runs);
	AWAIT(atomic_read(&runs) > before);
	WRITE_ONCE(stop, true);
	destroy_workqueue(wq);
	for (int i = 0; i < NR; i++)
		CHECK(!work_busy(&items[i]));
}

static void row_percpu(void)
{
	check(WQ_PERCPU);
}

static void row_unbound(void)
{
	check(WQ_UNBOUND);
}

ROWS(ROW(percpu), ROW(unbound));
