/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Children that are forked while other threads are inside of the library's functions can call the same ones. With
 * CMWQ_DEBUG=objects; what it has to say goes to standard output. */
#include <cmwq.h>
#include <fcntl.h>
#include <linux/device.h>
#include <linux/workqueue.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

#define CHILDREN 200

static int is_over, prints;

static void nothing(struct work_struct *work)
{
	(void)work;
}

static void note(void *data)
{
	(void)data;
}

static void follow_item(void)
{
	struct work_struct work;

	INIT_WORK(&work, nothing);
	cmwq_debug_check_no_obj_freed(&work, sizeof(work));
}

static void make_queue(void)
{
	struct workqueue_struct *wq = alloc_workqueue("made", WQ_PERCPU, 0);

	CHECK(wq);
	destroy_workqueue(wq);
}

static void end_device(void)
{
	int dev;

	CHECK(cmwq_devm_add_action(&dev, note, NULL) == 0);
	CHECK(cmwq_devres_release_all(&dev) == 1);
}

static void print_once(struct work_struct *work)
{
	(void)work;
	print_worker_info("", NULL);
	count(&prints);
}

static void print_on(struct work_struct *work)
{
	while (!load(&is_over))
		print_once(work);
}

static void *repeat(void *what)
{
	while (!load(&is_over))
		((void (*)(void))what)();
	return NULL;
}

static void child(void)
{
	struct work_struct work;

	/* One that waits for ever is ended. */
	alarm(60);
	follow_item();
	make_queue();
	end_device();
	INIT_WORK(&work, print_once);
	CHECK(schedule_work(&work));
	flush_work(&work);
	_exit(0);
}

int main(void)
{
	void (*const all[])(void) = { follow_item, make_queue, end_device };
	pthread_t threads[3];
	struct work_struct printing;

	CHECK(dup2(open("/dev/null", O_WRONLY), 2) == 2);
	INIT_WORK(&printing, print_on);
	CHECK(queue_work(system_dfl_wq, &printing));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, repeat, (void *)all[i]));
	AWAIT(load(&prints));
	for (int i = 0; i < CHILDREN; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0)
			child();
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
			printf("child %d ended with %#x\n", i, (unsigned int)status);
			return 1;
		}
	}
	count(&is_over);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	flush_work(&printing);
	return 0;
}
