/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (n) An item that runs is queued on another CPU: it runs where it runs already. */
#include <linux/workqueue.h>
#include "harness.h"

static struct completion gate;
static atomic_t runs, inside;
static int cpus[2];

static void note(struct work_struct *work)
{
	int run = atomic_inc_return(&runs);

	(void)work;
	CHECK(atomic_inc_return(&inside) == 1);
	cpus[run - 1] = (int)raw_smp_processor_id();
	if (run == 1)
		wait_for_completion(&gate);
	atomic_dec(&inside);
}

static void nothing(struct work_struct *work)
{
	(void)work;
}

static DECLARE_WORK(item, note);
static DECLARE_WORK(marker, nothing);

static void row_the_first_pool_runs_it(void)
{
	struct workqueue_struct *wq = alloc_workqueue("elsewhere", WQ_PERCPU, 0);
	int one = harness_cpu(0), two = harness_cpu(1);

	if (two < 0)
		harness_skip("it takes two CPUs");
	init_completion(&gate);
	CHECK(wq && queue_work_on(one, wq, &item));
	AWAIT(atomic_read(&runs) == 1);
	CHECK(queue_work_on(two, wq, &item));
	/* The other CPU's pool has had its turn. */
	CHECK(queue_work_on(two, wq, &marker));
	flush_work(&marker);
	CHECK(atomic_read(&runs) == 1 && work_busy(&item) == (WORK_BUSY_PENDING | WORK_BUSY_RUNNING));
	complete_all(&gate);
	flush_work(&item);
	CHECK(atomic_read(&runs) == 2 && cpus[0] == one && cpus[1] == one);
	/* Idle, it goes where it is told. */
	atomic_set(&runs, 1);
	CHECK(queue_work_on(two, wq, &item));
	flush_work(&item);
	CHECK(cpus[1] == two);
	destroy_workqueue(wq);
}

ROWS(ROW(the_first_pool_runs_it));
