/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (j) No worker can be had: the rescuer of a WQ_MEM_RECLAIM queue runs its items, one by one. */
#define HARNESS_NO_THREADS
#include <linux/workqueue.h>
#include "harness.h"

#define NR 24

static struct work_struct items[NR];
static DECLARE_COMPLETION(gate);
static atomic_t held, rescued;

/* Workers are held until none is left. */
static void hold(struct work_struct *work)
{
	(void)work;
	CHECK(current_is_workqueue_mem_reclaim());
	if (current_is_workqueue_rescuer()) {
		atomic_inc(&rescued);
		return;
	}
	atomic_inc(&held);
	wait_for_completion(&gate);
}

static void check(unsigned int flags)
{
	struct workqueue_struct *wq = alloc_workqueue("rescued", flags | WQ_MEM_RECLAIM, 0);

	CHECK(wq);
	reinit_completion(&gate);
	atomic_set(&held, 0);
	atomic_set(&rescued, 0);
	harness_no_threads(true);
	for (int i = 0; i < NR; i++) {
		INIT_WORK(&items[i], hold);
		CHECK(queue_work_on(harness_cpu(0), wq, &items[i]));
	}
	AWAIT(atomic_read(&held) + atomic_read(&rescued) == NR);
	CHECK(atomic_read(&rescued) > 0);
	harness_no_threads(false);
	complete_all(&gate);
	flush_workqueue(wq);
	/* With workers there is nothing to rescue. */
	atomic_set(&rescued, 0);
	CHECK(queue_work_on(harness_cpu(0), wq, &items[0]));
	flush_workqueue(wq);
	CHECK(atomic_read(&rescued) == 0);
	destroy_workqueue(wq);
	CHECK(!current_is_workqueue_rescuer());
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
