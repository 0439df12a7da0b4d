/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The system's queues can be named before main, and are objects of their own. */
#include <linux/workqueue.h>
#include "check.h"

static int runs;

/* By its name in what is said. */
void count_run(struct work_struct *work);
void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static DECLARE_WORK(early, count_run);
static DECLARE_WORK(late, count_run);
static struct workqueue_struct **const all[] = {
	&system_wq, &system_percpu_wq, &system_highpri_wq, &system_long_wq, &system_unbound_wq, &system_dfl_wq,
	&system_dfl_long_wq, &system_freezable_wq, &system_power_efficient_wq,
	&system_freezable_power_efficient_wq, &system_bh_wq, &system_bh_highpri_wq,
};
#define NR (sizeof(all) / sizeof(*all))

__attribute__((constructor)) static void before_main(void)
{
	CHECK(queue_work(system_dfl_wq, &early));
}

int main(void)
{
	flush_work(&early);
	CHECK(load(&runs) == 1);
	for (size_t i = 0; i < NR; i++) {
		CHECK(*all[i]);
		for (size_t j = 0; j < i; j++)
			CHECK(*all[i] != *all[j]);
		CHECK(queue_work(*all[i], &late));
		flush_work(&late);
		CHECK((size_t)load(&runs) == i + 2);
	}
	CHECK(schedule_work(&late));
	flush_work(&late);
	CHECK(schedule_work_on(0, &late));
	flush_work(&late);
	CHECK(load(&runs) == NR + 3);
	return 0;
}
