/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Children begin anew: queues work in them, whatever the parent had under way. Also linked statically. */
#include <sys/wait.h>
#include <unistd.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>
#include "check.h"

static struct workqueue_struct *wq;
static struct gate gate = GATE_SHUT;
static int runs, entered;
/* Each thread has that much of its own, which has room in the stacks of the library's threads, too. */
static __thread char large[300 << 10];

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static void wait_at_gate(struct work_struct *work)
{
	(void)work;
	count(&entered);
	gate_wait(&gate);
}

static DECLARE_WORK(holder, wait_at_gate);
static DECLARE_WORK(item, count_run);
static DECLARE_DELAYED_WORK(armed, count_run);
static DECLARE_DELAYED_WORK(at_once, count_run);

/* With the inherited queue, one of the system's and one of its own. */
static void use_queues(void)
{
	struct workqueue_struct *own = alloc_workqueue("child", WQ_PERCPU, 0);
	struct work_struct mine;
	int before = load(&runs);

	INIT_WORK_ONSTACK(&mine, count_run);
	CHECK(own && queue_work(own, &mine));
	flush_workqueue(own);
	CHECK(queue_work(wq, &mine));
	flush_work(&mine);
	CHECK(schedule_work(&mine));
	flush_work(&mine);
	CHECK(load(&runs) == before + 3);
	destroy_work_on_stack(&mine);
	destroy_workqueue(own);
}

static int expired;

static void note_expired(struct timer_list *timer)
{
	(void)timer;
	count(&expired);
}

static DEFINE_TIMER(far_away, note_expired);

/* What the parent has armed is not armed here, and can be. */
static void use_timers(void)
{
	int before = load(&expired);

	CHECK(!timer_delete(&far_away) && mod_timer(&far_away, jiffies + 1) == 0);
	AWAIT(load(&expired) == before + 1);
	CHECK(!timer_delete_sync(&far_away));
	mod_timer(&far_away, jiffies + 600 * HZ);
}

static void fork_inside(struct timer_list *timer);
static DEFINE_TIMER(forking, fork_inside);
static int is_child, in_child, left_child, forked;

/* The child runs no timer's function, and so waits for it. */
static void use_own_timer(void)
{
	is_child = 1;
	mod_timer(&forking, jiffies + 1);
	AWAIT(load(&in_child) == 1);
	timer_delete_sync(&forking);
	CHECK(load(&left_child) == 1);
	_exit(0);
}

static void fork_inside(struct timer_list *timer)
{
	int status;
	pid_t child;

	(void)timer;
	if (is_child) {
		count(&in_child);
		usleep(50000);
		count(&left_child);
		return;
	}
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		use_own_timer();
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	count(&forked);
}

/* Which nobody has queued yet, or the parent has armed, or the child itself. */
static void use_delayed(struct delayed_work *work)
{
	int before = load(&runs);

	CHECK(queue_delayed_work(wq, work, 1));
	AWAIT(load(&runs) == before + 1);
	CHECK(queue_delayed_work(wq, work, 600 * HZ) && !queue_delayed_work(wq, work, 0));
	CHECK(mod_delayed_work(wq, work, 0));
	CHECK(flush_delayed_work(work) || load(&runs) == before + 2);
	CHECK(queue_delayed_work(wq, work, 600 * HZ));
}

static pthread_t caller;
static int called;

/* Its caller may hold a lock that it takes. */
static void note_call(struct rcu_head *head)
{
	(void)head;
	CHECK(!pthread_equal(pthread_self(), caller));
	count(&called);
}

/* Also where it is the first that a child uses. The parent's readers are not there. */
static void use_callbacks(void)
{
	int before = load(&called);
	struct rcu_head head;

	/* What does not return ends here. */
	alarm(60);
	caller = pthread_self();
	call_rcu(&head, note_call);
	rcu_barrier();
	CHECK(load(&called) == before + 1);
}

static void fork_child(int depth)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		use_callbacks();
		use_queues();
		CHECK(queue_delayed_work(wq, &at_once, 0));
		flush_delayed_work(&at_once);
		use_delayed(&armed);
		use_timers();
		if (depth > 1)
			fork_child(depth - 1);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static struct gate inside = GATE_SHUT, may_leave = GATE_SHUT;

static void *reader(void *unused)
{
	rcu_read_lock();
	gate_open(&inside);
	gate_wait(&may_leave);
	rcu_read_unlock();
	return unused;
}

static pthread_key_t key;

/* The destructors of what is local to the thread have run. */
static void at_its_end(void *unused)
{
	(void)unused;
	fork_child(1);
}

static void *from_a_thread(void *unused)
{
	fork_child(1);
	CHECK(pthread_setspecific(key, &key) == 0);
	return unused;
}

int main(void)
{
	large[sizeof(large) - 1] = 1;
	pthread_t thread, reading;

	CHECK(pthread_key_create(&key, at_its_end) == 0);
	CHECK(pthread_create(&reading, NULL, reader, NULL) == 0);
	gate_wait(&inside);
	/* Before a queue was made. */
	wq = alloc_workqueue("parent", WQ_UNBOUND, 1);
	CHECK(wq);
	fork_child(1);
	/* With an item that runs, one that waits, and a timer: they are the parent's. */
	CHECK(queue_work(wq, &holder));
	AWAIT(load(&entered) == 1);
	CHECK(queue_work(wq, &item) && queue_delayed_work(wq, &armed, 600 * HZ));
	CHECK(queue_delayed_work(wq, &at_once, 600 * HZ));
	mod_timer(&far_away, jiffies + 600 * HZ);
	fork_child(3);
	CHECK(pthread_create(&thread, NULL, from_a_thread, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(load(&runs) == 0 && load(&expired) == 0 && timer_pending(&far_away) && timer_delete(&far_away));
	gate_open(&may_leave);
	CHECK(pthread_join(reading, NULL) == 0);
	gate_open(&gate);
	flush_workqueue(wq);
	CHECK(load(&runs) == 1 && cancel_delayed_work_sync(&armed) && cancel_delayed_work_sync(&at_once));
	use_queues();
	mod_timer(&forking, jiffies + 1);
	AWAIT(load(&forked) == 1);
	destroy_workqueue(wq);
	return 0;
}
