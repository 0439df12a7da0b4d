/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the header's macros make of dirty memory is what the library's own functions make of it, member by member. */
#include <linux/workqueue.h>
#include <string.h>
#include "check.h"

static int runs;

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static void check_delayed(bool deferrable)
{
	struct delayed_work ours, theirs, other;

	memset(&ours, 0xa5, sizeof(ours));
	memset(&theirs, 0xa5, sizeof(theirs));
	memset(&other, 0xa5, sizeof(other));
	if (deferrable)
		INIT_DEFERRABLE_WORK(&ours, count_run);
	else
		INIT_DELAYED_WORK(&ours, count_run);
	cmwq_init_delayed_work(&theirs, count_run, deferrable);
	__INIT_DELAYED_WORK(&other, count_run, deferrable ? TIMER_DEFERRABLE : 0);

	struct delayed_work *items[] = { &ours, &theirs, &other };
	for (int i = 0; i < 3; i++) {
		struct delayed_work *item = items[i];

		CHECK(atomic_long_read(&item->work.data) == (long)WORK_STRUCT_NO_POOL);
		CHECK(item->work.func == count_run);
		CHECK(!timer_pending(&item->timer) && !delayed_work_pending(item));
		CHECK(item->timer.cmwq_due == 0 && item->timer.cmwq_tag == 0);
		CHECK(item->timer.cmwq_deferrable == deferrable);
		CHECK(item->timer.cmwq_pad == 0);
		CHECK(item->timer.expires == 0 && !item->timer.function);
		CHECK(!item->wq && item->cpu == 0);
	}
	for (int i = 0; i < 3; i++) {
		int before = load(&runs);

		CHECK(queue_delayed_work(system_dfl_wq, items[i], 1000 * HZ));
		/* False if it has finished before it could be waited for. */
		flush_delayed_work(items[i]);
		CHECK(load(&runs) == before + 1);
		CHECK(schedule_delayed_work_on(0, items[i], 1000 * HZ));
		CHECK(items[i]->cpu == 0 && timer_pending(&items[i]->timer));
		CHECK(time_after(items[i]->timer.expires, jiffies + 900 * HZ));
		CHECK(items[i]->timer.cmwq_deferrable == deferrable);
		CHECK(cancel_delayed_work_sync(items[i]) && load(&runs) == before + 1);
	}
}

static void check_rcu(void)
{
	struct rcu_work ours, theirs;

	memset(&ours, 0xa5, sizeof(ours));
	memset(&theirs, 0xa5, sizeof(theirs));
	INIT_RCU_WORK(&ours, count_run);
	cmwq_init_rcu_work(&theirs, count_run);
	CHECK(atomic_long_read(&theirs.work.data) == atomic_long_read(&ours.work.data));
	CHECK(ours.work.func == count_run && theirs.work.func == count_run);
	CHECK(!ours.wq && !theirs.wq && !ours.cmwq_refused && !theirs.cmwq_refused);
}

static DECLARE_DEFERRABLE_WORK(deferrable_item, count_run);
static DECLARE_DELAYED_WORK(delayed_item, count_run);

int main(void)
{
	CHECK(deferrable_item.timer.cmwq_deferrable == 1 && delayed_item.timer.cmwq_deferrable == 0);
	check_delayed(false);
	check_delayed(true);
	check_rcu();
	return 0;
}
