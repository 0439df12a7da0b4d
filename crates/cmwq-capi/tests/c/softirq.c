/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Timers and functions of call_rcu() while system_bh_wq is drained, which is nothing to them, nor are they to the drain. */
#include <linux/rcupdate.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
#include "check.h"

static struct gate entered = GATE_SHUT, may_leave = GATE_SHUT;
static int drained, expired, works, calls, rounds, is_over;
static pthread_t caller;

static void hold(struct work_struct *work)
{
	(void)work;
	gate_open(&entered);
	gate_wait(&may_leave);
}

static void count_work(struct work_struct *work)
{
	(void)work;
	count(&works);
}

static void count_expired(struct timer_list *timer)
{
	(void)timer;
	count(&expired);
}

/* Its caller may hold a lock that it takes. */
static void count_call(struct rcu_head *head)
{
	(void)head;
	CHECK(!pthread_equal(pthread_self(), caller));
	count(&calls);
}

static void expire_on_and_on(struct timer_list *timer)
{
	mod_timer(timer, jiffies);
	count(&rounds);
}

static void call_on_and_on(struct rcu_head *head)
{
	if (!load(&is_over))
		call_rcu(head, call_on_and_on);
	count(&rounds);
}

static DECLARE_WORK(holder, hold);
static DECLARE_WORK(probe, count_work);
static DECLARE_DELAYED_WORK(later, count_work);
static DEFINE_TIMER(timer, count_expired);
static DEFINE_TIMER(own, expire_on_and_on);
static struct rcu_head head, own_head;

static void *drain(void *arg)
{
	drain_workqueue(system_bh_wq);
	count(&drained);
	return arg;
}

int main(void)
{
	int cpu = (int)cpumask_first(cpu_online_mask), before;
	pthread_t draining;

	caller = pthread_self();
	CHECK(queue_work_on(cpu, system_bh_wq, &holder));
	gate_wait(&entered);
	CHECK(pthread_create(&draining, NULL, drain, NULL) == 0);
	/* The drain has begun when the queue takes nothing behind the item that it waits for. */
	do
		CHECK(queue_work_on(cpu, system_bh_wq, &probe));
	while (cancel_work(&probe));

	mod_timer(&timer, jiffies + 1);
	call_rcu(&head, count_call);
	/* The time of the timer has passed when this one's has. */
	CHECK(schedule_delayed_work(&later, 3));
	AWAIT(load(&works) == 1);
	CHECK(load(&drained) == 0);
	gate_open(&may_leave);
	CHECK(pthread_join(draining, NULL) == 0);
	AWAIT(load(&expired) == 1);
	rcu_barrier();
	CHECK(load(&calls) == 1);
	mod_timer(&timer, jiffies + 1);
	call_rcu(&head, count_call);
	AWAIT(load(&expired) == 2);
	rcu_barrier();
	CHECK(load(&calls) == 2 && load(&works) == 1);

	/* These never end, and a drain does. */
	mod_timer(&own, jiffies);
	call_rcu(&own_head, call_on_and_on);
	before = load(&rounds);
	AWAIT(load(&rounds) > before + 10);
	drain_workqueue(system_bh_wq);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	timer_delete_sync(&own);
	timer_delete_sync(&timer);
	rcu_barrier();
	return 0;
}
