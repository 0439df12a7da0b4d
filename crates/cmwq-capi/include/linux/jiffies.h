/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Time in ticks, HZ a second: see <cmwq/hz.h> for what that is. */
#ifndef CMWQ_LINUX_JIFFIES_H
#define CMWQ_LINUX_JIFFIES_H

#include <cmwq/shims.h>

#ifdef CMWQ_NO_JIFFIES_SHIM
#if __has_include_next(<linux/jiffies.h>)
/* -Wpedantic warns of what follows. */
#pragma GCC system_header
#include_next <linux/jiffies.h>
#endif
#else

#include <limits.h>
#include <stdbool.h>
#include <cmwq/hz.h>

#ifdef __cplusplus
extern "C" {
#endif
/* The monotonic clock in ticks of `hz` a second. */
unsigned long cmwq_jiffies(unsigned int hz);
#ifdef __cplusplus
}
#endif

/* A program that has this name for something else says #undef jiffies: nothing below depends on it. */
#define CMWQ_JIFFIES (cmwq_jiffies(CMWQ_HZ))
#define jiffies CMWQ_JIFFIES
#define jiffies_64 get_jiffies_64()
#define MAX_JIFFY_OFFSET ((LONG_MAX >> 1) - 1)

static inline unsigned long long get_jiffies_64(void)
{
	return CMWQ_JIFFIES;
}

/* ---- units */

/* Rounded up, so that a delay is never too short; what is too long is for ever. */
static inline unsigned long cmwq_to_jiffies(unsigned long units, unsigned long per_second)
{
	unsigned long seconds = units / per_second, rest = units % per_second;

	if (seconds >= (unsigned long)MAX_JIFFY_OFFSET / CMWQ_HZ)
		return (unsigned long)MAX_JIFFY_OFFSET;
	return seconds * CMWQ_HZ + (rest * CMWQ_HZ + per_second - 1) / per_second;
}

/* So many units of which a second has `per_second`, in whole ones. */
static inline unsigned long long cmwq_of_jiffies(unsigned long ticks, unsigned long long per_second)
{
	return ticks / CMWQ_HZ * per_second + ticks % CMWQ_HZ * per_second / CMWQ_HZ;
}

#define secs_to_jiffies(secs) ((unsigned long)((secs) * CMWQ_HZ))

static inline unsigned long msecs_to_jiffies(unsigned int ms)
{
	return (int)ms < 0 ? (unsigned long)MAX_JIFFY_OFFSET : cmwq_to_jiffies(ms, 1000);
}

static inline unsigned long usecs_to_jiffies(unsigned int us)
{
	return cmwq_to_jiffies(us, 1000000);
}

static inline unsigned long long nsecs_to_jiffies64(unsigned long long ns)
{
	return ns / 1000000000 * CMWQ_HZ + ns % 1000000000 * CMWQ_HZ / 1000000000;
}

static inline unsigned long nsecs_to_jiffies(unsigned long ns)
{
	return (unsigned long)nsecs_to_jiffies64(ns);
}

/* Part of a millisecond counts as one. */
static inline unsigned int jiffies_to_msecs(unsigned long ticks)
{
	return (unsigned int)(ticks / CMWQ_HZ * 1000 + (ticks % CMWQ_HZ * 1000 + CMWQ_HZ - 1) / CMWQ_HZ);
}

static inline unsigned int jiffies_to_usecs(unsigned long ticks)
{
	return (unsigned int)cmwq_of_jiffies(ticks, 1000000);
}

static inline unsigned long long jiffies_to_nsecs(unsigned long ticks)
{
	return cmwq_of_jiffies(ticks, 1000000000);
}

static inline unsigned long long jiffies64_to_nsecs(unsigned long long ticks)
{
	return jiffies_to_nsecs((unsigned long)ticks);
}

static inline unsigned long long jiffies64_to_msecs(unsigned long long ticks)
{
	return cmwq_of_jiffies((unsigned long)ticks, 1000);
}

/* ---- earlier and later, across the end of the numbers, too */

/* What is narrower is made as wide first: of a difference of 32 bits the sign would be lost. */
#define time_after(a, b) ((long)((unsigned long)(b) - (unsigned long)(a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) ((long)((unsigned long)(a) - (unsigned long)(b)) >= 0)
#define time_before_eq(a, b) time_after_eq(b, a)
#define time_in_range(a, first, last) (time_after_eq(a, first) && time_before_eq(a, last))
#define time_in_range_open(a, first, end) (time_after_eq(a, first) && time_before(a, end))

/* A jiffy of 64 bits is the same here. */
#define time_after64(a, b) ((long long)((unsigned long long)(b) - (unsigned long long)(a)) < 0)
#define time_before64(a, b) time_after64(b, a)
#define time_after_eq64(a, b) ((long long)((unsigned long long)(a) - (unsigned long long)(b)) >= 0)
#define time_before_eq64(a, b) time_after_eq64(b, a)
#define time_in_range64(a, first, last) (time_after_eq64(a, first) && time_before_eq64(a, last))

#define time_is_before_jiffies(a) time_after(CMWQ_JIFFIES, a)
#define time_is_after_jiffies(a) time_before(CMWQ_JIFFIES, a)
#define time_is_before_eq_jiffies(a) time_after_eq(CMWQ_JIFFIES, a)
#define time_is_after_eq_jiffies(a) time_before_eq(CMWQ_JIFFIES, a)
#define time_is_before_jiffies64(a) time_after64(get_jiffies_64(), a)
#define time_is_after_jiffies64(a) time_before64(get_jiffies_64(), a)

/* ---- whole seconds, so that timers that need no precision expire together */

/*
 * To the second that has just begun if less than a quarter of it has passed, else to the next; never to a time that has
 * passed. CPUs do not differ: here a timer is no CPU's.
 */
static inline unsigned long cmwq_round_jiffies(unsigned long at, unsigned long now, bool is_up)
{
	unsigned long part = at % CMWQ_HZ, rounded = at - part;

	if (part >= CMWQ_HZ / 4 || (is_up && part > 0))
		rounded += CMWQ_HZ;
	return time_after(rounded, now) ? rounded : at;
}

static inline unsigned long cmwq_round_relative(unsigned long delta, bool is_up)
{
	unsigned long now = CMWQ_JIFFIES;

	return cmwq_round_jiffies(now + delta, now, is_up) - now;
}

#define round_jiffies(at) cmwq_round_jiffies((at), CMWQ_JIFFIES, false)
#define round_jiffies_up(at) cmwq_round_jiffies((at), CMWQ_JIFFIES, true)
#define round_jiffies_relative(delta) cmwq_round_relative((delta), false)
#define round_jiffies_up_relative(delta) cmwq_round_relative((delta), true)
#define __round_jiffies(at, cpu) ((void)(cpu), round_jiffies(at))
#define __round_jiffies_up(at, cpu) ((void)(cpu), round_jiffies_up(at))
#define __round_jiffies_relative(delta, cpu) ((void)(cpu), round_jiffies_relative(delta))
#define __round_jiffies_up_relative(delta, cpu) ((void)(cpu), round_jiffies_up_relative(delta))

#endif
#endif
