/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What such code finds everywhere: given to the compiler with -include. */
#ifndef SHIM_KERNEL_H
#define SHIM_KERNEL_H

#include <linux/types.h>
#include <linux/jiffies.h>

#define container_of(ptr, type, member)                                 \
	({                                                              \
		const __typeof__(((type *)0)->member) *_at = (ptr);     \
		(type *)((char *)_at - offsetof(type, member));         \
	})
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif
