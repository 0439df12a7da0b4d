/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SHIM_ATOMIC_H
#define SHIM_ATOMIC_H

#include <linux/types.h>

#define ATOMIC_INIT(value) { (value) }
#define ATOMIC_LONG_INIT(value) { (value) }

static inline long atomic_long_read(const atomic_long_t *v)
{
	return (long)__atomic_load_n(&v->counter, __ATOMIC_RELAXED);
}

static inline void atomic_long_set(atomic_long_t *v, long value)
{
	__atomic_store_n(&v->counter, value, __ATOMIC_RELAXED);
}

#endif
