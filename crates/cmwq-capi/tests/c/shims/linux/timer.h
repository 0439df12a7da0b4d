/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A timer of another size and with other members than the library's. */
#ifndef SHIM_TIMER_H
#define SHIM_TIMER_H

#include <linux/kernel.h>

struct timer_list {
	struct hlist_node entry;
	unsigned long expires;
	void (*function)(struct timer_list *);
	u32 flags;
};

#define TIMER_DEFERRABLE 0x00080000
#define TIMER_IRQSAFE 0x00200000

#endif
