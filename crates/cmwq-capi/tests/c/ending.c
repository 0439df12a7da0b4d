/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every function of the library before, in the middle of and after cmwq_shutdown(): each returns, and says what becomes of
 * what it was given. The argument says what is called first when: "used", "in_it", "after_it", or "never_used", of a
 * library that was shut down before it was used at all. Or all are called by a thread that ends ("thread_ends"), before and
 * after the destructors of what is local to it. A test compares the symbols that are named here with those there are.
 */
#include <cmwq.h>
#include <errno.h>
#include <linux/device.h>
#include <linux/rcupdate.h>
#include <linux/timer.h>
#include <string.h>
#include <unistd.h>
#include "check.h"

enum when { OPEN, CLOSING, CLOSED };

#define NUMBER_OF(array) (sizeof(array) / sizeof((array)[0]))
/* A day. */
#define FAR (24 * 3600 * HZ)

static enum when when;
static int runs, freed;

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static void count_call(void *arg)
{
	(void)arg;
	count(&runs);
}

/* What may run at any time. */
static void not_counted(void *arg)
{
	(void)arg;
}

static void count_index(void *arg, size_t index)
{
	(void)index;
	count_call(arg);
}

static void count_timer(struct timer_list *timer)
{
	(void)timer;
	count(&runs);
}

static void count_freed(struct rcu_head *head)
{
	(void)head;
	count(&freed);
}

static long answer(void *arg)
{
	(void)arg;
	count(&runs);
	return 42;
}

/* Ran now, or did not and will not. */
#define RUNS_IF_OPEN(n, what)                                                   \
	do {                                                                    \
		int before = load(&runs);                                       \
                                                                                \
		what;                                                           \
		CHECK(load(&runs) == before + (when == OPEN ? (n) : 0));        \
	} while (0)

static void items(struct workqueue_struct *wq)
{
	struct work_struct work;

	cmwq_init_work(&work, count_run);
	__init_work(&work, 0);
	/* Also what is refused was taken: it is idle again. */
	RUNS_IF_OPEN(1, CHECK(queue_work(wq, &work)); flush_work(&work));
	RUNS_IF_OPEN(1, CHECK(queue_work_on(0, wq, &work)); flush_work(&work));
	RUNS_IF_OPEN(1, CHECK(queue_work_node(0, wq, &work)); flush_work(&work));
	CHECK(!work_pending(&work) && work_busy(&work) == 0);
	CHECK(!disable_work(&work) && !queue_work(wq, &work));
	RUNS_IF_OPEN(1, CHECK(enable_and_queue_work(wq, &work)); flush_work(&work));
	CHECK(!disable_work_sync(&work) && enable_work(&work));
	queue_work(wq, &work);
	cancel_work(&work);
	flush_work(&work);
	queue_work(wq, &work);
	cancel_work_sync(&work);
	CHECK(!work_pending(&work) && work_busy(&work) == 0);
	destroy_work_on_stack(&work);
}

static void delayed_items(struct workqueue_struct *wq)
{
	struct delayed_work work;
	int deferrable;

	for (deferrable = 0; deferrable < 2; deferrable++) {
		cmwq_init_delayed_work(&work, count_run, deferrable);
		RUNS_IF_OPEN(1, CHECK(queue_delayed_work(wq, &work, 0)); flush_delayed_work(&work));
		RUNS_IF_OPEN(1, CHECK(queue_delayed_work_on(0, wq, &work, FAR)); flush_delayed_work(&work));
		RUNS_IF_OPEN(1, CHECK(!mod_delayed_work(wq, &work, FAR)); flush_delayed_work(&work));
		RUNS_IF_OPEN(1, CHECK(!mod_delayed_work_on(0, wq, &work, 1)); flush_delayed_work(&work));
		RUNS_IF_OPEN(1, cmwq_queue_delayed_work_on(0, wq, &work, 1, HZ); flush_delayed_work(&work));
		RUNS_IF_OPEN(1, cmwq_mod_delayed_work_on(0, wq, &work, 1, HZ); flush_delayed_work(&work));
		CHECK(!delayed_work_pending(&work));
		queue_delayed_work(wq, &work, FAR);
		CHECK(cancel_delayed_work(&work) == (when == OPEN));
		queue_delayed_work(wq, &work, FAR);
		CHECK(cancel_delayed_work_sync(&work) == (when == OPEN));
		CHECK(!disable_delayed_work(&work) && !queue_delayed_work(wq, &work, 1) && enable_delayed_work(&work));
		CHECK(!disable_delayed_work_sync(&work) && enable_delayed_work(&work));
		/* As if its time had come: the timer's own function, of an item that nobody queued. */
		CHECK(work_busy(&work.work) == 0);
		destroy_delayed_work_on_stack(&work);
	}
	delayed_work_timer_fn(NULL);
}

static void grace_periods(struct workqueue_struct *wq)
{
	struct rcu_head heads[2], *kept;
	struct rcu_work work;
	int before = load(&freed);

	cmwq_init_rcu_work(&work, count_run);
	RUNS_IF_OPEN(1, CHECK(queue_rcu_work(wq, &work)); flush_rcu_work(&work));
	CHECK(!work_pending(&work.work));
	cmwq_rcu_read_lock();
	cmwq_rcu_read_unlock();
	cmwq_synchronize_rcu();
	/* A function that frees is called in any case. */
	cmwq_call_rcu(&heads[0], count_freed);
	cmwq_call_rcu(&heads[1], count_freed);
	cmwq_rcu_barrier();
	CHECK(load(&freed) == before + 2);
	kept = malloc(sizeof(*kept));
	CHECK(kept);
	cmwq_free_rcu(kept, kept);
	cmwq_rcu_barrier();
}

static void timers(void)
{
	struct timer_list timer;

	timer_setup(&timer, count_timer, 0);
	CHECK(!cmwq_arm_timer(&timer, jiffies + FAR, HZ, 0));
	CHECK(cmwq_timer_delete(&timer) == (when == OPEN));
	mod_timer(&timer, jiffies + FAR);
	CHECK(cmwq_timer_delete_sync(&timer) == (when == OPEN));
	mod_timer(&timer, jiffies + FAR);
	CHECK(cmwq_timer_delete_sync_try(&timer) == (when == OPEN));
	mod_timer(&timer, jiffies + FAR);
	CHECK(cmwq_timer_shutdown(&timer) == (when == OPEN));
	timer_setup(&timer, count_timer, 0);
	mod_timer(&timer, jiffies + FAR);
	CHECK(cmwq_timer_shutdown_sync(&timer) == (when == OPEN) && !timer_pending(&timer));
}

static void jobs(struct workqueue_struct *wq)
{
	int refused = when == OPEN ? 0 : -ESHUTDOWN;
	struct cmwq_job *job;

	CHECK(cmwq_queue(wq, count_call, NULL) == refused);
	cmwq_flush(wq);
	CHECK(cmwq_queue_delayed(wq, not_counted, NULL, 1) == refused);
	RUNS_IF_OPEN(5, CHECK(cmwq_for_each(wq, 5, 2, count_index, NULL) == refused));
	job = cmwq_start(wq, count_call, NULL);
	CHECK((job != NULL) == (when == OPEN));
	if (job) {
		CHECK(cmwq_job_wait(job) == 0);
		job = cmwq_start(wq, count_call, NULL);
		CHECK(cmwq_job_wait_for(job, 60000) == 0);
		job = cmwq_start(wq, count_call, NULL);
		AWAIT(cmwq_job_is_done(job));
		CHECK(cmwq_job_cancel(job) == -EALREADY);
		cmwq_job_forget(cmwq_start(wq, count_call, NULL));
		cmwq_flush(wq);
	}
	job = cmwq_start_delayed(wq, count_call, NULL, 1000000);
	CHECK(job ? when == OPEN : when != OPEN && errno == ESHUTDOWN);
	if (job)
		CHECK(cmwq_job_cancel(job) == 0);
}

/* Queues that are made at their first use, which may be this one. */
static void shared_queues(void)
{
	int refused = when == OPEN ? 0 : -ESHUTDOWN;
	struct cmwq_job *job = cmwq_start(NULL, count_call, NULL);

	CHECK((job != NULL) == (when == OPEN) && (!job || cmwq_job_wait(job) == 0));
	CHECK(cmwq_queue(NULL, not_counted, NULL) == refused && cmwq_queue(system_long_wq, not_counted, NULL) == refused);
	CHECK(cmwq_queue_delayed(NULL, not_counted, NULL, 1) == refused);
	RUNS_IF_OPEN(5, CHECK(cmwq_for_each(NULL, 5, 2, count_index, NULL) == refused));
	cmwq_leave_cpu();
}

static void queue(struct workqueue_struct *wq)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct cmwq_stats stats;
	int outcome;

	CHECK(attrs);
	outcome = apply_workqueue_attrs(wq, attrs);
	CHECK(outcome == 0 || outcome == -EINVAL || outcome == -ENODEV);
	free_workqueue_attrs(attrs);
	workqueue_set_max_active(wq, 5);
	workqueue_set_min_active(wq, 2);
	workqueue_congested(0, wq);
	workqueue_sysfs_register(wq);
	CHECK(cmwq_workqueue_stats(wq, &stats, sizeof(stats)) == sizeof(stats));
	__flush_workqueue(wq);
	drain_workqueue(wq);
	show_one_workqueue(wq);
}

/* It is there to be warned of. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wattribute-warning"
static void warned_of(void)
{
	__warn_flushing_systemwide_wq();
}
#pragma GCC diagnostic pop

/* What takes no queue. */
static void process(void)
{
	struct workqueue_struct *made;
	struct execute_work execute;
	char text[64];
	int device;
	long told;

	made = cmwq_alloc_workqueue("made", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	CHECK((made != NULL) == (when == OPEN));
	destroy_workqueue(made);
	made = cmwq_create("made");
	CHECK((made != NULL) == (when == OPEN));
	cmwq_destroy(made);
	made = cmwq_create_limited("made", 2);
	CHECK(made ? when == OPEN : when != OPEN && errno == ESHUTDOWN);
	cmwq_destroy(made);
	made = cmwq_create_ordered("made");
	CHECK(made ? when == OPEN : when != OPEN && errno == ESHUTDOWN);
	cmwq_destroy(made);
	CHECK(cmwq_devm_add_action(&device, count_call, NULL) == 0);
	CHECK(cmwq_devres_release_all(&device) == 1);

	told = work_on_cpu(0, answer, NULL);
	CHECK(told == (when == OPEN ? 42 : -ENODEV));
	told = work_on_cpu_safe(0, answer, NULL);
	CHECK(told == (when == OPEN ? 42 : -ENODEV));
	told = schedule_on_each_cpu(count_run);
	CHECK((told == 0) == (when == OPEN));
	/* In a process there is always a context. */
	CHECK(execute_in_process_context(count_run, &execute) == 0);

	CHECK(!current_work() && !current_is_workqueue_rescuer() && !current_is_workqueue_mem_reclaim());
	CHECK(!cmwq_current_func());
	cmwq_set_worker_desc("nobody's");
	cmwq_blocking_begin();
	cmwq_blocking_end();
	wq_worker_sleeping(NULL);
	wq_worker_running(NULL);
	wq_worker_last_func(NULL);
	wq_worker_tick(NULL);
	wq_watchdog_touch(-1);
	workqueue_softirq_action(false);
	workqueue_softirq_dead(0);
	wq_worker_comm(text, sizeof(text), NULL);
	print_worker_info("", cmwq_task(getpid()));

	warned_of();
	freeze_workqueues_begin();
	freeze_workqueues_busy();
	thaw_workqueues();
	show_all_workqueues();
	show_freezable_workqueues();
	CHECK(cmwq_metrics(NULL, 0) > 0 || when == CLOSED);
	CHECK(cmwq_param_get("idle_ratio", text, sizeof(text)) > 0);
	cmwq_param_set("watchdog_thresh", "30");
	cmwq_set_watchdog_handler(NULL, NULL);
	cmwq_set_thread_hooks(NULL, NULL, NULL);
	cmwq_debug_check_no_obj_freed(text, sizeof(text));
	CHECK(cmwq_usable_cpus());
	cmwq_jiffies(HZ);

	workqueue_init_early();
	workqueue_init();
	workqueue_init_topology();
	workqueue_prepare_cpu(0);
	workqueue_online_cpu(0);
	workqueue_offline_cpu(0);
	workqueue_unbound_housekeeping_update(cpu_possible_mask);
	workqueue_unbound_exclude_cpumask(NULL);
}

static void system_queues(void)
{
	struct workqueue_struct **all[] = {
		&system_percpu_wq, &system_highpri_wq, &system_long_wq, &system_dfl_wq, &system_dfl_long_wq,
		&system_freezable_wq, &system_power_efficient_wq, &system_freezable_power_efficient_wq,
		&system_bh_wq, &system_bh_highpri_wq, &system_wq, &system_unbound_wq,
	};
	struct delayed_work later;
	struct work_struct work;
	size_t i;

	INIT_WORK(&work, count_run);
	INIT_DELAYED_WORK(&later, count_run);
	for (i = 0; i < NUMBER_OF(all); i++)
		RUNS_IF_OPEN(1, queue_work(*all[i], &work); flush_work(&work));
	RUNS_IF_OPEN(1, schedule_work(&work); flush_work(&work));
	RUNS_IF_OPEN(1, schedule_work_on(0, &work); flush_work(&work));
	RUNS_IF_OPEN(1, schedule_delayed_work(&later, FAR); flush_delayed_work(&later));
	RUNS_IF_OPEN(1, schedule_delayed_work_on(0, &later, FAR); flush_delayed_work(&later));
	CHECK(!work_pending(&work) && !delayed_work_pending(&later));
}

static struct workqueue_struct *queues[7];

static void everything(enum when now)
{
	size_t i;

	when = now;
	for (i = 0; i < NUMBER_OF(queues); i++) {
		if (!queues[i])
			continue;
		items(queues[i]);
		delayed_items(queues[i]);
		grace_periods(queues[i]);
		jobs(queues[i]);
		queue(queues[i]);
	}
	timers();
	shared_queues();
	system_queues();
	process();
}

static struct gate entered = GATE_SHUT, go = GATE_SHUT;

static void hold(struct work_struct *work)
{
	(void)work;
	gate_open(&entered);
	gate_wait(&go);
}

static DECLARE_WORK(holder, hold);
static DECLARE_WORK(probe, count_run);

static void *shut_down(void *arg)
{
	(void)arg;
	CHECK(cmwq_shutdown(60000) == 0);
	return NULL;
}

static pthread_key_t key;
static int ended;

static void at_its_end(void *arg)
{
	(void)arg;
	everything(OPEN);
	count(&ended);
}

static void *use_and_end(void *arg)
{
	everything(OPEN);
	CHECK(pthread_setspecific(key, &key) == 0);
	return arg;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "used";
	struct workqueue_struct *slow;
	int before, after;
	pthread_t ending;
	size_t i;

	/* What does not return ends here. */
	alarm(120);
	if (strcmp(mode, "never_used") == 0) {
		CHECK(cmwq_shutdown(60000) == 0);
		/* There was nothing to shut down. */
		everything(OPEN);
		CHECK(cmwq_shutdown(60000) == 0);
		everything(CLOSED);
		return 0;
	}
	queues[0] = alloc_workqueue("percpu", WQ_PERCPU, 0);
	queues[1] = alloc_workqueue("unbound", WQ_UNBOUND | WQ_FREEZABLE, 0);
	queues[2] = alloc_ordered_workqueue("ordered", 0);
	queues[3] = alloc_workqueue("managed", CMWQ_MANAGED, 0);
	queues[4] = alloc_workqueue("rescued", WQ_PERCPU | WQ_MEM_RECLAIM, 1);
	queues[5] = alloc_workqueue("bh", WQ_BH | WQ_PERCPU, 0);
	queues[6] = cmwq_create("simple");
	for (i = 0; i < NUMBER_OF(queues); i++)
		CHECK(queues[i]);
	if (strcmp(mode, "used") == 0)
		everything(OPEN);
	if (strcmp(mode, "thread_ends") == 0) {
		CHECK(pthread_key_create(&key, at_its_end) == 0);
		CHECK(pthread_create(&ending, NULL, use_and_end, NULL) == 0);
		CHECK(pthread_join(ending, NULL) == 0 && load(&ended) == 1);
		return 0;
	}

	/* Nobody waits for this one. */
	slow = alloc_workqueue("slow", WQ_UNBOUND, 0);
	CHECK(queue_work(slow, &holder));
	gate_wait(&entered);
	CHECK(pthread_create(&ending, NULL, shut_down, NULL) == 0);
	/* It has begun when nothing runs any more. */
	do {
		before = load(&runs);
		CHECK(queue_work(queues[6], &probe));
		flush_work(&probe);
		after = load(&runs);
	} while (before != after);
	if (strcmp(mode, "after_it") != 0) {
		everything(CLOSING);
		CHECK(cmwq_shutdown(0) == -EBUSY);
	}
	gate_open(&go);
	CHECK(pthread_join(ending, NULL) == 0);
	everything(CLOSED);
	for (i = 0; i < NUMBER_OF(queues); i++)
		destroy_workqueue(queues[i]);
	destroy_workqueue(slow);
	CHECK(cmwq_shutdown(0) == 0);
	return 0;
}
