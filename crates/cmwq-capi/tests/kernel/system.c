/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The system's queues: which they are, where their items run, and that each is an object of its own. */
#include <linux/workqueue.h>
#include "harness.h"

#define NR 16

static struct work_struct items[NR];
static struct completion gate;
static atomic_t inside, runs;
static int cpu_of_item;

static void note_cpu(struct work_struct *work)
{
	(void)work;
	cpu_of_item = (int)raw_smp_processor_id();
	atomic_inc(&runs);
}

static void hold(struct work_struct *work)
{
	(void)work;
	atomic_inc(&inside);
	wait_for_completion(&gate);
	atomic_dec(&inside);
}

/* NR items at once, one on a CPU that is named, and a delayed one. */
static void check(struct workqueue_struct *wq, bool is_percpu)
{
	struct delayed_work dwork;

	CHECK(wq);
	init_completion(&gate);
	atomic_set(&runs, 0);
	for (int i = 0; i < NR; i++) {
		INIT_WORK(&items[i], hold);
		CHECK(queue_work_on(harness_cpu(0), wq, &items[i]));
	}
	AWAIT(atomic_read(&inside) == NR);
	complete_all(&gate);
	for (int i = 0; i < NR; i++)
		flush_work(&items[i]);
	for (int i = 0; harness_cpu(i) >= 0; i++) {
		INIT_WORK(&items[0], note_cpu);
		CHECK(queue_work_on(harness_cpu(i), wq, &items[0]));
		flush_work(&items[0]);
		CHECK(!is_percpu || cpu_of_item == harness_cpu(i));
	}
	INIT_DELAYED_WORK_ONSTACK(&dwork, note_cpu);
	atomic_set(&runs, 0);
	CHECK(queue_delayed_work(wq, &dwork, 1));
	flush_delayed_work(&dwork);
	CHECK(atomic_read(&runs) == 1);
	destroy_delayed_work_on_stack(&dwork);
}

/* An item that stays on `held` is not waited for by flushing `other`. */
static void separate(struct workqueue_struct *held, struct workqueue_struct *other)
{
	CHECK(held != other);
	init_completion(&gate);
	INIT_WORK(&items[0], hold);
	INIT_WORK(&items[1], note_cpu);
	CHECK(queue_work(held, &items[0]) && queue_work(other, &items[1]));
	AWAIT(atomic_read(&inside) == 1);
	__flush_workqueue(other);
	CHECK(atomic_read(&inside) == 1 && !work_busy(&items[1]));
	complete_all(&gate);
	flush_work(&items[0]);
}

static void row_system_wq(void)
{
	check(system_wq, true);
	separate(system_wq, system_percpu_wq);
}

static void row_system_percpu_wq(void)
{
	check(system_percpu_wq, true);
	/* Where schedule_work() queues. */
	init_completion(&gate);
	INIT_WORK(&items[0], hold);
	CHECK(schedule_work(&items[0]));
	complete_all(&gate);
	__flush_workqueue(system_percpu_wq);
	CHECK(!work_busy(&items[0]));
}

static void row_system_highpri_wq(void)
{
	check(system_highpri_wq, true);
	separate(system_highpri_wq, system_percpu_wq);
}

static void row_system_long_wq(void)
{
	check(system_long_wq, true);
	separate(system_long_wq, system_percpu_wq);
}

static void row_system_unbound_wq(void)
{
	check(system_unbound_wq, false);
	separate(system_unbound_wq, system_dfl_wq);
}

static void row_system_dfl_wq(void)
{
	check(system_dfl_wq, false);
}

static void row_system_dfl_long_wq(void)
{
	check(system_dfl_long_wq, false);
	separate(system_dfl_long_wq, system_dfl_wq);
}

static void freezes(struct workqueue_struct *wq, bool does)
{
	INIT_WORK(&items[0], note_cpu);
	freeze_workqueues_begin();
	CHECK(queue_work(wq, &items[0]));
	if (does)
		CHECK(work_busy(&items[0]) == WORK_BUSY_PENDING);
	else
		flush_work(&items[0]);
	thaw_workqueues();
	flush_work(&items[0]);
}

static void row_system_freezable_wq(void)
{
	check(system_freezable_wq, true);
	separate(system_freezable_wq, system_percpu_wq);
	freezes(system_freezable_wq, true);
	freezes(system_percpu_wq, false);
}

static void row_system_power_efficient_wq(void)
{
	check(system_power_efficient_wq, true);
	separate(system_power_efficient_wq, system_percpu_wq);
	freezes(system_power_efficient_wq, false);
}

static void row_system_freezable_power_efficient_wq(void)
{
	check(system_freezable_power_efficient_wq, true);
	separate(system_freezable_power_efficient_wq, system_freezable_wq);
	freezes(system_freezable_power_efficient_wq, true);
}

static void in_bh(struct work_struct *work)
{
	(void)work;
	/* There is no worker to have one. */
	CHECK(!current_work() && !current_is_workqueue_rescuer());
	note_cpu(work);
}

static void check_bh(struct workqueue_struct *wq)
{
	atomic_set(&runs, 0);
	for (int i = 0; harness_cpu(i) >= 0; i++) {
		INIT_WORK(&items[0], in_bh);
		CHECK(queue_work_on(harness_cpu(i), wq, &items[0]));
		flush_work(&items[0]);
		CHECK(cpu_of_item == harness_cpu(i) && atomic_read(&runs) == i + 1);
	}
	/* Many, and a queue flush, which nobody warns of here. */
	for (int i = 0; i < NR; i++) {
		INIT_WORK(&items[i], in_bh);
		CHECK(queue_work(wq, &items[i]));
	}
	flush_workqueue(wq);
	for (int i = 0; i < NR; i++)
		CHECK(!work_busy(&items[i]));
}

static void row_system_bh_wq(void)
{
	check_bh(system_bh_wq);
}

static void row_system_bh_highpri_wq(void)
{
	check_bh(system_bh_highpri_wq);
	CHECK(system_bh_highpri_wq != system_bh_wq);
}

ROWS(ROW(system_wq), ROW(system_percpu_wq), ROW(system_highpri_wq), ROW(system_long_wq), ROW(system_unbound_wq),
     ROW(system_dfl_wq), ROW(system_dfl_long_wq), ROW(system_freezable_wq), ROW(system_power_efficient_wq),
     ROW(system_freezable_power_efficient_wq), ROW(system_bh_wq), ROW(system_bh_highpri_wq));
