/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Attributes are read, refused and applied. */
#include <linux/workqueue.h>
#include <errno.h>
#include <sched.h>
#include "check.h"

static int ran_on;

static void where(struct work_struct *work)
{
	(void)work;
	ran_on = sched_getcpu();
}

static DECLARE_WORK(item, where);

int main(void)
{
	struct workqueue_struct *unbound = alloc_workqueue("u", WQ_UNBOUND, 0);
	struct workqueue_struct *percpu = alloc_workqueue("p", WQ_PERCPU, 0);
	struct workqueue_struct *ordered = alloc_ordered_workqueue("o", 0);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	int cpu;

	CHECK(unbound && percpu && ordered && attrs);
	CHECK(attrs->nice == 0 && !attrs->affn_strict && attrs->affn_scope == WQ_AFFN_DFL && !attrs->ordered);
	CHECK(cpumask_equal(attrs->cpumask, cpu_possible_mask));
	CHECK(apply_workqueue_attrs(percpu, attrs) == -EINVAL);
	CHECK(apply_workqueue_attrs(ordered, attrs) == 0);
	CHECK(apply_workqueue_attrs(unbound, attrs) == 0);

	cpumask_clear(attrs->cpumask);
	cpumask_set_cpu(0, attrs->cpumask);
	attrs->affn_scope = WQ_AFFN_CPU;
	attrs->affn_strict = true;
	CHECK(apply_workqueue_attrs(unbound, attrs) == 0);
	for (int i = 0; i < 20; i++) {
		CHECK(queue_work(unbound, &item));
		flush_work(&item);
		CHECK(ran_on == 0);
	}

	/* Of no CPU at all: of all of them, as in the kernel. */
	cpumask_clear(attrs->cpumask);
	CHECK(apply_workqueue_attrs(unbound, attrs) == 0);
	for_each_online_cpu(cpu) {
		CHECK(queue_work_on(cpu, unbound, &item));
		flush_work(&item);
		CHECK(ran_on == cpu);
	}
	attrs->affn_scope = WQ_AFFN_NR_TYPES;
	CHECK(apply_workqueue_attrs(unbound, attrs) == -EINVAL);
	attrs->affn_scope = WQ_AFFN_SYSTEM;
	attrs->cmwq_policy = 77;
	CHECK(apply_workqueue_attrs(unbound, attrs) == -EINVAL);
	attrs->cmwq_policy = SCHED_OTHER;
	CHECK(apply_workqueue_attrs(unbound, NULL) == -EINVAL);
	attrs->nice = 20;
	CHECK(apply_workqueue_attrs(unbound, attrs) == -EINVAL);

	free_workqueue_attrs(attrs);
	free_workqueue_attrs(NULL);
	destroy_workqueue(unbound);
	destroy_workqueue(percpu);
	destroy_workqueue(ordered);
	return 0;
}
