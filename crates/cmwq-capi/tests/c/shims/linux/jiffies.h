/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Another HZ than the library's, and jiffies of the client's own, which start where it likes. */
#ifndef SHIM_JIFFIES_H
#define SHIM_JIFFIES_H

#include <time.h>

#define HZ 1000

static inline unsigned long shim_jiffies(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long)now.tv_sec * HZ + (unsigned long)now.tv_nsec / (1000000000 / HZ) - 300 * HZ;
}
#define jiffies shim_jiffies()

static inline unsigned long msecs_to_jiffies(unsigned int ms)
{
	return ms;
}

#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) ((long)((a) - (b)) >= 0)

#endif
