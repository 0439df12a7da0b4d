/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The types of the interface: what a client may see of them, and where it may put them. */
#include <linux/workqueue.h>
#include "harness.h"

static atomic_t runs;

static void count(struct work_struct *work)
{
	(void)work;
	atomic_inc(&runs);
}

static void row_work_func_t(void)
{
	work_func_t func = count;
	struct work_struct item;

	INIT_WORK_ONSTACK(&item, func);
	func(&item);
	CHECK(item.func == func && atomic_read(&runs) == 1);
	destroy_work_on_stack(&item);
}

struct holder {
	char odd;
	struct work_struct work;
	char more[3];
	struct delayed_work dwork;
	int number;
};

static void find_holder(struct work_struct *work)
{
	CHECK(container_of(work, struct holder, work)->number == 7);
	atomic_inc(&runs);
}

static void find_by_timer(struct work_struct *work)
{
	struct holder *holder = container_of(to_delayed_work(work), struct holder, dwork);

	CHECK(holder->number == 7 && holder->dwork.work.func == find_by_timer);
	atomic_inc(&runs);
}

/* Embedded anywhere; `func` may be read at any time. */
static void row_work_struct(void)
{
	struct holder *holder = kzalloc(sizeof(*holder), GFP_KERNEL);

	CHECK(holder && sizeof(struct work_struct) == 32);
	CHECK(sizeof(holder->work.data) == sizeof(long) && sizeof(holder->work.entry) == 2 * sizeof(void *));
	holder->number = 7;
	INIT_WORK(&holder->work, find_holder);
	CHECK(holder->work.func == find_holder && list_empty(&holder->work.entry));
	atomic_set(&runs, 0);
	CHECK(schedule_work(&holder->work));
	flush_work(&holder->work);
	CHECK(atomic_read(&runs) == 1 && holder->work.func == find_holder);
	kfree(holder);
}

static void row_delayed_work(void)
{
	struct holder *holder = kzalloc(sizeof(*holder), GFP_KERNEL);
	struct workqueue_struct *wq = alloc_workqueue("timed", WQ_UNBOUND, 0);
	unsigned long before = jiffies;

	CHECK(holder && wq);
	CHECK((void *)&holder->dwork.work == (void *)&holder->dwork);
	holder->number = 7;
	INIT_DELAYED_WORK(&holder->dwork, find_by_timer);
	atomic_set(&runs, 0);
	CHECK(queue_delayed_work_on(harness_cpu(0), wq, &holder->dwork, 100 * HZ));
	CHECK(time_after_eq(holder->dwork.timer.expires, before + 100 * HZ));
	CHECK(holder->dwork.wq == wq && holder->dwork.cpu == harness_cpu(0));
	CHECK(timer_pending(&holder->dwork.timer));
	flush_delayed_work(&holder->dwork);
	CHECK(atomic_read(&runs) == 1);
	destroy_workqueue(wq);
	kfree(holder);
}

static void find_by_rcu(struct work_struct *work)
{
	CHECK(to_rcu_work(work)->work.func == find_by_rcu);
	atomic_inc(&runs);
}

static void row_rcu_work(void)
{
	struct rcu_work *rwork = kzalloc(sizeof(*rwork), GFP_KERNEL);

	CHECK(rwork && (void *)&rwork->work == (void *)rwork && sizeof(rwork->rcu) == 2 * sizeof(void *));
	INIT_RCU_WORK(rwork, find_by_rcu);
	atomic_set(&runs, 0);
	CHECK(queue_rcu_work(system_percpu_wq, rwork));
	flush_rcu_work(rwork);
	CHECK(atomic_read(&runs) == 1);
	kfree(rwork);
}

static void row_execute_work(void)
{
	struct execute_work ew;

	atomic_set(&runs, 0);
	CHECK((void *)&ew.work == (void *)&ew);
	CHECK(execute_in_process_context(count, &ew) == 0 && atomic_read(&runs) == 1);
}

static void row_workqueue_attrs(void)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();

	CHECK(attrs && attrs->nice == 0 && !attrs->affn_strict && !attrs->ordered);
	CHECK(attrs->affn_scope == WQ_AFFN_DFL);
	CHECK(cpumask_test_cpu((unsigned int)harness_cpu(0), attrs->cpumask));
	free_workqueue_attrs(attrs);
}

static void row_workqueue_struct(void)
{
	struct workqueue_struct *one = alloc_workqueue("one", WQ_PERCPU, 0);
	struct workqueue_struct *two = alloc_workqueue("one", WQ_PERCPU, 0);

	/* Names need not differ. */
	CHECK(one && two && one != two);
	destroy_workqueue(one);
	destroy_workqueue(two);
}

ROWS(ROW(work_func_t), ROW(work_struct), ROW(delayed_work), ROW(rcu_work), ROW(execute_work), ROW(workqueue_attrs),
     ROW(workqueue_struct));
