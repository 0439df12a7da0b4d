/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (l) A function may free its item: nobody looks at it after the function was entered. */
#include <linux/workqueue.h>
#include "harness.h"

#define NR 1000

struct thing {
	long before;
	struct work_struct work;
	long after;
};

struct timed {
	struct delayed_work dwork;
	long after;
};

static atomic_t freed;

static void release(struct work_struct *work)
{
	struct thing *thing = container_of(work, struct thing, work);

	CHECK(thing->before == 1 && thing->after == 2);
	memset(thing, 0xff, sizeof(*thing));
	kfree(thing);
	atomic_inc(&freed);
}

static void release_timed(struct work_struct *work)
{
	struct timed *timed = container_of(to_delayed_work(work), struct timed, dwork);

	memset(timed, 0xff, sizeof(*timed));
	kfree(timed);
	atomic_inc(&freed);
}

static void check(unsigned int flags)
{
	struct workqueue_struct *wq = alloc_workqueue("freed", flags, 4);

	CHECK(wq);
	atomic_set(&freed, 0);
	for (int i = 0; i < NR; i++) {
		struct thing *thing = kzalloc(sizeof(*thing), GFP_KERNEL);

		CHECK(thing);
		thing->before = 1;
		thing->after = 2;
		INIT_WORK(&thing->work, release);
		CHECK(queue_work(wq, &thing->work));
	}
	for (int i = 0; i < NR / 10; i++) {
		struct timed *timed = kzalloc(sizeof(*timed), GFP_KERNEL);

		CHECK(timed);
		INIT_DELAYED_WORK(&timed->dwork, release_timed);
		CHECK(queue_delayed_work(wq, &timed->dwork, (unsigned long)i % 3));
	}
	AWAIT(atomic_read(&freed) == NR + NR / 10);
	destroy_workqueue(wq);
}

static void row_percpu(void)
{
	check(WQ_PERCPU);
}

static void row_unbound(void)
{
	check(WQ_UNBOUND);
}

static void row_bh(void)
{
	struct workqueue_struct *wq = alloc_workqueue("freed-bh", WQ_BH | WQ_PERCPU, 0);
	struct thing *thing = kzalloc(sizeof(*thing), GFP_KERNEL);

	CHECK(wq && thing);
	atomic_set(&freed, 0);
	thing->before = 1;
	thing->after = 2;
	INIT_WORK(&thing->work, release);
	CHECK(queue_work(wq, &thing->work));
	flush_workqueue(wq);
	CHECK(atomic_read(&freed) == 1);
	destroy_workqueue(wq);
}

ROWS(ROW(percpu), ROW(unbound), ROW(bh));
