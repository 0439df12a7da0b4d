/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is printed of a queue that is held up, and what is told of its worker. */
#include <linux/workqueue.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "check.h"

static struct gate gate = GATE_SHUT, inside = GATE_SHUT;
static int runs, tid;
static char own_comm[64];

void wait_at_gate(struct work_struct *work);
void count_run(struct work_struct *work);
void count_again(struct work_struct *work);

void wait_at_gate(struct work_struct *work)
{
	(void)work;
	CHECK(wq_worker_last_func(NULL) == NULL);
	set_worker_desc("waits");
	wq_worker_comm(own_comm, sizeof(own_comm), NULL);
	__atomic_store_n(&tid, gettid(), __ATOMIC_RELEASE);
	gate_open(&inside);
	gate_wait(&gate);
}

void count_run(struct work_struct *work)
{
	(void)work;
	/* It was the same worker. */
	CHECK(gettid() != load(&tid) || wq_worker_last_func(NULL) != NULL);
	count(&runs);
}

void count_again(struct work_struct *work)
{
	(void)work;
	count(&runs);
}

static DECLARE_WORK(first, wait_at_gate);
static DECLARE_WORK(second, count_run);
static DECLARE_WORK(third, count_run);
static DECLARE_WORK(fourth, count_again);

int main(void)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("line", 0);
	char comm[64], small[5], long_desc[64];

	CHECK(wq && queue_work(wq, &first));
	gate_wait(&inside);
	CHECK(queue_work(wq, &second) && queue_work(wq, &third) && queue_work(wq, &fourth));

	show_all_workqueues();
	show_freezable_workqueues();
	show_one_workqueue(wq);
	print_worker_info("\0016", cmwq_task(load(&tid)));
	print_worker_info("\001c", cmwq_task(load(&tid)));
	/* This thread is no worker, and nobody has the other id. */
	print_worker_info("\0016", cmwq_task(0));
	print_worker_info("", cmwq_task(4194304));

	wq_worker_comm(comm, sizeof(comm), cmwq_task(load(&tid)));
	CHECK(strcmp(comm, own_comm) == 0 && strncmp(comm, "kworker/u", 9) == 0);
	snprintf(long_desc, sizeof(long_desc), "%s", comm + strlen(comm) - 6);
	CHECK(strcmp(long_desc, "+waits") == 0);
	wq_worker_comm(small, sizeof(small), cmwq_task(load(&tid)));
	CHECK(strcmp(small, "kwor") == 0);
	wq_worker_comm(comm, sizeof(comm), cmwq_task(0));
	CHECK(strcmp(comm, "show") == 0);
	wq_worker_comm(comm, 0, cmwq_task(0));
	/* Of any bytes, as one that was cut within a character. */
	CHECK(prctl(PR_SET_NAME, "caf\303") == 0);
	wq_worker_comm(comm, sizeof(comm), cmwq_task(0));
	CHECK(strcmp(comm, "caf\303") == 0);

	gate_open(&gate);
	flush_workqueue(wq);
	CHECK(load(&runs) == 3);
	show_one_workqueue(wq);
	destroy_workqueue(wq);
	return 0;
}
