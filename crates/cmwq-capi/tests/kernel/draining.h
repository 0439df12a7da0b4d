/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A drain in a thread of its own, and how to tell that it has begun: an item from outside is refused. */
#ifndef DRAINING_H
#define DRAINING_H

static struct workqueue_struct *drained;
static struct harness_thread drainer;
static atomic_t outsiders;

static void from_outside(struct work_struct *work)
{
	(void)work;
	atomic_inc(&outsiders);
}

static DECLARE_WORK(outsider, from_outside);

static int drain(void *unused)
{
	(void)unused;
	drain_workqueue(drained);
	return 0;
}

/* An item of the queue, which has the only slot (of that CPU), must keep it from being empty: the outsider waits there. */
static bool is_draining(void)
{
	CHECK(queue_work_on(harness_cpu(0), drained, &outsider));
	return !cancel_work(&outsider);
}

static void begin_drain(void)
{
	atomic_set(&outsiders, 0);
	harness_run(&drainer, drain, NULL);
	AWAIT(is_draining());
}

static void end_drain(void)
{
	harness_join(&drainer);
}

#endif
