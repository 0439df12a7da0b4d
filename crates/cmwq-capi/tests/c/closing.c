/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Pools that lose their last queue and have one again before their workers have left: an item that waits for another
 * one must not wait for ever. If one does, this says so, shows what the queues do, and fails.
 */
#include <linux/workqueue.h>
#include <unistd.h>
#include "check.h"

enum { THREADS = 4, ROUNDS = 3000, PATIENCE_MS = 30000 };

static int done;

/* What an item waits for, and that item. */
struct round {
	struct work_struct waiting, awaited;
	struct gate gate;
};

static void await(struct work_struct *work)
{
	gate_wait(&from_work((struct round *)NULL, work, waiting)->gate);
}

static void come(struct work_struct *work)
{
	gate_open(&from_work((struct round *)NULL, work, awaited)->gate);
}

static void play(int nice)
{
	struct workqueue_struct *wq = alloc_workqueue("closing", WQ_UNBOUND, 0);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct round round = { .gate = GATE_SHUT };

	CHECK(wq && attrs);
	attrs->nice = nice;
	CHECK(apply_workqueue_attrs(wq, attrs) == 0);
	free_workqueue_attrs(attrs);
	INIT_WORK_ONSTACK(&round.waiting, await);
	INIT_WORK_ONSTACK(&round.awaited, come);
	CHECK(queue_work(wq, &round.waiting));
	CHECK(queue_work(wq, &round.awaited));
	flush_workqueue(wq);
	destroy_workqueue(wq);
	destroy_work_on_stack(&round.waiting);
	destroy_work_on_stack(&round.awaited);
}

static void *actor(void *number)
{
	for (int i = 0; i < ROUNDS; i++) {
		play(5 + (int)((long)number % 2));
		count(&done);
	}
	return NULL;
}

int main(void)
{
	struct timespec pause = { 0, 1000000 };
	pthread_t threads[THREADS];
	double since = now_ms();
	int before = 0;

	for (long i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, actor, (void *)i) == 0);
	while (load(&done) < THREADS * ROUNDS) {
		nanosleep(&pause, NULL);
		if (load(&done) > before) {
			before = load(&done);
			since = now_ms();
		} else if (now_ms() - since > PATIENCE_MS) {
			fprintf(stderr, "no round has ended for %d s: %d of %d are done; an item never starts\n",
				PATIENCE_MS / 1000, before, THREADS * ROUNDS);
			show_all_workqueues();
			_exit(1);
		}
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
