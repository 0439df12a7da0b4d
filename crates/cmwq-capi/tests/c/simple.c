/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that never saw the kernel: functions with arguments. Compiled and run as gnu89, C11, gnu11 and C++17. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmwq/simple.h>
#include "check.h"

/* The kernel's names are the program's own. */
typedef struct list_head {
	int length;
} jiffies;
enum { HZ = 1, atomic_t, container_of };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int sum, is_open, is_inside, left = 100;
static struct workqueue_struct *wq;

static void add(void *arg)
{
	pthread_mutex_lock(&lock);
	sum += *(int *)arg;
	pthread_mutex_unlock(&lock);
}

/* Delays itself again and again, until that is refused. */
static struct workqueue_struct *busy;
static int nr_delayed, is_refused;

static void again(void *arg)
{
	int answer = cmwq_queue_delayed(busy, again, arg, 1);

	CHECK(answer == 0 || answer == -ESHUTDOWN);
	count(answer ? &is_refused : &nr_delayed);
}

static void rest(void *arg)
{
	(void)arg;
	usleep(1000);
}

/* Queues faster than is done, until that is refused. */
static void *produce(void *arg)
{
	while (cmwq_queue(busy, rest, arg) == 0)
		usleep(100);
	return arg;
}

/* While one thread queues and a function delays itself: neither keeps the queue. */
static void destroy_while_in_use(void)
{
	pthread_t producer;

	is_refused = nr_delayed = 0;
	busy = cmwq_create("busy");
	CHECK(busy && cmwq_queue_delayed(busy, again, NULL, 1) == 0);
	CHECK(pthread_create(&producer, NULL, produce, NULL) == 0);
	AWAIT(load(&nr_delayed) > 2);
	cmwq_destroy(busy);
	CHECK(cmwq_queue(busy, rest, NULL) == -ESHUTDOWN && !cmwq_start_delayed(busy, rest, NULL, 1));
	CHECK(pthread_join(producer, NULL) == 0);
	AWAIT(load(&is_refused));
}

static void wait_at_gate(void *arg)
{
	pthread_mutex_lock(&lock);
	is_inside = 1;
	pthread_cond_broadcast(&changed);
	while (!is_open)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	add(arg);
}

static void square(void *arg, size_t index)
{
	((size_t *)arg)[index] = index * index;
}

/* Queues more of itself, also while the queue is being destroyed. */
static void chain(void *arg)
{
	if (--left > 0)
		CHECK(cmwq_queue(wq, chain, arg) == 0);
}

static void check_child(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A child that uses a queue and destroys it leaves a closed one to its own child. */
static void destroy_in_child(void)
{
	struct workqueue_struct *queue = cmwq_create("children's");
	pid_t child = fork(), grandchild;

	if (!child) {
		CHECK(cmwq_queue(queue, rest, NULL) == 0);
		cmwq_destroy(queue);
		grandchild = fork();
		if (!grandchild) {
			CHECK(cmwq_queue(queue, rest, NULL) == -ESHUTDOWN);
			CHECK(cmwq_queue_delayed(queue, rest, NULL, 1) == -ESHUTDOWN);
			_exit(0);
		}
		check_child(grandchild);
		_exit(0);
	}
	check_child(child);
	CHECK(cmwq_queue(queue, rest, NULL) == 0);
	cmwq_destroy(queue);
}

/* On how many CPUs a program may run that this thread starts. */
static int cpus(void)
{
	FILE *answer = popen("nproc", "r");
	int nr = 0;

	CHECK(answer && fscanf(answer, "%d", &nr) == 1 && pclose(answer) == 0);
	return nr;
}

static void count_cpus(void *arg)
{
	int *nr = (int *)arg;

	nr[0] = cpus();
	cmwq_leave_cpu();
	nr[1] = cpus();
}

static int turn;

static void take_turn(void *arg)
{
	CHECK(*(int *)arg == turn);
	rest(NULL);
	turn++;
}

/* One at a time, in order. */
static void ordered(void)
{
	struct workqueue_struct *queue = cmwq_create_ordered("ordered");
	int numbers[50], i;

	CHECK(queue);
	for (i = 0; i < 50; i++) {
		numbers[i] = i;
		CHECK(cmwq_queue(queue, take_turn, &numbers[i]) == 0);
	}
	cmwq_destroy(queue);
	CHECK(turn == 50 && cmwq_queue(queue, rest, NULL) == -ESHUTDOWN);
}

static int nr_at_once, most_at_once;

static void count_at_once(void *arg)
{
	int now = __atomic_add_fetch(&nr_at_once, 1, __ATOMIC_ACQ_REL), most = load(&most_at_once);

	(void)arg;
	while (now > most && !__atomic_compare_exchange_n(&most_at_once, &most, now, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
	usleep(5000);
	__atomic_sub_fetch(&nr_at_once, 1, __ATOMIC_ACQ_REL);
}

static void limited(void)
{
	struct workqueue_struct *queue = cmwq_create_limited("limited", 2);
	int i;

	CHECK(queue);
	for (i = 0; i < 40; i++)
		CHECK(cmwq_queue(queue, count_at_once, NULL) == 0);
	cmwq_destroy(queue);
	/* On each of four NUMA nodes. */
	CHECK(load(&most_at_once) >= 1 && load(&most_at_once) <= 8);
}

/* There is no other room for a number. */
static void check_errno(void)
{
	struct workqueue_struct *unnamed;

	errno = 0;
	CHECK(!cmwq_create(NULL) && errno == EINVAL);
	/* As in the kernel a name may be empty. */
	unnamed = cmwq_create("");
	CHECK(unnamed);
	cmwq_destroy(unnamed);
	errno = 0;
	CHECK(!cmwq_start(wq, NULL, NULL) && errno == EINVAL);
	errno = 0;
	CHECK(!cmwq_start_delayed(NULL, NULL, NULL, 1) && errno == EINVAL);
}

int main(void)
{
	static size_t squares[5000];
	struct cmwq_job *jobs[10], *job;
	int one = 1, ten = 10, none = 0, nr_cpus[2];
	size_t i;

	alarm(300);
	wq = cmwq_create("simple");
	CHECK(wq);
	for (i = 0; i < 100; i++)
		CHECK(cmwq_queue(wq, add, &one) == 0);
	cmwq_flush(wq);
	CHECK(sum == 100);
	CHECK(cmwq_queue(wq, NULL, &one) == -EINVAL && cmwq_start(wq, NULL, NULL) == NULL);

	for (i = 0; i < 10; i++)
		CHECK((jobs[i] = cmwq_start(wq, add, &ten)));
	for (i = 0; i < 10; i++)
		CHECK(cmwq_job_wait(jobs[i]) == 0);
	CHECK(sum == 200);
	CHECK(cmwq_job_wait(NULL) == -EINVAL && cmwq_job_cancel(NULL) == -EINVAL && !cmwq_job_is_done(NULL));
	cmwq_job_forget(NULL);

	/* One that has begun cannot be taken back, one that waits can. */
	CHECK((jobs[0] = cmwq_start(wq, wait_at_gate, &one)));
	pthread_mutex_lock(&lock);
	while (!is_inside)
		pthread_cond_wait(&changed, &lock);
	CHECK(!cmwq_job_is_done(jobs[0]));
	is_open = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	CHECK(cmwq_job_cancel(jobs[0]) == -EALREADY && sum == 201);
	CHECK((job = cmwq_start_delayed(wq, add, &one, 1000000)) && !cmwq_job_is_done(job));
	CHECK(cmwq_job_cancel(job) == 0 && sum == 201);
	CHECK((job = cmwq_start_delayed(NULL, add, &one, 1)) && cmwq_job_wait(job) == 0 && sum == 202);
	/* Not in time: the job is still ours. */
	CHECK((job = cmwq_start_delayed(wq, add, &one, 1000000)) && cmwq_job_wait_for(job, 0) == -ETIMEDOUT);
	CHECK(cmwq_job_wait_for(job, 1) == -ETIMEDOUT && cmwq_job_cancel(job) == 0);
	CHECK((job = cmwq_start(wq, add, &none)) && cmwq_job_wait_for(job, (unsigned long)-1) == 0);
	CHECK(cmwq_job_wait_for(NULL, 0) == -EINVAL);
	check_errno();
	ordered();
	limited();
	CHECK((job = cmwq_start(wq, add, &one)));
	cmwq_job_forget(job);
	cmwq_flush(wq);
	CHECK(sum == 203 && cmwq_queue_delayed(wq, add, &one, 300) == 0);

	/* What a function starts has its worker's CPU, or all. */
	CHECK((job = cmwq_start(wq, count_cpus, nr_cpus)) && cmwq_job_wait(job) == 0);
	CHECK(nr_cpus[0] == 1 && nr_cpus[1] == cpus());
	cmwq_leave_cpu();

	/* The shared queue; each index once, with a little ahead and with much. */
	CHECK(cmwq_for_each(NULL, 5000, 3, square, squares) == 0);
	for (i = 0; i < 5000; i++) {
		CHECK(squares[i] == i * i);
		squares[i] = 0;
	}
	CHECK(cmwq_for_each(wq, 5000, 0, square, squares) == 0 && cmwq_for_each(wq, 0, 0, square, NULL) == 0);
	for (i = 0; i < 5000; i++)
		CHECK(squares[i] == i * i);
	CHECK(cmwq_for_each(wq, 1, 0, NULL, NULL) == -EINVAL);

	CHECK(cmwq_queue(wq, chain, NULL) == 0);
	cmwq_destroy(wq);
	CHECK(left == 0);
	errno = 0;
	CHECK(cmwq_queue(wq, add, &one) == -ESHUTDOWN && cmwq_start(wq, add, &one) == NULL && errno == ESHUTDOWN);
	CHECK(cmwq_queue_delayed(wq, add, &one, 1) == -ESHUTDOWN);
	/* What was delayed before is done all the same. */
	for (;;) {
		int now;

		pthread_mutex_lock(&lock);
		now = sum;
		pthread_mutex_unlock(&lock);
		if (now == 204)
			break;
		sched_yield();
	}
	/* Not after all indices there are. */
	CHECK(cmwq_for_each(wq, (size_t)-1, 0, square, squares) == -ESHUTDOWN);
	CHECK(cmwq_queue_delayed(wq, add, &one, 1) == -ESHUTDOWN && sum == 204);

	for (i = 0; i < 20; i++)
		destroy_while_in_use();
	destroy_in_child();
	return 0;
}
