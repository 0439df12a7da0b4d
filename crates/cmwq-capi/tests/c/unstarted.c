/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What cancels, waits for or disables items before a queue is used starts nothing, and holds afterwards. */
#include <cmwq.h>
#include <dirent.h>
#include <sched.h>
#include "check.h"

#define DISABLERS 4
#define TIMES 500

static int begun, runs;

static void begin(void *data)
{
	(void)data;
	count(&begun);
}

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static void never(struct timer_list *timer)
{
	(void)timer;
	CHECK(0 && "called");
}

static DECLARE_WORK(item, count_run);
static DECLARE_WORK(shared, count_run);
static DECLARE_WORK(first, count_run);
static DECLARE_DELAYED_WORK(later, count_run);
static DEFINE_TIMER(timer, never);
static pthread_barrier_t all_there;

static int nr_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	int nr = 0;

	CHECK(tasks);
	while ((task = readdir(tasks)))
		nr += task->d_name[0] != '.';
	closedir(tasks);
	return nr;
}

static void ask(void)
{
	struct rcu_work rwork;

	INIT_RCU_WORK(&rwork, count_run);
	CHECK(!cancel_work(&item) && !cancel_work_sync(&item) && !flush_work(&item) && !work_busy(&item));
	CHECK(!cancel_delayed_work(&later) && !cancel_delayed_work_sync(&later) && !flush_delayed_work(&later));
	CHECK(!flush_rcu_work(&rwork) && !timer_delete(&timer) && !timer_delete_sync(&timer));
	CHECK(!disable_work(&item) && !disable_work_sync(&item) && !enable_work(&item));
	CHECK(!disable_delayed_work(&later) && !disable_delayed_work_sync(&later) && !enable_delayed_work(&later));
	CHECK(num_online_cpus() > 0 && cpumask_test_cpu((unsigned int)sched_getcpu(), cpu_online_mask));
}

static void *disable_often(void *arg)
{
	pthread_barrier_wait(&all_there);
	for (int i = 0; i < TIMES; i++)
		CHECK(!disable_work(&shared));
	return arg;
}

/* None of them is lost while the first use of a queue makes what there was not. */
static void disable_meanwhile(void)
{
	pthread_t threads[DISABLERS];

	CHECK(pthread_barrier_init(&all_there, NULL, DISABLERS + 1) == 0);
	for (int i = 0; i < DISABLERS; i++)
		CHECK(pthread_create(&threads[i], NULL, disable_often, NULL) == 0);
	pthread_barrier_wait(&all_there);
	CHECK(queue_work(system_percpu_wq, &first));
	for (int i = 0; i < DISABLERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	for (int i = 1; i < DISABLERS * TIMES; i++)
		CHECK(!enable_work(&shared) && !queue_work(system_percpu_wq, &shared));
	CHECK(enable_and_queue_work(system_percpu_wq, &shared));
	flush_work(&first);
	flush_work(&shared);
	CHECK(load(&runs) == 2 && load(&begun) > 0);
}

int main(void)
{
	ask();
	CHECK(nr_threads() == 1);
	/* So it is not too late for this. */
	CHECK(cmwq_set_thread_hooks(begin, NULL, NULL) == 0);
	disable_meanwhile();
	CHECK(!queue_work(system_percpu_wq, &item) && !schedule_delayed_work(&later, 0));
	CHECK(enable_work(&item) && queue_work(system_percpu_wq, &item));
	flush_work(&item);
	CHECK(enable_delayed_work(&later) && schedule_delayed_work(&later, 1));
	flush_delayed_work(&later);
	CHECK(load(&runs) == 4);
	return 0;
}
