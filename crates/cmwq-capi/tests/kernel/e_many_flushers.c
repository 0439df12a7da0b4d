/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (e) More flushers than there are colours: all wait, and all return. */
#include <linux/workqueue.h>
#include "harness.h"

#define NR 40

static struct workqueue_struct *wq;
static DECLARE_COMPLETION(gate);
static atomic_t coming, returned;
static bool is_open;

static void wait_for_gate(struct work_struct *work)
{
	(void)work;
	wait_for_completion(&gate);
}

static DECLARE_WORK(item, wait_for_gate);

static int flusher(void *unused)
{
	(void)unused;
	atomic_inc(&coming);
	__flush_workqueue(wq);
	CHECK(READ_ONCE(is_open));
	atomic_inc(&returned);
	return 0;
}

static void check(unsigned int flags)
{
	static struct harness_thread threads[NR];
	struct work_struct more[NR];

	wq = alloc_workqueue("flushed", flags, 0);
	CHECK(wq && queue_work(wq, &item));
	WRITE_ONCE(is_open, false);
	atomic_set(&coming, 0);
	atomic_set(&returned, 0);
	for (int i = 0; i < NR; i++) {
		harness_run(&threads[i], flusher, NULL);
		/* Colours move on between flushers. */
		INIT_WORK_ONSTACK(&more[i], wait_for_gate);
		CHECK(queue_work(wq, &more[i]));
	}
	AWAIT(atomic_read(&coming) == NR);
	CHECK(atomic_read(&returned) == 0);
	WRITE_ONCE(is_open, true);
	complete_all(&gate);
	for (int i = 0; i < NR; i++)
		harness_join(&threads[i]);
	CHECK(atomic_read(&returned) == NR);
	flush_workqueue(wq);
	for (int i = 0; i < NR; i++)
		destroy_work_on_stack(&more[i]);
	destroy_workqueue(wq);
	reinit_completion(&gate);
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
