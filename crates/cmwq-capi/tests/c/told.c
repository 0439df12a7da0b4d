/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a program is told: of its threads, of its queues, of stalls. */
#include <cmwq.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

static int begun, ended, stalls, runs;
static __thread int is_registered;
static char data[] = "data";
static struct cmwq_stall stall;
static char report[4096];
static struct gate may_leave = GATE_SHUT;

static void begin(void *arg)
{
	CHECK(arg == data && !is_registered);
	is_registered = 1;
	count(&begun);
}

static void end(void *arg)
{
	CHECK(arg == data && is_registered);
	is_registered = 0;
	count(&ended);
}

static void needs_registration(struct work_struct *work)
{
	(void)work;
	CHECK(is_registered);
	count(&runs);
}

static void wait_at_gate(struct work_struct *work)
{
	(void)work;
	CHECK(is_registered);
	gate_wait(&may_leave);
}

static void note_stall(const struct cmwq_stall *told, void *arg)
{
	CHECK(arg == data && told->size >= sizeof(*told));
	/* On a machine that others use, a pool may stand still for so long, too. */
	if (told->kind != CMWQ_STALL_QUEUE)
		return;
	if (load(&stalls) == 0) {
		stall = *told;
		snprintf(report, sizeof(report), "%s", told->report);
	}
	count(&stalls);
}

static struct gate replacing = GATE_SHUT;
static int is_inside, was_inside, taken;

static void *replace(void *arg)
{
	(void)arg;
	gate_open(&replacing);
	cmwq_set_watchdog_handler(note_stall, data);
	was_inside = load(&is_inside);
	return NULL;
}

/* It is replaced while it runs: by a child, by itself, and by another thread, which waits until it has ended. */
static void taken_back(const struct cmwq_stall *told, void *arg)
{
	struct timespec pause = { 0, 50000000 };
	pthread_t *thread = arg, other;
	int status;
	pid_t pid;

	(void)told;
	if (load(&taken))
		return;
	pid = fork();
	if (pid == 0) {
		alarm(60);
		CHECK(!pthread_create(&other, NULL, replace, NULL) && !pthread_join(other, NULL));
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cmwq_set_watchdog_handler(taken_back, arg);
	count(&is_inside);
	CHECK(!pthread_create(thread, NULL, replace, NULL));
	gate_wait(&replacing);
	nanosleep(&pause, NULL);
	__atomic_store_n(&is_inside, 0, __ATOMIC_RELEASE);
	count(&taken);
}

static DECLARE_WORK(item, needs_registration);
static DECLARE_WORK(bh, needs_registration);
static DECLARE_WORK(waits, wait_at_gate);

static void numbers(void)
{
	size_t length = cmwq_metrics(NULL, 0), written;
	char *text = malloc(length + 65536), *line;
	char little[8];

	CHECK(text && length > 100);
	CHECK(cmwq_metrics(little, sizeof(little)) >= 7 && strlen(little) == 7 && !strncmp(little, "# HELP ", 7));
	written = cmwq_metrics(text, length + 65536);
	CHECK(written == strlen(text));
	/* Whoever waits for an item counts as one, as in the kernel. */
	line = strstr(text, "\ncmwq_workqueue_items_completed_total{workqueue=\"told\"} ");
	CHECK(line && atoi(strrchr(strtok(line, "\n"), ' ')) >= 10);
	free(text);
}

int main(void)
{
	struct workqueue_struct *wq, *line;
	pthread_t thread;

	CHECK(cmwq_param_set("watchdog_thresh", "0.02") == 0);
	CHECK(cmwq_set_thread_hooks(begin, end, data) == 0);
	cmwq_set_watchdog_handler(note_stall, data);
	wq = alloc_workqueue("told", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	line = alloc_ordered_workqueue("line", 0);
	CHECK(wq && line);
	for (int i = 0; i < 10; i++) {
		CHECK(queue_work(wq, &item));
		flush_work(&item);
		CHECK(queue_work(system_bh_wq, &bh));
		flush_work(&bh);
	}
	CHECK(load(&runs) == 20 && load(&begun) >= 2);
	numbers();
	CHECK(cmwq_set_thread_hooks(begin, NULL, NULL) == -EBUSY);

	/* Something waits behind what stands still. */
	cmwq_set_watchdog_handler(taken_back, &thread);
	CHECK(queue_work(line, &waits) && queue_work(line, &item));
	AWAIT(load(&taken));
	CHECK(!pthread_join(thread, NULL) && !was_inside);
	AWAIT(load(&stalls) > 0);
	CHECK(stall.duration_ms >= 20);
	CHECK(strstr(report, "line") && strstr(report, "waiting: 1"));
	cmwq_set_watchdog_handler(NULL, NULL);
	gate_open(&may_leave);
	destroy_workqueue(line);
	destroy_workqueue(wq);
	CHECK(cmwq_shutdown(60000) == 0);
	CHECK(load(&begun) == load(&ended));
	return 0;
}
