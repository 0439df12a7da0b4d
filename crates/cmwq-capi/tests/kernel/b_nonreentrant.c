/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (b) One item, queued by many threads on all CPUs, never runs beside itself. */
#include <linux/workqueue.h>
#include "harness.h"

#define NR_THREADS 4
#define TIMES 2000

static struct workqueue_struct *wq;
static atomic_t inside, runs, queued;

static void once(struct work_struct *work)
{
	(void)work;
	CHECK(atomic_inc_return(&inside) == 1);
	if (atomic_inc_return(&runs) % 16 == 0)
		usleep_range(20, 40);
	CHECK(atomic_dec_return(&inside) == 0);
}

static DECLARE_WORK(item, once);

static int queue_it(void *arg)
{
	int cpu = *(int *)arg;

	for (int i = 0; i < TIMES; i++)
		if (cpu < 0 ? queue_work(wq, &item) : queue_work_on(cpu, wq, &item))
			atomic_inc(&queued);
	return 0;
}

static void check(unsigned int flags)
{
	struct harness_thread threads[NR_THREADS];
	int cpus[NR_THREADS];

	wq = alloc_workqueue("one-item", flags, 0);
	CHECK(wq);
	atomic_set(&runs, 0);
	atomic_set(&queued, 0);
	for (int i = 0; i < NR_THREADS; i++) {
		cpus[i] = harness_cpu(i);
		harness_run(&threads[i], queue_it, &cpus[i]);
	}
	for (int i = 0; i < NR_THREADS; i++)
		harness_join(&threads[i]);
	flush_work(&item);
	/* Each queueing that succeeded is a run. */
	CHECK(atomic_read(&runs) == atomic_read(&queued) && !work_busy(&item));
	destroy_workqueue(wq);
}

static void row_percpu(void)
{
	check(WQ_PERCPU);
}

static void row_unbound(void)
{
	check(WQ_UNBOUND);
}

static void row_highpri_intensive(void)
{
	check(WQ_PERCPU | WQ_HIGHPRI | WQ_CPU_INTENSIVE);
}

ROWS(ROW(percpu), ROW(unbound), ROW(highpri_intensive));
