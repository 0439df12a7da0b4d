/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program without standard streams: the library keeps none of their numbers, which the program may still give away
 * (dup2), and by which it would print into what it does not know. */
#include <cmwq.h>
#include <fcntl.h>
#include <unistd.h>
#include "check.h"

#define NR 20

static int inside;
static struct gate all = GATE_SHUT;

static void wait_for_all(struct work_struct *work)
{
	(void)work;
	count(&inside);
	if (load(&inside) == NR)
		gate_open(&all);
	gate_wait(&all);
}

static int nr_taken(void)
{
	int taken = 0;

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		taken += fcntl(fd, F_GETFD) != -1;
	return taken;
}

int main(void)
{
	static struct work_struct works[NR];
	struct workqueue_struct *wq;
	int kept = fcntl(STDERR_FILENO, F_DUPFD, 100), taken;
	double start;

	CHECK(kept >= 100);
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
	wq = alloc_workqueue("streams", WQ_PERCPU | WQ_MEM_RECLAIM, 0);
	for (int i = 0; wq && i < NR; i++) {
		INIT_WORK(&works[i], wait_for_all);
		queue_work(wq, &works[i]);
	}
	if (wq)
		flush_workqueue(wq);
	/* A file that one of its threads reads has such a number for as long as that takes. */
	start = now_ms();
	while ((taken = nr_taken()) != 0 && now_ms() - start < 10000)
		usleep(200);
	dup2(kept, STDERR_FILENO);
	CHECK(wq);
	CHECK(taken == 0);
	destroy_workqueue(wq);
	return 0;
}
