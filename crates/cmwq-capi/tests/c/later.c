/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* call_rcu, kfree_rcu, pointers that readers follow; and what else clients of the kernel's header name. */
#include <cmwq.h>
#include <errno.h>
#include <linux/device.h>
#include <linux/devm-helpers.h>
#include "check.h"

struct object {
	int number;
	struct rcu_head rcu;
};

static struct object *shared;
static int calls, sum;
static struct gate inside = GATE_SHUT, may_leave = GATE_SHUT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Takes a lock that its queuer may hold: so it may not be called by call_rcu() itself. */
static void reclaim(struct rcu_head *head)
{
	struct object *object = container_of(head, struct object, rcu);

	pthread_mutex_lock(&lock);
	sum += object->number;
	pthread_mutex_unlock(&lock);
	free(object);
	count(&calls);
}

static struct object *make(int number)
{
	struct object *object = malloc(sizeof(*object));

	CHECK(object);
	object->number = number;
	return object;
}

static int asked;

static bool is_asked(void)
{
	asked++;
	return true;
}

static void *reader(void *arg)
{
	struct object *object;

	rcu_read_lock();
	object = rcu_dereference(shared);
	CHECK(object->number == 1);
	gate_open(&inside);
	gate_wait(&may_leave);
	CHECK(object->number == 1);
	rcu_read_unlock();
	return arg;
}

static void readers(void)
{
	struct object *first = make(1), *second = make(2), *before;
	pthread_t thread;
	int i;

	rcu_assign_pointer(shared, first);
	CHECK(rcu_access_pointer(shared) == first);
	CHECK(pthread_create(&thread, NULL, reader, NULL) == 0);
	gate_wait(&inside);
	before = rcu_replace_pointer(shared, second, is_asked());
	CHECK(before == first && rcu_dereference_protected(shared, lockdep_is_held(&lock)) == second);
	pthread_mutex_lock(&lock);
	call_rcu(&before->rcu, reclaim);
	kfree_rcu(make(7), rcu);
	pthread_mutex_unlock(&lock);
	CHECK(load(&calls) == 0);
	gate_open(&may_leave);
	rcu_barrier();
	CHECK(load(&calls) == 1 && sum == 1 && pthread_join(thread, NULL) == 0);

	/* Nobody reads; the lock is held all the same. */
	pthread_mutex_lock(&lock);
	call_rcu(&second->rcu, reclaim);
	RCU_INIT_POINTER(shared, NULL);
	CHECK(rcu_dereference_check(shared, is_asked()) == NULL && rcu_dereference_raw(shared) == NULL);
	/* Conditions are for who compiles, not for who runs. */
	CHECK(asked == 0);
	pthread_mutex_unlock(&lock);
	for (i = 0; i < 1000; i++) {
		call_rcu(&make(1)->rcu, reclaim);
		kvfree_rcu(make(9), rcu);
	}
	kfree_rcu((struct object *)NULL, rcu);
	rcu_barrier();
	CHECK(load(&calls) == 1002 && sum == 1 + 2 + 1000);
	synchronize_rcu();
}

/* ---- devices */

static struct work_struct work;
static struct delayed_work dwork;
static struct gate started = GATE_SHUT, goes_on = GATE_SHUT;
static int runs;

static void count_run(struct work_struct *item)
{
	(void)item;
	count(&runs);
}

static void wait_at_gate(struct work_struct *item)
{
	(void)item;
	CHECK(cmwq_current_func() == wait_at_gate);
	gate_open(&started);
	gate_wait(&goes_on);
	count(&runs);
}

static void *release(void *dev)
{
	CHECK(devres_release_all(dev) == 2);
	/* It was waited for. */
	CHECK(load(&runs) == 1);
	return NULL;
}

static void devices(void)
{
	static struct device dev;
	pthread_t thread;

	CHECK(devm_work_autocancel(&dev, &work, wait_at_gate) == 0);
	CHECK(devm_delayed_work_autocancel(&dev, &dwork, count_run) == 0);
	CHECK(schedule_work(&work) && schedule_delayed_work(&dwork, 1000 * HZ));
	gate_wait(&started);
	CHECK(pthread_create(&thread, NULL, release, &dev) == 0);
	AWAIT(!delayed_work_pending(&dwork));
	gate_open(&goes_on);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(!work_pending(&work) && devres_release_all(&dev) == 0 && load(&runs) == 1);
}

/* ---- CPUs */

static long number(void *arg)
{
	return *(int *)arg;
}

static int expected_cpu, on_expected;

static void note_cpu(struct work_struct *item)
{
	(void)item;
	CHECK(cmwq_current_func() == note_cpu);
	if (sched_getcpu() == expected_cpu)
		count(&on_expected);
}

static void cpus(void)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct workqueue_struct *wq = alloc_workqueue("excluded", WQ_UNBOUND, 0);
	cpumask_var_t exclude;
	struct work_struct item;
	unsigned int cpu, first = cpumask_first(cpu_online_mask), last = cpumask_last(cpu_online_mask);
	int answer = 42;

	CHECK(attrs && wq && zalloc_cpumask_var(&exclude, 0));
	CHECK(work_on_cpu_safe((int)first, number, &answer) == 42);
	CHECK(work_on_cpu_safe_key((int)first, number, &answer, NULL) == 42);
	CHECK(work_on_cpu_safe(8000, number, &answer) == -ENODEV && work_on_cpu_safe(-1, number, &answer) == -ENODEV);
	CHECK(cmwq_current_func() == NULL);

	/* All but one CPU are taken from unbound queues. */
	INIT_WORK(&item, note_cpu);
	expected_cpu = (int)last;
	for_each_online_cpu(cpu)
		if (cpu != last)
			cpumask_set_cpu(cpu, exclude);
	CHECK(workqueue_unbound_exclude_cpumask(exclude) == 0);
	for (int i = 0; i < 20; i++) {
		CHECK(queue_work(wq, &item));
		flush_work(&item);
	}
	CHECK(load(&on_expected) == 20);
	/* That would be all: none is taken. */
	cpumask_set_cpu(last, exclude);
	CHECK(workqueue_unbound_exclude_cpumask(exclude) == 0);
	CHECK(workqueue_unbound_exclude_cpumask(NULL) == -EINVAL);
	CHECK(queue_work(wq, &item));
	flush_work(&item);
	free_cpumask_var(exclude);
	free_workqueue_attrs(attrs);
	destroy_workqueue(wq);
}

/* ---- expressions */

static int effects;

static int effect(void)
{
	return ++effects;
}

static void expressions(void)
{
	struct workqueue_struct *wq = alloc_workqueue("flushed", WQ_UNBOUND, 0);

	CHECK(wq);
	flush_workqueue(wq), effect();
	effects ? flush_workqueue(wq) : (void)effect();
	CHECK(effects == 1);
	destroy_workqueue(wq);
}

/* ---- the end */

static struct gate entered = GATE_SHUT, leaves = GATE_SHUT;
static int inside_now, most_inside;

static void enter(void)
{
	count(&inside_now);
	if (load(&inside_now) > load(&most_inside))
		count(&most_inside);
}

static void stay_inside(struct rcu_head *head)
{
	(void)head;
	enter();
	gate_open(&entered);
	gate_wait(&leaves);
	__atomic_sub_fetch(&inside_now, 1, __ATOMIC_ACQ_REL);
	count(&calls);
}

static void pass_by(struct rcu_head *head)
{
	(void)head;
	enter();
	__atomic_sub_fetch(&inside_now, 1, __ATOMIC_ACQ_REL);
	count(&calls);
}

static void *leave_at_last(void *arg)
{
	gate_open(&leaves);
	return arg;
}

/* Functions are called one after another also when all is shut down while one is called. */
static void shutting_down(void)
{
	struct rcu_head heads[3];
	int before = load(&calls);
	pthread_t thread;

	call_rcu(&heads[0], stay_inside);
	gate_wait(&entered);
	CHECK(cmwq_shutdown(0) == -EBUSY);
	call_rcu(&heads[1], pass_by);
	CHECK(load(&calls) == before);
	CHECK(pthread_create(&thread, NULL, leave_at_last, NULL) == 0);
	rcu_barrier();
	CHECK(load(&calls) == before + 2 && load(&most_inside) == 1);
	CHECK(cmwq_shutdown(60000) == 0);
	call_rcu(&heads[2], pass_by);
	CHECK(load(&calls) == before + 3 && pthread_join(thread, NULL) == 0);
}

int main(void)
{
	readers();
	devices();
	cpus();
	expressions();
	shutting_down();
	return 0;
}
