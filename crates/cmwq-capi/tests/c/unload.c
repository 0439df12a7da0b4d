/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that loads the library, has an item run, and closes the library meanwhile. Before, it has closed the library
 * without using it, which leaves no handler of forks behind.
 */
#include <dlfcn.h>
#include <linux/workqueue.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int entered, closed, done;

static void nap(void)
{
	struct timespec ms = { 0, 1000000 };

	nanosleep(&ms, NULL);
}

static void item(struct work_struct *work)
{
	(void)work;
	__atomic_store_n(&entered, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&closed, __ATOMIC_SEQ_CST))
		nap();
	__atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
}

static int close_unused(const char *name)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	int status = 1;
	pid_t child;

	if (!library || dlclose(library) != 0)
		return 1;
	child = fork();
	if (child == 0)
		_exit(0);
	return waitpid(child, &status, 0) != child || status != 0;
}

int main(int argc, char **argv)
{
	static struct work_struct work;
	struct workqueue_struct **wq;
	bool (*queue)(int, struct workqueue_struct *, struct work_struct *);
	void *library = argc == 2 && close_unused(argv[1]) == 0 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

	if (!library) {
		fprintf(stderr, "not loaded, or not closed\n");
		return 1;
	}
	wq = (struct workqueue_struct **)dlsym(library, "system_percpu_wq");
	*(void **)&queue = dlsym(library, "queue_work_on");
	INIT_WORK(&work, item);
	if (!wq || !queue || !queue(WORK_CPU_UNBOUND, *wq, &work))
		return 2;
	while (!__atomic_load_n(&entered, __ATOMIC_SEQ_CST))
		nap();
	dlclose(library);
	__atomic_store_n(&closed, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST))
		nap();
	/* The worker goes back to its pool, and its code must be there. */
	for (int i = 0; i < 50; i++)
		nap();
	puts("still here");
	return 0;
}
