/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (k) Idle workers leave after a time: two stay, and one more for every four that are busy. */
#include <linux/workqueue.h>
#include "harness.h"

/* 300 s in the kernel. */
HARNESS_PARAMS("idle_timeout=0.05")

#define NR 30
#define BUSY 9

static struct work_struct items[NR];
static struct completion gates[2];
static atomic_t inside;

static void hold(struct work_struct *work)
{
	atomic_inc(&inside);
	wait_for_completion(&gates[work - items < BUSY]);
	atomic_dec(&inside);
}

static void row_surplus_workers_leave(void)
{
	struct workqueue_struct *wq = alloc_workqueue("many", WQ_PERCPU, 0);
	int cpu = harness_cpu(0);

	CHECK(wq);
	for (int i = 0; i < 2; i++)
		init_completion(&gates[i]);
	for (int i = 0; i < NR; i++) {
		INIT_WORK(&items[i], hold);
		CHECK(queue_work_on(cpu, wq, &items[i]));
	}
	AWAIT(atomic_read(&inside) == NR);
	/* A busy one each, and one to go on with. */
	AWAIT(harness_workers(cpu) > NR);
	complete_all(&gates[0]);
	AWAIT(atomic_read(&inside) == BUSY);
	AWAIT(harness_workers(cpu) == BUSY + 2 + (BUSY - 1) / 4);
	complete_all(&gates[1]);
	flush_workqueue(wq);
	AWAIT(harness_workers(cpu) == 2);
	destroy_workqueue(wq);
}

ROWS(ROW(surplus_workers_leave));
