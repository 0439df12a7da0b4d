/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program with liburcu: every thread that reads, or calls call_rcu(), is registered; those of the library, too, by its
 * hooks. docs/porting.md tells of it.
 */
#define CMWQ_NO_RCU_SHIM
#include <urcu.h>
#include <cmwq.h>
#include "check.h"

struct object {
	int number;
	struct rcu_head rcu;
};

static struct object *shared;
static int freed, read_count;

static void begin(void *data)
{
	(void)data;
	rcu_register_thread();
}

static void end(void *data)
{
	(void)data;
	rcu_unregister_thread();
}

static void reclaim(struct rcu_head *head)
{
	free(caa_container_of(head, struct object, rcu));
	count(&freed);
}

/* A work function that reads and writes as a thread of the program's may. */
static void replace(struct work_struct *work)
{
	struct object *object = malloc(sizeof(*object)), *before;

	(void)work;
	CHECK(object);
	object->number = 1;
	rcu_read_lock();
	before = rcu_dereference(shared);
	if (before)
		CHECK(before->number == 1);
	rcu_read_unlock();
	before = rcu_xchg_pointer(&shared, object);
	if (before)
		call_rcu(&before->rcu, reclaim);
	count(&read_count);
}

static void after_a_grace_period(struct work_struct *work)
{
	(void)work;
	count(&freed);
}

int main(void)
{
	struct work_struct works[64];
	struct workqueue_struct *wq;
	struct rcu_work last;

	rcu_register_thread();
	CHECK(cmwq_set_thread_hooks(begin, end, NULL) == 0);
	CHECK(cmwq_set_rcu((void (*)(struct cmwq_rcu_head *, void (*)(struct cmwq_rcu_head *)))call_rcu, rcu_barrier) == 0);
	wq = alloc_workqueue("readers", WQ_UNBOUND, 0);
	CHECK(wq);
	for (int i = 0; i < 64; i++) {
		INIT_WORK(&works[i], replace);
		CHECK(queue_work(wq, &works[i]));
	}
	flush_workqueue(wq);
	CHECK(load(&read_count) == 64);
	rcu_barrier();
	CHECK(load(&freed) == 63);
	INIT_RCU_WORK(&last, after_a_grace_period);
	CHECK(queue_rcu_work(wq, &last));
	flush_rcu_work(&last);
	CHECK(load(&freed) == 64);
	free(shared);
	destroy_workqueue(wq);
	CHECK(cmwq_shutdown(60000) == 0);
	rcu_unregister_thread();
	printf("reclaimed %d\n", load(&freed));
	return 0;
}
