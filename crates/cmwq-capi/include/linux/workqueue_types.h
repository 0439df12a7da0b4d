/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Work items of libcmwq, with the names of the Linux kernel's workqueues.
 *
 * The small neighbours that these need come from <linux/list.h> and so on beside this file. Files of these names that come
 * earlier in the compiler's path take their place, each by itself; a timer and an RCU head of the library's own have another
 * name then. A program that has brought its own (code carried over from a kernel usually has) defines CMWQ_NO_KERNEL_SHIMS,
 * or one of the others in <cmwq/shims.h>: then its <linux/list.h> and so on are included wherever they are in the path, if
 * they are anywhere, and these must be there after them, or before this file: bool, struct list_head { next, prev } and
 * atomic_long_t, which must be as large as a long.
 */
#ifndef CMWQ_LINUX_WORKQUEUE_TYPES_H
#define CMWQ_LINUX_WORKQUEUE_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <cmwq/shims.h>

#ifdef CMWQ_NO_KERNEL_SHIMS
/* What the kernel's file includes besides, and nothing here has. */
#if __has_include(<linux/linkage.h>)
#include <linux/linkage.h>
#endif
#if __has_include(<linux/bitops.h>)
#include <linux/bitops.h>
#endif
#if __has_include(<linux/threads.h>)
#include <linux/threads.h>
#endif
#else
#include <stdbool.h>
#endif

#include <linux/lockdep.h>
#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/timer.h>
#include <linux/rcupdate.h>
#ifndef CMWQ_NO_KERNEL_SHIMS
#include <linux/container_of.h>
#endif

/* Whose file it was is seen by what it left behind: a program's own may come earlier in the path and say nothing. */
#ifndef CMWQ_TIMER
#include <cmwq/timer_type.h>
CMWQ_DEFINE_TIMER_TYPE(cmwq_timer_list);
#define CMWQ_TIMER cmwq_timer_list
#endif

#ifndef CMWQ_RCU_HEAD
struct cmwq_rcu_head {
	struct cmwq_rcu_head *next;
	void (*func)(struct cmwq_rcu_head *head);
};
#define CMWQ_RCU_HEAD cmwq_rcu_head
#endif

struct workqueue_struct;
struct work_struct;

/* It gets the item, which it may free or queue again. */
typedef void (*work_func_t)(struct work_struct *work);

/* To be embedded anywhere. `func` may be read; the rest is the library's. */
struct work_struct {
	atomic_long_t data;
	struct list_head entry;
	work_func_t func;
};

/*
 * An item with a timer. `timer.expires` tells when it is due, in jiffies; `wq` and `cpu` where it goes then.
 * Of a system queue, `wq` is not the exported pointer.
 */
struct delayed_work {
	struct work_struct work;
	struct CMWQ_TIMER timer;
	struct workqueue_struct *wq;
	int cpu;
};

/*
 * An item that is queued after an RCU grace period. `rcu` is whose who tells of those, meanwhile; `wq` is where
 * it goes, and not a pointer that functions take.
 */
struct rcu_work {
	struct work_struct work;
	struct CMWQ_RCU_HEAD rcu;
	struct workqueue_struct *wq;
	void (*cmwq_refused)(void);
};

/* Storage for execute_in_process_context(). */
struct execute_work {
	struct work_struct work;
};

#ifdef __cplusplus
#define CMWQ_ASSERT(cond) static_assert(cond, #cond)
#else
#define CMWQ_ASSERT(cond) _Static_assert(cond, #cond)
#endif
/* The library asserts the same. */
CMWQ_ASSERT(sizeof(struct work_struct) == 32);
CMWQ_ASSERT(offsetof(struct work_struct, entry) == 8);
CMWQ_ASSERT(offsetof(struct work_struct, func) == 24);
CMWQ_ASSERT(sizeof(struct delayed_work) == 96);
CMWQ_ASSERT(offsetof(struct delayed_work, timer) == 32);
CMWQ_ASSERT(offsetof(struct delayed_work, timer.cmwq_due) == 48);
CMWQ_ASSERT(offsetof(struct delayed_work, timer.cmwq_tag) == 56);
CMWQ_ASSERT(offsetof(struct delayed_work, timer.cmwq_slot) == 60);
CMWQ_ASSERT(offsetof(struct delayed_work, timer.cmwq_deferrable) == 62);
CMWQ_ASSERT(offsetof(struct delayed_work, timer.expires) == 64);
CMWQ_ASSERT(offsetof(struct delayed_work, timer.function) == 72);
CMWQ_ASSERT(offsetof(struct delayed_work, wq) == 80);
CMWQ_ASSERT(offsetof(struct delayed_work, cpu) == 88);
CMWQ_ASSERT(sizeof(struct rcu_work) == 64);
CMWQ_ASSERT(offsetof(struct rcu_work, rcu) == 32);
CMWQ_ASSERT(offsetof(struct rcu_work, wq) == 48);
CMWQ_ASSERT(offsetof(struct rcu_work, cmwq_refused) == 56);

#endif
