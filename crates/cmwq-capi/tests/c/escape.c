/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Work functions that do not return: by the end of their thread, or in C++ by an exception. */
#include <cmwq.h>
#include <string.h>
#include "check.h"

static const char *how;

#ifdef __cplusplus
extern "C" {
#endif
void leave(struct work_struct *work);
long leave_call(void *arg);
#ifdef __cplusplus
}
#endif

void leave(struct work_struct *work)
{
	(void)work;
	if (!strcmp(how, "exit"))
		pthread_exit(NULL);
	if (!strcmp(how, "end"))
		exit(0);
	if (!strcmp(how, "cancel")) {
		pthread_cancel(pthread_self());
		pthread_testcancel();
	}
#ifdef __cplusplus
	if (!strcmp(how, "throw"))
		throw 1;
	if (!strcmp(how, "caught")) {
		try {
			throw 1;
		} catch (int) {
		}
	}
#endif
}

long leave_call(void *arg)
{
	leave((struct work_struct *)arg);
	return 0;
}

static DECLARE_WORK(item, leave);

/* What the library has to say is written by a call that heeds it. */
static void *cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	destroy_workqueue(system_percpu_wq);
	return arg;
}

int main(int argc, char **argv)
{
	struct workqueue_struct *wq;

	CHECK(argc == 3);
	how = argv[1];
	if (!strcmp(argv[2], "thread")) {
		pthread_t thread;

		CHECK(pthread_create(&thread, NULL, cancelled, NULL) == 0);
		return pthread_join(thread, NULL);
	}
	if (!strcmp(argv[2], "call"))
		return (int)work_on_cpu(0, leave_call, NULL);
	wq = !strcmp(argv[2], "bh") ? alloc_workqueue("line", WQ_BH, 0) :
				      alloc_workqueue("line", WQ_UNBOUND, 0);
	queue_work(wq, &item);
	flush_workqueue(wq);
	destroy_workqueue(wq);
	return 0;
}
