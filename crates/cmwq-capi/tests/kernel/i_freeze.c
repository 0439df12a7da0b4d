/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (i) Freezing parks what comes; thawing starts it in order. */
#include <linux/workqueue.h>
#include "harness.h"

#define NR 20

struct step {
	struct work_struct work;
	int number;
};

static struct step steps[NR];
static atomic_t next_one, running;
static struct completion gate;

static void take_step(struct work_struct *work)
{
	CHECK(atomic_inc_return(&next_one) - 1 == container_of(work, struct step, work)->number);
}

static void hold(struct work_struct *work)
{
	(void)work;
	atomic_inc(&running);
	wait_for_completion(&gate);
}

static DECLARE_WORK(holder, hold);
static DECLARE_WORK(other, hold);

static void row_parked_and_released_in_order(void)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("frozen", WQ_FREEZABLE);
	struct workqueue_struct *warm = alloc_workqueue("warm", WQ_UNBOUND, 0), *late;

	init_completion(&gate);
	CHECK(wq && warm && queue_work(wq, &holder));
	AWAIT(atomic_read(&running) == 1);
	freeze_workqueues_begin();
	for (int i = 0; i < NR; i++) {
		steps[i].number = i;
		INIT_WORK(&steps[i].work, take_step);
		CHECK(queue_work(wq, &steps[i].work));
	}
	/* What runs goes on, and so does who is not to be frozen. */
	CHECK(freeze_workqueues_busy());
	CHECK(queue_work(warm, &other));
	AWAIT(atomic_read(&running) == 2);
	complete_all(&gate);
	flush_work(&other);
	AWAIT(!freeze_workqueues_busy());
	CHECK(atomic_read(&next_one) == 0);
	for (int i = 0; i < NR; i++)
		CHECK(work_busy(&steps[i].work) == WORK_BUSY_PENDING);
	/* One that is made in the frost is frozen. */
	late = alloc_workqueue("late", WQ_UNBOUND | WQ_FREEZABLE, 0);
	CHECK(late && queue_work(late, &other));
	CHECK(!freeze_workqueues_busy() && work_busy(&other) == WORK_BUSY_PENDING);
	thaw_workqueues();
	flush_workqueue(wq);
	CHECK(atomic_read(&next_one) == NR);
	destroy_workqueue(wq);
	destroy_workqueue(late);
	CHECK(atomic_read(&running) == 3);
	destroy_workqueue(warm);
}

ROWS(ROW(parked_and_released_in_order));
