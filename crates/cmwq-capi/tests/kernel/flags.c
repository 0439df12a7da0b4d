/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The flags of alloc_workqueue(), one by one. */
#include <linux/workqueue.h>
#include "harness.h"

#define NR 8

static struct work_struct items[NR];
static struct completion gate;
static atomic_t inside, runs, met;
static int cpu_of_item;

static void hold(struct work_struct *work)
{
	(void)work;
	atomic_inc(&inside);
	wait_for_completion(&gate);
	atomic_dec(&inside);
}

static void note_cpu(struct work_struct *work)
{
	(void)work;
	cpu_of_item = (int)raw_smp_processor_id();
	atomic_inc(&runs);
}

static void in_order(struct work_struct *work)
{
	CHECK(atomic_inc_return(&runs) - 1 == work - items);
	CHECK(atomic_inc_return(&inside) == 1);
	atomic_dec(&inside);
}

static struct workqueue_struct *made(unsigned int flags)
{
	struct workqueue_struct *wq = alloc_workqueue("flags-%x", flags, 0, flags);

	CHECK(wq);
	init_completion(&gate);
	atomic_set(&runs, 0);
	atomic_set(&met, 0);
	CHECK(atomic_read(&inside) == 0);
	return wq;
}

static void queue_all(struct workqueue_struct *wq, work_func_t func, int number)
{
	for (int i = 0; i < number; i++) {
		INIT_WORK(&items[i], func);
		CHECK(queue_work_on(harness_cpu(0), wq, &items[i]));
	}
}

static void open_and_destroy(struct workqueue_struct *wq)
{
	complete_all(&gate);
	destroy_workqueue(wq);
}

static void row_wq_bh(void)
{
	struct workqueue_struct *wq = made(WQ_BH | WQ_PERCPU);
	struct workqueue_struct *high = made(WQ_BH | WQ_HIGHPRI | WQ_PERCPU);

	/* First in, first out, one at a time. */
	queue_all(wq, in_order, NR);
	flush_workqueue(wq);
	CHECK(atomic_read(&runs) == NR);
	queue_all(high, note_cpu, 1);
	flush_workqueue(high);
	CHECK(cpu_of_item == harness_cpu(0));
	/* Nothing else goes with it. */
	CHECK(!alloc_workqueue("bad", WQ_BH | WQ_UNBOUND, 0));
	CHECK(!alloc_workqueue("bad", WQ_BH | WQ_MEM_RECLAIM, 0));
	CHECK(!alloc_workqueue("bad", WQ_BH | WQ_FREEZABLE, 0));
	CHECK(!alloc_workqueue("bad", WQ_BH | WQ_PERCPU, 4));
	destroy_workqueue(wq);
	destroy_workqueue(high);
}

/* They all compute at once, though they were queued on one CPU; on a per-CPU queue none would meet another. */
static void meet(struct work_struct *work)
{
	(void)work;
	atomic_inc(&met);
	while (atomic_read(&met) < 3)
		cpu_relax();
}

static void row_wq_unbound(void)
{
	struct workqueue_struct *wq = made(WQ_UNBOUND);

	queue_all(wq, meet, 3);
	flush_workqueue(wq);
	CHECK(atomic_read(&met) == 3);
	destroy_workqueue(wq);
}

static void row_wq_freezable(void)
{
	struct workqueue_struct *wq = made(WQ_FREEZABLE | WQ_PERCPU), *other = made(WQ_PERCPU);

	freeze_workqueues_begin();
	queue_all(wq, note_cpu, 1);
	INIT_WORK(&items[1], note_cpu);
	CHECK(queue_work(other, &items[1]));
	flush_workqueue(other);
	CHECK(work_busy(&items[0]) == WORK_BUSY_PENDING);
	thaw_workqueues();
	flush_work(&items[0]);
	CHECK(!work_busy(&items[0]));
	destroy_workqueue(wq);
	destroy_workqueue(other);
}

static void is_reclaiming(struct work_struct *work)
{
	(void)work;
	if (current_is_workqueue_mem_reclaim())
		atomic_inc(&runs);
}

/* The rescuer itself: j_rescuer. */
static void row_wq_mem_reclaim(void)
{
	struct workqueue_struct *wq = made(WQ_MEM_RECLAIM | WQ_PERCPU), *plain = made(WQ_PERCPU);

	queue_all(wq, is_reclaiming, 3);
	flush_workqueue(wq);
	CHECK(atomic_read(&runs) == 3);
	queue_all(plain, is_reclaiming, 3);
	flush_workqueue(plain);
	CHECK(atomic_read(&runs) == 3 && !current_is_workqueue_mem_reclaim());
	destroy_workqueue(wq);
	destroy_workqueue(plain);
}

static void wait_spinning(struct work_struct *work)
{
	(void)work;
	atomic_inc(&inside);
	while (!completion_done(&gate))
		cpu_relax();
	atomic_dec(&inside);
}

/* Their pool is another one: they start while a normal item computes. */
static void row_wq_highpri(void)
{
	struct workqueue_struct *normal = made(WQ_PERCPU), *high = made(WQ_HIGHPRI | WQ_PERCPU);

	INIT_WORK(&items[1], wait_spinning);
	CHECK(queue_work_on(harness_cpu(0), normal, &items[1]));
	AWAIT(atomic_read(&inside) == 1);
	queue_all(high, note_cpu, 1);
	flush_work(&items[0]);
	CHECK(cpu_of_item == harness_cpu(0) && atomic_read(&inside) == 1);
	complete_all(&gate);
	destroy_workqueue(normal);
	destroy_workqueue(high);
}

/* It computes, and nobody waits for it. */
static void row_wq_cpu_intensive(void)
{
	struct workqueue_struct *wq = made(WQ_CPU_INTENSIVE | WQ_PERCPU), *normal = made(WQ_PERCPU);

	INIT_WORK(&items[1], wait_spinning);
	CHECK(queue_work_on(harness_cpu(0), wq, &items[1]));
	AWAIT(atomic_read(&inside) == 1);
	queue_all(normal, note_cpu, 1);
	flush_work(&items[0]);
	CHECK(atomic_read(&inside) == 1);
	complete_all(&gate);
	destroy_workqueue(wq);
	destroy_workqueue(normal);
}

/* On queues of any kind; what it shows is not asked here. */
static void row_wq_sysfs(void)
{
	struct workqueue_struct *wq = made(WQ_SYSFS | WQ_PERCPU), *ordered;

	queue_all(wq, note_cpu, NR);
	destroy_workqueue(wq);
	ordered = alloc_ordered_workqueue("sysfs", WQ_SYSFS);
	CHECK(ordered && atomic_read(&runs) == NR);
	destroy_workqueue(ordered);
}

/* Per-CPU, as the parameter power_efficient is not set. */
static void row_wq_power_efficient(void)
{
	struct workqueue_struct *wq = made(WQ_POWER_EFFICIENT | WQ_PERCPU);

	queue_all(wq, note_cpu, 1);
	flush_workqueue(wq);
	CHECK(cpu_of_item == harness_cpu(0));
	destroy_workqueue(wq);
}

static void row_wq_percpu(void)
{
	struct workqueue_struct *wq = made(WQ_PERCPU), *assumed = made(0);
	struct workqueue_struct *both = made(WQ_PERCPU | WQ_UNBOUND);

	for (int i = 0; harness_cpu(i) >= 0; i++) {
		INIT_WORK(&items[0], note_cpu);
		CHECK(queue_work_on(harness_cpu(i), wq, &items[0]));
		flush_work(&items[0]);
		CHECK(cpu_of_item == harness_cpu(i));
		CHECK(queue_work_on(harness_cpu(i), assumed, &items[0]));
		flush_work(&items[0]);
		CHECK(cpu_of_item == harness_cpu(i));
	}
	/* Unbound, if somebody asks for both. */
	queue_all(both, meet, 3);
	flush_workqueue(both);
	destroy_workqueue(wq);
	destroy_workqueue(assumed);
	destroy_workqueue(both);
}

/* What it does: h_drain, o_timer_in_drain. An own item of a queue that goes may still queue. */
static struct workqueue_struct *going;

static void chain(struct work_struct *work)
{
	if (atomic_inc_return(&runs) < 10)
		CHECK(queue_work(going, work));
}

static void row_wq_destroying_and_draining(void)
{
	going = made(WQ_UNBOUND);
	queue_all(going, chain, 1);
	drain_workqueue(going);
	CHECK(atomic_read(&runs) == 10);
	atomic_set(&runs, 5);
	CHECK(queue_work(going, &items[0]));
	destroy_workqueue(going);
	CHECK(atomic_read(&runs) == 10);
}

static void row_wq_ordered(void)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("ordered", WQ_HIGHPRI);
	struct workqueue_struct *loose;

	atomic_set(&runs, 0);
	queue_all(wq, in_order, NR);
	destroy_workqueue(wq);
	/* A limit of one makes no ordered queue of an unbound one: min_active and max_active may be changed. */
	loose = alloc_workqueue("loose", WQ_UNBOUND, 1);
	init_completion(&gate);
	queue_all(loose, hold, 2);
	workqueue_set_max_active(loose, 2);
	AWAIT(atomic_read(&inside) == 2);
	open_and_destroy(loose);
}

static void row_wq_legacy(void)
{
	struct workqueue_struct *wq = made(__WQ_LEGACY | WQ_MEM_RECLAIM | WQ_PERCPU);

	queue_all(wq, is_reclaiming, 1);
	flush_workqueue(wq);
	/* Exempt. */
	CHECK(atomic_read(&runs) == 0);
	destroy_workqueue(wq);
}

static void row_wq_deprecated(void)
{
	INIT_WORK(&items[0], note_cpu);
	atomic_set(&runs, 0);
	CHECK(queue_work(system_wq, &items[0]));
	flush_work(&items[0]);
	CHECK(queue_work(system_unbound_wq, &items[0]));
	flush_work(&items[0]);
	CHECK(atomic_read(&runs) == 2);
}

ROWS(ROW(wq_bh), ROW(wq_unbound), ROW(wq_freezable), ROW(wq_mem_reclaim), ROW(wq_highpri), ROW(wq_cpu_intensive),
     ROW(wq_sysfs), ROW(wq_power_efficient), ROW(wq_percpu), ROW(wq_destroying_and_draining), ROW(wq_ordered),
     ROW(wq_legacy), ROW(wq_deprecated));
