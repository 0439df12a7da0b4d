/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a function learns about itself, and functions that are run elsewhere. */
#include <cmwq.h>
#include <sched.h>
#include <unistd.h>
#include "check.h"

static struct work_struct *seen = (struct work_struct *)1;
static int is_reclaim, is_rescuer, each, inline_runs;
static int context_result = -1;
static struct execute_work later;

static void look(struct work_struct *work)
{
	(void)work;
	seen = current_work();
	is_reclaim = current_is_workqueue_mem_reclaim();
	is_rescuer = current_is_workqueue_rescuer();
	set_worker_desc("looks at %s", "itself");
	cmwq_blocking_begin();
	usleep(100);
	cmwq_blocking_end();
}

static void on_each(struct work_struct *work)
{
	CHECK(work == current_work());
	count(&each);
}

static void in_process(struct work_struct *work)
{
	CHECK(work == &later.work);
	count(&inline_runs);
}

static void in_bh(struct work_struct *work)
{
	(void)work;
	CHECK(!current_work());
	context_result = execute_in_process_context(in_process, &later);
}

static long on_cpu(void *arg)
{
	return *(int *)arg * 100 + sched_getcpu();
}

static DECLARE_WORK(looking, look);
static DECLARE_WORK(bh, in_bh);

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("reclaim", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	int arg = 7;

	CHECK(!current_work() && !current_is_workqueue_rescuer() && !current_is_workqueue_mem_reclaim());
	set_worker_desc("nobody");
	cmwq_blocking_begin();
	cmwq_blocking_end();
	CHECK(wq && queue_work(wq, &looking));
	flush_work(&looking);
	/* Where a new thread is late the rescuer runs it, and rightly says so. */
	CHECK(seen == &looking && is_reclaim);
	CHECK(schedule_work(&looking));
	flush_work(&looking);
	CHECK(seen == &looking && !is_reclaim && !is_rescuer);

	CHECK(schedule_on_each_cpu(on_each) == 0 && load(&each) >= 1);
	CHECK(work_on_cpu(0, on_cpu, &arg) == 700);
	CHECK(execute_in_process_context(in_process, &later) == 0);
	CHECK(load(&inline_runs) == 1);
	CHECK(queue_work(system_bh_wq, &bh));
	AWAIT(load(&inline_runs) == 2);
	flush_work(&bh);
	CHECK(context_result == 1);
	flush_work(&later.work);
	destroy_workqueue(wq);
	return 0;
}
