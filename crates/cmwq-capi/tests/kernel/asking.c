/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Questions: about items, queues and the caller. */
#include <linux/workqueue.h>
#include "harness.h"

static struct workqueue_struct *wq;
static struct completion gate, entered;
static atomic_t runs;
static struct work_struct item, other;

static void hold(struct work_struct *work)
{
	(void)work;
	complete_all(&entered);
	wait_for_completion(&gate);
}

static void begin(unsigned int flags, int max_active)
{
	wq = alloc_workqueue("asked", flags, max_active);
	CHECK(wq);
	init_completion(&gate);
	init_completion(&entered);
	atomic_set(&runs, 0);
	INIT_WORK(&item, hold);
}

static void end(void)
{
	complete_all(&gate);
	destroy_workqueue(wq);
}

static void row_work_busy(void)
{
	begin(WQ_PERCPU, 1);
	INIT_WORK(&other, hold);
	CHECK(work_busy(&item) == 0);
	CHECK(queue_work_on(harness_cpu(0), wq, &item) && queue_work_on(harness_cpu(0), wq, &other));
	wait_for_completion(&entered);
	CHECK(work_busy(&item) == WORK_BUSY_RUNNING && work_busy(&other) == WORK_BUSY_PENDING);
	CHECK(queue_work_on(harness_cpu(0), wq, &item));
	CHECK(work_busy(&item) == (WORK_BUSY_RUNNING | WORK_BUSY_PENDING));
	end();
	CHECK(work_busy(&item) == 0 && work_busy(&other) == 0);
}

static void row_workqueue_congested(void)
{
	begin(WQ_PERCPU, 1);
	INIT_WORK(&other, hold);
	CHECK(!workqueue_congested(harness_cpu(0), wq));
	CHECK(queue_work_on(harness_cpu(0), wq, &item));
	wait_for_completion(&entered);
	CHECK(!workqueue_congested(harness_cpu(0), wq));
	CHECK(queue_work_on(harness_cpu(0), wq, &other));
	AWAIT(workqueue_congested(harness_cpu(0), wq));
	if (harness_cpu(1) >= 0)
		CHECK(!workqueue_congested(harness_cpu(1), wq));
	CHECK(cancel_work(&other));
	CHECK(!workqueue_congested(harness_cpu(0), wq));
	end();
}

static void know_oneself(struct work_struct *work)
{
	CHECK(current_work() == work);
	/* Also after it was queued again. */
	if (atomic_inc_return(&runs) == 1) {
		CHECK(queue_work(wq, work));
		CHECK(current_work() == work);
	}
}

static void row_current_work(void)
{
	begin(WQ_UNBOUND, 0);
	CHECK(!current_work());
	INIT_WORK(&other, know_oneself);
	CHECK(queue_work(wq, &other));
	destroy_workqueue(wq);
	CHECK(atomic_read(&runs) == 2);
}

static void not_rescued(struct work_struct *work)
{
	(void)work;
	CHECK(!current_is_workqueue_rescuer());
	atomic_inc(&runs);
}

/* That it is one: j_rescuer. */
static void row_current_is_workqueue_rescuer(void)
{
	/* Without WQ_MEM_RECLAIM: on a busy machine a rescuer is called, and rightly says that it is one. */
	begin(WQ_UNBOUND, 0);
	CHECK(!current_is_workqueue_rescuer());
	INIT_WORK(&other, not_rescued);
	CHECK(queue_work(wq, &other));
	destroy_workqueue(wq);
	CHECK(atomic_read(&runs) == 1);
}

static void reclaims(struct work_struct *work)
{
	(void)work;
	atomic_add_return(current_is_workqueue_mem_reclaim() ? 10 : 1, &runs);
}

static void row_current_is_workqueue_mem_reclaim(void)
{
	const unsigned int flags[] = {
		WQ_PERCPU, WQ_PERCPU | WQ_MEM_RECLAIM, WQ_PERCPU | WQ_MEM_RECLAIM | __WQ_LEGACY, WQ_UNBOUND | WQ_MEM_RECLAIM,
	};
	const int expected[] = { 1, 10, 1, 10 };

	CHECK(!current_is_workqueue_mem_reclaim());
	for (int i = 0; i < 4; i++) {
		begin(flags[i], 0);
		INIT_WORK(&other, reclaims);
		CHECK(queue_work(wq, &other));
		destroy_workqueue(wq);
		CHECK(atomic_read(&runs) == expected[i]);
	}
}

static void describe(struct work_struct *work)
{
	(void)work;
	set_worker_desc("%s %d of %d, and more than thirty-one characters", "part", 1, 2);
	atomic_inc(&runs);
}

static void row_set_worker_desc(void)
{
	/* Nobody's description. */
	set_worker_desc("main");
	begin(WQ_UNBOUND, 0);
	INIT_WORK(&other, describe);
	CHECK(queue_work(wq, &other));
	destroy_workqueue(wq);
	CHECK(atomic_read(&runs) == 1 && WORKER_DESC_LEN == 32);
}

static char comm[64];

static void say_who(struct work_struct *work)
{
	(void)work;
	set_worker_desc("described");
	wq_worker_comm(comm, sizeof(comm), current);
	print_worker_info(KERN_INFO, current);
	atomic_inc(&runs);
}

/* What they print is looked at by who runs this program. */
static void row_print_worker_info(void)
{
	begin(WQ_UNBOUND, 0);
	print_worker_info(KERN_INFO, current);
	INIT_WORK(&other, say_who);
	CHECK(queue_work(wq, &other));
	flush_work(&other);
	CHECK(atomic_read(&runs) == 1 && strncmp(comm, "kworker/u", 9) == 0);
	CHECK(strstr(comm, "+described"));
	end();
}

static void row_show_workqueues(void)
{
	begin(WQ_UNBOUND | WQ_FREEZABLE, 1);
	INIT_WORK(&other, hold);
	CHECK(queue_work(wq, &item) && queue_work(wq, &other));
	wait_for_completion(&entered);
	show_one_workqueue(wq);
	show_freezable_workqueues();
	show_all_workqueues();
	end();
}

static work_func_t last;

static void ask_last(struct work_struct *work)
{
	(void)work;
	last = wq_worker_last_func(current);
	wq_worker_sleeping(current);
	wq_worker_running(current);
	wq_worker_tick(current);
	atomic_inc(&runs);
}

/* What the core calls does no harm. */
static void row_core_hooks(void)
{
	workqueue_init_early();
	workqueue_init();
	workqueue_init_topology();
	begin(WQ_PERCPU, 0);
	INIT_WORK(&other, ask_last);
	for (int i = 0; i < 50; i++) {
		CHECK(queue_work_on(harness_cpu(0), wq, &other));
		flush_work(&other);
	}
	CHECK(atomic_read(&runs) == 50);
	for (int i = 0; harness_cpu(i) >= 0; i++) {
		CHECK(workqueue_prepare_cpu((unsigned int)harness_cpu(i)) == 0);
		CHECK(workqueue_online_cpu((unsigned int)harness_cpu(i)) == 0);
		wq_watchdog_touch(harness_cpu(i));
	}
	workqueue_softirq_action(false);
	/* It may be the barrier of a flush. */
	AWAIT(({
		CHECK(queue_work_on(harness_cpu(0), wq, &other));
		AWAIT(!work_busy(&other));
		last == ask_last;
	}));
	end();
}

static void row_freeze_workqueues(void)
{
	begin(WQ_UNBOUND | WQ_FREEZABLE, 0);
	CHECK(queue_work(wq, &item));
	wait_for_completion(&entered);
	freeze_workqueues_begin();
	CHECK(freeze_workqueues_busy());
	complete_all(&gate);
	AWAIT(!freeze_workqueues_busy());
	thaw_workqueues();
	/* Nothing to thaw. */
	thaw_workqueues();
	CHECK(queue_work(wq, &item));
	end();
}

/* The numbers that are part of the interface. */
static void row_affinity_scopes(void)
{
	CHECK(WQ_AFFN_DFL == 0 && WQ_AFFN_CPU == 1 && WQ_AFFN_SMT == 2 && WQ_AFFN_CACHE == 3);
	CHECK(WQ_AFFN_CACHE_SHARD == 4 && WQ_AFFN_NUMA == 5 && WQ_AFFN_SYSTEM == 6 && WQ_AFFN_NR_TYPES == 7);
	CHECK(WQ_MAX_ACTIVE == 2048 && WQ_UNBOUND_MAX_ACTIVE == 2048 && WQ_DFL_ACTIVE == 1024);
	CHECK(WQ_DFL_MIN_ACTIVE == 8 && WORK_BUSY_PENDING == 1 && WORK_BUSY_RUNNING == 2);
}

static void row_work_cpu_unbound(void)
{
	begin(WQ_PERCPU, 0);
	INIT_WORK(&other, not_rescued);
	CHECK(WORK_CPU_UNBOUND == NR_CPUS);
	CHECK(queue_work_on(WORK_CPU_UNBOUND, wq, &other));
	flush_work(&other);
	CHECK(atomic_read(&runs) == 1 && !workqueue_congested(WORK_CPU_UNBOUND, wq));
	end();
}

ROWS(ROW(work_busy), ROW(workqueue_congested), ROW(current_work), ROW(current_is_workqueue_rescuer),
     ROW(current_is_workqueue_mem_reclaim), ROW(set_worker_desc), ROW(print_worker_info),
     ROW(show_workqueues), ROW(core_hooks), ROW(freeze_workqueues), ROW(affinity_scopes),
     ROW(work_cpu_unbound));
