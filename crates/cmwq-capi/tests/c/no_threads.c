/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The first use of everything when there is no thread to be had, and the next one when there is. Linked with
 * --wrap=pthread_create. */
#include <cmwq.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

static const struct cpumask none;
static int has_threads;
static int runs;

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *arg)
{
	return load(&has_threads) ? __real_pthread_create(thread, attr, main, arg) : EAGAIN;
}

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static long answer(void *arg)
{
	return *(long *)arg;
}

static DECLARE_WORK(item, count_run);
static DECLARE_WORK(disabled, count_run);
static DECLARE_DELAYED_WORK(later, count_run);
static struct workqueue_struct **const all[] = {
	&system_wq, &system_percpu_wq, &system_highpri_wq, &system_long_wq, &system_unbound_wq, &system_dfl_wq,
	&system_dfl_long_wq, &system_freezable_wq, &system_power_efficient_wq,
	&system_freezable_power_efficient_wq, &system_bh_wq, &system_bh_highpri_wq,
};
#define NR (sizeof(all) / sizeof(*all))

static void without(void)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct rcu_work rwork;
	struct cmwq_stats stats;
	long one = 1;

	INIT_RCU_WORK(&rwork, count_run);
	CHECK(!alloc_workqueue("none", WQ_PERCPU, 0));
	CHECK(!disable_work(&disabled));
	for (size_t i = 0; i < NR; i++) {
		CHECK(!queue_work(*all[i], &item) && !work_pending(&item));
		CHECK(!enable_and_queue_work(*all[i], &disabled));
		CHECK(!queue_delayed_work(*all[i], &later, 1) && !delayed_work_pending(&later));
		CHECK(!mod_delayed_work(*all[i], &later, 1) && !delayed_work_pending(&later));
		CHECK(!queue_rcu_work(*all[i], &rwork));
		__flush_workqueue(*all[i]);
		drain_workqueue(*all[i]);
		CHECK(!workqueue_congested(0, *all[i]));
		CHECK(apply_workqueue_attrs(*all[i], attrs) == -ENOMEM);
		CHECK(workqueue_sysfs_register(*all[i]) == -ENOMEM);
		CHECK(!cmwq_workqueue_stats(*all[i], &stats, sizeof(stats)));
		workqueue_set_max_active(*all[i], 1);
		workqueue_set_min_active(*all[i], 1);
		show_one_workqueue(*all[i]);
	}
	CHECK(!flush_work(&item) && !cancel_work_sync(&item) && !disable_work(&item) && !work_busy(&item));
	CHECK(num_online_cpus() > 0);
	CHECK(schedule_on_each_cpu(count_run) == -ENOMEM);
	CHECK(work_on_cpu(0, answer, &one) == -ENOMEM);
	CHECK(workqueue_online_cpu(0) == -ENOMEM);
	CHECK(workqueue_unbound_exclude_cpumask(&none) == -ENOMEM);
	CHECK(workqueue_unbound_housekeeping_update(&none) == -ENOMEM);
	workqueue_init();
	freeze_workqueues_begin();
	CHECK(!freeze_workqueues_busy());
	thaw_workqueues();
	show_all_workqueues();
	show_freezable_workqueues();
	cmwq_rcu_read_lock();
	cmwq_rcu_read_unlock();
	cmwq_synchronize_rcu();
	wq_watchdog_touch(0);
	free_workqueue_attrs(attrs);
	CHECK(!load(&runs));
}

static void with(struct workqueue_struct *own)
{
	long one = 1;

	CHECK(queue_work(system_percpu_wq, &item));
	flush_work(&item);
	CHECK(load(&runs) == 1);
	CHECK(work_on_cpu(0, answer, &one) == 1);
	CHECK(schedule_on_each_cpu(count_run) == 0 && load(&runs) > 1);
	/* Without any CPU less, which is not none at all. */
	CHECK(workqueue_unbound_exclude_cpumask(&none) == 0);
	if (own) {
		CHECK(queue_work(own, &item));
		flush_workqueue(own);
	}
}

int main(void)
{
	struct workqueue_struct *wq, *unused;
	int status;
	pid_t child;

	without();
	/* A child that must make everything anew: before and after there was anything. */
	has_threads = 1;
	/* It was disabled without them. */
	CHECK(!queue_work(system_percpu_wq, &item) && enable_work(&item));
	CHECK(!queue_work(system_percpu_wq, &disabled) && enable_work(&disabled));
	with(NULL);
	wq = alloc_workqueue("own", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	unused = alloc_workqueue("unused", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	CHECK(wq && unused);
	child = fork();
	if (!child) {
		has_threads = 0;
		runs = 0;
		CHECK(!queue_work(wq, &item) && !work_pending(&item));
		__flush_workqueue(wq);
		CHECK(!queue_work(system_percpu_wq, &item) && !work_pending(&item));
		/* To claim an item takes what is not here yet: that is said, and nothing is half done. */
		CHECK(!disable_work(&item) && !flush_work(&item) && !cancel_work(&item) && !work_busy(&item));
		/* Nothing of it is here to be taken down. */
		destroy_workqueue(unused);
		has_threads = 1;
		with(wq);
		CHECK(load(&runs) > 1);
		runs = 0;
		CHECK(queue_work(unused, &item) && !work_busy(&item) && !load(&runs));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	destroy_workqueue(wq);
	destroy_workqueue(unused);
	return 0;
}
