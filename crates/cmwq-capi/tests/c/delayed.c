/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Items with timers; also compiled with another HZ. */
#include <linux/workqueue.h>
#include "check.h"

static int runs;
static double ran_at;

static void note(struct work_struct *work)
{
	CHECK(to_delayed_work(work)->work.func == note);
	ran_at = now_ms();
	count(&runs);
}

static DECLARE_DELAYED_WORK(declared, note);
static DECLARE_DEFERRABLE_WORK(deferrable, note);

static void never_early(struct workqueue_struct *wq)
{
	double start = now_ms();

	runs = 0;
	CHECK(!timer_pending(&declared.timer) && !delayed_work_pending(&declared));
	CHECK(queue_delayed_work(wq, &declared, msecs_to_jiffies(40)));
	AWAIT(load(&runs) == 1);
	CHECK(ran_at - start >= 40);
	CHECK(!timer_pending(&declared.timer));
}

static void a_timer_can_be_looked_at(struct workqueue_struct *wq)
{
	unsigned long before = jiffies;

	runs = 0;
	CHECK(queue_delayed_work_on(0, wq, &declared, 600 * HZ));
	CHECK(timer_pending(&declared.timer) && delayed_work_pending(&declared));
	CHECK(work_busy(&declared.work) == WORK_BUSY_PENDING);
	CHECK(declared.wq == wq && declared.cpu == 0);
	CHECK(time_after_eq(declared.timer.expires, before + 600 * HZ));
	CHECK(time_before(declared.timer.expires, jiffies + 601 * HZ));
	CHECK(!queue_delayed_work(wq, &declared, 0) && timer_pending(&declared.timer));
	CHECK(mod_delayed_work(wq, &declared, 300 * HZ));
	CHECK(time_before(declared.timer.expires, jiffies + 301 * HZ));
	CHECK(declared.cpu == WORK_CPU_UNBOUND);
	CHECK(cancel_delayed_work(&declared));
	CHECK(!timer_pending(&declared.timer) && !cancel_delayed_work(&declared));
	CHECK(!mod_delayed_work(wq, &declared, 600 * HZ));
	flush_delayed_work(&declared);
	CHECK(load(&runs) == 1);
	CHECK(!flush_delayed_work(&declared));
}

static void no_delay_needs_no_timer(struct workqueue_struct *wq)
{
	struct delayed_work dwork;

	INIT_DELAYED_WORK_ONSTACK(&dwork, note);
	runs = 0;
	CHECK(queue_delayed_work(wq, &dwork, 0));
	flush_delayed_work(&dwork);
	CHECK(load(&runs) == 1 && dwork.wq == NULL);
	CHECK(!mod_delayed_work(wq, &dwork, 0));
	flush_delayed_work(&dwork);
	CHECK(load(&runs) == 2);
	destroy_delayed_work_on_stack(&dwork);
}

/* What a time that is over is less now. */
static void what_has_passed_is_soon(struct workqueue_struct *wq)
{
	runs = 0;
	/* As far away as can be is not over. */
	CHECK(queue_delayed_work(wq, &deferrable, LONG_MAX));
	CHECK(queue_delayed_work(wq, &declared, jiffies - 5 - jiffies));
	AWAIT(load(&runs) == 1);
	CHECK(time_before(declared.timer.expires, jiffies));
	CHECK(queue_delayed_work(wq, &declared, 600 * HZ));
	CHECK(mod_delayed_work(wq, &declared, -600UL * HZ));
	AWAIT(load(&runs) == 2);
	CHECK(cancel_delayed_work(&deferrable));
}

static void a_deferrable_one(struct workqueue_struct *wq)
{
	runs = 0;
	CHECK(queue_delayed_work(wq, &deferrable, 600 * HZ));
	CHECK(timer_pending(&deferrable.timer));
	CHECK(cancel_delayed_work_sync(&deferrable));
	CHECK(schedule_delayed_work(&declared, 1));
	AWAIT(load(&runs) == 1);
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("delayed", WQ_UNBOUND, 0);

	CHECK(wq);
	CHECK(msecs_to_jiffies(1000) == HZ && msecs_to_jiffies(1) >= 1 && jiffies_to_msecs(HZ) == 1000);
	never_early(wq);
	a_timer_can_be_looked_at(wq);
	no_delay_needs_no_timer(wq);
	what_has_passed_is_soon(wq);
	a_deferrable_one(wq);
	destroy_workqueue(wq);
	return 0;
}
