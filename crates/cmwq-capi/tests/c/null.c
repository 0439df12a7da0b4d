/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Null pointers in place of everything: each function has an answer, and says what is wrong. */
#include <cmwq.h>
#include <errno.h>
#include "check.h"

static int runs;

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static DECLARE_WORK(item, count_run);
static DECLARE_DELAYED_WORK(later, count_run);

static void no_queue(void)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct rcu_work rwork;

	INIT_RCU_WORK(&rwork, count_run);
	CHECK(!queue_work_on(0, NULL, &item));
	CHECK(!queue_work_node(0, NULL, &item));
	CHECK(!queue_delayed_work_on(0, NULL, &later, 1));
	CHECK(!mod_delayed_work_on(0, NULL, &later, 1));
	CHECK(!queue_rcu_work(NULL, &rwork));
	CHECK(!disable_work(&item));
	CHECK(!enable_and_queue_work(NULL, &item));
	CHECK(!queue_work(system_percpu_wq, &item) && enable_work(&item));
	CHECK(!work_pending(&item) && !delayed_work_pending(&later));
	__flush_workqueue(NULL);
	drain_workqueue(NULL);
	destroy_workqueue(NULL);
	workqueue_set_max_active(NULL, 1);
	workqueue_set_min_active(NULL, 1);
	CHECK(!workqueue_congested(0, NULL));
	CHECK(apply_workqueue_attrs(NULL, attrs) == -EINVAL);
	CHECK(workqueue_sysfs_register(NULL) == -EINVAL);
	show_one_workqueue(NULL);
	CHECK(!cmwq_workqueue_stats(NULL, NULL, 0));
	free_workqueue_attrs(attrs);
}

static void no_item(void)
{
	struct workqueue_struct *wq = system_percpu_wq;

	CHECK(!queue_work_on(0, wq, NULL));
	CHECK(!queue_work_node(0, wq, NULL));
	CHECK(!queue_delayed_work_on(0, wq, NULL, 1));
	CHECK(!mod_delayed_work_on(0, wq, NULL, 1));
	CHECK(!queue_rcu_work(wq, NULL));
	CHECK(!enable_and_queue_work(wq, NULL));
	CHECK(!flush_work(NULL) && !flush_delayed_work(NULL) && !flush_rcu_work(NULL));
	CHECK(!cancel_work(NULL) && !cancel_delayed_work(NULL));
	CHECK(!cancel_work_sync(NULL) && !cancel_delayed_work_sync(NULL));
	CHECK(!disable_work(NULL) && !disable_delayed_work(NULL));
	CHECK(!disable_work_sync(NULL) && !disable_delayed_work_sync(NULL));
	CHECK(!enable_work(NULL) && !enable_delayed_work(NULL));
	CHECK(!work_busy(NULL));
	CHECK(execute_in_process_context(count_run, NULL) == -EINVAL);
	delayed_work_timer_fn(NULL);
}

static void nothing_else(void)
{
	char name[8];

	CHECK(!cmwq_alloc_workqueue(NULL, WQ_PERCPU, 0));
	cmwq_set_worker_desc(NULL);
	CHECK(schedule_on_each_cpu(NULL) == -EINVAL);
	CHECK(work_on_cpu(0, NULL, NULL) == -EINVAL);
	CHECK(cmwq_devm_add_action(&runs, NULL, NULL) == -EINVAL);
	CHECK(cmwq_set_rcu(NULL, NULL) == -EINVAL);
	CHECK(cmwq_param_set(NULL, "1") == -EINVAL && cmwq_param_set("idle_ratio", NULL) == -EINVAL);
	CHECK(cmwq_param_get(NULL, name, sizeof(name)) == -EINVAL);
	/* These say nothing: there is an answer without. */
	CHECK(cmwq_param_get("idle_ratio", NULL, 8) == 1);
	wq_worker_comm(NULL, 8, NULL);
	print_worker_info(NULL, NULL);
	free_workqueue_attrs(NULL);
	CHECK(apply_workqueue_attrs(system_percpu_wq, NULL) == -EINVAL);
	CHECK(workqueue_unbound_housekeeping_update(NULL) == -EINVAL);
}

int main(void)
{
	no_queue();
	no_item();
	nothing_else();
	/* No harm was done. */
	CHECK(queue_work(system_percpu_wq, &item));
	flush_work(&item);
	CHECK(load(&runs) == 1);
	return 0;
}
