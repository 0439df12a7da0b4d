/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sets of CPUs, as attributes of workqueues have them. */
#ifndef CMWQ_LINUX_CPUMASK_H
#define CMWQ_LINUX_CPUMASK_H

#include <cmwq/shims.h>

#ifdef CMWQ_NO_CPUMASK_SHIM
#if __has_include_next(<linux/cpumask.h>)
/* -Wpedantic warns of what follows. */
#pragma GCC system_header
#include_next <linux/cpumask.h>
#endif
#else

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <cmwq/full_barrier.h>

/* As many bits a set has, and walks and searches that find nothing end here, whatever the program's NR_CPUS is. */
#define CMWQ_NR_CPUS 8192
#ifndef NR_CPUS
#define NR_CPUS CMWQ_NR_CPUS
#endif
#define nr_cpu_ids ((unsigned int)CMWQ_NR_CPUS)
#define nr_cpumask_bits nr_cpu_ids
#define CMWQ_BITS_PER_LONG (8 * (unsigned int)sizeof(long))
#define CMWQ_MASK_WORDS (CMWQ_NR_CPUS / CMWQ_BITS_PER_LONG)

struct cpumask {
	unsigned long bits[CMWQ_NR_CPUS / (8 * sizeof(long))];
};
typedef struct cpumask cpumask_t;
/* Lies outside of the object that has it. */
typedef struct cpumask *cpumask_var_t;

#ifdef __cplusplus
extern "C" {
#endif
/*
 * The CPUs that the process may use now: always in the same place, which may be kept, and has what changes as soon as somebody
 * asks again.
 */
const struct cpumask *cmwq_usable_cpus(void);
#ifdef __cplusplus
}
#endif

/* A process has no others: those that it cannot use are not there for it. */
#define cpu_online_mask cmwq_usable_cpus()
#define cpu_possible_mask cmwq_usable_cpus()
#define cpu_present_mask cmwq_usable_cpus()
#define cpu_active_mask cmwq_usable_cpus()

/* ---- one CPU */

static inline void cpumask_set_cpu(unsigned int cpu, struct cpumask *mask)
{
	__atomic_fetch_or(&mask->bits[cpu / CMWQ_BITS_PER_LONG], 1UL << (cpu % CMWQ_BITS_PER_LONG), __ATOMIC_RELAXED);
}

static inline void cpumask_clear_cpu(unsigned int cpu, struct cpumask *mask)
{
	__atomic_fetch_and(&mask->bits[cpu / CMWQ_BITS_PER_LONG], ~(1UL << (cpu % CMWQ_BITS_PER_LONG)),
			   __ATOMIC_RELAXED);
}

static inline bool cpumask_test_cpu(unsigned int cpu, const struct cpumask *mask)
{
	return (__atomic_load_n(&mask->bits[cpu / CMWQ_BITS_PER_LONG], __ATOMIC_RELAXED) >> (cpu % CMWQ_BITS_PER_LONG)) & 1;
}

/* Whether it was in the set. */
static inline bool cpumask_test_and_set_cpu(unsigned int cpu, struct cpumask *mask)
{
	unsigned long bit = 1UL << (cpu % CMWQ_BITS_PER_LONG);
	unsigned long before = __atomic_fetch_or(&mask->bits[cpu / CMWQ_BITS_PER_LONG], bit, __ATOMIC_SEQ_CST);

	cmwq_fence_after(__ATOMIC_SEQ_CST);
	return (before & bit) != 0;
}

static inline bool cpumask_test_and_clear_cpu(unsigned int cpu, struct cpumask *mask)
{
	unsigned long bit = 1UL << (cpu % CMWQ_BITS_PER_LONG);
	unsigned long before = __atomic_fetch_and(&mask->bits[cpu / CMWQ_BITS_PER_LONG], ~bit, __ATOMIC_SEQ_CST);

	cmwq_fence_after(__ATOMIC_SEQ_CST);
	return (before & bit) != 0;
}

/* ---- all CPUs */

static inline void cpumask_clear(struct cpumask *mask)
{
	memset(mask, 0, sizeof(*mask));
}

static inline void cpumask_setall(struct cpumask *mask)
{
	memset(mask, 0xff, sizeof(*mask));
}

static inline void cpumask_copy(struct cpumask *to, const struct cpumask *from)
{
	memcpy(to, from, sizeof(*to));
}

/* The first from `at` on that is in `one` and, if it is not null, in `other`; the first that is not, if `flip` is all ones. */
static inline unsigned int cmwq_find_cpu(unsigned int at, const struct cpumask *one, const struct cpumask *other,
					 unsigned long flip)
{
	unsigned int word = at / CMWQ_BITS_PER_LONG;
	unsigned long bits = ~0UL << (at % CMWQ_BITS_PER_LONG);

	for (; word < CMWQ_MASK_WORDS; word++) {
		bits &= (one->bits[word] ^ flip) & (other != NULL ? other->bits[word] : ~0UL);
		if (bits != 0)
			return word * CMWQ_BITS_PER_LONG + (unsigned int)__builtin_ctzl(bits);
		bits = ~0UL;
	}
	return nr_cpu_ids;
}

static inline unsigned int cpumask_first(const struct cpumask *mask)
{
	return cmwq_find_cpu(0, mask, NULL, 0);
}

static inline unsigned int cpumask_first_zero(const struct cpumask *mask)
{
	return cmwq_find_cpu(0, mask, NULL, ~0UL);
}

static inline unsigned int cpumask_first_and(const struct cpumask *one, const struct cpumask *other)
{
	return cmwq_find_cpu(0, one, other, 0);
}

/* After `cpu`, which may be -1. */
static inline unsigned int cpumask_next(int cpu, const struct cpumask *mask)
{
	return cmwq_find_cpu((unsigned int)(cpu + 1), mask, NULL, 0);
}

static inline unsigned int cpumask_next_zero(int cpu, const struct cpumask *mask)
{
	return cmwq_find_cpu((unsigned int)(cpu + 1), mask, NULL, ~0UL);
}

static inline unsigned int cpumask_next_and(int cpu, const struct cpumask *one, const struct cpumask *other)
{
	return cmwq_find_cpu((unsigned int)(cpu + 1), one, other, 0);
}

/* From `at` on, in a walk that began at `start` and goes on from 0 behind the last; `is_first`: it begins. */
static inline unsigned int cmwq_next_cpu_wrap(unsigned int at, const struct cpumask *mask, unsigned int start,
					      bool is_first)
{
	unsigned int found = cmwq_find_cpu(at, mask, NULL, 0);

	if (is_first)
		return found < nr_cpu_ids ? found : cpumask_first(mask);
	if (at > start && found < nr_cpu_ids)
		return found;
	if (at > start)
		found = cpumask_first(mask);
	return found < start ? found : nr_cpu_ids;
}

static inline unsigned int cpumask_last(const struct cpumask *mask)
{
	unsigned int word = CMWQ_MASK_WORDS;

	while (word-- > 0)
		if (mask->bits[word] != 0)
			return (word + 1) * CMWQ_BITS_PER_LONG - 1 - (unsigned int)__builtin_clzl(mask->bits[word]);
	return nr_cpu_ids;
}

#define cpumask_any(mask) cpumask_first(mask)
#define cpumask_any_and(one, other) cpumask_first_and((one), (other))

static inline unsigned int cpumask_any_but(const struct cpumask *mask, unsigned int cpu)
{
	unsigned int first = cpumask_first(mask);

	return first != cpu ? first : cpumask_next((int)cpu, mask);
}

static inline unsigned int cpumask_weight(const struct cpumask *mask)
{
	unsigned int word, weight = 0;

	for (word = 0; word < CMWQ_MASK_WORDS; word++)
		weight += (unsigned int)__builtin_popcountl(mask->bits[word]);
	return weight;
}

static inline bool cpumask_empty(const struct cpumask *mask)
{
	return cpumask_first(mask) >= nr_cpu_ids;
}

static inline bool cpumask_full(const struct cpumask *mask)
{
	return cpumask_first_zero(mask) >= nr_cpu_ids;
}

static inline bool cpumask_equal(const struct cpumask *one, const struct cpumask *other)
{
	return memcmp(one, other, sizeof(*one)) == 0;
}

static inline bool cpumask_intersects(const struct cpumask *one, const struct cpumask *other)
{
	return cpumask_first_and(one, other) < nr_cpu_ids;
}

/* ---- sets of sets; the bool is whether any CPU is left */

#define CMWQ_CPUMASK_OF_TWO(name, expression)                                                 \
	static inline bool name(struct cpumask *to, const struct cpumask *one,                \
				const struct cpumask *other)                                  \
	{                                                                                     \
		unsigned int word;                                                            \
		unsigned long any = 0;                                                        \
                                                                                              \
		for (word = 0; word < CMWQ_MASK_WORDS; word++)                                \
			any |= (to->bits[word] = expression);                                 \
		return any != 0;                                                              \
	}
CMWQ_CPUMASK_OF_TWO(cpumask_and, one->bits[word] & other->bits[word])
CMWQ_CPUMASK_OF_TWO(cpumask_andnot, one->bits[word] & ~other->bits[word])
CMWQ_CPUMASK_OF_TWO(cpumask_or, one->bits[word] | other->bits[word])
CMWQ_CPUMASK_OF_TWO(cpumask_xor, one->bits[word] ^ other->bits[word])

static inline void cpumask_complement(struct cpumask *to, const struct cpumask *from)
{
	unsigned int word;

	for (word = 0; word < CMWQ_MASK_WORDS; word++)
		to->bits[word] = ~from->bits[word];
}

/* Whether all of `one` is in `other`. */
static inline bool cpumask_subset(const struct cpumask *one, const struct cpumask *other)
{
	struct cpumask rest;

	return !cpumask_andnot(&rest, one, other);
}

/* ---- walks */

#define for_each_cpu(cpu, mask)                                                        \
	for ((cpu) = cpumask_first(mask); (unsigned int)(cpu) < nr_cpu_ids;            \
	     (cpu) = cpumask_next((int)(cpu), (mask)))
#define for_each_cpu_and(cpu, one, other)                                              \
	for ((cpu) = cpumask_first_and((one), (other)); (unsigned int)(cpu) < nr_cpu_ids; \
	     (cpu) = cpumask_next_and((int)(cpu), (one), (other)))
#define for_each_cpu_not(cpu, mask)                                                    \
	for ((cpu) = cpumask_first_zero(mask); (unsigned int)(cpu) < nr_cpu_ids;       \
	     (cpu) = cpumask_next_zero((int)(cpu), (mask)))
/* All CPUs of the set, from `start` on and then those before it. */
#define for_each_cpu_wrap(cpu, mask, start)                                            \
	for ((cpu) = cmwq_next_cpu_wrap((unsigned int)(start), (mask), nr_cpu_ids, true); \
	     (unsigned int)(cpu) < nr_cpu_ids;                                         \
	     (cpu) = cmwq_next_cpu_wrap((unsigned int)(cpu) + 1, (mask), (unsigned int)(start), false))
#define for_each_online_cpu(cpu) for_each_cpu(cpu, cpu_online_mask)
#define for_each_possible_cpu(cpu) for_each_cpu(cpu, cpu_possible_mask)
#define for_each_present_cpu(cpu) for_each_cpu(cpu, cpu_present_mask)

#define num_online_cpus() cpumask_weight(cpu_online_mask)
#define num_possible_cpus() cpumask_weight(cpu_possible_mask)
#define num_present_cpus() cpumask_weight(cpu_present_mask)
#define num_active_cpus() cpumask_weight(cpu_active_mask)
#define cpu_online(cpu) cpumask_test_cpu((unsigned int)(cpu), cpu_online_mask)
#define cpu_possible(cpu) cpumask_test_cpu((unsigned int)(cpu), cpu_possible_mask)
#define cpu_present(cpu) cpumask_test_cpu((unsigned int)(cpu), cpu_present_mask)

/* ---- cpumask_var_t; the flags of an allocation mean nothing */

static inline bool cmwq_alloc_mask(cpumask_var_t *mask, bool is_cleared)
{
	*mask = (cpumask_var_t)malloc(sizeof(struct cpumask));
	if (*mask != NULL && is_cleared)
		cpumask_clear(*mask);
	return *mask != NULL;
}

#define alloc_cpumask_var(mask, flags) cmwq_alloc_mask((mask), false)
#define zalloc_cpumask_var(mask, flags) cmwq_alloc_mask((mask), true)
#define alloc_cpumask_var_node(mask, flags, node) cmwq_alloc_mask((mask), false)
#define zalloc_cpumask_var_node(mask, flags, node) cmwq_alloc_mask((mask), true)

static inline void free_cpumask_var(cpumask_var_t mask)
{
	free(mask);
}

static inline bool cpumask_available(cpumask_var_t mask)
{
	return mask != NULL;
}

#endif
#endif
