/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What alloc_workqueue makes of flags, limits and names. */
#include <cmwq.h>
#include "check.h"

static int runs;

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static DECLARE_WORK(item, count_run);

static void works(struct workqueue_struct *wq)
{
	int before = load(&runs);

	CHECK(wq && queue_work(wq, &item));
	flush_work(&item);
	CHECK(load(&runs) == before + 1);
	destroy_workqueue(wq);
}

static void makes(unsigned int flags, int max_active)
{
	works(alloc_workqueue("%s", flags, max_active, "q"));
}

int main(void)
{
	makes(0, 0);
	makes(0, 0);
	works(alloc_workqueue("another", 0, 0));
	makes(WQ_PERCPU | WQ_UNBOUND, 0);
	makes(WQ_PERCPU | WQ_UNBOUND, 0);
	makes(WQ_PERCPU | WQ_HIGHPRI | WQ_CPU_INTENSIVE | WQ_FREEZABLE | WQ_MEM_RECLAIM | WQ_SYSFS, 3);
	makes(WQ_POWER_EFFICIENT | WQ_PERCPU, 0);
	makes(WQ_POWER_EFFICIENT | WQ_UNBOUND, 0);
	makes(WQ_BH | WQ_PERCPU, 0);
	makes(WQ_BH | WQ_HIGHPRI | WQ_PERCPU, 0);
	makes(CMWQ_MANAGED, 0);
	works(alloc_workqueue("managed", CMWQ_MANAGED | WQ_UNBOUND, 0));
	works(alloc_workqueue("managed", CMWQ_MANAGED | WQ_PERCPU, 0));
	works(alloc_workqueue("other", CMWQ_MANAGED | WQ_PERCPU, 0));
	makes(WQ_UNBOUND, 100000);
	makes(WQ_UNBOUND, -5);
	works(alloc_workqueue("a name of more than %d bytes, which is not kept whole", WQ_PERCPU, 0, 31));
	works(alloc_workqueue("another name of more than %d bytes, also cut", WQ_PERCPU, 0, 31));
	works(alloc_ordered_workqueue("ordered-%d", WQ_FREEZABLE | WQ_MEM_RECLAIM | WQ_HIGHPRI, 1));
	works(create_workqueue("old"));
	works(create_freezable_workqueue("old"));
	works(create_singlethread_workqueue("old"));

	struct workqueue_struct *named = alloc_workqueue("named", WQ_UNBOUND | WQ_SYSFS, 0);

	CHECK(named);
	CHECK(!alloc_workqueue("named", WQ_UNBOUND | WQ_SYSFS, 0));
	works(alloc_workqueue("named", WQ_UNBOUND, 0));
	works(named);
	works(alloc_workqueue("named", WQ_UNBOUND | WQ_SYSFS, 0));
	CHECK(!alloc_workqueue("bh", WQ_BH | WQ_PERCPU | WQ_SYSFS, 0));
	CHECK(!alloc_workqueue("bh", WQ_BH | WQ_UNBOUND, 0));
	CHECK(!alloc_workqueue("bh", WQ_BH | WQ_PERCPU | WQ_MEM_RECLAIM, 0));
	CHECK(!alloc_workqueue("bh", WQ_BH | WQ_PERCPU, 5));
	return 0;
}
