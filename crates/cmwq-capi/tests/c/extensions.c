/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Parameters, counters, real-time workers, the end: what <cmwq.h> has. */
#include <cmwq.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include "check.h"

static int runs, policy, priority;

static void count_run(struct work_struct *work)
{
	struct sched_param param;

	(void)work;
	CHECK(sched_getparam(0, &param) == 0);
	__atomic_store_n(&policy, sched_getscheduler(0), __ATOMIC_RELEASE);
	__atomic_store_n(&priority, param.sched_priority, __ATOMIC_RELEASE);
	count(&runs);
}

static DECLARE_WORK(work, count_run);

static int param_is(const char *name, const char *expected)
{
	char text[64];

	return cmwq_param_get(name, text, sizeof(text)) == (int)strlen(expected) && strcmp(text, expected) == 0;
}

static void parameters(void)
{
	char text[4];

	CHECK(cmwq_param_set("idle_timeout", "7") == 0 && param_is("idle_timeout", "7"));
	CHECK(cmwq_param_set("workqueue.cache_shard_size", "3") == 0 && param_is("cache_shard_size", "3"));
	CHECK(param_is("idle_ratio", "9") && "from the environment");
	CHECK(cmwq_param_set("idle_timeout", "soon") == -EINVAL && cmwq_param_set("nonsense", "1") == -EINVAL);
	CHECK(cmwq_param_get("nonsense", text, sizeof(text)) == -EINVAL);

	/* They are read now. */
	CHECK(schedule_work(&work));
	flush_work(&work);
	CHECK(param_is("idle_timeout", "7") && param_is("cache_shard_size", "3"));
	CHECK(cmwq_param_set("idle_timeout", "8") == -EBUSY && param_is("idle_timeout", "7"));
	CHECK(cmwq_param_set("default_affinity_scope", "system") == 0);
	CHECK(param_is("default_affinity_scope", "system"));
	CHECK(cmwq_param_get("default_affinity_scope", text, sizeof(text)) == 6 && strcmp(text, "sys") == 0);
	CHECK(cmwq_param_get("default_affinity_scope", NULL, 0) == 6);
}

static void counters(struct workqueue_struct *wq)
{
	struct {
		struct cmwq_stats known;
		unsigned long more;
	} later;
	struct cmwq_stats stats;
	int i;

	for (i = 0; i < 10; i++) {
		CHECK(queue_work(wq, &work));
		flush_work(&work);
	}
	flush_workqueue(wq);
	CHECK(cmwq_workqueue_stats(wq, &stats, sizeof(stats)) == sizeof(stats));
	CHECK(stats.started >= 10 && stats.completed == stats.started && stats.cancelled == 0);

	/* A program that knows less, and one that knows more. */
	memset(&later, 0xff, sizeof(later));
	CHECK(cmwq_workqueue_stats(wq, &later.known, 8) == sizeof(stats));
	CHECK(later.known.started == stats.started && later.known.completed == ~0UL);
	CHECK(cmwq_workqueue_stats(wq, &later.known, sizeof(later)) == sizeof(stats));
	CHECK(later.known.completed == stats.completed && later.more == 0);
}

static void real_time(struct workqueue_struct *wq)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	int outcome;

	CHECK(attrs && attrs->cmwq_policy == 0 && attrs->cmwq_rt_priority == 0);
	attrs->cmwq_policy = SCHED_FIFO;
	CHECK(apply_workqueue_attrs(wq, attrs) == -EINVAL && "FIFO has no priority 0");
	attrs->cmwq_policy = SCHED_OTHER;
	attrs->cmwq_rt_priority = 3;
	CHECK(apply_workqueue_attrs(wq, attrs) == -EINVAL && "and others have no other");
	attrs->cmwq_policy = SCHED_RR;
	attrs->nice = 1;
	CHECK(apply_workqueue_attrs(wq, attrs) == -EINVAL && "nor a niceness");
	attrs->nice = 0;
	outcome = apply_workqueue_attrs(wq, attrs);
	CHECK(outcome == 0 || outcome == -EPERM);
	CHECK(outcome == apply_workqueue_attrs(wq, attrs));
	CHECK(queue_work(wq, &work));
	flush_work(&work);
	CHECK(load(&policy) == (outcome ? SCHED_OTHER : SCHED_RR) && load(&priority) == (outcome ? 0 : 3));
	free_workqueue_attrs(attrs);
	printf("%s\n", outcome ? "refused" : "real time");
}

static long not_called(void *arg)
{
	(void)arg;
	CHECK(0);
	return 0;
}

int main(void)
{
	struct workqueue_struct *wq;

	parameters();
	wq = alloc_workqueue("counted", WQ_UNBOUND, 0);
	CHECK(wq);
	counters(wq);
	real_time(wq);
	destroy_workqueue(wq);
	CHECK(cmwq_shutdown(60000) == 0);
	CHECK(work_on_cpu(0, not_called, NULL) == -ENODEV);
	return 0;
}
