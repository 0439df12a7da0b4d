/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* (a) Items of an ordered queue run one at a time, in the order of queueing, whatever happens to its attributes. */
#include <linux/workqueue.h>
#include "harness.h"

#define NR 400

struct step {
	struct work_struct work;
	int number;
};

static struct step steps[NR];
static atomic_t inside, next_one;

static void take_step(struct work_struct *work)
{
	struct step *step = container_of(work, struct step, work);

	CHECK(atomic_inc_return(&inside) == 1);
	CHECK(atomic_inc_return(&next_one) - 1 == step->number);
	if (step->number % 8 == 0)
		usleep_range(100, 200);
	CHECK(atomic_dec_return(&inside) == 0);
}

static void row_one_at_a_time_in_order(void)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("ordered-%d", WQ_MEM_RECLAIM, 1);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	int last = 1;

	CHECK(wq && attrs);
	while (harness_cpu(last) >= 0)
		last++;
	attrs->ordered = true;
	for (int i = 0; i < NR; i++) {
		steps[i].number = i;
		INIT_WORK(&steps[i].work, take_step);
		CHECK(queue_work_on(harness_cpu(i % last), wq, &steps[i].work));
		if (i % 20)
			continue;
		attrs->nice = i / 100;
		attrs->affn_scope = (enum wq_affn_scope)(i / 20 % WQ_AFFN_NR_TYPES);
		attrs->affn_strict = i % 40 == 0;
		cpumask_setall(attrs->cpumask);
		if (i / 20 % 3 == 0) {
			cpumask_clear(attrs->cpumask);
			cpumask_set_cpu((unsigned int)harness_cpu(i / 20 % last), attrs->cpumask);
		}
		CHECK(apply_workqueue_attrs(wq, attrs) == 0);
	}
	flush_workqueue(wq);
	CHECK(atomic_read(&next_one) == NR);
	free_workqueue_attrs(attrs);
	destroy_workqueue(wq);
}

ROWS(ROW(one_at_a_time_in_order));
