/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Time in ticks, HZ a second: 250 unless the program defines HZ, to the same number everywhere. */
#ifndef CMWQ_LINUX_JIFFIES_H
#define CMWQ_LINUX_JIFFIES_H

#include <limits.h>

#ifndef HZ
#define HZ 250
#endif

#ifdef __cplusplus
extern "C" {
#endif
/* The monotonic clock in ticks of `hz` a second. */
unsigned long cmwq_jiffies(unsigned int hz);
#ifdef __cplusplus
}
#endif

#define jiffies (cmwq_jiffies(HZ))
#define MAX_JIFFY_OFFSET ((LONG_MAX >> 1) - 1)

/* Rounded up, so that a delay is never too short; what is too long is for ever. */
static inline unsigned long cmwq_to_jiffies(unsigned long units, unsigned long per_second)
{
	unsigned long seconds = units / per_second, rest = units % per_second;

	if (seconds >= (unsigned long)MAX_JIFFY_OFFSET / HZ)
		return (unsigned long)MAX_JIFFY_OFFSET;
	return seconds * HZ + (rest * HZ + per_second - 1) / per_second;
}

static inline unsigned long msecs_to_jiffies(unsigned int ms)
{
	return (int)ms < 0 ? (unsigned long)MAX_JIFFY_OFFSET : cmwq_to_jiffies(ms, 1000);
}

static inline unsigned long usecs_to_jiffies(unsigned int us)
{
	return cmwq_to_jiffies(us, 1000000);
}

static inline unsigned long nsecs_to_jiffies(unsigned long ns)
{
	return ns / (1000000000UL / HZ);
}

static inline unsigned int jiffies_to_msecs(unsigned long ticks)
{
	return (unsigned int)(ticks * 1000 / HZ);
}

static inline unsigned int jiffies_to_usecs(unsigned long ticks)
{
	return (unsigned int)(ticks * 1000000 / HZ);
}

#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) ((long)((a) - (b)) >= 0)
#define time_before_eq(a, b) time_after_eq(b, a)

#endif
