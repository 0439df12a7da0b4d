/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The C side of `capi`: the same steps as src/peers/raw.rs, in the same order. */
#include <linux/workqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REUSED_ITEMS 8192
#define NS_PER_S 1000000000LL

static long left;

static void done(struct work_struct *work)
{
	(void)work;
	__atomic_fetch_sub(&left, 1, __ATOMIC_RELEASE);
}

static void nothing(struct work_struct *work)
{
	(void)work;
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static double items(struct workqueue_struct *wq, struct work_struct *works, long count)
{
	struct timespec step_aside = { 0, 50000 };
	long long start = now_ns();

	__atomic_store_n(&left, count, __ATOMIC_RELAXED);
	for (long i = 0; i < count; i++) {
		while (!queue_work(wq, &works[i % REUSED_ITEMS]))
			nanosleep(&step_aside, NULL);
	}
	__flush_workqueue(wq);
	if (__atomic_load_n(&left, __ATOMIC_ACQUIRE))
		exit(1);
	return (double)(now_ns() - start) / (double)count;
}

static double trips(struct workqueue_struct *wq, long count)
{
	struct work_struct work;
	long long start = now_ns();

	INIT_WORK(&work, nothing);
	for (long i = 0; i < count; i++) {
		queue_work(wq, &work);
		flush_work(&work);
	}
	return (double)(now_ns() - start) / (double)count;
}

/* Queueing what is pending: the call, and nothing behind it. */
static double calls(struct workqueue_struct *wq, long count)
{
	struct delayed_work dwork;
	long long start;

	INIT_DELAYED_WORK(&dwork, nothing);
	queue_delayed_work(wq, &dwork, 100000UL * HZ);
	start = now_ns();
	for (long i = 0; i < count; i++) {
		if (queue_work(wq, &dwork.work))
			exit(1);
	}
	start = now_ns() - start;
	cancel_delayed_work_sync(&dwork);
	return (double)start / (double)count;
}

int main(int argc, char **argv)
{
	static struct work_struct works[REUSED_ITEMS];
	struct workqueue_struct *wq = alloc_workqueue("bench", WQ_PERCPU, 0);
	double item_ns, trip_ns, call_ns;
	long count = 0;

	for (int i = 1; i + 1 < argc; i += 2)
		if (!strcmp(argv[i], "--count"))
			count = atol(argv[i + 1]);
	if (!wq || count < 1)
		return 1;
	for (int i = 0; i < REUSED_ITEMS; i++)
		INIT_WORK(&works[i], done);
	items(wq, works, count / 10 + 1);
	item_ns = items(wq, works, count);
	trip_ns = trips(wq, count / 15 + 1);
	call_ns = calls(wq, count * 10);
	printf("{\"item_ns\":%f,\"trip_ns\":%f,\"call_ns\":%f}\n", item_ns, trip_ns, call_ns);
	return 0;
}
