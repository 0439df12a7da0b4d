/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Items are pending once, run once for each queueing, and belong to nobody but the program. */
#include <linux/workqueue.h>
#include "check.h"

static int runs;
static struct gate gate = GATE_SHUT;

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static void wait_at_gate(struct work_struct *work)
{
	(void)work;
	count(&runs);
	gate_wait(&gate);
}

static DECLARE_WORK(declared, count_run);

struct allocated {
	int before;
	struct work_struct work;
	int *freed;
};

static void free_itself(struct work_struct *work)
{
	struct allocated *allocated = container_of(work, struct allocated, work);
	int *freed = allocated->freed;

	free(allocated);
	count(freed);
}

static void items_run_once_for_each_queueing(struct workqueue_struct *wq)
{
	CHECK(!work_pending(&declared) && !work_busy(&declared));
	CHECK(!flush_work(&declared));
	runs = 0;
	for (int i = 1; i <= 100; i++) {
		CHECK(queue_work(wq, &declared));
		flush_work(&declared);
		CHECK(load(&runs) == i);
	}
	CHECK(queue_work_on(0, wq, &declared));
	flush_workqueue(wq);
	CHECK(queue_work_node(0, wq, &declared));
	flush_work(&declared);
	CHECK(load(&runs) == 102);
	CHECK(declared.func == count_run);
}

static void a_running_item_is_queued_once_more(struct workqueue_struct *wq)
{
	struct work_struct work;

	INIT_WORK_ONSTACK(&work, wait_at_gate);
	runs = 0;
	CHECK(queue_work(wq, &work));
	AWAIT(load(&runs) == 1);
	CHECK(work_busy(&work) == WORK_BUSY_RUNNING);
	CHECK(queue_work(wq, &work));
	CHECK(!queue_work(wq, &work));
	CHECK(work_busy(&work) == (WORK_BUSY_RUNNING | WORK_BUSY_PENDING));
	gate_open(&gate);
	flush_work(&work);
	CHECK(load(&runs) == 2 && !work_busy(&work));
	destroy_work_on_stack(&work);
}

static void a_function_frees_its_item(struct workqueue_struct *wq)
{
	int freed = 0;

	for (int i = 0; i < 200; i++) {
		struct allocated *allocated = malloc(sizeof(*allocated));

		allocated->freed = &freed;
		INIT_WORK(&allocated->work, free_itself);
		CHECK(queue_work(wq, &allocated->work));
	}
	flush_workqueue(wq);
	CHECK(load(&freed) == 200);
}

int main(void)
{
	unsigned int flags[] = { WQ_PERCPU, WQ_UNBOUND, WQ_PERCPU | WQ_CPU_INTENSIVE, WQ_UNBOUND | WQ_MEM_RECLAIM };

	for (unsigned int i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		struct workqueue_struct *wq = alloc_workqueue("test-%u", flags[i], 0, i);

		CHECK(wq);
		gate.is_open = 0;
		items_run_once_for_each_queueing(wq);
		a_running_item_is_queued_once_more(wq);
		a_function_frees_its_item(wq);
		destroy_workqueue(wq);
	}
	return 0;
}
