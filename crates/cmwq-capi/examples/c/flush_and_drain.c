/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is waited for: flushing waits for what was queued before, draining until there is nothing more, also of what
 * the queue's own items queue. Disabling keeps an item from running again.
 *
 *   cc $(pkg-config --cflags libcmwq) flush_and_drain.c $(pkg-config --libs libcmwq) -o flush_and_drain
 */
#include <linux/workqueue.h>
#include <stdio.h>

#define PASSES 5

struct scan {
	struct work_struct work;
	struct workqueue_struct *wq;
	int passes;
};

static void pass(struct work_struct *work)
{
	struct scan *scan = container_of(work, struct scan, work);
	int passes = __atomic_add_fetch(&scan->passes, 1, __ATOMIC_ACQ_REL);

	if (passes < PASSES)
		queue_work(scan->wq, work);
}

static int passes(struct scan *scan)
{
	return __atomic_load_n(&scan->passes, __ATOMIC_ACQUIRE);
}

int main(void)
{
	struct scan scan = { .wq = alloc_workqueue("scan", WQ_UNBOUND, 0) };

	if (!scan.wq)
		return 1;
	INIT_WORK(&scan.work, pass);
	queue_work(scan.wq, &scan.work);

	flush_workqueue(scan.wq);
	printf("flushed: at least one pass: %s\n", passes(&scan) >= 1 ? "yes" : "no");

	drain_workqueue(scan.wq);
	printf("drained: %d passes\n", passes(&scan));

	/* Disabled twice, so it must be enabled twice. */
	disable_work_sync(&scan.work);
	disable_work(&scan.work);
	printf("queued while disabled: %s\n", queue_work(scan.wq, &scan.work) ? "yes" : "no");
	printf("enabled by one call: %s\n", enable_work(&scan.work) ? "yes" : "no");
	enable_and_queue_work(scan.wq, &scan.work);
	flush_work(&scan.work);
	printf("after all: %d passes\n", passes(&scan));

	destroy_workqueue(scan.wq);
	return 0;
}
