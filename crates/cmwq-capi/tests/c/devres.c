/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queues that go with a device, other ways to make one, and what the core calls. */
#include <linux/device.h>
#include <linux/workqueue.h>
#include "check.h"

static int runs;
static char order[8];

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static void note(void *data)
{
	strncat(order, data, sizeof(order) - strlen(order) - 1);
}

static DECLARE_WORK(first, count_run);
static DECLARE_WORK(second, count_run);
static DECLARE_DELAYED_WORK(later, count_run);

int main(void)
{
	struct device device = { .init_name = "device" }, other = { .init_name = "other" };
	struct workqueue_struct *wq, *ordered;
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();

	workqueue_init_early();
	workqueue_init();
	workqueue_init_topology();
	CHECK(workqueue_prepare_cpu(0) == 0 && workqueue_online_cpu(0) == 0);
	CHECK(workqueue_offline_cpu(0) == 0);
	wq_watchdog_touch(0);
	workqueue_softirq_action(true);
	workqueue_softirq_dead(0);
	wq_worker_tick(NULL);

	wq = devm_alloc_workqueue(&device, "%s-%d", WQ_UNBOUND, 2, "dev", 1);
	ordered = devm_alloc_ordered_workqueue(&device, "ordered-%d", 0, 1);
	CHECK(wq && ordered && devm_alloc_workqueue(&other, "other", WQ_PERCPU, 0));
	CHECK(devm_add_action_or_reset(&device, note, (char *)"a") == 0);
	CHECK(devm_add_action_or_reset(&device, note, (char *)"b") == 0);
	CHECK(queue_work(wq, &first) && queue_work(ordered, &second));
	CHECK(devres_release_all(&device) == 4);
	CHECK(load(&runs) == 2 && strcmp(order, "ba") == 0);
	CHECK(devres_release_all(&device) == 0);
	/* It is destroyed. */
	CHECK(queue_work(wq, &first) && !flush_work(&first) && load(&runs) == 2);
	CHECK(devres_release_all(&other) == 1);

	wq = alloc_workqueue_lockdep_map("mapped-%d", WQ_UNBOUND, 4, NULL, 1);
	ordered = alloc_ordered_workqueue_lockdep_map("mapped-%d", WQ_HIGHPRI, NULL, 2);
	CHECK(wq && ordered && queue_work(wq, &first) && queue_work(ordered, &second));
	flush_workqueue(wq);
	flush_workqueue(ordered);
	CHECK(load(&runs) == 4);
	CHECK(workqueue_sysfs_register(wq) == 0);

	/* The timer of an armed item, called ahead of its time; of an idle one nothing comes. */
	delayed_work_timer_fn(&later.timer);
	CHECK(queue_delayed_work(wq, &later, 1000 * HZ) && timer_pending(&later.timer));
	delayed_work_timer_fn(&later.timer);
	flush_work(&later.work);
	CHECK(load(&runs) == 5 && !timer_pending(&later.timer) && !delayed_work_pending(&later));

	CHECK(workqueue_unbound_housekeeping_update(attrs->cpumask) == 0);
	cpumask_clear(attrs->cpumask);
	/* Nothing left of those asked for: all of them. */
	CHECK(workqueue_unbound_housekeeping_update(attrs->cpumask) == 0);
	CHECK(queue_work(wq, &first));
	destroy_workqueue(wq);
	destroy_workqueue(ordered);
	CHECK(load(&runs) == 6);
	free_workqueue_attrs(attrs);
	return 0;
}
