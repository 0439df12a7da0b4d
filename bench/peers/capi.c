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

/* Time that has passed, and CPU time of the whole process. */
struct cost {
	double wall_ns, cpu_ns;
};

static long long clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static struct cost cost_now(void)
{
	struct cost now = { (double)clock_ns(CLOCK_MONOTONIC), (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) };

	return now;
}

/* Of one of `count` since `start`. */
static struct cost cost_since(struct cost start, long count)
{
	struct cost now = cost_now();

	now.wall_ns = (now.wall_ns - start.wall_ns) / (double)count;
	now.cpu_ns = (now.cpu_ns - start.cpu_ns) / (double)count;
	return now;
}

static struct cost items(struct workqueue_struct *wq, struct work_struct *works, long count)
{
	struct timespec step_aside = { 0, 50000 };
	struct cost start = cost_now();

	__atomic_store_n(&left, count, __ATOMIC_RELAXED);
	for (long i = 0; i < count; i++) {
		while (!queue_work(wq, &works[i % REUSED_ITEMS]))
			nanosleep(&step_aside, NULL);
	}
	__flush_workqueue(wq);
	if (__atomic_load_n(&left, __ATOMIC_ACQUIRE))
		exit(1);
	return cost_since(start, count);
}

static struct cost trips(struct workqueue_struct *wq, long count)
{
	struct work_struct work;
	struct cost start = cost_now();

	INIT_WORK(&work, nothing);
	for (long i = 0; i < count; i++) {
		queue_work(wq, &work);
		flush_work(&work);
	}
	return cost_since(start, count);
}

/* Queueing what is pending: the call, and nothing behind it. */
static struct cost calls(struct workqueue_struct *wq, long count)
{
	struct delayed_work dwork;
	struct cost cost;

	INIT_DELAYED_WORK(&dwork, nothing);
	queue_delayed_work(wq, &dwork, 100000UL * HZ);
	cost = cost_now();
	for (long i = 0; i < count; i++) {
		if (queue_work(wq, &dwork.work))
			exit(1);
	}
	cost = cost_since(cost, count);
	cancel_delayed_work_sync(&dwork);
	return cost;
}

int main(int argc, char **argv)
{
	static struct work_struct works[REUSED_ITEMS];
	struct workqueue_struct *wq = alloc_workqueue("bench", WQ_PERCPU, 0);
	struct cost item, trip, call;
	long count = 0;

	for (int i = 1; i + 1 < argc; i += 2)
		if (!strcmp(argv[i], "--count"))
			count = atol(argv[i + 1]);
	if (!wq || count < 1)
		return 1;
	for (int i = 0; i < REUSED_ITEMS; i++)
		INIT_WORK(&works[i], done);
	items(wq, works, count / 10 + 1);
	item = items(wq, works, count);
	trip = trips(wq, count / 15 + 1);
	call = calls(wq, count * 10);
	printf("{\"item_ns\":%f,\"item_cpu_ns\":%f,\"trip_ns\":%f,\"trip_cpu_ns\":%f,\"call_ns\":%f}\n", item.wall_ns,
	       item.cpu_ns, trip.wall_ns, trip.cpu_ns, call.cpu_ns);
	return 0;
}
