/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The Linux kernel's workqueues for any Linux program: the interface of the kernel's header of this name, on
 * top of libcmwq. What each function does is what the kernel says of it; what differs is said here.
 *
 * Queueing, cancelling and enabling without `_sync` may be called from any thread. Whatever waits counts as
 * blocking where a work function calls it: another worker takes over. An item stays where it is from the call
 * that queues it until its function is entered; nobody looks at it after that.
 *
 * Before this file is included a program may define
 *   CMWQ_HZ                ticks a second; 250 if it does not, or HZ if that is anything but 100: see <cmwq/hz.h>
 *   CMWQ_NO_KERNEL_SHIMS   it brings its own types, see <linux/workqueue_types.h>, and its own HZ
 * With a <linux/cpumask.h> of its own, workqueue attributes have masks of type struct cmwq_cpumask.
 */
#ifndef CMWQ_LINUX_WORKQUEUE_H
#define CMWQ_LINUX_WORKQUEUE_H

#include <stdarg.h>
#include <stdio.h>
#include <linux/workqueue_types.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <cmwq/hz.h>

/* Ours was included, and not a program's own that is earlier in the path. */
#ifdef CMWQ_NR_CPUS
#define CMWQ_CPUMASK cpumask
#else
/* 8192 CPUs, bit by bit. */
struct cmwq_cpumask {
	unsigned long bits[8192 / (8 * sizeof(long))];
};
#define CMWQ_CPUMASK cmwq_cpumask
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the work word */

/* What a queued item's word has above its colour is not a pointer; see WORK_STRUCT_PWQ_MASK. */
enum {
	WORK_STRUCT_PENDING_BIT = 0,
	WORK_STRUCT_INACTIVE_BIT = 1,
	WORK_STRUCT_PWQ_BIT = 2,
	WORK_STRUCT_LINKED_BIT = 3,
	WORK_STRUCT_FLAG_BITS = 4,
	WORK_STRUCT_COLOR_SHIFT = 4,
	WORK_STRUCT_COLOR_BITS = 4,
	WORK_STRUCT_PWQ_SHIFT = 8,

	WORK_OFFQ_FLAG_SHIFT = 4,
	WORK_OFFQ_BH_BIT = 4,
	WORK_OFFQ_FLAG_END = 5,
	WORK_OFFQ_FLAG_BITS = 1,
	WORK_OFFQ_DISABLE_SHIFT = 5,
	WORK_OFFQ_DISABLE_BITS = 16,
	WORK_OFFQ_POOL_SHIFT = 21,
	WORK_OFFQ_LEFT = 64 - 21,
	WORK_OFFQ_POOL_BITS = 31,

	WORK_STRUCT_PENDING = 1 << 0,
	WORK_STRUCT_INACTIVE = 1 << 1,
	WORK_STRUCT_PWQ = 1 << 2,
	WORK_STRUCT_LINKED = 1 << 3,
	/* Which items are static is seen otherwise: this bit is never set. */
	WORK_STRUCT_STATIC_BIT = 63,
	WORK_STRUCT_STATIC = 0,
	WORK_NR_COLORS = 16,

	/* No CPU in particular. Not the client's NR_CPUS, whatever that is. */
	WORK_CPU_UNBOUND = 8192,

	WORK_BUSY_PENDING = 1 << 0,
	WORK_BUSY_RUNNING = 1 << 1,
	WORKER_DESC_LEN = 32
};

/* Ids: of the pool in bits 8 to 31, and of the queue's place there in 32 to 63. */
#define WORK_STRUCT_PWQ_MASK (~((1UL << WORK_STRUCT_PWQ_SHIFT) - 1))
#define WORK_STRUCT_FLAG_MASK ((1UL << WORK_STRUCT_FLAG_BITS) - 1)
#define WORK_OFFQ_POOL_NONE ((1UL << WORK_OFFQ_POOL_BITS) - 1)
#define WORK_OFFQ_DISABLE_MASK (((1UL << WORK_OFFQ_DISABLE_BITS) - 1) << WORK_OFFQ_DISABLE_SHIFT)
#define WORK_OFFQ_BH (1UL << WORK_OFFQ_BH_BIT)
#define WORK_OFFQ_FLAG_MASK WORK_OFFQ_BH
#define WORK_STRUCT_NO_POOL (WORK_OFFQ_POOL_NONE << WORK_OFFQ_POOL_SHIFT)
#define WORK_DATA_INIT() { (long)WORK_STRUCT_NO_POOL }
#define WORK_DATA_STATIC_INIT() WORK_DATA_INIT()
#define work_data_bits(work) ((unsigned long *)(void *)&(work)->data)
/* TIMER_DEFERRABLE, whoever brings that. */
#define CMWQ_DEFERRABLE 0x00080000U

/* ---- flags, limits, scopes */

enum wq_flags {
	WQ_BH = 1 << 0,
	WQ_UNBOUND = 1 << 1,
	WQ_FREEZABLE = 1 << 2,
	WQ_MEM_RECLAIM = 1 << 3,
	WQ_HIGHPRI = 1 << 4,
	WQ_CPU_INTENSIVE = 1 << 5,
	/* Its attributes can be changed by its name, with `cmwq set`; which is then no other queue's. */
	WQ_SYSFS = 1 << 6,
	WQ_POWER_EFFICIENT = 1 << 7,
	WQ_PERCPU = 1 << 8,

	__WQ_DESTROYING = 1 << 15,
	__WQ_DRAINING = 1 << 16,
	__WQ_ORDERED = 1 << 17,
	__WQ_LEGACY = 1 << 18,
	__WQ_DEPRECATED = 1 << 19,
	__WQ_BH_ALLOWS = (1 << 0) | (1 << 4) | (1 << 8)
};

enum wq_consts {
	WQ_MAX_ACTIVE = 2048,
	WQ_UNBOUND_MAX_ACTIVE = 2048,
	WQ_DFL_ACTIVE = 1024,
	WQ_DFL_MIN_ACTIVE = 8
};

enum wq_affn_scope {
	WQ_AFFN_DFL,
	WQ_AFFN_CPU,
	WQ_AFFN_SMT,
	WQ_AFFN_CACHE,
	WQ_AFFN_CACHE_SHARD,
	WQ_AFFN_NUMA,
	WQ_AFFN_SYSTEM,
	WQ_AFFN_NR_TYPES
};

/*
 * Only ever made by alloc_workqueue_attrs(). `ordered` is ignored: an ordered queue stays ordered. The last two are
 * libcmwq's: SCHED_FIFO or SCHED_RR and a priority from 1 to 99, with nice 0, for workers that run so; 0 and 0 for
 * those that do not. Queues with equal attributes share workers.
 */
struct workqueue_attrs {
	int nice;
	struct CMWQ_CPUMASK *cpumask;
	struct CMWQ_CPUMASK *__pod_cpumask;
	bool affn_strict;
	enum wq_affn_scope affn_scope;
	bool ordered;
	unsigned char cmwq_policy;
	unsigned char cmwq_rt_priority;
};
/* Not with -fshort-enums. */
CMWQ_ASSERT(sizeof(enum wq_affn_scope) == 4);
/* The library asserts the same. */
CMWQ_ASSERT(sizeof(struct workqueue_attrs) == 40);
CMWQ_ASSERT(sizeof(struct CMWQ_CPUMASK) == 1024);
CMWQ_ASSERT(offsetof(struct workqueue_attrs, nice) == 0);
CMWQ_ASSERT(offsetof(struct workqueue_attrs, cpumask) == 8);
CMWQ_ASSERT(offsetof(struct workqueue_attrs, __pod_cpumask) == 16);
CMWQ_ASSERT(offsetof(struct workqueue_attrs, affn_strict) == 24);
CMWQ_ASSERT(offsetof(struct workqueue_attrs, affn_scope) == 28);
CMWQ_ASSERT(offsetof(struct workqueue_attrs, ordered) == 32);
CMWQ_ASSERT(offsetof(struct workqueue_attrs, cmwq_policy) == 33);
CMWQ_ASSERT(offsetof(struct workqueue_attrs, cmwq_rt_priority) == 34);

/* ---- the system's queues: usable from the first instruction on, made on first use */

extern struct workqueue_struct *system_wq; /* deprecated */
extern struct workqueue_struct *system_percpu_wq;
extern struct workqueue_struct *system_highpri_wq;
extern struct workqueue_struct *system_long_wq;
extern struct workqueue_struct *system_unbound_wq; /* deprecated */
extern struct workqueue_struct *system_dfl_wq;
extern struct workqueue_struct *system_dfl_long_wq;
extern struct workqueue_struct *system_freezable_wq;
extern struct workqueue_struct *system_power_efficient_wq;
extern struct workqueue_struct *system_freezable_power_efficient_wq;
extern struct workqueue_struct *system_bh_wq;
extern struct workqueue_struct *system_bh_highpri_wq;

/* ---- items */

/*
 * What CMWQ_DEBUG=objects follows. INIT_* call the first; what was initialised on a stack is to be given to one of
 * the others before the frame is left. See cmwq_debug_check_no_obj_freed() in <cmwq.h> for memory that is freed.
 */
void __init_work(struct work_struct *work, int onstack);
void destroy_work_on_stack(struct work_struct *work);
void destroy_delayed_work_on_stack(struct delayed_work *dwork);

static inline void cmwq_set_work(struct work_struct *work, work_func_t func, int onstack)
{
	__init_work(work, onstack);
	*work_data_bits(work) = WORK_STRUCT_NO_POOL;
	work->entry.next = &work->entry;
	work->entry.prev = &work->entry;
	work->func = func;
}

static inline void cmwq_set_delayed_work(struct delayed_work *dwork, work_func_t func, int onstack,
					 unsigned int tflags)
{
	cmwq_set_work(&dwork->work, func, onstack);
	dwork->timer.cmwq_entry.next = NULL;
	dwork->timer.cmwq_entry.prev = NULL;
	dwork->timer.cmwq_due = 0;
	dwork->timer.cmwq_tag = 0;
	dwork->timer.cmwq_slot = 0;
	dwork->timer.cmwq_deferrable = (tflags & CMWQ_DEFERRABLE) != 0;
	dwork->timer.cmwq_pad = 0;
	dwork->timer.expires = 0;
	dwork->timer.function = NULL;
	dwork->wq = NULL;
	dwork->cpu = 0;
}

static inline void cmwq_set_rcu_work(struct rcu_work *rwork, work_func_t func, int onstack)
{
	/* The other bit says what kind of item it is. */
	cmwq_set_work(&rwork->work, func, onstack | 2);
	rwork->rcu.next = NULL;
	rwork->rcu.func = NULL;
	rwork->wq = NULL;
	rwork->cmwq_refused = NULL;
}

/* The same as functions, for other languages than C. */
void cmwq_init_work(struct work_struct *work, work_func_t func);
void cmwq_init_delayed_work(struct delayed_work *dwork, work_func_t func, bool deferrable);
void cmwq_init_rcu_work(struct rcu_work *rwork, work_func_t func);

#define __INIT_WORK(_work, _func, _onstack) cmwq_set_work((_work), (_func), (_onstack))
#define __INIT_WORK_KEY(_work, _func, _onstack, _key) cmwq_set_work((_work), (_func), (_onstack))
#define INIT_WORK(_work, _func) cmwq_set_work((_work), (_func), 0)
#define INIT_WORK_ONSTACK(_work, _func) cmwq_set_work((_work), (_func), 1)
#define INIT_WORK_ONSTACK_KEY(_work, _func, _key) cmwq_set_work((_work), (_func), 1)
#define __INIT_DELAYED_WORK(_dwork, _func, _tflags) \
	cmwq_set_delayed_work((_dwork), (_func), 0, (_tflags))
#define __INIT_DELAYED_WORK_ONSTACK(_dwork, _func, _tflags) \
	cmwq_set_delayed_work((_dwork), (_func), 1, (_tflags))
#define INIT_DELAYED_WORK(_dwork, _func) cmwq_set_delayed_work((_dwork), (_func), 0, 0)
#define INIT_DELAYED_WORK_ONSTACK(_dwork, _func) cmwq_set_delayed_work((_dwork), (_func), 1, 0)
#define INIT_DEFERRABLE_WORK(_dwork, _func) \
	cmwq_set_delayed_work((_dwork), (_func), 0, CMWQ_DEFERRABLE)
#define INIT_DEFERRABLE_WORK_ONSTACK(_dwork, _func) \
	cmwq_set_delayed_work((_dwork), (_func), 1, CMWQ_DEFERRABLE)
#define INIT_RCU_WORK(_rwork, _func) cmwq_set_rcu_work((_rwork), (_func), 0)
#define INIT_RCU_WORK_ONSTACK(_rwork, _func) cmwq_set_rcu_work((_rwork), (_func), 1)

#define __WORK_INITIALIZER(n, f) { WORK_DATA_STATIC_INIT(), { &(n).entry, &(n).entry }, (f) }
#define CMWQ_TIMER_INITIALIZER(deferrable) \
	{ { NULL, NULL }, 0, 0, 0, (deferrable), 0, 0, NULL }
#define __DELAYED_WORK_INITIALIZER(n, f, tflags)                                                 \
	{ __WORK_INITIALIZER((n).work, (f)), CMWQ_TIMER_INITIALIZER(((tflags) & CMWQ_DEFERRABLE) != 0), \
	  NULL, 0 }
#define DECLARE_WORK(n, f) struct work_struct n = __WORK_INITIALIZER(n, f)
#define DECLARE_DELAYED_WORK(n, f) struct delayed_work n = __DELAYED_WORK_INITIALIZER(n, f, 0U)
#define DECLARE_DEFERRABLE_WORK(n, f) struct delayed_work n = __DELAYED_WORK_INITIALIZER(n, f, CMWQ_DEFERRABLE)

/* Whether it was declared with DECLARE_WORK is not to be seen: what was not initialised is taken for that. */
static inline unsigned int work_static(struct work_struct *work)
{
	(void)work;
	return WORK_STRUCT_STATIC;
}

static inline struct delayed_work *to_delayed_work(struct work_struct *work)
{
	return (struct delayed_work *)(void *)work;
}

static inline struct rcu_work *to_rcu_work(struct work_struct *work)
{
	return (struct rcu_work *)(void *)work;
}

/* As with container_of, in C another pointer than one to such a member does not compile. */
#ifdef CMWQ_IS_TO_MEMBER
#define from_work(var, callback_work, work_fieldname) container_of(callback_work, __typeof__(*(var)), work_fieldname)
#else
#define from_work(var, callback_work, work_fieldname)                     \
	((__typeof__(var))(void *)((char *)(void *)(callback_work) -      \
				   offsetof(__typeof__(*(var)), work_fieldname)))
#endif

/* Whether it is queued, or its timer is armed, and its function was not entered yet. In a forked child also by the parent. */
static inline bool cmwq_work_pending(const struct work_struct *work)
{
	const long *data = (const long *)(const void *)&work->data;

	return (__atomic_load_n(data, __ATOMIC_RELAXED) & WORK_STRUCT_PENDING) != 0;
}

#define work_pending(_work) cmwq_work_pending(_work)
#define delayed_work_pending(_dwork) cmwq_work_pending(&(_dwork)->work)

/* ---- queues */

/* The name is shortened to 31 bytes. NULL is said why on standard error. */
struct workqueue_struct *cmwq_alloc_workqueue(const char *name, unsigned int flags, int max_active);

__attribute__((format(printf, 1, 4), warn_unused_result)) static inline struct workqueue_struct *
alloc_workqueue(const char *fmt, unsigned int flags, int max_active, ...)
{
	char name[128];
	va_list args;

	va_start(args, max_active);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	return cmwq_alloc_workqueue(name, flags, max_active);
}

__attribute__((format(printf, 1, 3), warn_unused_result)) static inline struct workqueue_struct *
alloc_ordered_workqueue(const char *fmt, unsigned int flags, ...)
{
	char name[128];
	va_list args;

	va_start(args, flags);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	return cmwq_alloc_workqueue(name, WQ_UNBOUND | __WQ_ORDERED | flags, 1);
}

/* There is no lockdep: the map is not looked at. */
struct lockdep_map;
struct lock_class_key;

__attribute__((format(printf, 1, 5), warn_unused_result)) static inline struct workqueue_struct *
alloc_workqueue_lockdep_map(const char *fmt, unsigned int flags, int max_active,
			    struct lockdep_map *lockdep_map, ...)
{
	char name[128];
	va_list args;

	(void)lockdep_map;
	va_start(args, lockdep_map);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	return cmwq_alloc_workqueue(name, flags, max_active);
}

__attribute__((format(printf, 1, 4), warn_unused_result)) static inline struct workqueue_struct *
alloc_ordered_workqueue_lockdep_map(const char *fmt, unsigned int flags,
				    struct lockdep_map *lockdep_map, ...)
{
	char name[128];
	va_list args;

	(void)lockdep_map;
	va_start(args, lockdep_map);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	return cmwq_alloc_workqueue(name, WQ_UNBOUND | __WQ_ORDERED | flags, 1);
}

#define alloc_workqueue_noprof alloc_workqueue
#define alloc_workqueue_lockdep_map_noprof alloc_workqueue_lockdep_map
#define create_workqueue(name) \
	alloc_workqueue("%s", __WQ_LEGACY | WQ_MEM_RECLAIM | WQ_PERCPU, 1, (name))
#define create_freezable_workqueue(name) \
	alloc_workqueue("%s", __WQ_LEGACY | WQ_FREEZABLE | WQ_UNBOUND | WQ_MEM_RECLAIM, 1, (name))
#define create_singlethread_workqueue(name) \
	alloc_ordered_workqueue("%s", __WQ_LEGACY | WQ_MEM_RECLAIM, (name))

/*
 * Waits for all items, also for those somebody still flushes, where the kernel would leak the queue. Armed timers are not
 * waited for: cancel them before; one that expires later finds its item refused, and that is said. So is queueing on one of
 * the 64 queues that were destroyed last, and destroying it again, while it is being destroyed as well, which does nothing.
 */
void destroy_workqueue(struct workqueue_struct *wq);

/*
 * Queues that go with a device. CMWQ_DEVM_ADD_ACTION(dev, action, data) is devm_add_action_or_reset() of a program
 * that has one and defines the macro so; else the device is an address that cmwq_devres_release_all() (or
 * devres_release_all() of the <linux/device.h> beside this file) takes to the same end.
 */
struct device;
#ifndef CMWQ_DEVM_ADD_ACTION
int cmwq_devm_add_action(void *dev, void (*action)(void *), void *data);
int cmwq_devres_release_all(void *dev);
#define CMWQ_DEVM_ADD_ACTION(dev, action, data) cmwq_devm_add_action((dev), (action), (data))
#endif

static inline void cmwq_destroy_with_device(void *wq)
{
	destroy_workqueue((struct workqueue_struct *)wq);
}

static inline struct workqueue_struct *cmwq_keep_with_device(struct device *dev,
							     struct workqueue_struct *wq)
{
	/* It fails in a handler of a fork only, which cannot end a queue either. */
	if (wq != NULL && CMWQ_DEVM_ADD_ACTION(dev, cmwq_destroy_with_device, wq) != 0)
		return NULL;
	return wq;
}

__attribute__((format(printf, 2, 5), warn_unused_result)) static inline struct workqueue_struct *
devm_alloc_workqueue(struct device *dev, const char *fmt, unsigned int flags, int max_active, ...)
{
	char name[128];
	va_list args;

	va_start(args, max_active);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	return cmwq_keep_with_device(dev, cmwq_alloc_workqueue(name, flags, max_active));
}

__attribute__((format(printf, 2, 4), warn_unused_result)) static inline struct workqueue_struct *
devm_alloc_ordered_workqueue(struct device *dev, const char *fmt, unsigned int flags, ...)
{
	char name[128];
	va_list args;

	va_start(args, flags);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	flags |= WQ_UNBOUND | __WQ_ORDERED;
	return cmwq_keep_with_device(dev, cmwq_alloc_workqueue(name, flags, 1));
}

#define devm_alloc_workqueue_noprof devm_alloc_workqueue

void workqueue_set_max_active(struct workqueue_struct *wq, int max_active);
void workqueue_set_min_active(struct workqueue_struct *wq, int min_active);
bool workqueue_congested(int cpu, struct workqueue_struct *wq);

struct workqueue_attrs *alloc_workqueue_attrs(void);
void free_workqueue_attrs(struct workqueue_attrs *attrs);
/* Also -EPERM, for a niceness or policy that the process may not have: the queue keeps what it had. */
int apply_workqueue_attrs(struct workqueue_struct *wq, const struct workqueue_attrs *attrs);
#define alloc_workqueue_attrs_noprof alloc_workqueue_attrs
/* As WQ_SYSFS, later: 0, or -EEXIST. There are no files: apply_workqueue_attrs() and `cmwq set` do what those do. */
int workqueue_sysfs_register(struct workqueue_struct *wq);
/*
 * Unbound queues use, of the CPUs that they were to use when this was called first, those in `hk`; all of them, if
 * that leaves none. Also -EINVAL, for CPUs that the process does not have, and -ENOMEM, if no thread is available for the
 * first use of the library.
 */
int workqueue_unbound_housekeeping_update(const struct CMWQ_CPUMASK *hk);
/* The same, by those that they are not to use: what the kernel had before. */
int workqueue_unbound_exclude_cpumask(const struct CMWQ_CPUMASK *exclude);

/* ---- queueing */

bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work);
bool queue_work_node(int node, struct workqueue_struct *wq, struct work_struct *work);
bool queue_work(struct workqueue_struct *wq, struct work_struct *work);
bool enable_and_queue_work(struct workqueue_struct *wq, struct work_struct *work);
bool cmwq_queue_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork,
				unsigned long delay, unsigned int hz);
bool cmwq_mod_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork,
			      unsigned long delay, unsigned int hz);
/* In the library these count 250 jiffies a second. */
bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork,
			   unsigned long delay);
bool mod_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork,
			 unsigned long delay);

#if CMWQ_HZ != 250
static inline bool cmwq_hz_queue_delayed_work_on(int cpu, struct workqueue_struct *wq,
						 struct delayed_work *dwork, unsigned long delay)
{
	return cmwq_queue_delayed_work_on(cpu, wq, dwork, delay, CMWQ_HZ);
}

static inline bool cmwq_hz_mod_delayed_work_on(int cpu, struct workqueue_struct *wq,
					       struct delayed_work *dwork, unsigned long delay)
{
	return cmwq_mod_delayed_work_on(cpu, wq, dwork, delay, CMWQ_HZ);
}
#define queue_delayed_work_on cmwq_hz_queue_delayed_work_on
#define mod_delayed_work_on cmwq_hz_mod_delayed_work_on
#endif

static inline bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *dwork,
				      unsigned long delay)
{
	return queue_delayed_work_on(WORK_CPU_UNBOUND, wq, dwork, delay);
}

static inline bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *dwork,
				    unsigned long delay)
{
	return mod_delayed_work_on(WORK_CPU_UNBOUND, wq, dwork, delay);
}

static inline bool schedule_work_on(int cpu, struct work_struct *work)
{
	return queue_work_on(cpu, system_percpu_wq, work);
}

static inline bool schedule_work(struct work_struct *work)
{
	return queue_work(system_percpu_wq, work);
}

static inline bool schedule_delayed_work_on(int cpu, struct delayed_work *dwork, unsigned long delay)
{
	return queue_delayed_work_on(cpu, system_percpu_wq, dwork, delay);
}

static inline bool schedule_delayed_work(struct delayed_work *dwork, unsigned long delay)
{
	return queue_delayed_work(system_percpu_wq, dwork, delay);
}

/*
 * After a grace period: of rcu_read_lock() in <linux/rcupdate.h>, and of whoever told cmwq_set_rcu(). It can neither be
 * cancelled nor disabled; a disabled one is not queued, and that is said.
 */
bool queue_rcu_work(struct workqueue_struct *wq, struct rcu_work *rwork);
/* Queues an item whose timer is armed now. The library calls no function of timers. */
void delayed_work_timer_fn(struct CMWQ_TIMER *timer);

/* On all CPUs that the process may use. */
int schedule_on_each_cpu(work_func_t func);
int execute_in_process_context(work_func_t func, struct execute_work *ew);
long work_on_cpu(int cpu, long (*func)(void *), void *arg);
#define work_on_cpu_key(cpu, func, arg, key) ((void)(key), work_on_cpu(cpu, func, arg))
/* -ENODEV, and nothing is called, if the process may not use the CPU now. */
long work_on_cpu_safe(int cpu, long (*func)(void *), void *arg);
#define work_on_cpu_safe_key(cpu, func, arg, key) ((void)(key), work_on_cpu_safe(cpu, func, arg))

/* ---- flushing, cancelling, disabling; an item that would wait for itself does not, and that is said */

void __flush_workqueue(struct workqueue_struct *wq);
void drain_workqueue(struct workqueue_struct *wq);
bool flush_work(struct work_struct *work);
bool flush_delayed_work(struct delayed_work *dwork);
bool flush_rcu_work(struct rcu_work *rwork);

bool cancel_work(struct work_struct *work);
bool cancel_work_sync(struct work_struct *work);
bool cancel_delayed_work(struct delayed_work *dwork);
bool cancel_delayed_work_sync(struct delayed_work *dwork);

bool disable_work(struct work_struct *work);
bool disable_work_sync(struct work_struct *work);
bool enable_work(struct work_struct *work);
bool disable_delayed_work(struct delayed_work *dwork);
bool disable_delayed_work_sync(struct delayed_work *dwork);
bool enable_delayed_work(struct delayed_work *dwork);

void __warn_flushing_systemwide_wq(void)
	__attribute__((warning("a system-wide workqueue is flushed; use a queue of your own")));

/* Whether the compiler sees that `wq` is this system queue. */
#define CMWQ_IS_KNOWN(wq, system) (__builtin_constant_p((wq) == (system)) && (wq) == (system))

/* As there, system_wq and system_unbound_wq are not told apart from a program's own. */
#define flush_workqueue(wq)                                                           \
	__extension__({                                                               \
		struct workqueue_struct *cmwq_flushed = (wq);                         \
                                                                                      \
		if (CMWQ_IS_KNOWN(cmwq_flushed, system_percpu_wq) ||                  \
		    CMWQ_IS_KNOWN(cmwq_flushed, system_highpri_wq) ||                 \
		    CMWQ_IS_KNOWN(cmwq_flushed, system_long_wq) ||                    \
		    CMWQ_IS_KNOWN(cmwq_flushed, system_dfl_long_wq) ||                \
		    CMWQ_IS_KNOWN(cmwq_flushed, system_dfl_wq) ||                     \
		    CMWQ_IS_KNOWN(cmwq_flushed, system_freezable_wq) ||               \
		    CMWQ_IS_KNOWN(cmwq_flushed, system_power_efficient_wq) ||         \
		    CMWQ_IS_KNOWN(cmwq_flushed, system_freezable_power_efficient_wq)) \
			__warn_flushing_systemwide_wq();                              \
		__flush_workqueue(cmwq_flushed);                                      \
	})

#define flush_scheduled_work()                         \
	__extension__({                                \
		__warn_flushing_systemwide_wq();       \
		__flush_workqueue(system_percpu_wq);   \
	})

/* ---- asking */

unsigned int work_busy(struct work_struct *work);
struct work_struct *current_work(void);
/*
 * The function of the item that the calling thread runs, or null: what a worker's current_func is in the kernel. The item
 * itself may be gone. BH items count.
 */
work_func_t cmwq_current_func(void);
bool current_is_workqueue_rescuer(void);
bool current_is_workqueue_mem_reclaim(void);

/*
 * On standard error, as the kernel prints them: queues with something to do, where, who runs what, what waits;
 * functions by name, if the program was linked with -rdynamic or they are in a shared library.
 */
void show_all_workqueues(void);
void show_freezable_workqueues(void);
void show_one_workqueue(struct workqueue_struct *wq);

/*
 * A task is a thread of this process: what cmwq_task() makes of its id, or for the calling thread any other pointer.
 * print_worker_info() prints what a worker runs, if it runs something; wq_worker_comm() writes its name in full.
 */
struct task_struct;
struct task_struct *cmwq_task(int tid);
void print_worker_info(const char *log_lvl, struct task_struct *task);
void wq_worker_comm(char *buf, size_t size, struct task_struct *task);

void freeze_workqueues_begin(void);
bool freeze_workqueues_busy(void);
void thaw_workqueues(void);

/* At most 31 bytes are kept. Outside of a work function it does nothing. */
void cmwq_set_worker_desc(const char *desc);

__attribute__((format(printf, 1, 2))) static inline void set_worker_desc(const char *fmt, ...)
{
	char desc[WORKER_DESC_LEN];
	va_list args;

	va_start(args, fmt);
	vsnprintf(desc, sizeof(desc), fmt, args);
	va_end(args);
	cmwq_set_worker_desc(desc);
}

/* ---- what the kernel's core calls; a program has no need to */

/* The library starts with the first queue that is used; workqueue_init() starts it now. */
void workqueue_init_early(void);
void workqueue_init(void);
void workqueue_init_topology(void);

/* CPUs that leave and return are noticed; these look at once. */
int workqueue_prepare_cpu(unsigned int cpu);
int workqueue_online_cpu(unsigned int cpu);
int workqueue_offline_cpu(unsigned int cpu);

/* As cmwq_blocking_end() and cmwq_blocking_begin(), of the calling worker. */
void wq_worker_running(struct task_struct *task);
void wq_worker_sleeping(struct task_struct *task);
/* What a worker's last item but the running one was, or null. */
work_func_t wq_worker_last_func(struct task_struct *task);

/* These do nothing: threads of the library run BH items and look for hogs. */
void workqueue_softirq_action(bool highpri);
void workqueue_softirq_dead(unsigned int cpu);
/* Long waits are in order: of the per-CPU pools of a CPU, or with -1 of what belongs to none. */
void wq_watchdog_touch(int cpu);
void wq_worker_tick(struct task_struct *task);

#ifdef __cplusplus
}
#endif

#endif
