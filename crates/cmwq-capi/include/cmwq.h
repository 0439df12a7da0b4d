/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What libcmwq has beyond the kernel's interface. The rest is in <linux/workqueue.h>. */
#ifndef CMWQ_H
#define CMWQ_H

#include <cmwq/simple.h>
#include <linux/workqueue.h>

/*
 * With alloc_workqueue(): managed over all CPUs. At most one item runs per CPU, another starts as soon as one
 * blocks, and a CPU that has nothing to run takes items from one that has more than it can. What most programs
 * want.
 */
#define CMWQ_MANAGED (1U << 24)

/* What a queue's items have done so far. Later libraries may know more: members are only ever added at the end. */
struct cmwq_stats {
	uint64_t started; /* functions that were entered */
	uint64_t completed; /* functions that have returned */
	uint64_t cpu_time_us;
	uint64_t cpu_intensive; /* items that hogged the CPU */
	uint64_t cm_wakeup; /* workers woken because one blocked */
	uint64_t repatriated; /* workers sent back to their pod */
	uint64_t mayday; /* calls for the rescuer */
	uint64_t rescued; /* items that the rescuer ran */
	uint64_t cancelled; /* items cancelled before they ran */
};
/* The library asserts the same. */
CMWQ_ASSERT(sizeof(struct cmwq_stats) == 72);
CMWQ_ASSERT(offsetof(struct cmwq_stats, cpu_time_us) == 16);
CMWQ_ASSERT(offsetof(struct cmwq_stats, cancelled) == 64);

/* Where work waits and nothing has happened for as long as the watchdog's threshold. */
enum cmwq_stall_kind {
	CMWQ_STALL_POOL, /* items wait for a worker of a pool, and none was started */
	CMWQ_STALL_QUEUE, /* a queue is at max_active, and none of its items started or ended */
	CMWQ_STALL_CIRCLE /* items wait for each other */
};

/* `size` says how much of it the library knows; members are only ever added at the end. */
struct cmwq_stall {
	size_t size;
	const char *report; /* all that is known, in lines: what waits, what is in the way, with stacks */
	unsigned long long duration_ms; /* at least so long */
	enum cmwq_stall_kind kind;
};
/* The library asserts the same. */
CMWQ_ASSERT(sizeof(struct cmwq_stall) == 32);

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Has each thread of the library's that runs functions call start(data) before the first of them and exit(data) after the
 * last: for what every thread of a program has to be registered with, such as liburcu. Either may be null. While `start` has
 * not returned the thread runs nothing; it must not wait for items. Threads that are there when the process ends do not call
 * `exit`, but after cmwq_shutdown(). Before the library is first used, once: 0, or -EBUSY, which is said.
 */
int cmwq_set_thread_hooks(void (*start)(void *data), void (*exit)(void *data), void *data);

/*
 * Has stalls told to handler(stall, data) in place of standard error; null for that again. It is called on the watchdog's
 * thread, which looks at nothing meanwhile, with what is the library's when it has returned. When: parameter
 * watchdog_thresh, 30 s. The handler that was set before runs no more when this returns, unless it is the caller: so it is
 * waited for, and must not need what the caller holds.
 */
void cmwq_set_watchdog_handler(void (*handler)(const struct cmwq_stall *stall, void *data), void *data);

/*
 * Writes the statistics of all queues and pools, in the text format that Prometheus reads, as far as `size` bytes hold them
 * with a null behind, and returns the length of the whole text. Counters of queues of one name are added up and never fall.
 */
size_t cmwq_metrics(char *buf, size_t size);

/*
 * Around a wait that is known to be long: the calling worker is replaced at once. Blocking is noticed anyway, mostly within
 * tens of microseconds. Not for a call that mostly computes: another item would compute beside it. Sections nest. Outside of a
 * work function they do nothing.
 */
void cmwq_blocking_begin(void);
void cmwq_blocking_end(void);

/*
 * Makes the program say when grace periods of rcu_work are over: `call_rcu` calls func(head) when one is, `rcu_barrier`
 * waits for all such calls. Those of liburcu fit as they are, by a cast. Once, before the first queue_rcu_work(): 0; -EBUSY,
 * or -EINVAL for a null function, which are said. Sections of the <linux/rcupdate.h> beside this file are waited for besides.
 */
int cmwq_set_rcu(void (*call_rcu)(struct CMWQ_RCU_HEAD *head, void (*func)(struct CMWQ_RCU_HEAD *head)),
		 void (*rcu_barrier)(void));

/*
 * Writes the first `size` bytes of a queue's counters, with zeroes for what this library does not count, and returns
 * how many bytes it knows. `size` is sizeof(struct cmwq_stats) of the header the program was compiled with.
 */
size_t cmwq_workqueue_stats(struct workqueue_struct *wq, struct cmwq_stats *stats, size_t size);

/*
 * Parameters by name and text, as CMWQ_PARAMS="name=value" has them. They are read when the library is first used;
 * after that only default_affinity_scope, unbound_cpus, watchdog_thresh, panic_on_stall and panic_on_stall_time can be
 * set: 0, -EINVAL (no such parameter or value; what there is is said) or -EBUSY (too late). cmwq_param_get() returns the length of the text, of which `size` - 1 bytes
 * and a null are written, or -EINVAL.
 */
int cmwq_param_set(const char *name, const char *value);
int cmwq_param_get(const char *name, char *buf, size_t size);

/*
 * Lets what is queued finish, and all threads of the library leave: 0, or -EBUSY if something is not finished after
 * `timeout_ms` (0: now), or at once on a thread of the library: in a work function, or a hook. Nothing can be queued from
 * the call on, and timers are disarmed; functions of call_rcu() are called by whoever ends the last section. It may be
 * called again. A program need not call it before it ends; before the library is first used it does nothing. It is for main(),
 * not for a part of a program that goes: the queues of all of the process are closed, for good.
 */
int cmwq_shutdown(unsigned int timeout_ms);

/*
 * With CMWQ_DEBUG=objects: the memory is about to be freed. An item in it that is queued, or has its timer armed, is said
 * and taken back; the others are forgotten. A program calls it in its own free(), or wraps that of the linker:
 * see README.md. Without CMWQ_DEBUG it does nothing.
 */
void cmwq_debug_check_no_obj_freed(const void *address, size_t size);

#ifdef __cplusplus
}
#endif

#endif
