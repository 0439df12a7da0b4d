/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the programs here need besides <linux/workqueue.h>, by the kernel's names, so that each would also
 * compile as a module: ROWS() is then an initialisation function that runs the row its parameter names.
 *
 *   CHECK(cond), AWAIT(cond)     it holds; it comes to hold (nothing here waits for time to pass)
 *   harness_run(), _join()       a thread of our own (kthread_run)
 *   harness_cpu(i)               the i-th CPU there is, or -1
 *   harness_skip(why)            this machine cannot show it
 *   harness_no_threads(is_so)    no thread can be made: in the kernel, fault injection
 *   harness_workers(cpu)         how many workers a CPU's pool has: in the kernel, tasks by name
 *   HARNESS_PARAMS(text)         parameters of the workqueue code, which a kernel gets when it boots
 */
#ifndef HARNESS_H
#define HARNESS_H

#ifdef __KERNEL__
#include "harness_kernel.h"
#else
#include "harness_user.h"
#endif

#define AWAIT(cond)                                                                   \
	do {                                                                          \
		unsigned long harness_end = jiffies + 100 * HZ;                       \
                                                                                      \
		while (!(cond)) {                                                     \
			CHECK(time_before(jiffies, harness_end) && "in time: " #cond); \
			usleep_range(100, 300);                                       \
		}                                                                     \
	} while (0)

#define ROW(name) { #name, row_##name }

#endif
