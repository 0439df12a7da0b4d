/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The programs as modules: insmod queueing.ko row=queue_work */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/wait.h>
#define CHECK(cond) WARN(!(cond), "not so: %s\n", #cond)
#define HARNESS_PARAMS(text)
#define harness_cpu(i) ((i) < num_online_cpus() ? (int)cpumask_nth(i, cpu_online_mask) : -1)
#define harness_skip(why) ({ pr_info("skipped: %s\n", why); return; })
struct harness_thread { int (*fn)(void *); void *arg; struct completion done; };
struct row { const char *name; void (*run)(void); };
static inline int harness_body(void *data)
{
	struct harness_thread *thread = data;

	thread->fn(thread->arg);
	complete(&thread->done);
	return 0;
}
static inline void harness_run(struct harness_thread *thread, int (*fn)(void *), void *arg)
{
	thread->fn = fn;
	thread->arg = arg;
	init_completion(&thread->done);
	CHECK(!IS_ERR(kthread_run(harness_body, thread, "harness")));
}
#define harness_join(thread) wait_for_completion(&(thread)->done)
#define ROWS(...)                                                                  \
	static const struct row rows[] = { __VA_ARGS__ };                          \
	static char *row;                                                          \
	module_param(row, charp, 0444);                                            \
	static int __init harness_init(void)                                       \
	{                                                                          \
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)                      \
			if (!row || !strcmp(row, rows[i].name))                    \
				rows[i].run();                                     \
		return -EAGAIN;                                                    \
	}                                                                          \
	module_init(harness_init);                                                 \
	MODULE_LICENSE("Dual MIT/GPL")
