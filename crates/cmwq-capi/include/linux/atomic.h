/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The type of a work item's word. */
#ifndef CMWQ_LINUX_ATOMIC_H
#define CMWQ_LINUX_ATOMIC_H

typedef struct {
	long counter;
} atomic_long_t;

#define ATOMIC_LONG_INIT(value) { (value) }

static inline long atomic_long_read(const atomic_long_t *v)
{
	return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);
}

static inline void atomic_long_set(atomic_long_t *v, long value)
{
	__atomic_store_n(&v->counter, value, __ATOMIC_RELAXED);
}

#endif
