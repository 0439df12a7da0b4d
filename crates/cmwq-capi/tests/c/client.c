/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Code as it is carried over from a kernel: it takes the headers that it finds. With the library's small neighbours, and
 * with the client's own (tests/c/shims and CMWQ_NO_KERNEL_SHIMS), it does the same.
 */
#include <linux/workqueue.h>
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/timer.h>
#include "check.h"

/* Requests are collected, and answered together a little later. */
struct batcher {
	pthread_mutex_t lock;
	struct list_head requests;
	struct delayed_work answer;
	struct work_struct report;
	atomic_long_t answered;
	unsigned long first_queued, last_answered;
};

struct request {
	struct list_head link;
	int number;
};

static struct workqueue_struct *wq;

static void answer(struct work_struct *work)
{
	struct batcher *batcher = container_of(to_delayed_work(work), struct batcher, answer);

	pthread_mutex_lock(&batcher->lock);
	while (!list_empty(&batcher->requests)) {
		struct request *request = list_entry(batcher->requests.next, struct request, link);

		list_del_init(&request->link);
		atomic_long_set(&batcher->answered, atomic_long_read(&batcher->answered) + request->number);
	}
	batcher->last_answered = jiffies;
	pthread_mutex_unlock(&batcher->lock);
	queue_work(wq, &batcher->report);
}

static void report(struct work_struct *work)
{
	struct batcher *batcher = container_of(work, struct batcher, report);

	printf("answered %ld\n", atomic_long_read(&batcher->answered));
}

static void never(struct work_struct *work)
{
	(void)work;
	CHECK(!"cancelled");
}

static DECLARE_DELAYED_WORK(cancelled, never);
static DECLARE_WORK(untouched, never);

int main(void)
{
	static struct batcher batcher = { .lock = PTHREAD_MUTEX_INITIALIZER, .answered = ATOMIC_LONG_INIT(0) };
	struct request requests[8];
	unsigned long delay = msecs_to_jiffies(60);

	wq = alloc_workqueue("client", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	CHECK(wq);
	INIT_LIST_HEAD(&batcher.requests);
	INIT_DELAYED_WORK(&batcher.answer, answer);
	INIT_WORK(&batcher.report, report);
	batcher.first_queued = jiffies;
	for (int i = 0; i < 8; i++) {
		requests[i].number = 1 << i;
		pthread_mutex_lock(&batcher.lock);
		list_add_tail(&requests[i].link, &batcher.requests);
		pthread_mutex_unlock(&batcher.lock);
		/* True if it is armed by this one; its time may have come meanwhile. */
		if (queue_delayed_work(wq, &batcher.answer, delay))
			CHECK(i == 0 || time_after_eq(jiffies, batcher.first_queued + delay));
	}
	AWAIT(atomic_long_read(&batcher.answered) == 255);
	flush_delayed_work(&batcher.answer);
	drain_workqueue(wq);
	/* The client's clock and the library's agree on how long a jiffy is. */
	CHECK(time_after_eq(batcher.last_answered, batcher.first_queued + delay));

	CHECK(schedule_delayed_work(&cancelled, 100 * HZ) && delayed_work_pending(&cancelled));
	CHECK(mod_delayed_work(wq, &cancelled, 200 * HZ));
	CHECK(cancel_delayed_work_sync(&cancelled) && !delayed_work_pending(&cancelled));
	CHECK(!work_pending(&untouched) && !cancel_work_sync(&untouched));
	destroy_workqueue(wq);
	return 0;
}
