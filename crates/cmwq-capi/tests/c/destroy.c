/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A queue that goes runs what it has; what comes later is refused, and no harm is done. */
#include <linux/cpumask.h>
#include <linux/workqueue.h>
#include "check.h"

static struct workqueue_struct *wq;
static int runs;

static void chain(struct work_struct *work)
{
	if (load(&runs) < 10)
		queue_work(wq, work);
	count(&runs);
}

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static void destroy_own(struct work_struct *work)
{
	(void)work;
	destroy_workqueue(wq);
	count(&runs);
}

/* One item destroys the queue while another one, which waits behind it, uses it. */
static struct gate gate = GATE_SHUT;
static int is_destroyed, is_waiting;

static void destroy_behind_another(struct work_struct *work)
{
	(void)work;
	AWAIT(load(&is_waiting));
	destroy_workqueue(wq);
	count(&is_destroyed);
}

static DECLARE_WORK(third, count_run);

static void wait_and_queue(struct work_struct *work)
{
	(void)work;
	count(&is_waiting);
	gate_wait(&gate);
	CHECK(queue_work(wq, &third));
	count(&runs);
}

static DECLARE_WORK(first, destroy_behind_another);
static DECLARE_WORK(second, wait_and_queue);

/* From an item of the queue, or from a BH item, neither of which can wait for the queue's items. */
static void destroy_from_inside(unsigned int flags, struct workqueue_struct *by)
{
	int before = load(&runs);

	is_waiting = is_destroyed = 0;
	gate.is_open = 0;
	wq = alloc_workqueue("used-inside", flags, 0);
	CHECK(wq && queue_work(wq, &second) && queue_work(by ? by : wq, &first));
	AWAIT(load(&is_destroyed));
	CHECK(load(&runs) == before);
	gate_open(&gate);
	AWAIT(load(&runs) == before + 2);
	/* Whoever is outside is refused, as by any queue that was destroyed. */
	AWAIT(!work_busy(&second) && !work_busy(&third));
	CHECK(queue_work(wq, &third) && !work_busy(&third));
	CHECK(!flush_work(&third) && load(&runs) == before + 2);
}

/* From one CPU to the next and back: each part of the queue is idle at times, and the queue never. */
#define HOPS 5000

static struct work_struct hopping[2];
static int hops;

static void hop(struct work_struct *work)
{
	unsigned int now = load(&hops);

	count(&hops);
	if (now < HOPS)
		CHECK(queue_work_on(now % num_online_cpus(), wq, &hopping[work == &hopping[0]]));
}

static void destroy_behind_hops(unsigned int flags)
{
	hops = 0;
	for (int i = 0; i < 2; i++)
		INIT_WORK(&hopping[i], hop);
	wq = alloc_workqueue("hops", flags, 0);
	CHECK(wq && queue_work(wq, &hopping[0]));
	destroy_workqueue(wq);
	CHECK(load(&hops) == HOPS + 1);
}

static DECLARE_WORK(chained, chain);
static DECLARE_WORK(late, count_run);
static DECLARE_DELAYED_WORK(armed, count_run);
static DECLARE_WORK(last, destroy_own);

int main(void)
{
	wq = alloc_workqueue("goes", WQ_UNBOUND, 0);
	CHECK(wq && queue_work(wq, &chained));
	CHECK(queue_delayed_work(wq, &armed, 5 * HZ));
	destroy_workqueue(wq);
	CHECK(load(&runs) == 11);

	/* As in the kernel, whoever is refused is told that it was queued, and the item is idle. */
	CHECK(queue_work(wq, &late));
	CHECK(!work_busy(&late) && !flush_work(&late));
	CHECK(timer_pending(&armed.timer));
	AWAIT(!delayed_work_pending(&armed));
	CHECK(!flush_delayed_work(&armed) && load(&runs) == 11);

	destroy_workqueue(system_percpu_wq);
	CHECK(schedule_work(&late));
	flush_work(&late);
	CHECK(load(&runs) == 12);

	/* Many queues, more than are remembered. */
	for (int i = 0; i < 200; i++) {
		wq = alloc_workqueue("many-%d", WQ_PERCPU | (i % 10 ? 0 : WQ_MEM_RECLAIM), 0, i);
		CHECK(wq && queue_work(wq, &late));
		destroy_workqueue(wq);
		CHECK(load(&runs) == 13 + i);
	}

	/* From inside: it goes when it is empty. */
	wq = alloc_workqueue("inside", WQ_UNBOUND, 0);
	CHECK(wq && queue_work(wq, &last));
	AWAIT(load(&runs) == 213);

	destroy_behind_hops(WQ_PERCPU);
	destroy_behind_hops(WQ_UNBOUND);

	destroy_from_inside(WQ_UNBOUND, NULL);
	destroy_from_inside(WQ_UNBOUND | WQ_MEM_RECLAIM, NULL);
	destroy_from_inside(WQ_UNBOUND, system_bh_wq);
	return 0;
}
