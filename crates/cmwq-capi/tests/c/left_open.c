/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Functions that return inside of rcu_read_lock(): what comes after a grace period comes all the same. */
#include <linux/workqueue.h>
#include "check.h"

static struct workqueue_struct *wq;
static int runs, others;
static struct rcu_head head;
static struct timer_list timer;

static void leave_open(void)
{
	rcu_read_lock();
	rcu_read_lock();
	count(&runs);
}

static void leave_by_work(struct work_struct *work)
{
	(void)work;
	leave_open();
}

static void leave_by_timer(struct timer_list *which)
{
	(void)which;
	leave_open();
}

static void leave_by_head(struct rcu_head *which)
{
	(void)which;
	leave_open();
}

/* On the same worker: it is outside of sections, and so it waits for the readers there are. */
static void wait_for_readers(struct work_struct *work)
{
	(void)work;
	synchronize_rcu();
	count(&others);
}

static DECLARE_WORK(left, leave_by_work);
static DECLARE_WORK(left_in_bh, leave_by_work);
static DECLARE_WORK(waits, wait_for_readers);

int main(void)
{
	int item;

	wq = alloc_workqueue("leaves", WQ_PERCPU, 1);
	CHECK(wq);
	for (item = 1; item <= 3; item++) {
		CHECK(queue_work_on(0, wq, &left) && queue_work_on(0, wq, &waits));
		flush_work(&waits);
		CHECK(load(&runs) == item && load(&others) == item);
		synchronize_rcu();
	}
	CHECK(queue_work(system_bh_wq, &left_in_bh));
	flush_work(&left_in_bh);
	synchronize_rcu();
	timer_setup(&timer, leave_by_timer, 0);
	mod_timer(&timer, jiffies);
	AWAIT(load(&runs) == 5);
	timer_delete_sync(&timer);
	synchronize_rcu();
	call_rcu(&head, leave_by_head);
	rcu_barrier();
	CHECK(load(&runs) == 6);
	synchronize_rcu();
	destroy_workqueue(wq);
	return 0;
}
