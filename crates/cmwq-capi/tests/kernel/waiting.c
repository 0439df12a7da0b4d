/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Flushing, draining, cancelling, disabling. */
#include <linux/workqueue.h>
#include "harness.h"

static struct workqueue_struct *wq;
static struct completion gate, entered;
static atomic_t runs, waited;
static bool answer;

static void hold(struct work_struct *work)
{
	(void)work;
	complete_all(&entered);
	wait_for_completion(&gate);
	atomic_inc(&runs);
}

static void count(struct work_struct *work)
{
	(void)work;
	atomic_inc(&runs);
}

static struct work_struct item, other;
static struct delayed_work dwork;

/* `item` runs and holds the only slot. */
static void begin(void)
{
	wq = alloc_workqueue("waiting", WQ_UNBOUND, 1);
	CHECK(wq);
	init_completion(&gate);
	init_completion(&entered);
	atomic_set(&runs, 0);
	atomic_set(&waited, 0);
	INIT_WORK(&item, hold);
	INIT_WORK(&other, count);
	INIT_DELAYED_WORK(&dwork, count);
	CHECK(queue_work(wq, &item));
	wait_for_completion(&entered);
}

static void open_gate(void)
{
	complete_all(&gate);
	flush_workqueue(wq);
}

static int call(void *arg)
{
	bool (*wait)(struct work_struct *) = *(bool (**)(struct work_struct *))arg;

	WRITE_ONCE(answer, wait(&item));
	CHECK(completion_done(&gate));
	atomic_inc(&waited);
	return 0;
}

/* Calls it in a thread, which must wait for the gate. */
static bool waits(bool (*wait)(struct work_struct *))
{
	struct harness_thread thread;
	bool is_taken = false;

	harness_run(&thread, call, &wait);
	/*
	 * Whoever cancels or disables keeps others from queueing, and is seen by that. It may come between the two calls, and take
	 * back what the first one has queued: its answer is about that then.
	 */
	AWAIT(wait == flush_work || !queue_work(wq, &item) || (is_taken = !cancel_work(&item)));
	CHECK(!atomic_read(&waited));
	complete_all(&gate);
	harness_join(&thread);
	CHECK(!is_taken || READ_ONCE(answer));
	return READ_ONCE(answer) && !is_taken;
}

static void row_flush_work(void)
{
	/* The thread may come too late to find it running; not always. */
	for (int round = 0;; round++) {
		CHECK(round < 1000);
		begin();
		/* It never ran: nothing to wait for. */
		CHECK(!flush_work(&other));
		if (waits(flush_work))
			break;
		destroy_workqueue(wq);
	}
	CHECK(!flush_work(&item) && atomic_read(&runs) == 1);
	CHECK(queue_work(wq, &other));
	flush_work(&other);
	CHECK(atomic_read(&runs) == 2);
	/* An armed timer is not seen. */
	CHECK(queue_delayed_work(wq, &dwork, 600 * HZ) && !flush_work(&dwork.work));
	CHECK(cancel_delayed_work(&dwork));
	destroy_workqueue(wq);
}

static void wait_for_oneself(struct work_struct *work)
{
	CHECK(!flush_work(work) && !cancel_work_sync(work));
	atomic_inc(&runs);
}

/* The kernel would not come back. */
static void row_flush_work_from_inside(void)
{
	begin();
	open_gate();
	INIT_WORK(&other, wait_for_oneself);
	CHECK(queue_work(wq, &other));
	flush_work(&other);
	CHECK(atomic_read(&runs) == 2);
	destroy_workqueue(wq);
}

static void row_flush_delayed_work(void)
{
	begin();
	open_gate();
	CHECK(!flush_delayed_work(&dwork));
	CHECK(queue_delayed_work(wq, &dwork, 600 * HZ));
	flush_delayed_work(&dwork);
	CHECK(atomic_read(&runs) == 2);
	CHECK(!timer_pending(&dwork.timer) && !flush_delayed_work(&dwork));
	destroy_workqueue(wq);
}

static struct rcu_work rwork;

static void row_flush_rcu_work(void)
{
	begin();
	open_gate();
	INIT_RCU_WORK(&rwork, count);
	CHECK(!flush_rcu_work(&rwork));
	for (int i = 0; i < 20; i++) {
		/* True: it was pending, its grace period and its run were waited for. */
		CHECK(queue_rcu_work(wq, &rwork));
		flush_rcu_work(&rwork);
		CHECK(atomic_read(&runs) == 2 + i && !work_busy(&rwork.work));
	}
	CHECK(!flush_rcu_work(&rwork));
	/* It can be neither cancelled nor disabled from the outside: a disabled one is not queued, which is said. */
	destroy_workqueue(wq);
}

static int flush_it(void *unused)
{
	(void)unused;
	flush_workqueue(wq);
	CHECK(completion_done(&gate) && atomic_read(&runs) >= 2);
	atomic_inc(&waited);
	return 0;
}

static void row_flush_workqueue(void)
{
	struct harness_thread flusher;
	struct work_struct later;

	begin();
	CHECK(queue_work(wq, &other));
	CHECK(queue_delayed_work(wq, &dwork, 600 * HZ));
	harness_run(&flusher, flush_it, NULL);
	CHECK(!atomic_read(&waited));
	complete_all(&gate);
	harness_join(&flusher);
	/* Timers are not waited for. */
	CHECK(timer_pending(&dwork.timer) && cancel_delayed_work(&dwork));
	/* An empty queue. */
	flush_workqueue(wq);
	INIT_WORK_ONSTACK(&later, count);
	CHECK(queue_work(wq, &later));
	__flush_workqueue(wq);
	CHECK(!work_busy(&later));
	destroy_work_on_stack(&later);
	destroy_workqueue(wq);
}

/* Compiled with a warning, which is the point of it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wattribute-warning"
static void row_flush_scheduled_work(void)
{
	atomic_set(&runs, 0);
	INIT_WORK(&other, count);
	CHECK(schedule_work(&other));
	flush_scheduled_work();
	CHECK(atomic_read(&runs) == 1);
	CHECK(schedule_work(&other));
	flush_workqueue(system_percpu_wq);
	CHECK(atomic_read(&runs) == 2);
}
#pragma GCC diagnostic pop

static void again(struct work_struct *work)
{
	if (atomic_inc_return(&runs) < 25)
		queue_work(wq, work);
}

static void row_drain_workqueue(void)
{
	begin();
	INIT_WORK(&other, again);
	CHECK(queue_work(wq, &other));
	complete_all(&gate);
	drain_workqueue(wq);
	CHECK(atomic_read(&runs) == 25 && !work_busy(&other));
	drain_workqueue(wq);
	CHECK(queue_work(wq, &other));
	drain_workqueue(wq);
	CHECK(atomic_read(&runs) == 26);
	destroy_workqueue(wq);
}

static void row_cancel_work(void)
{
	begin();
	CHECK(!cancel_work(&other));
	CHECK(queue_work(wq, &other) && cancel_work(&other) && !cancel_work(&other));
	/* One that runs is not waited for; its next run is taken off. */
	CHECK(!cancel_work(&item) && queue_work(wq, &item) && cancel_work(&item));
	CHECK(work_busy(&item) == WORK_BUSY_RUNNING);
	open_gate();
	CHECK(atomic_read(&runs) == 1);
	destroy_workqueue(wq);
}

static void row_cancel_work_sync(void)
{
	begin();
	CHECK(!cancel_work_sync(&other));
	CHECK(queue_work(wq, &other) && cancel_work_sync(&other));
	/* It was running, not pending. */
	CHECK(!waits(cancel_work_sync));
	CHECK(!work_busy(&item));
	/* Still disabled by whoever had disabled it. */
	CHECK(!disable_work(&item) && !cancel_work_sync(&item) && !queue_work(wq, &item));
	CHECK(enable_work(&item) && queue_work(wq, &item));
	destroy_workqueue(wq);
}

static void row_cancel_work_sync_of_a_bh_item(void)
{
	INIT_WORK(&other, count);
	for (int i = 0; i < 200; i++) {
		CHECK(queue_work(system_bh_wq, &other));
		cancel_work_sync(&other);
		CHECK(!work_busy(&other));
	}
}

static void row_cancel_delayed_work(void)
{
	begin();
	CHECK(!cancel_delayed_work(&dwork) && !cancel_delayed_work_sync(&dwork));
	/* From its timer, and from behind the limit. */
	CHECK(queue_delayed_work(wq, &dwork, 600 * HZ) && cancel_delayed_work(&dwork));
	CHECK(queue_delayed_work(wq, &dwork, 0) && cancel_delayed_work(&dwork));
	CHECK(queue_delayed_work(wq, &dwork, 600 * HZ) && cancel_delayed_work_sync(&dwork));
	CHECK(queue_delayed_work(wq, &dwork, 0) && cancel_delayed_work_sync(&dwork));
	CHECK(!delayed_work_pending(&dwork) && !timer_pending(&dwork.timer));
	open_gate();
	CHECK(atomic_read(&runs) == 1);
	destroy_workqueue(wq);
}

static void row_disable_work(void)
{
	begin();
	CHECK(queue_work(wq, &other) && disable_work(&other) && !disable_work(&other));
	CHECK(!queue_work(wq, &other) && !enable_work(&other) && enable_work(&other));
	CHECK(queue_work(wq, &other) && disable_work_sync(&other) && enable_work(&other));
	/* Of one that runs: it is waited for, and false as it was not pending. */
	CHECK(!waits(disable_work_sync));
	CHECK(!queue_work(wq, &item) && enable_work(&item));
	/* As deep as it goes, which is said. */
	for (int i = 0; i < 65535; i++)
		CHECK(!disable_work(&other));
	CHECK(!disable_work(&other));
	for (int i = 0; i < 65534; i++)
		CHECK(!enable_work(&other));
	CHECK(enable_work(&other) && queue_work(wq, &other));
	destroy_workqueue(wq);
}

static void row_enable_work(void)
{
	begin();
	CHECK(!disable_work(&other) && !queue_work(wq, &other));
	/* What was refused is not made up for. */
	CHECK(enable_work(&other) && !work_pending(&other));
	/* Once too often: said; a pending item is taken off. */
	CHECK(queue_work(wq, &other) && enable_work(&other));
	CHECK(!work_pending(&other));
	open_gate();
	CHECK(atomic_read(&runs) == 1);
	CHECK(queue_work(wq, &other));
	flush_work(&other);
	CHECK(atomic_read(&runs) == 2);
	destroy_workqueue(wq);
}

static void row_disable_delayed_work(void)
{
	begin();
	CHECK(queue_delayed_work(wq, &dwork, 600 * HZ) && disable_delayed_work(&dwork));
	CHECK(!queue_delayed_work(wq, &dwork, 1) && !timer_pending(&dwork.timer));
	/* Enabling does nothing to the timer. */
	CHECK(enable_delayed_work(&dwork) && !delayed_work_pending(&dwork));
	CHECK(queue_delayed_work(wq, &dwork, 600 * HZ) && disable_delayed_work_sync(&dwork));
	CHECK(enable_delayed_work(&dwork));
	open_gate();
	CHECK(atomic_read(&runs) == 1);
	destroy_workqueue(wq);
}

ROWS(ROW(flush_work), ROW(flush_work_from_inside), ROW(flush_delayed_work), ROW(flush_rcu_work),
     ROW(flush_workqueue), ROW(flush_scheduled_work), ROW(drain_workqueue),
     ROW(cancel_work),
     ROW(cancel_work_sync), ROW(cancel_work_sync_of_a_bh_item), ROW(cancel_delayed_work), ROW(disable_work), ROW(enable_work), ROW(disable_delayed_work));
