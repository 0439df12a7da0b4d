/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Masks for a small machine. */
#ifndef SHIM_CPUMASK_H
#define SHIM_CPUMASK_H

#define NR_CPUS 64

typedef struct cpumask {
	unsigned long bits[NR_CPUS / (8 * sizeof(long))];
} cpumask_t;
typedef cpumask_t cpumask_var_t[1];

#endif
