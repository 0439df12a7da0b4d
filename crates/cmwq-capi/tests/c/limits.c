/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* max_active holds and can be changed; a frozen queue starts nothing. */
#include <linux/workqueue.h>
#include "check.h"

#define NR 6
static struct work_struct items[NR];
static struct gate gate = GATE_SHUT;
static int started;

static void hold(struct work_struct *work)
{
	(void)work;
	count(&started);
	gate_wait(&gate);
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("limited", WQ_PERCPU | WQ_FREEZABLE, 1);
	struct workqueue_struct *unbound = alloc_workqueue("unbound", WQ_UNBOUND, 4);
	struct workqueue_struct *ordered = alloc_ordered_workqueue("ordered", 0);

	CHECK(wq && unbound && ordered);
	for (int i = 0; i < NR; i++)
		INIT_WORK(&items[i], hold);
	CHECK(!workqueue_congested(0, wq));
	CHECK(queue_work_on(0, wq, &items[0]));
	AWAIT(load(&started) == 1);
	CHECK(!workqueue_congested(0, wq));
	for (int i = 1; i < NR; i++)
		CHECK(queue_work_on(0, wq, &items[i]));
	CHECK(workqueue_congested(0, wq) && load(&started) == 1);
	workqueue_set_max_active(wq, 3);
	AWAIT(load(&started) == 3);
	CHECK(workqueue_congested(0, wq));

	freeze_workqueues_begin();
	CHECK(freeze_workqueues_busy());
	gate_open(&gate);
	AWAIT(!freeze_workqueues_busy());
	CHECK(load(&started) == 3);
	thaw_workqueues();
	flush_workqueue(wq);
	CHECK(load(&started) == NR);

	/* Said and ignored. */
	workqueue_set_max_active(ordered, 3);
	workqueue_set_min_active(wq, 3);
	workqueue_set_max_active(system_bh_wq, 3);
	workqueue_set_min_active(unbound, 2);
	workqueue_set_max_active(unbound, -1);
	destroy_workqueue(wq);
	destroy_workqueue(unbound);
	destroy_workqueue(ordered);
	return 0;
}
