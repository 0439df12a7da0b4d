/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Types as carried-over code names them. */
#ifndef SHIM_TYPES_H
#define SHIM_TYPES_H

#include <stddef.h>

typedef _Bool bool;
#define true 1
#define false 0
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

typedef struct {
	int counter;
} atomic_t;
typedef struct {
	s64 counter;
} atomic64_t;
/* Another tag than the library's type has, and another member type of the same size. */
typedef atomic64_t atomic_long_t;

struct list_head {
	struct list_head *next, *prev;
};
struct hlist_node {
	struct hlist_node *next, **pprev;
};

#endif
