/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Numbers that several threads change: atomic_t of int, atomic_long_t of long, atomic64_t of long long. As in the kernel,
 * what returns nothing orders nothing, and what returns a value is a full barrier unless its name ends in _relaxed,
 * _acquire or _release; reading and setting order nothing.
 */
#ifndef CMWQ_LINUX_ATOMIC_H
#define CMWQ_LINUX_ATOMIC_H

#include <cmwq/shims.h>

#ifdef CMWQ_NO_ATOMIC_SHIM
#if __has_include_next(<linux/atomic.h>)
/* -Wpedantic warns of what follows. */
#pragma GCC system_header
#include_next <linux/atomic.h>
#endif
#else

#include <stdbool.h>
#include <cmwq/full_barrier.h>

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	long counter;
} atomic_long_t;

typedef struct {
	long long counter;
} atomic64_t;

#define ATOMIC_INIT(value) { (value) }
#define ATOMIC_LONG_INIT(value) { (value) }
#define ATOMIC64_INIT(value) { (value) }

/* The body of a function that returns what `change` is, of this order. */
#define CMWQ_ATOMIC_BODY(T, change, order)                                               \
	{                                                                                \
		T told = change;                                                         \
                                                                                         \
		cmwq_fence_after(order);                                                 \
		return told;                                                             \
	}

/* a_verb(value, v) and what has its name from it, of one order. */
#define CMWQ_ATOMIC_ADDS(a, T, suffix, order)                                            \
	static inline T a##_add_return##suffix(T value, a##_t *v)                        \
	CMWQ_ATOMIC_BODY(T, __atomic_add_fetch(&v->counter, value, order), order)        \
	static inline T a##_sub_return##suffix(T value, a##_t *v)                        \
	CMWQ_ATOMIC_BODY(T, __atomic_sub_fetch(&v->counter, value, order), order)        \
	static inline T a##_inc_return##suffix(a##_t *v)                                 \
	CMWQ_ATOMIC_BODY(T, __atomic_add_fetch(&v->counter, 1, order), order)            \
	static inline T a##_dec_return##suffix(a##_t *v)                                 \
	CMWQ_ATOMIC_BODY(T, __atomic_sub_fetch(&v->counter, 1, order), order)            \
	static inline T a##_fetch_inc##suffix(a##_t *v)                                  \
	CMWQ_ATOMIC_BODY(T, __atomic_fetch_add(&v->counter, 1, order), order)            \
	static inline T a##_fetch_dec##suffix(a##_t *v)                                  \
	CMWQ_ATOMIC_BODY(T, __atomic_fetch_sub(&v->counter, 1, order), order)

#define CMWQ_ATOMIC_FETCH(a, T, verb, builtin, value, suffix, order)                     \
	static inline T a##_fetch_##verb##suffix(T operand, a##_t *v)                    \
	CMWQ_ATOMIC_BODY(T, builtin(&v->counter, value, order), order)

/* Returns what was there; what try_cmpxchg did not find, it writes to *old. */
#define CMWQ_ATOMIC_XCHGS(a, T, suffix, order)                                           \
	static inline T a##_xchg##suffix(a##_t *v, T value)                              \
	CMWQ_ATOMIC_BODY(T, __atomic_exchange_n(&v->counter, value, order), order)       \
	static inline bool a##_try_cmpxchg##suffix(a##_t *v, T *old, T value)            \
	CMWQ_ATOMIC_BODY(bool, __atomic_compare_exchange_n(&v->counter, old, value,      \
							   false, order,                 \
							   __ATOMIC_RELAXED), order)     \
	static inline T a##_cmpxchg##suffix(a##_t *v, T old, T value)                    \
	{                                                                                \
		a##_try_cmpxchg##suffix(v, &old, value);                                 \
		return old;                                                              \
	}

#define CMWQ_ATOMIC_ORDERED(a, T, suffix, order)                                         \
	CMWQ_ATOMIC_ADDS(a, T, suffix, order)                                            \
	CMWQ_ATOMIC_XCHGS(a, T, suffix, order)                                           \
	CMWQ_ATOMIC_FETCH(a, T, add, __atomic_fetch_add, operand, suffix, order)         \
	CMWQ_ATOMIC_FETCH(a, T, sub, __atomic_fetch_sub, operand, suffix, order)         \
	CMWQ_ATOMIC_FETCH(a, T, and, __atomic_fetch_and, operand, suffix, order)         \
	CMWQ_ATOMIC_FETCH(a, T, andnot, __atomic_fetch_and, ~operand, suffix, order)     \
	CMWQ_ATOMIC_FETCH(a, T, or, __atomic_fetch_or, operand, suffix, order)           \
	CMWQ_ATOMIC_FETCH(a, T, xor, __atomic_fetch_xor, operand, suffix, order)

#define CMWQ_ATOMIC_VOID(a, T, verb, builtin, value)                                     \
	static inline void a##_##verb(T operand, a##_t *v)                               \
	{                                                                                \
		builtin(&v->counter, value, __ATOMIC_RELAXED);                           \
	}

/* Changes the value, if it is one for which `cond` holds of `now`, to `next`: otherwise `otherwise` is returned. */
#define CMWQ_ATOMIC_IF(ret, name, parameters, T, cond, next, done, otherwise)            \
	static inline ret name parameters                                                \
	{                                                                                \
		T now = __atomic_load_n(&v->counter, __ATOMIC_RELAXED);                  \
                                                                                         \
		while (cond)                                                             \
			if (__atomic_compare_exchange_n(&v->counter, &now, next, false,  \
							__ATOMIC_SEQ_CST,                \
							__ATOMIC_RELAXED)) {             \
				cmwq_fence_after(__ATOMIC_SEQ_CST);                      \
				return done;                                             \
			}                                                                \
		return otherwise;                                                        \
	}

#define CMWQ_ATOMIC(a, T)                                                                \
	static inline T a##_read(const a##_t *v)                                         \
	{                                                                                \
		return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);                   \
	}                                                                                \
	static inline T a##_read_acquire(const a##_t *v)                                 \
	{                                                                                \
		return __atomic_load_n(&v->counter, __ATOMIC_ACQUIRE);                   \
	}                                                                                \
	static inline void a##_set(a##_t *v, T value)                                    \
	{                                                                                \
		__atomic_store_n(&v->counter, value, __ATOMIC_RELAXED);                  \
	}                                                                                \
	static inline void a##_set_release(a##_t *v, T value)                            \
	{                                                                                \
		__atomic_store_n(&v->counter, value, __ATOMIC_RELEASE);                  \
	}                                                                                \
	CMWQ_ATOMIC_VOID(a, T, add, __atomic_fetch_add, operand)                         \
	CMWQ_ATOMIC_VOID(a, T, sub, __atomic_fetch_sub, operand)                         \
	CMWQ_ATOMIC_VOID(a, T, and, __atomic_fetch_and, operand)                         \
	CMWQ_ATOMIC_VOID(a, T, andnot, __atomic_fetch_and, ~operand)                     \
	CMWQ_ATOMIC_VOID(a, T, or, __atomic_fetch_or, operand)                           \
	CMWQ_ATOMIC_VOID(a, T, xor, __atomic_fetch_xor, operand)                         \
	static inline void a##_inc(a##_t *v)                                             \
	{                                                                                \
		a##_add(1, v);                                                           \
	}                                                                                \
	static inline void a##_dec(a##_t *v)                                             \
	{                                                                                \
		a##_sub(1, v);                                                           \
	}                                                                                \
	CMWQ_ATOMIC_ORDERED(a, T, , __ATOMIC_SEQ_CST)                                    \
	CMWQ_ATOMIC_ORDERED(a, T, _relaxed, __ATOMIC_RELAXED)                            \
	CMWQ_ATOMIC_ORDERED(a, T, _acquire, __ATOMIC_ACQUIRE)                            \
	CMWQ_ATOMIC_ORDERED(a, T, _release, __ATOMIC_RELEASE)                            \
	static inline bool a##_sub_and_test(T value, a##_t *v)                           \
	{                                                                                \
		return a##_sub_return(value, v) == 0;                                    \
	}                                                                                \
	static inline bool a##_inc_and_test(a##_t *v)                                    \
	{                                                                                \
		return a##_inc_return(v) == 0;                                           \
	}                                                                                \
	static inline bool a##_dec_and_test(a##_t *v)                                    \
	{                                                                                \
		return a##_dec_return(v) == 0;                                           \
	}                                                                                \
	static inline bool a##_add_negative(T value, a##_t *v)                           \
	{                                                                                \
		return a##_add_return(value, v) < 0;                                     \
	}                                                                                \
	CMWQ_ATOMIC_IF(T, a##_fetch_add_unless, (a##_t *v, T value, T unless), T,        \
		       now != unless, now + value, now, now)                             \
	static inline bool a##_add_unless(a##_t *v, T value, T unless)                   \
	{                                                                                \
		return a##_fetch_add_unless(v, value, unless) != unless;                 \
	}                                                                                \
	static inline bool a##_inc_not_zero(a##_t *v)                                    \
	{                                                                                \
		return a##_add_unless(v, 1, 0);                                          \
	}                                                                                \
	CMWQ_ATOMIC_IF(bool, a##_inc_unless_negative, (a##_t *v), T, now >= 0,           \
		       now + 1, true, false)                                             \
	CMWQ_ATOMIC_IF(bool, a##_dec_unless_positive, (a##_t *v), T, now <= 0,           \
		       now - 1, true, false)                                             \
	CMWQ_ATOMIC_IF(T, a##_dec_if_positive, (a##_t *v), T, now > 0,                   \
		       now - 1, now - 1, now - 1)

/* <stdatomic.h> has macros of these names. Where it is included, they are its own, and these are not to be had. */
#pragma push_macro("atomic_fetch_add")
#undef atomic_fetch_add
#pragma push_macro("atomic_fetch_sub")
#undef atomic_fetch_sub
#pragma push_macro("atomic_fetch_or")
#undef atomic_fetch_or
#pragma push_macro("atomic_fetch_xor")
#undef atomic_fetch_xor
#pragma push_macro("atomic_fetch_and")
#undef atomic_fetch_and
CMWQ_ATOMIC(atomic, int)
#pragma pop_macro("atomic_fetch_add")
#pragma pop_macro("atomic_fetch_sub")
#pragma pop_macro("atomic_fetch_or")
#pragma pop_macro("atomic_fetch_xor")
#pragma pop_macro("atomic_fetch_and")
CMWQ_ATOMIC(atomic_long, long)
CMWQ_ATOMIC(atomic64, long long)

#endif
#endif
