/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Making, changing and destroying queues. */
#include <linux/device.h>
#include <linux/workqueue.h>
#include "harness.h"

#define NR 16

static struct work_struct items[NR];
static struct completion gate;
static atomic_t inside, runs;
static int cpu_of_item;

static void hold(struct work_struct *work)
{
	(void)work;
	atomic_inc(&inside);
	wait_for_completion(&gate);
	atomic_dec(&inside);
	atomic_inc(&runs);
}

static void note_cpu(struct work_struct *work)
{
	(void)work;
	cpu_of_item = (int)raw_smp_processor_id();
	atomic_inc(&runs);
}

static void queue_held(struct workqueue_struct *wq, int number)
{
	init_completion(&gate);
	atomic_set(&runs, 0);
	for (int i = 0; i < number; i++) {
		INIT_WORK(&items[i], hold);
		CHECK(queue_work_on(harness_cpu(0), wq, &items[i]));
	}
}

/* So many of NR run at once; then all are let go. */
static void admits(struct workqueue_struct *wq, int number)
{
	queue_held(wq, NR);
	AWAIT(atomic_read(&inside) == number);
	CHECK(workqueue_congested(harness_cpu(0), wq) == (number < NR));
	complete_all(&gate);
	flush_workqueue(wq);
	CHECK(atomic_read(&runs) == NR);
}

static void row_alloc_workqueue(void)
{
	struct workqueue_struct *wq = alloc_workqueue("%s-%d-of-%u", WQ_PERCPU, 0, "one", 1, 2U);
	struct workqueue_struct *many = alloc_workqueue("many", WQ_PERCPU, 100000);
	struct workqueue_struct *negative = alloc_workqueue("negative", WQ_PERCPU, -3);
	struct workqueue_struct *longer =
		alloc_workqueue("a name of more than thirty-one characters", WQ_UNBOUND, 0);

	CHECK(wq && many && negative && longer);
	admits(wq, NR);
	admits(many, NR);
	/* Clamped to 1. */
	admits(negative, 1);
	destroy_workqueue(wq);
	destroy_workqueue(many);
	destroy_workqueue(negative);
	destroy_workqueue(longer);
}

static void row_alloc_ordered_workqueue(void)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("ordered-%s", WQ_MEM_RECLAIM | WQ_FREEZABLE, "x");

	CHECK(wq);
	admits(wq, 1);
	destroy_workqueue(wq);
}

static void row_devm_alloc_workqueue(void)
{
	struct device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	struct workqueue_struct *wq, *ordered;

	CHECK(dev);
	wq = devm_alloc_workqueue(dev, "dev-%d", WQ_PERCPU, 3, 1);
	ordered = devm_alloc_ordered_workqueue(dev, "dev-%s", WQ_MEM_RECLAIM, "ordered");
	CHECK(wq && ordered);
	admits(wq, 3);
	admits(ordered, 1);
	INIT_WORK(&items[0], note_cpu);
	CHECK(queue_work(wq, &items[0]));
	/* They go with the device, when their items have run. */
	devres_release_all(dev);
	CHECK(!work_busy(&items[0]) && atomic_read(&runs) == NR + 1);
	kfree(dev);
}

static void row_alloc_workqueue_lockdep_map(void)
{
	struct workqueue_struct *wq = alloc_workqueue_lockdep_map("map-%d", WQ_UNBOUND, 3, NULL, 1);
	struct workqueue_struct *ordered = alloc_ordered_workqueue_lockdep_map("map-%d", 0, NULL, 2);

	CHECK(wq && ordered);
	admits(wq, 3);
	admits(ordered, 1);
	destroy_workqueue(wq);
	destroy_workqueue(ordered);
}

static void row_create_workqueue(void)
{
	struct workqueue_struct *wq = create_workqueue("created");

	CHECK(wq);
	admits(wq, 1);
	/* Per CPU: the limit, too. */
	if (harness_cpu(1) >= 0) {
		queue_held(wq, 1);
		INIT_WORK(&items[1], note_cpu);
		CHECK(queue_work_on(harness_cpu(1), wq, &items[1]));
		flush_work(&items[1]);
		CHECK(cpu_of_item == harness_cpu(1));
		complete_all(&gate);
	}
	destroy_workqueue(wq);
}

static void row_create_freezable_workqueue(void)
{
	struct workqueue_struct *wq = create_freezable_workqueue("freezable");

	CHECK(wq);
	admits(wq, 1);
	freeze_workqueues_begin();
	queue_held(wq, 1);
	CHECK(work_busy(&items[0]) == WORK_BUSY_PENDING);
	complete_all(&gate);
	thaw_workqueues();
	flush_workqueue(wq);
	/* Not an ordered one: its limit may be changed. */
	workqueue_set_max_active(wq, 3);
	admits(wq, 3);
	destroy_workqueue(wq);
}

static void row_create_singlethread_workqueue(void)
{
	struct workqueue_struct *wq = create_singlethread_workqueue("single");

	CHECK(wq);
	admits(wq, 1);
	/* Ordered: its limit may not be changed, which is said. */
	workqueue_set_max_active(wq, 3);
	admits(wq, 1);
	destroy_workqueue(wq);
}

static struct workqueue_struct *going;
static atomic_t is_gone, links;

static void chain(struct work_struct *work)
{
	CHECK(!atomic_read(&is_gone));
	if (atomic_inc_return(&links) < 10)
		CHECK(queue_work(going, work));
}

static int destroy(void *unused)
{
	(void)unused;
	destroy_workqueue(going);
	atomic_set(&is_gone, 1);
	return 0;
}

static void row_destroy_workqueue(void)
{
	struct harness_thread destroyer;
	struct work_struct chained;

	going = alloc_workqueue("going", WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_SYSFS, 2);
	CHECK(going);
	queue_held(going, 5);
	INIT_WORK_ONSTACK(&chained, chain);
	CHECK(queue_work(going, &chained));
	AWAIT(atomic_read(&inside) == 2);
	harness_run(&destroyer, destroy, NULL);
	/* It waits for what runs and for what is queued. */
	CHECK(!atomic_read(&is_gone));
	complete_all(&gate);
	harness_join(&destroyer);
	CHECK(atomic_read(&runs) == 5 && atomic_read(&links) == 10 && atomic_read(&inside) == 0);
	destroy_work_on_stack(&chained);
}

static void row_alloc_workqueue_attrs(void)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();

	CHECK(attrs && attrs->nice == 0 && attrs->affn_scope == WQ_AFFN_DFL);
	CHECK(!attrs->affn_strict && !attrs->ordered);
	for (int i = 0; harness_cpu(i) >= 0; i++)
		CHECK(cpumask_test_cpu((unsigned int)harness_cpu(i), attrs->cpumask));
	free_workqueue_attrs(attrs);
	free_workqueue_attrs(NULL);
}

static void row_apply_workqueue_attrs(void)
{
	struct workqueue_struct *wq = alloc_workqueue("applied", WQ_UNBOUND, 0);
	struct workqueue_struct *percpu = alloc_workqueue("percpu", WQ_PERCPU, 0);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();

	CHECK(wq && percpu && attrs);
	for (int i = 0; harness_cpu(i) >= 0; i++) {
		cpumask_clear(attrs->cpumask);
		cpumask_set_cpu((unsigned int)harness_cpu(i), attrs->cpumask);
		CHECK(apply_workqueue_attrs(wq, attrs) == 0);
		INIT_WORK(&items[0], note_cpu);
		CHECK(queue_work_on(harness_cpu(0), wq, &items[0]));
		flush_work(&items[0]);
		CHECK(cpu_of_item == harness_cpu(i));
	}
	/* Of no CPU at all: of those of all unbound queues. */
	cpumask_clear(attrs->cpumask);
	CHECK(apply_workqueue_attrs(wq, attrs) == 0);
	/* With items that run; they finish where they are. */
	queue_held(wq, NR);
	AWAIT(atomic_read(&inside) == NR);
	for (int scope = 0; scope < WQ_AFFN_NR_TYPES; scope++) {
		cpumask_setall(attrs->cpumask);
		attrs->affn_scope = (enum wq_affn_scope)scope;
		attrs->affn_strict = scope % 2;
		CHECK(apply_workqueue_attrs(wq, attrs) == 0);
	}
	complete_all(&gate);
	flush_workqueue(wq);
	CHECK(atomic_read(&runs) == NR);
	/* Only unbound queues have any. */
	CHECK(apply_workqueue_attrs(percpu, attrs) == -EINVAL);
	free_workqueue_attrs(attrs);
	destroy_workqueue(wq);
	destroy_workqueue(percpu);
}

static void row_workqueue_set_max_active(void)
{
	const unsigned int flags[] = { WQ_PERCPU, WQ_UNBOUND };

	for (int i = 0; i < 2; i++) {
		struct workqueue_struct *wq = alloc_workqueue("changed", flags[i], 2);

		CHECK(wq);
		queue_held(wq, NR);
		AWAIT(atomic_read(&inside) == 2);
		workqueue_set_max_active(wq, 5);
		AWAIT(atomic_read(&inside) == 5);
		/* Nobody is stopped; nobody else starts. */
		workqueue_set_max_active(wq, 1);
		CHECK(atomic_read(&inside) == 5);
		workqueue_set_max_active(wq, NR);
		AWAIT(atomic_read(&inside) == NR);
		complete_all(&gate);
		flush_workqueue(wq);
		destroy_workqueue(wq);
	}
}

static void row_workqueue_set_min_active(void)
{
	struct workqueue_struct *wq = alloc_workqueue("changed", WQ_UNBOUND, 12);
	struct workqueue_struct *percpu = alloc_workqueue("percpu", WQ_PERCPU, 2);

	CHECK(wq && percpu);
	workqueue_set_min_active(wq, 0);
	admits(wq, 12);
	/* Not above max_active. */
	workqueue_set_min_active(wq, 1000);
	admits(wq, 12);
	/* Said, and without effect. */
	workqueue_set_min_active(percpu, 8);
	admits(percpu, 2);
	destroy_workqueue(wq);
	destroy_workqueue(percpu);
}

static void row_workqueue_sysfs_register(void)
{
	struct workqueue_struct *wq = alloc_workqueue("shown", WQ_UNBOUND, 0);

	CHECK(wq && workqueue_sysfs_register(wq) == 0);
	admits(wq, NR);
	destroy_workqueue(wq);
}

static void row_workqueue_unbound_housekeeping_update(void)
{
	struct workqueue_struct *wq = alloc_workqueue("kept", WQ_UNBOUND, 0);
	static struct cpumask mask;

	CHECK(wq);
	for (int i = 0; harness_cpu(i) >= 0; i++) {
		cpumask_clear(&mask);
		cpumask_set_cpu((unsigned int)harness_cpu(i), &mask);
		CHECK(workqueue_unbound_housekeeping_update(&mask) == 0);
		INIT_WORK(&items[0], note_cpu);
		CHECK(queue_work(wq, &items[0]));
		flush_work(&items[0]);
		CHECK(cpu_of_item == harness_cpu(i));
	}
	cpumask_setall(&mask);
	CHECK(workqueue_unbound_housekeeping_update(&mask) == 0);
	admits(wq, NR);
	destroy_workqueue(wq);
}

ROWS(ROW(alloc_workqueue), ROW(devm_alloc_workqueue), ROW(alloc_ordered_workqueue), ROW(alloc_workqueue_lockdep_map), ROW(create_workqueue), ROW(create_freezable_workqueue),
     ROW(create_singlethread_workqueue), ROW(destroy_workqueue), ROW(alloc_workqueue_attrs), ROW(apply_workqueue_attrs),
     ROW(workqueue_set_max_active), ROW(workqueue_set_min_active), ROW(workqueue_sysfs_register),
     ROW(workqueue_unbound_housekeeping_update));
