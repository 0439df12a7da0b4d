/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The library for C programs that never saw the kernel: functions with an argument, on queues. Nothing here is named as
 * anything but cmwq_. A queue is that of <linux/workqueue.h>, whose functions take it as well.
 *
 * Queueing never waits for work to be done, and may be done from any thread, and from the functions themselves. What waits
 * counts as blocking there: another item takes over. A function must return: one that ends its thread ends the process.
 * What was written before an item was queued is seen by its function, and what that wrote by who has waited for it.
 */
#ifndef CMWQ_SIMPLE_H
#define CMWQ_SIMPLE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct workqueue_struct;
/* An item that somebody may wait for. */
struct cmwq_job;

typedef void (*cmwq_func_t)(void *arg);

/*
 * A queue whose items run at once, as many as there are CPUs; another starts as soon as one blocks. Of the name 31 bytes are
 * kept; an empty one becomes "unnamed". Null if it cannot be made; the reason is logged on standard error and in errno: EINVAL,
 * ENOMEM (no thread is available) or ESHUTDOWN.
 */
struct workqueue_struct *cmwq_create(const char *name);

/*
 * The same, with at most `max_active` items at once that have begun and not ended, blocked ones included: for what takes no
 * more, such as connections. From 1 to 2048; what is more is 2048, what is negative 1, and logged; 0 is 1024, as above. Where
 * there are several NUMA nodes each has a part of the limit, and at least 8, or all of it if that is less.
 */
struct workqueue_struct *cmwq_create_limited(const char *name, int max_active);

/* The same, with one item at a time, in the order of queueing: what only its items touch needs no lock. */
struct workqueue_struct *cmwq_create_ordered(const char *name);

/*
 * Waits for all items, and for what they queue, and ends the queue. From now on it takes nothing that is delayed, and other
 * things only from functions on it. Every other call is refused with -ESHUTDOWN. On queues of cmwq_create() and
 * cmwq_create_limited() that also holds for a thread that is in a queueing call at that moment.
 * Delayed items that it has already are not waited for: the queue ends when they have been done. So what they are given must
 * outlive this call; a delayed item that may have to be taken back is one of cmwq_start_delayed(), which cmwq_job_cancel()
 * takes. From a function on the same queue it does not wait. The pointer is good for such answers until 64 other queues have
 * been destroyed; until then a second call is logged, and does nothing.
 */
void cmwq_destroy(struct workqueue_struct *wq);

/*
 * Waits until everything that was queued before has been done; not for delays that are not over. From a function on the same
 * queue it would wait for itself: that is logged, and it returns at once, as it does for a null `wq`.
 */
void cmwq_flush(struct workqueue_struct *wq);

/*
 * Has func(arg) called, once. A null `wq` is the queue that all parts of a process share. 0; -EINVAL: no function;
 * -ENOMEM: no thread is available for the first use of the library; -ESHUTDOWN: the queue is being destroyed or drained, or
 * the library was shut down. Nothing is called then. Reports and traces show the item by the name of `func`.
 */
int cmwq_queue(struct workqueue_struct *wq, cmwq_func_t func, void *arg);

/*
 * The same, when so many milliseconds have passed by CLOCK_MONOTONIC, which stands still while the machine is suspended: not
 * before, and usually within one after. Any number will do; what is longer than some 292 years never ends. If the queue takes
 * nothing by then, nothing is called.
 */
int cmwq_queue_delayed(struct workqueue_struct *wq, cmwq_func_t func, void *arg, unsigned long delay_ms);

/*
 * The same, with something to wait for: null where cmwq_queue() has an error, which is then in errno, as a positive number.
 * Each job is given, once, to cmwq_job_wait(), cmwq_job_cancel() or cmwq_job_forget(), and is not the caller's any more.
 */
struct cmwq_job *cmwq_start(struct workqueue_struct *wq, cmwq_func_t func, void *arg);
struct cmwq_job *cmwq_start_delayed(struct workqueue_struct *wq, cmwq_func_t func, void *arg, unsigned long delay_ms);

/*
 * Waits until the function has returned: 0; or -ECANCELED: it was not called, because its queue took nothing or the library was
 * shut down. Called by that function itself, it would wait for ever: -EDEADLK, at once, which is logged; the job is not the
 * caller's any more.
 */
int cmwq_job_wait(struct cmwq_job *job);

/* The same, for at most so many milliseconds; 0 only looks, also in that function. -ETIMEDOUT: not yet, and the job stays the
 * caller's. */
int cmwq_job_wait_for(struct cmwq_job *job, unsigned long timeout_ms);

/*
 * Cancels it: 0, at once, the function was not and will not be called. -EALREADY: it was called; this has waited until it
 * returned. -EDEADLK as for cmwq_job_wait().
 */
int cmwq_job_cancel(struct cmwq_job *job);

/* The function is called as if there were no job. */
void cmwq_job_forget(struct cmwq_job *job);

/* Whether the function has returned, or will not be called (-ECANCELED). The job stays the caller's. */
bool cmwq_job_is_done(const struct cmwq_job *job);

/*
 * Has func(arg, index) called for each index below `count`, `ahead` of them queued at a time (0: 1024), and waits for all:
 * 0, or as cmwq_queue(), with some called. Not from a function on a queue that does one at a time, for that queue.
 */
int cmwq_for_each(struct workqueue_struct *wq, size_t count, size_t ahead, void (*func)(void *arg, size_t index), void *arg);

/*
 * In a function on a queue of cmwq_create(): what it starts from now on, by fork(), posix_spawn(), system() or pthread_create(),
 * may run on all CPUs. Else that inherits the one on which its worker was woken. Elsewhere it does nothing.
 */
void cmwq_leave_cpu(void);

#ifdef __cplusplus
}
#endif

#endif
