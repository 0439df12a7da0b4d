/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sets of CPUs, as attributes of workqueues have them. */
#ifndef CMWQ_LINUX_CPUMASK_H
#define CMWQ_LINUX_CPUMASK_H

#include <stdbool.h>
#include <string.h>

#define NR_CPUS 8192
#define CMWQ_BITS_PER_LONG (8 * (unsigned int)sizeof(long))

struct cpumask {
	unsigned long bits[NR_CPUS / (8 * sizeof(long))];
};
typedef struct cpumask cpumask_t;
/* Lies outside of the object that has it. */
typedef struct cpumask *cpumask_var_t;

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

static inline void cpumask_set_cpu(unsigned int cpu, struct cpumask *mask)
{
	mask->bits[cpu / CMWQ_BITS_PER_LONG] |= 1UL << (cpu % CMWQ_BITS_PER_LONG);
}

static inline void cpumask_clear_cpu(unsigned int cpu, struct cpumask *mask)
{
	mask->bits[cpu / CMWQ_BITS_PER_LONG] &= ~(1UL << (cpu % CMWQ_BITS_PER_LONG));
}

static inline bool cpumask_test_cpu(unsigned int cpu, const struct cpumask *mask)
{
	return (mask->bits[cpu / CMWQ_BITS_PER_LONG] >> (cpu % CMWQ_BITS_PER_LONG)) & 1;
}

#endif
