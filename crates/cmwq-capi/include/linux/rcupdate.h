/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RCU of this library's own, for programs with a moderate number of readers: a section takes a lock for a moment, and may
 * block. A program with another RCU (liburcu) uses that one's sections, tells of its grace periods by cmwq_set_rcu() in
 * <cmwq.h>, and defines CMWQ_NO_RCU_SHIM.
 */
#ifndef CMWQ_LINUX_RCUPDATE_H
#define CMWQ_LINUX_RCUPDATE_H

#include <cmwq/shims.h>

#ifdef CMWQ_NO_RCU_SHIM
#if __has_include_next(<linux/rcupdate.h>)
/* -Wpedantic warns of what follows. */
#pragma GCC system_header
#include_next <linux/rcupdate.h>
#endif
#else

#include <stddef.h>
#include <linux/lockdep.h>

/* What a grace period needs to remember what waits for it. */
struct rcu_head {
	struct rcu_head *next;
	void (*func)(struct rcu_head *head);
};
#define CMWQ_RCU_HEAD rcu_head

typedef void (*rcu_callback_t)(struct rcu_head *head);

#ifdef __cplusplus
extern "C" {
#endif
void cmwq_rcu_read_lock(void);
void cmwq_rcu_read_unlock(void);
void cmwq_synchronize_rcu(void);
void cmwq_call_rcu(struct rcu_head *head, rcu_callback_t func);
void cmwq_free_rcu(struct rcu_head *head, void *object);
void cmwq_rcu_barrier(void);
#ifdef __cplusplus
}
#endif

/* Sections nest. Whoever begins one ends it, on the same thread. */
static inline void rcu_read_lock(void)
{
	cmwq_rcu_read_lock();
}

static inline void rcu_read_unlock(void)
{
	cmwq_rcu_read_unlock();
}

/* Waits until all sections that are open now have ended; inside of one that is said, and it returns. */
static inline void synchronize_rcu(void)
{
	cmwq_synchronize_rcu();
}

/*
 * Calls func(head) when all sections that are open now have ended; one after another, in the context of BH items, where a
 * function must not sleep: on another thread, perhaps before this returns, and within it where no thread can be had. After
 * cmwq_shutdown() whoever ends the last section calls it, within rcu_read_unlock(), or call_rcu() where none is open: with the
 * locks that he holds there, and on and on if it gives itself to call_rcu() each time.
 * Where the program has told cmwq_set_rcu(), its `call_rcu` calls it.
 */
static inline void call_rcu(struct rcu_head *head, rcu_callback_t func)
{
	cmwq_call_rcu(head, func);
}
#define call_rcu_hurry(head, func) call_rcu((head), (func))

/* Waits for all functions that were given to call_rcu() before, and for what kfree_rcu() frees. */
static inline void rcu_barrier(void)
{
	cmwq_rcu_barrier();
}

/* Gives `ptr`, which has the head as `member`, to free() then. A program whose memory is another's defines its own. */
#ifndef kfree_rcu
#define kfree_rcu(ptr, member)                                         \
	do {                                                           \
		__typeof__(ptr) cmwq_freed = (ptr);                    \
                                                                       \
		if (cmwq_freed != NULL)                                \
			cmwq_free_rcu(&cmwq_freed->member, cmwq_freed); \
	} while (0)
#endif
/* As that one, whose ever it is. */
#ifndef kvfree_rcu
#define kvfree_rcu(ptr, member) kfree_rcu(ptr, member)
#endif

/* ---- pointers that readers follow while they are changed */

#ifndef __rcu
#define __rcu
#endif

/* In a section: what it leads to is seen as it was when the pointer was assigned. */
#define rcu_dereference(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define rcu_dereference_raw(p) rcu_dereference(p)
/* For the conditions below. Nobody counts the sections of a thread for that. */
#ifndef rcu_read_lock_held
#define rcu_read_lock_held() 1
#endif
/* As well where `cond` says that nothing changes; which is compiled and never evaluated. */
#define rcu_dereference_check(p, cond) ((void)(0 && (cond)), rcu_dereference(p))
#define rcu_dereference_bh(p) rcu_dereference(p)
#define rcu_dereference_sched(p) rcu_dereference(p)
/* Only there: the pointer does not change meanwhile. */
#define rcu_dereference_protected(p, cond) ((void)(0 && (cond)), rcu_access_pointer(p))
/* Only to look at the pointer itself. */
#define rcu_access_pointer(p) __atomic_load_n(&(p), __ATOMIC_RELAXED)
#define rcu_pointer_handoff(p) (p)

/* Readers that follow it from now on see what was written to the object before. */
#define rcu_assign_pointer(p, v) __atomic_store_n(&(p), (__typeof__(p))(v), __ATOMIC_RELEASE)
/* For null, and for what no reader can see yet. */
#define RCU_INIT_POINTER(p, v) __atomic_store_n(&(p), (__typeof__(p))(v), __ATOMIC_RELAXED)
#define RCU_POINTER_INITIALIZER(p, v) .p = (v)
/* Returns what was there; `cond` as in rcu_dereference_protected(). */
#define rcu_replace_pointer(p, v, cond)                                                    \
	__extension__({                                                                    \
		__typeof__(p) cmwq_before = rcu_dereference_protected(p, cond);            \
                                                                                           \
		rcu_assign_pointer(p, v);                                                  \
		cmwq_before;                                                               \
	})

#endif
#endif
