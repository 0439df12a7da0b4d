/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Three items on one CPU's pool: each computes, sleeps and computes again. Who starts when. */
#include <linux/workqueue.h>
#include "harness.h"

static struct workqueue_struct *plain, *intensive;
static struct completion nap[3];
static atomic_t started[3], asleep[3], ended[3];
static bool too_early;

static void body(int n)
{
	atomic_set(&started[n], 1);
	udelay(2000);
	/* Nothing starts while this one computes. */
	if (n < 2 && atomic_read(&started[n + 1]) && !atomic_read(&started[2]))
		too_early = true;
	atomic_set(&asleep[n], 1);
	wait_for_completion(&nap[n]);
	udelay(2000);
	atomic_set(&ended[n], 1);
}

static void w0(struct work_struct *work)
{
	(void)work;
	body(0);
}

static void w1(struct work_struct *work)
{
	(void)work;
	body(1);
}

static void w2(struct work_struct *work)
{
	(void)work;
	body(2);
}

static DECLARE_WORK(item0, w0);
static DECLARE_WORK(item1, w1);
static DECLARE_WORK(item2, w2);

static void begin(struct workqueue_struct *first, struct workqueue_struct *rest)
{
	too_early = false;
	for (int n = 0; n < 3; n++) {
		init_completion(&nap[n]);
		atomic_set(&started[n], 0);
		atomic_set(&asleep[n], 0);
		atomic_set(&ended[n], 0);
	}
	CHECK(queue_work_on(harness_cpu(0), first, &item0));
	CHECK(queue_work_on(harness_cpu(0), rest, &item1));
	CHECK(queue_work_on(harness_cpu(0), rest, &item2));
}

static void end(struct workqueue_struct *wq)
{
	for (int n = 0; n < 3; n++)
		complete_all(&nap[n]);
	flush_workqueue(wq);
	for (int n = 0; n < 3; n++)
		CHECK(atomic_read(&ended[n]));
}

/* An item that is held up by something else than its sleep lets the next one start: seldom, so not always. */
static void row_others_run_while_one_sleeps(void)
{
	int strict = 0;

	plain = alloc_workqueue("three", WQ_PERCPU, 3);
	for (int round = 0; round < 10; round++) {
		begin(plain, plain);
		AWAIT(atomic_read(&asleep[0]) && atomic_read(&asleep[1]) && atomic_read(&asleep[2]));
		CHECK(!atomic_read(&ended[0]) && !atomic_read(&ended[1]) && !atomic_read(&ended[2]));
		strict += !too_early;
		end(plain);
	}
	CHECK(strict > 0);
	destroy_workqueue(plain);
}

static void row_two_slots(void)
{
	plain = alloc_workqueue("two", WQ_PERCPU, 2);
	begin(plain, plain);
	AWAIT(atomic_read(&asleep[0]) && atomic_read(&asleep[1]));
	CHECK(!atomic_read(&started[2]) && workqueue_congested(harness_cpu(0), plain));
	complete(&nap[1]);
	AWAIT(atomic_read(&asleep[2]));
	CHECK(atomic_read(&ended[1]) && !atomic_read(&ended[0]));
	end(plain);
	destroy_workqueue(plain);
}

static void row_one_slot(void)
{
	plain = alloc_workqueue("one", WQ_PERCPU, 1);
	begin(plain, plain);
	AWAIT(atomic_read(&asleep[0]));
	CHECK(!atomic_read(&started[1]) && !atomic_read(&started[2]));
	complete(&nap[0]);
	AWAIT(atomic_read(&asleep[1]));
	CHECK(atomic_read(&ended[0]) && !atomic_read(&started[2]));
	complete(&nap[1]);
	AWAIT(atomic_read(&asleep[2]));
	CHECK(atomic_read(&ended[1]));
	end(plain);
	destroy_workqueue(plain);
}

static atomic_t met;
static DECLARE_COMPLETION(rest);

/* Neither sleeps until both are there. */
static void meet(struct work_struct *work)
{
	(void)work;
	atomic_inc(&met);
	while (atomic_read(&met) < 2)
		cpu_relax();
}

static void sleeper(struct work_struct *work)
{
	(void)work;
	wait_for_completion(&rest);
}

static DECLARE_WORK(sleeping, sleeper);
static DECLARE_WORK(meeting1, meet);
static DECLARE_WORK(meeting2, meet);

static void row_intensive_items_do_not_count(void)
{
	plain = alloc_workqueue("plain", WQ_PERCPU, 0);
	intensive = alloc_workqueue("intensive", WQ_PERCPU | WQ_CPU_INTENSIVE, 0);
	CHECK(queue_work_on(harness_cpu(0), plain, &sleeping));
	CHECK(queue_work_on(harness_cpu(0), intensive, &meeting1));
	CHECK(queue_work_on(harness_cpu(0), intensive, &meeting2));
	flush_workqueue(intensive);
	CHECK(atomic_read(&met) == 2 && work_busy(&sleeping));
	complete_all(&rest);
	destroy_workqueue(plain);
	destroy_workqueue(intensive);
}

ROWS(ROW(others_run_while_one_sleeps), ROW(two_slots), ROW(one_slot), ROW(intensive_items_do_not_count));
