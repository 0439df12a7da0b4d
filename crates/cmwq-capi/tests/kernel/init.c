/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Making items. */
#include <linux/workqueue.h>
#include "harness.h"

static atomic_t runs;

static void count(struct work_struct *work)
{
	(void)work;
	atomic_inc(&runs);
}

static void other(struct work_struct *work)
{
	(void)work;
	atomic_add_return(100, &runs);
}

static void runs_once(struct work_struct *work)
{
	atomic_set(&runs, 0);
	CHECK(!work_pending(work) && !work_busy(work) && !flush_work(work) && !cancel_work(work));
	CHECK(schedule_work(work));
	flush_work(work);
	CHECK(atomic_read(&runs) == 1);
}

static void times_once(struct delayed_work *dwork)
{
	atomic_set(&runs, 0);
	CHECK(!delayed_work_pending(dwork) && !timer_pending(&dwork->timer) && !cancel_delayed_work(dwork));
	CHECK(schedule_delayed_work(dwork, 600 * HZ) && delayed_work_pending(dwork));
	/* True, unless it has run before it is waited for. */
	flush_delayed_work(dwork);
	CHECK(atomic_read(&runs) == 1);
}

static void row_init_work(void)
{
	struct work_struct *work = kmalloc(sizeof(*work), GFP_KERNEL), onstack;

	CHECK(work);
	/* Whatever was there. */
	memset(work, 0xa5, sizeof(*work));
	INIT_WORK(work, count);
	CHECK(list_empty(&work->entry) && work->func == count);
	runs_once(work);
	/* An idle item gets another function, is enabled, and forgets where it was. */
	CHECK(!disable_work(work) && !queue_work(system_percpu_wq, work));
	INIT_WORK(work, other);
	CHECK((unsigned long)atomic_long_read(&work->data) == WORK_STRUCT_NO_POOL);
	CHECK(schedule_work(work));
	flush_work(work);
	CHECK(atomic_read(&runs) == 101);
	kfree(work);

	INIT_WORK_ONSTACK(&onstack, count);
	runs_once(&onstack);
	INIT_WORK_ONSTACK_KEY(&onstack, count, NULL);
	runs_once(&onstack);
	__INIT_WORK(&onstack, count, 1);
	runs_once(&onstack);
	__INIT_WORK_KEY(&onstack, count, 1, NULL);
	runs_once(&onstack);
	destroy_work_on_stack(&onstack);
}

static void row_init_delayed_work(void)
{
	struct delayed_work *dwork = kmalloc(sizeof(*dwork), GFP_KERNEL), onstack;

	CHECK(dwork);
	memset(dwork, 0xa5, sizeof(*dwork));
	INIT_DELAYED_WORK(dwork, count);
	times_once(dwork);
	INIT_DEFERRABLE_WORK(dwork, count);
	times_once(dwork);
	__INIT_DELAYED_WORK(dwork, count, TIMER_DEFERRABLE);
	times_once(dwork);
	kfree(dwork);

	INIT_DELAYED_WORK_ONSTACK(&onstack, count);
	times_once(&onstack);
	INIT_DEFERRABLE_WORK_ONSTACK(&onstack, count);
	times_once(&onstack);
	__INIT_DELAYED_WORK_ONSTACK(&onstack, count, 0);
	times_once(&onstack);
	destroy_delayed_work_on_stack(&onstack);
}

static void row_init_rcu_work(void)
{
	struct rcu_work *rwork = kmalloc(sizeof(*rwork), GFP_KERNEL), onstack;

	CHECK(rwork);
	memset(rwork, 0xa5, sizeof(*rwork));
	atomic_set(&runs, 0);
	INIT_RCU_WORK(rwork, count);
	CHECK(!flush_rcu_work(rwork) && queue_rcu_work(system_percpu_wq, rwork));
	flush_rcu_work(rwork);
	INIT_RCU_WORK_ONSTACK(&onstack, count);
	CHECK(queue_rcu_work(system_percpu_wq, &onstack));
	flush_rcu_work(&onstack);
	destroy_work_on_stack(&onstack.work);
	CHECK(atomic_read(&runs) == 2);
	kfree(rwork);
}

static DECLARE_WORK(declared, count);
static DECLARE_DELAYED_WORK(declared_dwork, count);
static DECLARE_DEFERRABLE_WORK(declared_deferrable, count);
static struct work_struct initialised = __WORK_INITIALIZER(initialised, count);
static struct delayed_work initialised_dwork = __DELAYED_WORK_INITIALIZER(initialised_dwork, count, 0);
static struct {
	int before;
	struct work_struct work;
} within = { 1, __WORK_INITIALIZER(within.work, count) };

static void row_declare(void)
{
	CHECK(list_empty(&declared.entry) && declared.func == count);
	runs_once(&declared);
	runs_once(&initialised);
	runs_once(&within.work);
	times_once(&declared_dwork);
	times_once(&declared_deferrable);
	times_once(&initialised_dwork);
}

static void row_debug_hooks(void)
{
	struct delayed_work dwork;
	struct work_struct work;

	__init_work(&work, 1);
	INIT_WORK_ONSTACK(&work, count);
	INIT_DELAYED_WORK_ONSTACK(&dwork, count);
	runs_once(&work);
	times_once(&dwork);
	destroy_work_on_stack(&work);
	destroy_delayed_work_on_stack(&dwork);
	CHECK(work_static(&declared) <= 1);
}

struct thing {
	long number;
	struct work_struct work;
	struct delayed_work dwork;
};

static void find(struct work_struct *work)
{
	struct thing *thing = from_work(thing, work, work);

	CHECK(thing->number == 5);
	atomic_inc(&runs);
}

static void find_delayed(struct work_struct *work)
{
	struct delayed_work *dwork = to_delayed_work(work);
	struct thing *thing = container_of(dwork, struct thing, dwork);

	CHECK(thing->number == 5);
	atomic_inc(&runs);
}

static void row_container_of_helpers(void)
{
	struct thing *thing = kzalloc(sizeof(*thing), GFP_KERNEL);

	CHECK(thing);
	thing->number = 5;
	INIT_WORK(&thing->work, find);
	INIT_DELAYED_WORK(&thing->dwork, find_delayed);
	runs_once(&thing->work);
	times_once(&thing->dwork);
	kfree(thing);
}

static void row_work_pending(void)
{
	struct delayed_work dwork;

	INIT_DELAYED_WORK_ONSTACK(&dwork, count);
	CHECK(!delayed_work_pending(&dwork) && !work_pending(&dwork.work));
	/* Also while only the timer is armed. */
	CHECK(schedule_delayed_work(&dwork, 600 * HZ));
	CHECK(delayed_work_pending(&dwork) && work_pending(&dwork.work));
	CHECK(cancel_delayed_work_sync(&dwork) && !delayed_work_pending(&dwork));
	destroy_delayed_work_on_stack(&dwork);
}

ROWS(ROW(init_work), ROW(init_delayed_work), ROW(init_rcu_work), ROW(declare), ROW(debug_hooks), ROW(container_of_helpers),
     ROW(work_pending));
