/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Parallel jobs whose results come out in the order in which they went in, as cryptography on packets needs it: the
 * jobs go round over a mask of CPUs (queue_work_on on an unbound queue of high limit), what is done is kept in order
 * by a reorder list, and an item for each CPU of a second mask hands the results on, one after the other.
 */
#include <linux/workqueue.h>
#include "harness.h"

#define NR_JOBS 4000
#define NR_CPUS_USED 4

struct job {
	struct work_struct parallel;
	struct list_head done;
	unsigned int number;
	unsigned long value;
};

/* Whoever hands results on: one item per CPU, which never runs beside itself. */
struct serial {
	struct work_struct work;
	spinlock_t lock;
	struct list_head ready;
	unsigned int handed_on;
};

static struct workqueue_struct *parallel_wq, *serial_wq;
static struct job jobs[NR_JOBS];
static struct serial serials[NR_CPUS_USED];
static unsigned int cpus[NR_CPUS_USED], nr_cpus;

/* Done, and waiting for those before it; sorted. */
static DEFINE_SPINLOCK(reorder_lock);
static LIST_HEAD(reorder);
static unsigned int next_number;
static struct work_struct reorder_work;

static atomic_t handed_on, in_reorder;
static unsigned int last_of_serial[NR_CPUS_USED];

static unsigned long compute(unsigned int number)
{
	unsigned long x = number;

	for (unsigned int i = 0; i < 200 + number % 7 * 400; i++)
		x = x * 6364136223846793005UL + 1442695040888963407UL;
	return x;
}

static void hand_on(struct work_struct *work)
{
	struct serial *serial = container_of(work, struct serial, work);

	for (;;) {
		struct job *job = NULL;

		spin_lock(&serial->lock);
		if (!list_empty(&serial->ready)) {
			job = list_entry(serial->ready.next, struct job, done);
			list_del_init(&job->done);
		}
		spin_unlock(&serial->lock);
		if (!job)
			return;
		/* In order for each of those who get them. */
		CHECK(serial->handed_on == 0 || job->number > last_of_serial[serial - serials]);
		last_of_serial[serial - serials] = job->number;
		serial->handed_on++;
		CHECK(job->value == compute(job->number));
		atomic_inc(&handed_on);
	}
}

/* Takes from the reorder list what is next, as far as that goes. */
static void take_next_ones(void)
{
	spin_lock(&reorder_lock);
	while (!list_empty(&reorder)) {
		struct job *job = list_entry(reorder.next, struct job, done);
		struct serial *serial = &serials[job->number % nr_cpus];

		if (job->number != next_number)
			break;
		next_number++;
		list_del_init(&job->done);
		spin_lock(&serial->lock);
		list_add_tail(&job->done, &serial->ready);
		spin_unlock(&serial->lock);
		queue_work_on((int)cpus[job->number % nr_cpus], serial_wq, &serial->work);
	}
	spin_unlock(&reorder_lock);
}

static void reorder_later(struct work_struct *work)
{
	(void)work;
	CHECK(atomic_inc_return(&in_reorder) == 1);
	take_next_ones();
	atomic_dec(&in_reorder);
}

static void do_parallel(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, parallel);
	struct list_head *before;

	job->value = compute(job->number);
	if (job->number % 97 == 0)
		usleep_range(100, 200);
	spin_lock(&reorder_lock);
	/* From the end: those before are mostly there. */
	for (before = reorder.prev; before != &reorder; before = before->prev)
		if (list_entry(before, struct job, done)->number < job->number)
			break;
	list_add_tail(&job->done, before->next);
	spin_unlock(&reorder_lock);
	/* Half of them leave that to an item. */
	if (job->number % 2)
		take_next_ones();
	else
		queue_work(serial_wq, &reorder_work);
}

static void row_results_come_out_in_order(void)
{
	unsigned int total = 0;

	for (nr_cpus = 0; nr_cpus < NR_CPUS_USED && harness_cpu((int)nr_cpus) >= 0; nr_cpus++) {
		cpus[nr_cpus] = (unsigned int)harness_cpu((int)nr_cpus);
		INIT_WORK(&serials[nr_cpus].work, hand_on);
		spin_lock_init(&serials[nr_cpus].lock);
		INIT_LIST_HEAD(&serials[nr_cpus].ready);
	}
	parallel_wq = alloc_workqueue("%s_parallel", WQ_UNBOUND, 0, "jobs");
	serial_wq = alloc_workqueue("%s_serial", WQ_MEM_RECLAIM | WQ_CPU_INTENSIVE | WQ_PERCPU, 1, "jobs");
	CHECK(parallel_wq && serial_wq);
	INIT_WORK(&reorder_work, reorder_later);
	for (unsigned int i = 0; i < NR_JOBS; i++) {
		jobs[i].number = i;
		INIT_WORK(&jobs[i].parallel, do_parallel);
		CHECK(queue_work_on((int)cpus[i % nr_cpus], parallel_wq, &jobs[i].parallel));
		/* The mask changes meanwhile. */
		if (i == NR_JOBS / 2) {
			struct workqueue_attrs *attrs = alloc_workqueue_attrs();

			CHECK(attrs);
			cpumask_clear(attrs->cpumask);
			cpumask_set_cpu(cpus[0], attrs->cpumask);
			CHECK(apply_workqueue_attrs(parallel_wq, attrs) == 0);
			free_workqueue_attrs(attrs);
		}
	}
	/* What the first queues on the second is there when the first is empty. */
	destroy_workqueue(parallel_wq);
	flush_workqueue(serial_wq);
	destroy_workqueue(serial_wq);
	CHECK(list_empty(&reorder) && next_number == NR_JOBS && atomic_read(&handed_on) == NR_JOBS);
	for (unsigned int i = 0; i < nr_cpus; i++)
		total += serials[i].handed_on;
	CHECK(total == NR_JOBS);
}

ROWS(ROW(results_come_out_in_order));
