/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What libcmwq has beyond the kernel's interface. The rest is in <linux/workqueue.h>. */
#ifndef CMWQ_H
#define CMWQ_H

#include <linux/workqueue.h>

/*
 * With alloc_workqueue(): managed over all CPUs. At most one item runs per CPU, another starts as soon as one
 * blocks, and a CPU that has nothing to run takes items from one that has more than it can. What most programs
 * want.
 */
#define CMWQ_MANAGED (1U << 24)

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Around a wait that is known to be long: the calling worker is replaced at once. Blocking is noticed anyway,
 * within microseconds where the system allows it. Sections nest. Outside of a work function they do nothing.
 */
void cmwq_blocking_begin(void);
void cmwq_blocking_end(void);

/*
 * Makes the program say when grace periods of rcu_work are over: `call_rcu` calls func(head) when one is, `rcu_barrier`
 * waits for all such calls. Those of liburcu fit as they are, by a cast. Before the first queue_rcu_work(): 0, or
 * -EBUSY. Sections of the <linux/rcupdate.h> beside this file are waited for besides.
 */
int cmwq_set_rcu(void (*call_rcu)(struct CMWQ_RCU_HEAD *head, void (*func)(struct CMWQ_RCU_HEAD *head)),
		 void (*rcu_barrier)(void));

#ifdef __cplusplus
}
#endif

#endif
