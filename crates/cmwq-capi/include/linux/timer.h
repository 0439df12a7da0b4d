/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* As much of timers as delayed work items need: they are armed by queueing the item, and not by themselves. */
#ifndef CMWQ_LINUX_TIMER_H
#define CMWQ_LINUX_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <cmwq/timer_type.h>
#include <linux/jiffies.h>

CMWQ_DEFINE_TIMER_TYPE(timer_list);
#define CMWQ_TIMER timer_list

#define TIMER_DEFERRABLE 0x00080000U
#define TIMER_IRQSAFE 0x00200000U

/* Whether it is armed, as of now. */
static inline bool timer_pending(const struct timer_list *timer)
{
	const void *next = __atomic_load_n(&timer->cmwq_entry.next, __ATOMIC_RELAXED);

	return next != NULL && next != &timer->cmwq_entry;
}

#endif
