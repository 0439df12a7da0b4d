/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queueing, at once and later. */
#include <linux/workqueue.h>
#include "harness.h"
#include "draining.h"

static struct workqueue_struct *percpu, *unbound;
static struct completion gate;
static atomic_t inside, runs;
static int cpu_of_item, message, seen;
static unsigned long ran_at;

static void note(struct work_struct *work)
{
	(void)work;
	cpu_of_item = (int)raw_smp_processor_id();
	ran_at = jiffies;
	seen = message;
	atomic_inc(&runs);
}

static void hold(struct work_struct *work)
{
	(void)work;
	atomic_inc(&inside);
	wait_for_completion(&gate);
	atomic_dec(&inside);
}

static DECLARE_WORK(item, note);
static DECLARE_WORK(holder, hold);
static DECLARE_DELAYED_WORK(dwork, note);

static void begin(void)
{
	percpu = alloc_workqueue("percpu", WQ_PERCPU, 1);
	unbound = alloc_workqueue("unbound", WQ_UNBOUND, 1);
	CHECK(percpu && unbound);
	init_completion(&gate);
	atomic_set(&runs, 0);
}

static void end(void)
{
	complete_all(&gate);
	destroy_workqueue(percpu);
	destroy_workqueue(unbound);
}

static void hold_slot(struct workqueue_struct *wq)
{
	CHECK(queue_work_on(harness_cpu(0), wq, &holder));
	AWAIT(atomic_read(&inside) == 1);
}

static void row_queue_work_on(void)
{
	begin();
	for (int i = 0; harness_cpu(i) >= 0; i++) {
		CHECK(queue_work_on(harness_cpu(i), percpu, &item));
		flush_work(&item);
		CHECK(cpu_of_item == harness_cpu(i) && atomic_read(&runs) == i + 1);
	}
	atomic_set(&runs, 0);
	/* False: it is pending already, and stays where it is. */
	hold_slot(percpu);
	CHECK(queue_work_on(harness_cpu(0), percpu, &item));
	CHECK(!queue_work_on(harness_cpu(0), percpu, &item) && !queue_work_on(harness_cpu(0), unbound, &item));
	/* What was written before is seen all the same. */
	message = 8;
	CHECK(!queue_work(unbound, &item));
	complete_all(&gate);
	flush_work(&item);
	CHECK(atomic_read(&runs) == 1 && seen == 8);
	/* A CPU that is not there: elsewhere, and it is said. */
	CHECK(queue_work_on(8000, unbound, &item));
	flush_work(&item);
	/* Disabled. */
	CHECK(!disable_work(&item) && !queue_work_on(harness_cpu(0), percpu, &item) && enable_work(&item));
	CHECK(atomic_read(&runs) == 2);
	end();
}

/* h_drain has the rest. */
static void row_queue_work_on_a_draining_queue(void)
{
	begin();
	drained = percpu;
	hold_slot(percpu);
	begin_drain();
	CHECK(queue_work(drained, &item) && !work_pending(&item) && !work_busy(&item));
	CHECK(queue_work(drained, &item) && !cancel_work_sync(&item));
	complete_all(&gate);
	end_drain();
	CHECK(atomic_read(&runs) == 0);
	CHECK(queue_work(drained, &item));
	flush_work(&item);
	CHECK(atomic_read(&runs) == 1);
	end();
}

static void row_queue_work(void)
{
	begin();
	for (int i = 0; i < 1000; i++) {
		message = i;
		CHECK(queue_work(i % 2 ? percpu : unbound, &item));
		flush_work(&item);
		CHECK(seen == i && atomic_read(&runs) == i + 1);
	}
	end();
}

static void row_queue_work_node(void)
{
	begin();
	for (int node = -1; node < 3; node++) {
		CHECK(queue_work_node(node, unbound, &item));
		flush_work(&item);
	}
	hold_slot(unbound);
	CHECK(queue_work_node(0, unbound, &item) && !queue_work_node(0, unbound, &item));
	complete_all(&gate);
	flush_work(&item);
	CHECK(atomic_read(&runs) == 5);
	end();
}

static void row_queue_delayed_work(void)
{
	unsigned long before = jiffies;

	begin();
	/* Without a delay there is no timer, and nothing is noted for it. */
	CHECK(queue_delayed_work(percpu, &dwork, 0));
	flush_work(&dwork.work);
	CHECK(atomic_read(&runs) == 1 && dwork.wq == NULL);
	CHECK(queue_delayed_work_on(harness_cpu(0), percpu, &dwork, 600 * HZ));
	CHECK(dwork.wq == percpu && dwork.cpu == harness_cpu(0));
	CHECK(!queue_delayed_work(percpu, &dwork, 0) && !queue_delayed_work_on(harness_cpu(0), unbound, &dwork, 1));
	CHECK(dwork.wq == percpu && dwork.cpu == harness_cpu(0) && cancel_delayed_work(&dwork));
	CHECK(queue_delayed_work_on(harness_cpu(0), percpu, &dwork, 3));
	AWAIT(atomic_read(&runs) == 2);
	CHECK(time_after_eq(ran_at, before + 3) && cpu_of_item == harness_cpu(0));
	/* The delay to what has passed. */
	CHECK(queue_delayed_work(percpu, &dwork, before - 5 - jiffies) && dwork.wq == percpu);
	AWAIT(atomic_read(&runs) == 3);
	/* Disabled: neither timed nor queued. */
	CHECK(!disable_delayed_work(&dwork) && !queue_delayed_work(percpu, &dwork, 1));
	CHECK(!timer_pending(&dwork.timer) && enable_delayed_work(&dwork));
	end();
}

static void row_mod_delayed_work(void)
{
	begin();
	/* Idle: queued. */
	CHECK(!mod_delayed_work(percpu, &dwork, 600 * HZ) && timer_pending(&dwork.timer));
	/* Armed: re-timed, to later and to sooner, to another queue and CPU. */
	CHECK(mod_delayed_work(percpu, &dwork, 700 * HZ));
	CHECK(time_after(dwork.timer.expires, jiffies + 600 * HZ));
	CHECK(mod_delayed_work_on(harness_cpu(0), unbound, &dwork, 600 * HZ));
	CHECK(dwork.wq == unbound && dwork.cpu == harness_cpu(0));
	CHECK(mod_delayed_work(percpu, &dwork, 0));
	flush_work(&dwork.work);
	CHECK(atomic_read(&runs) == 1);
	/* Queued: taken off, and timed again. */
	hold_slot(percpu);
	CHECK(queue_delayed_work_on(harness_cpu(0), percpu, &dwork, 0) && !timer_pending(&dwork.timer));
	CHECK(mod_delayed_work(percpu, &dwork, 600 * HZ) && timer_pending(&dwork.timer));
	complete_all(&gate);
	flush_work(&holder);
	CHECK(atomic_read(&runs) == 1);
	/* Disabled: only cancelled, which is no longer to be told from idle. */
	CHECK(disable_delayed_work(&dwork) && !mod_delayed_work(percpu, &dwork, 1));
	CHECK(!delayed_work_pending(&dwork) && enable_delayed_work(&dwork));
	CHECK(!mod_delayed_work(percpu, &dwork, 1));
	flush_delayed_work(&dwork);
	CHECK(atomic_read(&runs) == 2);
	/* To what has passed. */
	CHECK(!mod_delayed_work(percpu, &dwork, 600 * HZ) && mod_delayed_work(percpu, &dwork, -5UL));
	AWAIT(atomic_read(&runs) == 3);
	end();
}

static struct rcu_work rwork;

static void row_queue_rcu_work(void)
{
	begin();
	INIT_RCU_WORK(&rwork, note);
	/* Not before those who read have finished. */
	rcu_read_lock();
	CHECK(queue_rcu_work(percpu, &rwork) && !queue_rcu_work(percpu, &rwork));
	CHECK(work_pending(&rwork.work));
	flush_workqueue(percpu);
	CHECK(atomic_read(&runs) == 0);
	message = 9;
	rcu_read_unlock();
	flush_rcu_work(&rwork);
	CHECK(atomic_read(&runs) == 1 && seen == 9);
	for (int i = 0; i < 100; i++) {
		CHECK(queue_rcu_work(unbound, &rwork));
		flush_rcu_work(&rwork);
		CHECK(atomic_read(&runs) == 2 + i);
	}
	end();
}

/* What a timer of one's own would call. */
static void row_delayed_work_timer_fn(void)
{
	begin();
	CHECK(queue_delayed_work(percpu, &dwork, 600 * HZ));
	delayed_work_timer_fn(&dwork.timer);
	AWAIT(atomic_read(&runs) == 1);
	CHECK(!timer_pending(&dwork.timer));
	end();
}

static void row_schedule_work(void)
{
	atomic_set(&runs, 0);
	CHECK(schedule_work(&item));
	flush_work(&item);
	for (int i = 0; harness_cpu(i) >= 0; i++) {
		CHECK(schedule_work_on(harness_cpu(i), &item));
		flush_work(&item);
		CHECK(cpu_of_item == harness_cpu(i) && atomic_read(&runs) == i + 2);
		CHECK(schedule_delayed_work_on(harness_cpu(i), &dwork, 1));
		flush_delayed_work(&dwork);
		CHECK(cpu_of_item == harness_cpu(i));
		atomic_dec(&runs);
	}
	atomic_set(&runs, 0);
	/* Not with one jiffy from the start: it could be over before the second call. */
	CHECK(schedule_delayed_work(&dwork, 600 * HZ) && !schedule_delayed_work(&dwork, 1));
	CHECK(cancel_delayed_work(&dwork) && schedule_delayed_work(&dwork, 1));
	AWAIT(atomic_read(&runs) == 1);
}

static atomic_t per_cpu_runs[64];

static void count_cpu(struct work_struct *work)
{
	(void)work;
	atomic_inc(&per_cpu_runs[raw_smp_processor_id() % 64]);
	atomic_inc(&runs);
}

static void row_schedule_on_each_cpu(void)
{
	int nr_cpus = 0;

	atomic_set(&runs, 0);
	CHECK(schedule_on_each_cpu(count_cpu) == 0);
	for (; harness_cpu(nr_cpus) >= 0; nr_cpus++)
		CHECK(nr_cpus >= 64 || atomic_read(&per_cpu_runs[harness_cpu(nr_cpus) % 64]) >= 1);
	CHECK(atomic_read(&runs) == nr_cpus);
}

static struct execute_work ew;
static int answer;

static void in_bh(struct work_struct *work)
{
	(void)work;
	answer = execute_in_process_context(note, &ew);
}

static DECLARE_WORK(bh_item, in_bh);

static void row_execute_in_process_context(void)
{
	atomic_set(&runs, 0);
	CHECK(execute_in_process_context(note, &ew) == 0 && atomic_read(&runs) == 1);
	/* Where one may not sleep it is left to a worker. */
	CHECK(queue_work(system_bh_wq, &bh_item));
	flush_work(&bh_item);
	CHECK(answer == 1);
	flush_work(&ew.work);
	CHECK(atomic_read(&runs) == 2);
}

static long where(void *arg)
{
	CHECK(current_work() != NULL);
	*(int *)arg = (int)raw_smp_processor_id();
	return -77;
}

static void row_work_on_cpu(void)
{
	for (int i = 0; harness_cpu(i) >= 0; i++) {
		int cpu = -1;

		CHECK(work_on_cpu(harness_cpu(i), where, &cpu) == -77 && cpu == harness_cpu(i));
	}
}

static void row_enable_and_queue_work(void)
{
	begin();
	CHECK(!disable_work(&item) && !disable_work(&item));
	CHECK(!enable_and_queue_work(percpu, &item) && !work_pending(&item));
	CHECK(enable_and_queue_work(percpu, &item));
	flush_work(&item);
	CHECK(atomic_read(&runs) == 1);
	end();
}

ROWS(ROW(queue_work_on), ROW(queue_work_on_a_draining_queue), ROW(queue_work), ROW(queue_work_node),
     ROW(queue_delayed_work), ROW(mod_delayed_work), ROW(queue_rcu_work), ROW(delayed_work_timer_fn),
     ROW(schedule_work), ROW(schedule_on_each_cpu),
     ROW(execute_in_process_context), ROW(work_on_cpu), ROW(enable_and_queue_work));
