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
 *   HZ                     ticks a second, a number the preprocessor can compare; 250 if it does not
 *   CMWQ_NO_KERNEL_SHIMS   it brings its own types, see <linux/workqueue_types.h>, and its own HZ; workqueue
 *                          attributes then have masks of type struct cmwq_cpumask
 */
#ifndef CMWQ_LINUX_WORKQUEUE_H
#define CMWQ_LINUX_WORKQUEUE_H

#include <stdarg.h>
#include <stdio.h>
#include <linux/workqueue_types.h>

#ifndef CMWQ_NO_KERNEL_SHIMS
#include <linux/cpumask.h>
#include <linux/jiffies.h>
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

enum {
	WORK_STRUCT_PENDING_BIT = 0,
	WORK_STRUCT_INACTIVE_BIT = 1,
	WORK_STRUCT_PWQ_BIT = 2,
	WORK_STRUCT_LINKED_BIT = 3,
	WORK_STRUCT_FLAG_BITS = 4,
	WORK_STRUCT_COLOR_SHIFT = 4,
	WORK_STRUCT_COLOR_BITS = 4,
	WORK_STRUCT_PWQ_SHIFT = 8,

	WORK_OFFQ_BH_BIT = 4,
	WORK_OFFQ_DISABLE_SHIFT = 5,
	WORK_OFFQ_DISABLE_BITS = 16,
	WORK_OFFQ_POOL_SHIFT = 21,
	WORK_OFFQ_POOL_BITS = 31,

	WORK_STRUCT_PENDING = 1 << 0,
	WORK_STRUCT_INACTIVE = 1 << 1,
	WORK_STRUCT_PWQ = 1 << 2,
	WORK_STRUCT_LINKED = 1 << 3,
	WORK_NR_COLORS = 16,

	/* No CPU in particular. Not the client's NR_CPUS, whatever that is. */
	WORK_CPU_UNBOUND = 8192,

	WORK_BUSY_PENDING = 1 << 0,
	WORK_BUSY_RUNNING = 1 << 1,
	WORKER_DESC_LEN = 32
};

#define WORK_OFFQ_POOL_NONE ((1UL << WORK_OFFQ_POOL_BITS) - 1)
#define WORK_OFFQ_DISABLE_MASK (((1UL << WORK_OFFQ_DISABLE_BITS) - 1) << WORK_OFFQ_DISABLE_SHIFT)
#define WORK_OFFQ_BH (1UL << WORK_OFFQ_BH_BIT)
#define WORK_OFFQ_FLAG_MASK WORK_OFFQ_BH
#define WORK_STRUCT_NO_POOL (WORK_OFFQ_POOL_NONE << WORK_OFFQ_POOL_SHIFT)
#define WORK_DATA_INIT() { (long)WORK_STRUCT_NO_POOL }
#define WORK_DATA_STATIC_INIT() WORK_DATA_INIT()
#define work_data_bits(work) ((long *)(void *)&(work)->data)

/* ---- flags, limits, scopes */

enum wq_flags {
	WQ_BH = 1 << 0,
	WQ_UNBOUND = 1 << 1,
	WQ_FREEZABLE = 1 << 2,
	WQ_MEM_RECLAIM = 1 << 3,
	WQ_HIGHPRI = 1 << 4,
	WQ_CPU_INTENSIVE = 1 << 5,
	/* Taken and without effect. */
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

/* Only ever made by alloc_workqueue_attrs(). `ordered` is ignored: an ordered queue stays ordered. */
struct workqueue_attrs {
	int nice;
	struct CMWQ_CPUMASK *cpumask;
	struct CMWQ_CPUMASK *__pod_cpumask;
	bool affn_strict;
	enum wq_affn_scope affn_scope;
	bool ordered;
};
CMWQ_ASSERT(sizeof(struct workqueue_attrs) == 40);

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

static inline void cmwq_init_work(struct work_struct *work, work_func_t func)
{
	*work_data_bits(work) = (long)WORK_STRUCT_NO_POOL;
	work->entry.next = &work->entry;
	work->entry.prev = &work->entry;
	work->func = func;
}

static inline void cmwq_init_delayed_work(struct delayed_work *dwork, work_func_t func, bool deferrable)
{
	cmwq_init_work(&dwork->work, func);
	dwork->timer.cmwq_entry.next = NULL;
	dwork->timer.cmwq_entry.prev = NULL;
	dwork->timer.cmwq_due = 0;
	dwork->timer.cmwq_slot = 0;
	dwork->timer.cmwq_deferrable = deferrable;
	dwork->timer.expires = 0;
	dwork->timer.cmwq_refused = NULL;
	dwork->wq = NULL;
	dwork->cpu = 0;
}

#define __INIT_WORK(_work, _func, _onstack) cmwq_init_work((_work), (_func))
#define INIT_WORK(_work, _func) cmwq_init_work((_work), (_func))
#define INIT_WORK_ONSTACK(_work, _func) cmwq_init_work((_work), (_func))
#define __INIT_WORK_KEY(_work, _func, _onstack, _key) cmwq_init_work((_work), (_func))
#define INIT_WORK_ONSTACK_KEY(_work, _func, _key) cmwq_init_work((_work), (_func))
#define __INIT_DELAYED_WORK(_dwork, _func, _tflags) \
	cmwq_init_delayed_work((_dwork), (_func), ((_tflags) & 0x00080000U) != 0)
#define __INIT_DELAYED_WORK_ONSTACK(_dwork, _func, _tflags) __INIT_DELAYED_WORK(_dwork, _func, _tflags)
#define INIT_DELAYED_WORK(_dwork, _func) cmwq_init_delayed_work((_dwork), (_func), false)
#define INIT_DELAYED_WORK_ONSTACK(_dwork, _func) cmwq_init_delayed_work((_dwork), (_func), false)
#define INIT_DEFERRABLE_WORK(_dwork, _func) cmwq_init_delayed_work((_dwork), (_func), true)
#define INIT_DEFERRABLE_WORK_ONSTACK(_dwork, _func) cmwq_init_delayed_work((_dwork), (_func), true)

#define __WORK_INITIALIZER(n, f) { WORK_DATA_STATIC_INIT(), { &(n).entry, &(n).entry }, (f) }
#define CMWQ_TIMER_INITIALIZER(deferrable) \
	{ { NULL, NULL }, 0, 0, (deferrable), { 0, 0, 0, 0, 0 }, 0, NULL }
#define __DELAYED_WORK_INITIALIZER(n, f, tflags)                                                 \
	{ __WORK_INITIALIZER((n).work, (f)), CMWQ_TIMER_INITIALIZER(((tflags) & 0x00080000U) != 0), \
	  NULL, 0 }
#define DECLARE_WORK(n, f) struct work_struct n = __WORK_INITIALIZER(n, f)
#define DECLARE_DELAYED_WORK(n, f) struct delayed_work n = __DELAYED_WORK_INITIALIZER(n, f, 0U)
#define DECLARE_DEFERRABLE_WORK(n, f) struct delayed_work n = __DELAYED_WORK_INITIALIZER(n, f, 0x00080000U)

/* Nobody checks the lives of objects here: these do nothing. */
static inline void __init_work(struct work_struct *work, int onstack)
{
	(void)work;
	(void)onstack;
}

static inline unsigned int work_static(struct work_struct *work)
{
	(void)work;
	return 0;
}

static inline void destroy_work_on_stack(struct work_struct *work)
{
	(void)work;
}

static inline void destroy_delayed_work_on_stack(struct delayed_work *dwork)
{
	(void)dwork;
}

static inline struct delayed_work *to_delayed_work(struct work_struct *work)
{
	return (struct delayed_work *)(void *)work;
}

#define from_work(var, callback_work, work_fieldname)                     \
	((__typeof__(var))(void *)((char *)(void *)(callback_work) -      \
				   offsetof(__typeof__(*(var)), work_fieldname)))

/* Whether it is queued, or its timer is armed, and its function was not entered yet. */
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

#define alloc_workqueue_noprof alloc_workqueue
#define create_workqueue(name) \
	alloc_workqueue("%s", __WQ_LEGACY | WQ_MEM_RECLAIM | WQ_PERCPU, 1, (name))
#define create_freezable_workqueue(name) \
	alloc_workqueue("%s", __WQ_LEGACY | WQ_FREEZABLE | WQ_UNBOUND | WQ_MEM_RECLAIM, 1, (name))
#define create_singlethread_workqueue(name) \
	alloc_ordered_workqueue("%s", __WQ_LEGACY | WQ_MEM_RECLAIM, (name))

/*
 * Waits for all items, also for those somebody still flushes, where the kernel would leak the queue. Armed timers are not
 * waited for: cancel them before; one that expires later finds its item refused, and that is said. So is queueing on one of
 * the 64 queues that were destroyed last.
 */
void destroy_workqueue(struct workqueue_struct *wq);
void workqueue_set_max_active(struct workqueue_struct *wq, int max_active);
void workqueue_set_min_active(struct workqueue_struct *wq, int min_active);
bool workqueue_congested(int cpu, struct workqueue_struct *wq);

struct workqueue_attrs *alloc_workqueue_attrs(void);
void free_workqueue_attrs(struct workqueue_attrs *attrs);
/* Also -EPERM, for a niceness that the process may not have. */
int apply_workqueue_attrs(struct workqueue_struct *wq, const struct workqueue_attrs *attrs);

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

#if HZ != 250
static inline bool cmwq_hz_queue_delayed_work_on(int cpu, struct workqueue_struct *wq,
						 struct delayed_work *dwork, unsigned long delay)
{
	return cmwq_queue_delayed_work_on(cpu, wq, dwork, delay, HZ);
}

static inline bool cmwq_hz_mod_delayed_work_on(int cpu, struct workqueue_struct *wq,
					       struct delayed_work *dwork, unsigned long delay)
{
	return cmwq_mod_delayed_work_on(cpu, wq, dwork, delay, HZ);
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

/* On all CPUs that the process may use. */
int schedule_on_each_cpu(work_func_t func);
int execute_in_process_context(work_func_t func, struct execute_work *ew);
long work_on_cpu(int cpu, long (*func)(void *), void *arg);
#define work_on_cpu_key(cpu, func, arg, key) work_on_cpu(cpu, func, arg)

/* ---- flushing, cancelling, disabling; an item that would wait for itself does not, and that is said */

void __flush_workqueue(struct workqueue_struct *wq);
void drain_workqueue(struct workqueue_struct *wq);
bool flush_work(struct work_struct *work);
bool flush_delayed_work(struct delayed_work *dwork);

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

#define flush_workqueue(wq)                                                        \
	do {                                                                       \
		struct workqueue_struct *_wq = (wq);                               \
                                                                                   \
		if (CMWQ_IS_KNOWN(_wq, system_percpu_wq) ||                        \
		    CMWQ_IS_KNOWN(_wq, system_highpri_wq) ||                       \
		    CMWQ_IS_KNOWN(_wq, system_long_wq) ||                          \
		    CMWQ_IS_KNOWN(_wq, system_dfl_long_wq) ||                      \
		    CMWQ_IS_KNOWN(_wq, system_dfl_wq) ||                           \
		    CMWQ_IS_KNOWN(_wq, system_freezable_wq) ||                     \
		    CMWQ_IS_KNOWN(_wq, system_power_efficient_wq) ||               \
		    CMWQ_IS_KNOWN(_wq, system_freezable_power_efficient_wq))       \
			__warn_flushing_systemwide_wq();                           \
		__flush_workqueue(_wq);                                            \
	} while (0)

#define flush_scheduled_work()                         \
	do {                                           \
		__warn_flushing_systemwide_wq();       \
		__flush_workqueue(system_percpu_wq);   \
	} while (0)

/* ---- asking */

unsigned int work_busy(struct work_struct *work);
struct work_struct *current_work(void);
bool current_is_workqueue_rescuer(void);
bool current_is_workqueue_mem_reclaim(void);

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

#ifdef __cplusplus
}
#endif

#endif
