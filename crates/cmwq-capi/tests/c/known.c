/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls with an argument are known by the C function wherever items are shown. */
#include <linux/workqueue.h>
#include <cmwq/simple.h>
#include <string.h>
#include <unistd.h>
#include "check.h"

static struct gate gate = GATE_SHUT, inside = GATE_SHUT, look = GATE_SHUT;
static int tid, runs;

void held(void *arg);
void behind(void *arg);
void indexed(void *arg, size_t index);

static bool is_current(void *func)
{
	return (void *)cmwq_current_func() == func;
}

void held(void *arg)
{
	CHECK(arg == &gate && is_current(held) && current_work());
	__atomic_store_n(&tid, gettid(), __ATOMIC_RELEASE);
	gate_open(&inside);
	gate_wait(&gate);
	/* As an item that is seen from outside. */
	printf("%d %p\n", (int)gettid(), (void *)held);
	fflush(stdout);
	gate_wait(&look);
}

void behind(void *arg)
{
	CHECK(arg == &runs && is_current(behind));
	/* It was the same worker. */
	CHECK(gettid() != load(&tid) || (void *)wq_worker_last_func(NULL) != NULL);
	count(&runs);
}

void indexed(void *arg, size_t index)
{
	CHECK(arg == &runs && index < 100 && is_current(indexed));
	count(&runs);
}

int main(void)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("line", 0);
	struct cmwq_job *job;

	CHECK(wq && (job = cmwq_start(wq, held, &gate)));
	gate_wait(&inside);
	CHECK(cmwq_queue(wq, behind, &runs) == 0 && cmwq_queue(wq, behind, &runs) == 0);
	show_one_workqueue(wq);
	print_worker_info("", cmwq_task(load(&tid)));
	gate_open(&gate);
	getchar();
	gate_open(&look);
	CHECK(cmwq_job_wait(job) == 0);
	cmwq_flush(wq);
	CHECK(load(&runs) == 2);

	CHECK((job = cmwq_start_delayed(wq, behind, &runs, 1)) && cmwq_job_wait(job) == 0 && load(&runs) == 3);
	CHECK(cmwq_for_each(wq, 100, 0, indexed, &runs) == 0 && load(&runs) == 103);
	cmwq_destroy(wq);
	return 0;
}
