/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread that is cancelled in a call of the library: it returns, or the process ends with a word. A thread that were gone
 * without one would leave what others wait for. Each call has a process of its own; this says which of them ended.
 */
#include <cmwq.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

static void func(struct work_struct *work)
{
	(void)work;
}

static DECLARE_WORK(item, func);
static struct delayed_work dwork;

static void unlock_for_others(void)
{
	static struct rcu_work late;
	struct workqueue_struct *wq = alloc_workqueue("gone", WQ_UNBOUND, 0);

	/* What is refused at the end of the grace period says so, in this thread. */
	INIT_RCU_WORK(&late, func);
	rcu_read_lock();
	CHECK(queue_rcu_work(wq, &late));
	destroy_workqueue(wq);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	rcu_read_unlock();
}

static pthread_key_t key;

static void end_slowly(void *value)
{
	(void)value;
	usleep(50000);
}

static void delay_end(struct work_struct *work)
{
	(void)work;
	CHECK(pthread_key_create(&key, end_slowly) == 0);
	CHECK(pthread_setspecific(key, &key) == 0);
}

/* Who shuts down waits for the end of a worker, and is not cancelled there. */
static void shut_down(void)
{
	static DECLARE_WORK(last, delay_end);

	CHECK(schedule_work(&last));
	flush_work(&last);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	cmwq_shutdown(60000);
}

#pragma GCC diagnostic ignored "-Wattribute-warning"

#define CALLS(call)                                                              \
	call(__init_work(&item, 0)) call(destroy_work_on_stack(&item))           \
	call(destroy_delayed_work_on_stack(&dwork))                              \
	call(cmwq_debug_check_no_obj_freed(&item, sizeof(item)))                 \
	call(free_workqueue_attrs(alloc_workqueue_attrs()))                      \
	call(cmwq_usable_cpus()) call(cmwq_jiffies(HZ)) call(cmwq_task(0))       \
	call(current_work()) call(cmwq_current_func())                           \
	call(current_is_workqueue_rescuer())                                     \
	call(current_is_workqueue_mem_reclaim()) call(freeze_workqueues_begin()) \
	call(freeze_workqueues_busy()) call(thaw_workqueues())                   \
	call(cmwq_blocking_begin()) call(cmwq_blocking_end())                    \
	call(cmwq_rcu_read_lock()) call(cmwq_rcu_read_unlock())                  \
	call(cmwq_synchronize_rcu()) call(cmwq_rcu_barrier())                    \
	call(__warn_flushing_systemwide_wq()) call(show_all_workqueues())        \
	call(show_freezable_workqueues()) call(workqueue_init_early())           \
	call(workqueue_init()) call(workqueue_init_topology())                   \
	call(workqueue_prepare_cpu(0)) call(workqueue_online_cpu(0))             \
	call(workqueue_offline_cpu(0)) call(workqueue_softirq_action(false))     \
	call(workqueue_softirq_dead(0)) call(wq_watchdog_touch(0))               \
	call(wq_worker_sleeping(NULL)) call(wq_worker_running(NULL))             \
	call(wq_worker_tick(NULL)) call(schedule_work(&item))                    \
	call(destroy_workqueue(system_percpu_wq)) call(unlock_for_others())      \
	call(shut_down())

#define NAME(call) #call,
#define CASE(call)             \
	if (which == number++) \
		call;

static const char *const names[] = { CALLS(NAME) };
static unsigned int which;
static int has_returned;

static void *cancelled(void *arg)
{
	unsigned int number = 0;

	/* Those that have to prepare something are open to it by themselves. */
	if (strncmp(names[which], "unlock_", 7) == 0 || strncmp(names[which], "shut_", 5) == 0)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	CALLS(CASE)
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	count(&has_returned);
	return arg;
}

static void play(void)
{
	struct rlimit none = { 0, 0 };
	pthread_t thread;

	setrlimit(RLIMIT_CORE, &none);
	alarm(60);
	CHECK(pthread_create(&thread, NULL, cancelled, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(load(&has_returned));
	_exit(0);
}

int main(void)
{
	int status, is_wrong = 0;
	pid_t child;

	for (which = 0; which < sizeof(names) / sizeof(names[0]); which++) {
		child = fork();
		CHECK(child >= 0);
		if (child == 0)
			play();
		CHECK(waitpid(child, &status, 0) == child);
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) {
			printf("ended: %s\n", names[which]);
		} else if (status) {
			fprintf(stderr, "%s: status %x\n", names[which], (unsigned int)status);
			is_wrong = 1;
		}
	}
	return is_wrong;
}
