/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library for LD_PRELOAD: it uses queues from its constructor on, in a program that knows nothing of it, and says at
 * the end how many items have run.
 */
#include <linux/workqueue.h>
#include <string.h>
#include <unistd.h>
#include "check.h"

static struct workqueue_struct *wq;
static struct work_struct items[100];
static int runs;

static void count_run(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

__attribute__((constructor)) static void begin(void)
{
	wq = alloc_workqueue("preloaded", WQ_UNBOUND, 0);
	CHECK(wq);
	for (int i = 0; i < 100; i++) {
		INIT_WORK(&items[i], count_run);
		CHECK(queue_work(i % 2 ? wq : system_percpu_wq, &items[i]));
	}
}

__attribute__((destructor)) static void end(void)
{
	char text[64];

	for (int i = 0; i < 100; i++)
		flush_work(&items[i]);
	destroy_workqueue(wq);
	snprintf(text, sizeof(text), "%d items ran\n", load(&runs));
	CHECK(write(STDERR_FILENO, text, strlen(text)) > 0);
}
