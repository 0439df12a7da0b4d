/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An ordered queue runs one item at a time, in the order of queueing, whatever CPU they were queued from: what is
 * only touched by its items needs no lock.
 *
 *   cc $(pkg-config --cflags libcmwq) ordered.c $(pkg-config --libs libcmwq) -o ordered
 */
#include <linux/workqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STEPS 10

struct step {
	struct work_struct work;
	int number;
};

static int balance;

static void apply(struct work_struct *work)
{
	struct step *step = container_of(work, struct step, work);
	int read = balance;

	/* Blocks; nobody else of this queue comes between. */
	usleep(1000);
	balance = read * 2 + step->number % 2;
	printf("step %d: %d\n", step->number, balance);
	/* Nobody touches an item after its function was entered. */
	free(step);
}

int main(void)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("%s", 0, "ledger");
	int queued;

	if (!wq)
		return 1;
	for (queued = 0; queued < STEPS; queued++) {
		struct step *step = malloc(sizeof(*step));

		if (!step)
			break;
		step->number = queued;
		INIT_WORK(&step->work, apply);
		queue_work_on(queued % 2 ? 0 : WORK_CPU_UNBOUND, wq, &step->work);
	}
	/* Runs what is queued, also where memory was not enough for all. */
	destroy_workqueue(wq);
	return queued == STEPS ? 0 : 1;
}
