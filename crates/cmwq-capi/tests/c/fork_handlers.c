/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Handlers of forks that a program registers before it uses the library may use it. Also linked statically. */
#include <linux/rcupdate.h>
#include <linux/workqueue.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

static struct workqueue_struct *wq;
static int runs, calls;

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static DECLARE_WORK(item, count_run);

static void use_queue(void)
{
	int before = load(&runs);

	CHECK(queue_work(wq, &item));
	flush_work(&item);
	CHECK(load(&runs) == before + 1);
	flush_workqueue(wq);
}

static void use_library(void)
{
	/* What does not return ends here; a child has no time limit yet. */
	alarm(60);
	rcu_read_lock();
	rcu_read_unlock();
	rcu_barrier();
	if (wq)
		use_queue();
	count(&calls);
}

static void fork_child(int depth)
{
	int status, before = load(&calls);
	pid_t child = fork();

	CHECK(child >= 0);
	CHECK(load(&calls) == before + 2);
	if (child == 0) {
		if (wq)
			use_queue();
		if (depth > 1)
			fork_child(depth - 1);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
	CHECK(pthread_atfork(use_library, use_library, use_library) == 0);
	fork_child(2);
	wq = alloc_workqueue("used", WQ_PERCPU, 0);
	CHECK(wq);
	fork_child(2);
	use_queue();
	destroy_workqueue(wq);
	return 0;
}
