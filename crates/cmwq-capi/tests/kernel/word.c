/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The word of an item, bit by bit, as code sees it that looks. */
#include <linux/workqueue.h>
#include "harness.h"

static struct workqueue_struct *wq;
static struct completion gate;
static atomic_t running, runs;

static void hold(struct work_struct *work)
{
	(void)work;
	atomic_inc(&running);
	wait_for_completion(&gate);
}

static void count(struct work_struct *work)
{
	(void)work;
	atomic_inc(&runs);
}

static struct work_struct holder, item;

static unsigned long bits(struct work_struct *work)
{
	return (unsigned long)atomic_long_read(&work->data);
}

/* That of one that is pending, once its pool has looked at it: until then it is in transit. */
static unsigned long queued(struct work_struct *work)
{
	AWAIT(bits(work) & WORK_STRUCT_PWQ);
	return bits(work);
}

/* `holder` has the only slot, `item` waits for it. */
static void begin(void)
{
	wq = alloc_workqueue("word", WQ_PERCPU, 1);
	CHECK(wq);
	init_completion(&gate);
	atomic_set(&running, 0);
	atomic_set(&runs, 0);
	INIT_WORK(&holder, hold);
	INIT_WORK(&item, count);
	CHECK(bits(&item) == WORK_STRUCT_NO_POOL);
	CHECK(queue_work_on(harness_cpu(0), wq, &holder));
	AWAIT(atomic_read(&running) == 1);
	CHECK(queue_work_on(harness_cpu(0), wq, &item));
}

static void end(void)
{
	complete_all(&gate);
	destroy_workqueue(wq);
	CHECK(atomic_read(&runs) == 1);
}

static void row_pending_bit(void)
{
	begin();
	CHECK(WORK_STRUCT_PENDING == 1 << WORK_STRUCT_PENDING_BIT && WORK_STRUCT_PENDING_BIT == 0);
	/* Cleared before the function runs. */
	CHECK((bits(&item) & WORK_STRUCT_PENDING) && !(bits(&holder) & WORK_STRUCT_PENDING));
	CHECK(work_pending(&item) && !work_pending(&holder));
	end();
	CHECK(!(bits(&item) & WORK_STRUCT_PENDING));
}

static void row_inactive_bit(void)
{
	begin();
	CHECK(WORK_STRUCT_INACTIVE == 1 << WORK_STRUCT_INACTIVE_BIT && WORK_STRUCT_INACTIVE_BIT == 1);
	/* Known when the pool has looked at it. */
	AWAIT(bits(&item) & WORK_STRUCT_INACTIVE);
	end();
	CHECK(!(bits(&item) & WORK_STRUCT_INACTIVE));
}

static void row_pwq_bit(void)
{
	begin();
	CHECK(WORK_STRUCT_PWQ == 1 << WORK_STRUCT_PWQ_BIT && WORK_STRUCT_PWQ_BIT == 2);
	CHECK((queued(&item) & WORK_STRUCT_PWQ) && !(bits(&holder) & WORK_STRUCT_PWQ));
	end();
	CHECK(!(bits(&item) & WORK_STRUCT_PWQ));
}

static int flush_item(void *unused)
{
	(void)unused;
	CHECK(flush_work(&item));
	return 0;
}

static void row_linked_bit(void)
{
	struct harness_thread flusher;

	begin();
	CHECK(WORK_STRUCT_LINKED == 1 << WORK_STRUCT_LINKED_BIT && WORK_STRUCT_LINKED_BIT == 3);
	CHECK(!(bits(&item) & WORK_STRUCT_LINKED));
	harness_run(&flusher, flush_item, NULL);
	/* A barrier follows it. */
	AWAIT(bits(&item) & WORK_STRUCT_LINKED);
	complete_all(&gate);
	harness_join(&flusher);
	end();
}

static int flush_wq(void *unused)
{
	(void)unused;
	__flush_workqueue(wq);
	return 0;
}

static unsigned long color(struct work_struct *work)
{
	return queued(work) >> WORK_STRUCT_COLOR_SHIFT & ((1 << WORK_STRUCT_COLOR_BITS) - 1);
}

static void row_color(void)
{
	struct harness_thread flusher;
	unsigned long before;

	begin();
	CHECK(WORK_NR_COLORS == 1 << WORK_STRUCT_COLOR_BITS);
	before = color(&item);
	harness_run(&flusher, flush_wq, NULL);
	/* What comes after a flush has another colour. */
	AWAIT(({
		CHECK(cancel_work(&item) && queue_work_on(harness_cpu(0), wq, &item));
		color(&item) != before;
	}));
	CHECK(color(&item) == (before + 1) % WORK_NR_COLORS);
	complete_all(&gate);
	harness_join(&flusher);
	end();
}

/* Who has it may compare: items of one CPU's part of a queue have the same. */
static void row_pwq_pointer(void)
{
	struct work_struct other;

	begin();
	INIT_WORK_ONSTACK(&other, hold);
	CHECK(queue_work_on(harness_cpu(0), wq, &other));
	CHECK(queued(&item) >> WORK_STRUCT_PWQ_SHIFT == queued(&other) >> WORK_STRUCT_PWQ_SHIFT);
	CHECK(cancel_work(&other));
	destroy_work_on_stack(&other);
	end();
}

static void row_offq_bh_bit(void)
{
	begin();
	end();
	CHECK(!(bits(&item) & WORK_OFFQ_BH));
	CHECK(queue_work(system_bh_wq, &item));
	flush_work(&item);
	CHECK((bits(&item) & WORK_OFFQ_BH) && WORK_OFFQ_BH == WORK_OFFQ_FLAG_MASK);
}

static void row_offq_disable_depth(void)
{
	begin();
	CHECK(disable_work(&item) && !disable_work(&item));
	CHECK((bits(&item) & WORK_OFFQ_DISABLE_MASK) >> WORK_OFFQ_DISABLE_SHIFT == 2);
	CHECK(!enable_work(&item) && enable_work(&item));
	CHECK(!(bits(&item) & WORK_OFFQ_DISABLE_MASK));
	CHECK(queue_work_on(harness_cpu(0), wq, &item));
	end();
}

static void row_offq_pool_id(void)
{
	unsigned long pool;

	begin();
	end();
	pool = bits(&item) >> WORK_OFFQ_POOL_SHIFT;
	CHECK(pool != WORK_OFFQ_POOL_NONE && pool == bits(&holder) >> WORK_OFFQ_POOL_SHIFT);
	/* Cancelling keeps it. */
	CHECK(!cancel_work_sync(&item) && bits(&item) >> WORK_OFFQ_POOL_SHIFT == pool);
	CHECK(!disable_work(&item) && enable_work(&item));
	CHECK(bits(&item) >> WORK_OFFQ_POOL_SHIFT == pool);
}

static void row_initial_values(void)
{
	struct work_struct idle = { .data = WORK_DATA_INIT() };
	static struct work_struct fixed = { .data = WORK_DATA_STATIC_INIT() };

	CHECK(bits(&idle) == WORK_STRUCT_NO_POOL && bits(&fixed) == WORK_STRUCT_NO_POOL);
	CHECK(WORK_STRUCT_NO_POOL == WORK_OFFQ_POOL_NONE << WORK_OFFQ_POOL_SHIFT);
	CHECK((unsigned long)*work_data_bits(&idle) == bits(&idle));
}

ROWS(ROW(pending_bit), ROW(inactive_bit), ROW(pwq_bit), ROW(linked_bit), ROW(color), ROW(pwq_pointer),
     ROW(offq_bh_bit), ROW(offq_disable_depth), ROW(offq_pool_id), ROW(initial_values));
