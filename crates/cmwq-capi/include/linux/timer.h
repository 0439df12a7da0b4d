/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Timers: of delayed work items, which are armed by queueing the item, and by themselves.
 *
 * Functions of timers run one after another, in the context of BH items: they must not sleep. They may arm and delete
 * timers, their own, too, free what holds theirs, and queue work. A timer expires when jiffies have reached `expires`, never
 * earlier. All of this may be called from any thread; only what ends in _sync waits, and counts as blocking in a work
 * function. After a fork the child's timers are not armed.
 */
#ifndef CMWQ_LINUX_TIMER_H
#define CMWQ_LINUX_TIMER_H

#include <cmwq/shims.h>

#ifdef CMWQ_NO_TIMER_SHIM
#if __has_include_next(<linux/timer.h>)
/* -Wpedantic warns of what follows. */
#pragma GCC system_header
#include_next <linux/timer.h>
#endif
#else

#include <stdbool.h>
#include <stddef.h>
#include <cmwq/hz.h>
#include <cmwq/timer_type.h>
#include <linux/container_of.h>
#include <linux/jiffies.h>

CMWQ_DEFINE_TIMER_TYPE(timer_list);
#define CMWQ_TIMER timer_list

/* It expires when the library is awake for another timer, and wakes nobody by itself. */
#define TIMER_DEFERRABLE 0x00080000U
/* A timer is no CPU's, and interrupts nobody: without effect. */
#define TIMER_PINNED 0x00100000U
#define TIMER_IRQSAFE 0x00200000U

#ifdef __cplusplus
extern "C" {
#endif
/* `how`: 0 in any case, 1 if it is armed, 2 unless it is armed for an earlier time, 3 it must not be armed. */
bool cmwq_arm_timer(struct timer_list *timer, unsigned long expires, unsigned int hz, unsigned int how);
bool cmwq_timer_delete(struct timer_list *timer);
bool cmwq_timer_delete_sync(struct timer_list *timer);
int cmwq_timer_delete_sync_try(struct timer_list *timer);
int cmwq_timer_shutdown(struct timer_list *timer);
int cmwq_timer_shutdown_sync(struct timer_list *timer);
#ifdef __cplusplus
}
#endif

/* ---- making them: not of a timer that is armed */

static inline void cmwq_set_timer(struct timer_list *timer, void (*function)(struct timer_list *), unsigned int flags)
{
	timer->cmwq_entry.next = NULL;
	timer->cmwq_entry.prev = NULL;
	timer->cmwq_due = 0;
	timer->cmwq_tag = 0;
	timer->cmwq_slot = 0;
	timer->cmwq_deferrable = (flags & TIMER_DEFERRABLE) != 0;
	timer->cmwq_pad = 0;
	timer->expires = 0;
	timer->function = function;
}

#define timer_setup(timer, function, flags) cmwq_set_timer((timer), (function), (flags))
#define timer_setup_on_stack(timer, function, flags) cmwq_set_timer((timer), (function), (flags))
#define timer_destroy_on_stack(timer) ((void)(timer))
#define destroy_timer_on_stack(timer) timer_destroy_on_stack(timer)
#define __TIMER_INITIALIZER(func, flags) \
	{ { NULL, NULL }, 0, 0, 0, ((flags) & TIMER_DEFERRABLE) != 0, 0, 0, (func) }
#define DEFINE_TIMER(name, func) struct timer_list name = __TIMER_INITIALIZER(func, 0)

/* From a timer to what holds it. */
#define timer_container_of(var, timer, member) container_of(timer, __typeof__(*(var)), member)
#define from_timer(var, timer, member) timer_container_of(var, timer, member)

/* ---- arming */

/*
 * Whether it is armed, as of now. In a forked child one that the parent had armed is not, but this says so only when another
 * function was given it there.
 */
static inline bool timer_pending(const struct timer_list *timer)
{
	const void *next = __atomic_load_n(&timer->cmwq_entry.next, __ATOMIC_RELAXED);

	return next != NULL && next != &timer->cmwq_entry;
}

/* Arms it for `expires`, whether it was armed or not: 1, it was. One that was shut down is not armed: 0. */
static inline int mod_timer(struct timer_list *timer, unsigned long expires)
{
	return cmwq_arm_timer(timer, expires, CMWQ_HZ, 0);
}

/* Only one that is armed. */
static inline int mod_timer_pending(struct timer_list *timer, unsigned long expires)
{
	return cmwq_arm_timer(timer, expires, CMWQ_HZ, 1);
}

/* Only to an earlier time, if it is armed. */
static inline int timer_reduce(struct timer_list *timer, unsigned long expires)
{
	return cmwq_arm_timer(timer, expires, CMWQ_HZ, 2);
}

/* For the time in `expires`. That it is armed already is said, and it stays as it was. */
static inline void add_timer(struct timer_list *timer)
{
	cmwq_arm_timer(timer, timer->expires, CMWQ_HZ, 3);
}

/* A timer is no CPU's. */
#define add_timer_on(timer, cpu) ((void)(cpu), add_timer(timer))
#define add_timer_local(timer) add_timer(timer)
#define add_timer_global(timer) add_timer(timer)

/* ---- disarming: whether it was armed */

/*
 * POSIX has a function of this name for its timers: (timer_delete)(timer). They are pointers to void, and so may be what leads to
 * a timer of these, which would stay armed: such a pointer is an error in C, not a warning, since those of macros in a folder
 * of system headers are not shown.
 */
#ifdef __cplusplus
extern "C++" {
static inline bool timer_delete(struct timer_list *timer)
{
	return cmwq_timer_delete(timer);
}
}
#else
#include <time.h>
int cmwq_posix_timer_delete(void *timer) __asm__("timer_delete")
	__attribute__((error("timer_delete() of a pointer to void: cast it to struct timer_list *, or write (timer_delete)(timer) for POSIX's")));
#define timer_delete(timer) \
	((__extension__ _Generic((timer), struct timer_list *: cmwq_timer_delete, void *: cmwq_posix_timer_delete))(timer))
#endif

/*
 * Waits for the timer's function, if it runs; when this returns the timer is not armed, even if that armed it again. Called by
 * that function, it would wait for itself: that is said, and it returns.
 */
static inline bool timer_delete_sync(struct timer_list *timer)
{
	return cmwq_timer_delete_sync(timer);
}

/* -1: the function runs, and nothing was done. */
static inline int timer_delete_sync_try(struct timer_list *timer)
{
	return cmwq_timer_delete_sync_try(timer);
}

/* For good: it cannot be armed any more until it is set up again. */
static inline int timer_shutdown(struct timer_list *timer)
{
	return cmwq_timer_shutdown(timer);
}

static inline int timer_shutdown_sync(struct timer_list *timer)
{
	return cmwq_timer_shutdown_sync(timer);
}

/* What these were called before. */
#define del_timer(timer) cmwq_timer_delete(timer)
#define del_timer_sync(timer) timer_delete_sync(timer)
#define try_to_del_timer_sync(timer) timer_delete_sync_try(timer)

#endif
#endif
