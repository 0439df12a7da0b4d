/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Items that wait for readers: of the library's sections, and of grace periods that the program tells of. */
#include <cmwq.h>
#include "check.h"

struct object {
	int number;
	struct rcu_work rwork;
};

static struct workqueue_struct *wq;
static int runs, sum, nr_calls, nr_barriers;
static struct gate readers_gate = GATE_SHUT, inside = GATE_SHUT;

static void count_run(struct work_struct *work)
{
	struct object *object = container_of(to_rcu_work(work), struct object, rwork);

	__atomic_add_fetch(&sum, object->number, __ATOMIC_RELAXED);
	count(&runs);
}

static void *reader(void *arg)
{
	rcu_read_lock();
	rcu_read_lock();
	rcu_read_unlock();
	gate_open(&inside);
	gate_wait(&readers_gate);
	rcu_read_unlock();
	return arg;
}

/* Begins before the grace period is over, and so has something to wait for. */
static void *flusher(void *object)
{
	CHECK(flush_rcu_work(&((struct object *)object)->rwork));
	return NULL;
}

/* A grace period that is over at once. */
static void own_call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head))
{
	count(&nr_calls);
	func(head);
}

static void own_rcu_barrier(void)
{
	count(&nr_barriers);
}

static pthread_key_t key;

/* The destructors of what is local to the thread have run. */
static void at_its_end(void *object)
{
	struct rcu_work *rwork = &((struct object *)object)->rwork;
	int before = load(&runs);

	rcu_read_lock();
	rcu_read_lock();
	CHECK(queue_rcu_work(wq, rwork));
	rcu_read_unlock();
	CHECK(work_pending(&rwork->work) && load(&runs) == before);
	rcu_read_unlock();
	flush_rcu_work(rwork);
	CHECK(load(&runs) == before + 1);
}

static void *read_and_end(void *object)
{
	rcu_read_lock();
	rcu_read_unlock();
	CHECK(pthread_setspecific(key, object) == 0);
	return NULL;
}

static void *end_in_a_section(void *arg)
{
	rcu_read_lock();
	rcu_read_lock();
	return arg;
}

static void threads_that_end(struct object *object)
{
	int before = load(&runs);
	pthread_t thread;

	CHECK(pthread_key_create(&key, at_its_end) == 0);
	CHECK(pthread_create(&thread, NULL, read_and_end, object) == 0);
	CHECK(pthread_join(thread, NULL) == 0 && load(&runs) == before + 1);
	/* Its section has ended with it. */
	CHECK(pthread_create(&thread, NULL, end_in_a_section, NULL) == 0 && pthread_join(thread, NULL) == 0);
	synchronize_rcu();
}

int main(void)
{
	struct object object = { .number = 7 };
	pthread_t thread, flusher_thread;

	/* Nothing has asked for a grace period so far. */
	cmwq_rcu_barrier();
	CHECK(cmwq_set_rcu(own_call_rcu, own_rcu_barrier) == 0);
	CHECK(cmwq_set_rcu(own_call_rcu, own_rcu_barrier) < 0);
	wq = alloc_workqueue("rcu", WQ_UNBOUND, 0);
	INIT_RCU_WORK(&object.rwork, count_run);
	CHECK(wq && !work_pending(&object.rwork.work) && !flush_rcu_work(&object.rwork));

	/* A reader keeps it waiting; more queueing is refused meanwhile. */
	CHECK(pthread_create(&thread, NULL, reader, NULL) == 0);
	gate_wait(&inside);
	CHECK(queue_rcu_work(wq, &object.rwork) && work_pending(&object.rwork.work));
	CHECK(!queue_rcu_work(wq, &object.rwork) && load(&runs) == 0 && load(&nr_calls) == 1);
	CHECK(pthread_create(&flusher_thread, NULL, flusher, &object) == 0);
	AWAIT(load(&nr_barriers) == 1);
	gate_open(&readers_gate);
	CHECK(pthread_join(thread, NULL) == 0 && pthread_join(flusher_thread, NULL) == 0);
	CHECK(load(&runs) == 1 && load(&sum) == 7);

	/* Without readers it runs soon, and again. */
	CHECK(queue_rcu_work(system_dfl_wq, &object.rwork));
	flush_rcu_work(&object.rwork);
	CHECK(load(&runs) == 2 && !flush_rcu_work(&object.rwork));
	synchronize_rcu();

	threads_that_end(&object);
	CHECK(load(&runs) == 3);

	/* A disabled one is not queued. */
	CHECK(!disable_work(&object.rwork.work) && !queue_rcu_work(wq, &object.rwork));
	CHECK(!work_pending(&object.rwork.work) && !queue_rcu_work(wq, &object.rwork));
	CHECK(enable_work(&object.rwork.work) && queue_rcu_work(wq, &object.rwork));
	flush_rcu_work(&object.rwork);
	CHECK(load(&runs) == 4);

	/* What would wait for itself does not. */
	rcu_read_lock();
	synchronize_rcu();
	rcu_read_unlock();
	rcu_read_unlock();

	/* A queue that goes before the grace period is over refuses it, and the item is idle. */
	rcu_read_lock();
	CHECK(queue_rcu_work(wq, &object.rwork));
	destroy_workqueue(wq);
	CHECK(work_pending(&object.rwork.work));
	rcu_read_unlock();
	CHECK(!work_pending(&object.rwork.work) && load(&runs) == 4);
	return 0;
}
