/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is wrong, one case for each argument: it is said, and does no harm. */
#include <cmwq.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

static struct workqueue_struct *wq;
static struct gate gate = GATE_SHUT, inside = GATE_SHUT;
static int runs;

void count_run(struct work_struct *work);
void wait_at_gate(struct work_struct *work);
void flush_itself(struct work_struct *work);
void free_itself(struct work_struct *work);
void wait_for_itself(void *arg);
void destroy_behind_gate(struct work_struct *work);
void execute_later(struct work_struct *work);

void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

void wait_at_gate(struct work_struct *work)
{
	(void)work;
	gate_open(&inside);
	gate_wait(&gate);
}

/* free() of a program that has CMWQ_DEBUG=objects look at what is freed. */
static void checked_free(void *memory, size_t size)
{
#ifndef WRAPPED_FREE
	cmwq_debug_check_no_obj_freed(memory, size);
#endif
	(void)size;
	free(memory);
}

#ifdef WRAPPED_FREE
#include <malloc.h>

/* The same for all that is freed, the library's own memory included. */
void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
	cmwq_debug_check_no_obj_freed(memory, malloc_usable_size(memory));
	__real_free(memory);
}
#endif

static DECLARE_WORK(blocker, wait_at_gate);
static DECLARE_WORK(declared, count_run);

/* What is queued behind it waits. */
static void block(void)
{
	CHECK(queue_work(wq, &blocker));
	gate_wait(&inside);
}

static void unblock(void)
{
	gate_open(&gate);
	flush_workqueue(wq);
}

static void zeroed(void)
{
	struct delayed_work dwork;
	struct work_struct *work = &dwork.work;

	memset(&dwork, 0, sizeof(dwork));
	CHECK(queue_work(wq, work));
	CHECK(!flush_work(work));
	CHECK(!cancel_delayed_work_sync(&dwork));
	CHECK(queue_delayed_work(wq, &dwork, 0));
	CHECK(!disable_work(work) && !work_busy(work) && !work_pending(work));
}

static void linked(void)
{
	struct work_struct work;
	LIST_HEAD(list);

	INIT_WORK(&work, count_run);
	list_add_tail(&work.entry, &list);
	CHECK(queue_work(wq, &work));
	CHECK(!work_busy(&work) && !list_empty(&list));
	list_del_init(&work.entry);
	CHECK(queue_work(wq, &work));
	flush_workqueue(wq);
	CHECK(load(&runs) == 1);
}

void flush_itself(struct work_struct *work)
{
	flush_workqueue(wq);
	CHECK(!flush_work(work));
	count(&runs);
}

static void itself(void)
{
	struct work_struct work;

	INIT_WORK(&work, flush_itself);
	CHECK(queue_work(wq, &work));
	flush_workqueue(wq);
	CHECK(load(&runs) == 1);
}

static void destroyed(void)
{
	struct work_struct work;
	struct workqueue_struct *gone = alloc_workqueue("gone", WQ_UNBOUND, 0);

	INIT_WORK(&work, count_run);
	destroy_workqueue(gone);
	CHECK(queue_work(gone, &work) && queue_work(gone, &work) && !work_busy(&work));
	CHECK(load(&runs) == 0);
}

static void twice(void)
{
	struct workqueue_struct *gone = alloc_workqueue("gone", WQ_UNBOUND, 0), *simple = cmwq_create("simple");
	struct workqueue_struct *other;

	destroy_workqueue(gone);
	destroy_workqueue(gone);
	cmwq_destroy(gone);
	cmwq_destroy(simple);
	cmwq_destroy(simple);
	/* None of what is remembered of them goes twice. */
	for (int i = 0; i < 100; i++) {
		other = cmwq_create("other");
		CHECK(other && cmwq_queue(other, free, malloc(1)) == 0);
		cmwq_destroy(other);
	}
}

static struct workqueue_struct *ending;

static void *destroy_ending(void *arg)
{
	destroy_workqueue(ending);
	return arg;
}

void destroy_behind_gate(struct work_struct *work)
{
	wait_at_gate(work);
	destroy_workqueue(ending);
}

/* While a queue is being destroyed: from outside, and by an item that is waited for. */
static void twice_at_once(void)
{
	struct workqueue_struct *other;
	struct work_struct work, late;
	pthread_t thread;
	int before;

	alarm(60);
	ending = alloc_workqueue("gone", WQ_UNBOUND, 0);
	INIT_WORK(&work, destroy_behind_gate);
	INIT_WORK(&late, count_run);
	CHECK(ending && queue_work(ending, &work));
	gate_wait(&inside);
	CHECK(pthread_create(&thread, NULL, destroy_ending, NULL) == 0);
	/* Until it takes nothing from outside. */
	do {
		before = load(&runs);
		CHECK(queue_work(ending, &late));
		flush_work(&late);
	} while (load(&runs) != before);
	destroy_workqueue(ending);
	cmwq_destroy(ending);
	gate_open(&gate);
	CHECK(pthread_join(thread, NULL) == 0);
	for (int i = 0; i < 100; i++) {
		other = cmwq_create("other");
		CHECK(other && cmwq_queue(other, free, malloc(1)) == 0);
		cmwq_destroy(other);
	}
}

static struct execute_work executed;

void execute_later(struct work_struct *work)
{
	(void)work;
	CHECK(execute_in_process_context(count_run, &executed) == 1);
}

static void execute_from_bh(void)
{
	struct work_struct work;

	INIT_WORK(&work, execute_later);
	CHECK(queue_work(system_bh_wq, &work));
	flush_work(&work);
	flush_work(&executed.work);
}

/* It makes an item, which is one like any other then. */
static void execute(void)
{
	execute_from_bh();
	CHECK(load(&runs) == 1);
	CHECK(schedule_work(&executed.work));
	flush_work(&executed.work);
	CHECK(load(&runs) == 2);
}

static void execute_again(void)
{
	INIT_WORK(&executed.work, count_run);
	block();
	CHECK(queue_work(wq, &executed.work));
	execute_from_bh();
	CHECK(load(&runs) == 1);
	unblock();
	CHECK(load(&runs) == 1);
}

struct own_job {
	struct cmwq_job *job;
	char how;
	int answer;
};

void wait_for_itself(void *arg)
{
	struct own_job *own = arg;

	AWAIT(__atomic_load_n(&own->job, __ATOMIC_ACQUIRE));
	/* A look is no wait, and leaves the job with its owner. */
	CHECK(cmwq_job_wait_for(own->job, 0) == -ETIMEDOUT && !cmwq_job_is_done(own->job));
	if (own->how == 'w')
		own->answer = cmwq_job_wait(own->job);
	else if (own->how == 't')
		own->answer = cmwq_job_wait_for(own->job, 60000);
	else
		own->answer = cmwq_job_cancel(own->job);
}

static void job(void)
{
	for (const char *how = "wtc"; *how; how++) {
		struct own_job own = { .how = *how };

		__atomic_store_n(&own.job, cmwq_start(wq, wait_for_itself, &own), __ATOMIC_RELEASE);
		cmwq_flush(wq);
		CHECK(own.answer == -EDEADLK);
	}
}

static DECLARE_WORK(first, count_run);
static DECLARE_WORK(second, count_run);
static DECLARE_WORK(third, count_run);

/* What was declared may be disabled before it is queued for the first time. */
static void disabled(void)
{
	int status;
	pid_t child;

	CHECK(!disable_work(&first) && !queue_work(wq, &first));
	CHECK(enable_work(&first) && queue_work(wq, &first));
	flush_workqueue(wq);
	CHECK(load(&runs) == 1);
	child = fork();
	if (!child) {
		/* Here that names a pool that is nowhere. */
		CHECK(!disable_work(&second) && enable_work(&second) && queue_work(wq, &second));
		flush_workqueue(wq);
		CHECK(!cancel_work_sync(&third) && queue_work(wq, &third));
		flush_workqueue(wq);
		CHECK(load(&runs) == 3);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void again(void)
{
	struct work_struct work;
	struct delayed_work dwork;

	/* Idle, and while its function runs, an item may be initialised again. */
	INIT_WORK(&work, wait_at_gate);
	INIT_WORK(&work, wait_at_gate);
	CHECK(queue_work(wq, &work));
	gate_wait(&inside);
	INIT_WORK(&work, count_run);
	CHECK(queue_work(wq, &work));
	INIT_WORK(&work, count_run);
	CHECK(!work_pending(&work) && queue_work(wq, &work));
	INIT_DELAYED_WORK(&dwork, count_run);
	CHECK(queue_delayed_work(wq, &dwork, 1000 * HZ));
	INIT_DELAYED_WORK(&dwork, count_run);
	CHECK(!delayed_work_pending(&dwork) && queue_delayed_work(wq, &dwork, 0));
	unblock();
	CHECK(load(&runs) == 2);
}

void free_itself(struct work_struct *work)
{
	checked_free(work, sizeof(*work));
	count(&runs);
}

struct object {
	char before[100];
	struct work_struct work;
	struct delayed_work dwork;
	struct rcu_work rwork;
	struct work_struct idle;
};

static void freed(void)
{
	struct object *object = calloc(1, sizeof(*object));
	struct work_struct *own = malloc(sizeof(*own));

	INIT_WORK(own, free_itself);
	CHECK(queue_work(wq, own));
	flush_workqueue(wq);
	CHECK(load(&runs) == 1);

	INIT_WORK(&object->work, count_run);
	INIT_DELAYED_WORK(&object->dwork, count_run);
	INIT_RCU_WORK(&object->rwork, count_run);
	INIT_WORK(&object->idle, count_run);
	block();
	CHECK(queue_work(wq, &object->work) && schedule_delayed_work(&object->dwork, 1000 * HZ));
	CHECK(queue_work(wq, &object->idle) && cancel_work(&object->idle));
	rcu_read_lock();
	CHECK(queue_rcu_work(wq, &object->rwork));
	cmwq_debug_check_no_obj_freed(object, sizeof(*object));
	cmwq_debug_check_no_obj_freed(object, sizeof(*object));
	CHECK(!work_pending(&object->work) && !delayed_work_pending(&object->dwork));
	rcu_read_unlock();
	unblock();
	/* Nothing is known of it any more. */
	checked_free(object, sizeof(*object));
	CHECK(load(&runs) == 2);
}

static void unknown(void)
{
	struct work_struct made_up;

	memset(&made_up, 0x40, sizeof(made_up));
	made_up.func = count_run;
	CHECK(queue_work(wq, &made_up));
	CHECK(queue_work(wq, &declared));
	flush_workqueue(wq);
	CHECK(queue_work(wq, &declared));
	flush_workqueue(wq);
	CHECK(load(&runs) == 2);
}

static void on_stack(void)
{
	struct work_struct work;
	struct delayed_work dwork;

	INIT_WORK_ONSTACK(&work, count_run);
	INIT_DELAYED_WORK_ONSTACK(&dwork, count_run);
	CHECK(queue_work(wq, &work));
	flush_workqueue(wq);
	destroy_work_on_stack(&work);
	block();
	INIT_WORK_ONSTACK(&work, count_run);
	CHECK(queue_work(wq, &work));
	CHECK(queue_delayed_work(wq, &dwork, 1000 * HZ));
	destroy_work_on_stack(&work);
	destroy_delayed_work_on_stack(&dwork);
	unblock();
	CHECK(load(&runs) == 1);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*func)(void);
	} cases[] = {
		{ "zeroed", zeroed }, { "linked", linked },   { "itself", itself },   { "destroyed", destroyed },
		{ "again", again },   { "freed", freed },     { "unknown", unknown }, { "on_stack", on_stack },
		{ "twice", twice },   { "job", job },         { "disabled", disabled },
		{ "execute", execute },   { "execute_again", execute_again }, { "twice_at_once", twice_at_once },
	};

	CHECK(argc == 2);
	wq = alloc_ordered_workqueue("line", 0);
	CHECK(wq);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(cases[i].name, argv[1]) == 0)
			cases[i].func();
	destroy_workqueue(wq);
	return 0;
}
