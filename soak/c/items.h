/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stations of the soak in C: a queue with its items and their books, replaced now and then. Items wait only for items
 * of stations of a higher level, so that they cannot wait for each other in a circle.
 */
#ifndef ITEMS_H
#define ITEMS_H

#include "soak.h"

enum { STATIONS = 20, SUBJECTS = 12, TOP = 4 };

/*
 * Which calls are made of an item; what they answer is exact only in some company. mod_delayed_work() returns false
 * for one that it armed, and for one that is disabled. Of MIXED the books are bounds.
 */
enum class { DISABLED, RETIMED, MIXED, RCU };

struct station;

struct subject {
	union {
		struct work_struct work;
		struct delayed_work delayed;
		struct rcu_work rcu;
	} item;
	bool is_delayed;
	enum class class;
	struct station *station;
	u64_t queued, perhaps_queued, cancelled, runs;
	int is_inside;
};

struct station {
	struct workqueue_struct *wq;
	unsigned int flags;
	unsigned int level;
	/* It is drained now and then, and drops what others queue meanwhile. */
	bool may_refuse;
	int users, is_closing;
	u64_t once_queued, once_ran;
	struct subject subjects[SUBJECTS];
};

/* An item that frees itself in its function. */
struct once {
	struct work_struct work;
	struct station *station;
	struct gate *done;
};

static struct station *stations[STATIONS];
static pthread_rwlock_t stations_lock = PTHREAD_RWLOCK_INITIALIZER;
static int nr_cpus;
static u64_t item_seed, queues, closed_runs, closed_cancelled, closed_once;

/* ---- stations */

static const unsigned int kinds[STATIONS] = {
	CMWQ_MANAGED,
	CMWQ_MANAGED | WQ_FREEZABLE,
	WQ_PERCPU,
	WQ_PERCPU | WQ_HIGHPRI,
	WQ_PERCPU | WQ_CPU_INTENSIVE,
	WQ_PERCPU | WQ_FREEZABLE,
	WQ_PERCPU | WQ_MEM_RECLAIM,
	WQ_PERCPU | WQ_MEM_RECLAIM | __WQ_LEGACY,
	WQ_PERCPU | WQ_POWER_EFFICIENT,
	WQ_UNBOUND,
	WQ_UNBOUND | WQ_FREEZABLE,
	WQ_UNBOUND | WQ_HIGHPRI,
	WQ_UNBOUND | WQ_MEM_RECLAIM,
	WQ_UNBOUND | WQ_SYSFS,
	WQ_UNBOUND,
	WQ_UNBOUND | __WQ_ORDERED,
	WQ_UNBOUND | __WQ_ORDERED | WQ_FREEZABLE,
	WQ_UNBOUND | __WQ_ORDERED | WQ_MEM_RECLAIM,
	WQ_BH | WQ_PERCPU,
	WQ_BH | WQ_PERCPU | WQ_HIGHPRI,
};

static struct station *station_get(struct chance *c)
{
	struct station *station;

	pthread_rwlock_rdlock(&stations_lock);
	station = stations[below(c, STATIONS)];
	if (station)
		__atomic_add_fetch(&station->users, 1, __ATOMIC_SEQ_CST);
	pthread_rwlock_unlock(&stations_lock);
	return station;
}

static void station_put(struct station *station)
{
	if (station)
		__atomic_sub_fetch(&station->users, 1, __ATOMIC_SEQ_CST);
}

static struct station *station_above(unsigned int level, struct chance *c)
{
	for (int i = 0; i < 4; i++) {
		struct station *station = station_get(c);

		if (station && station->level > level)
			return station;
		station_put(station);
	}
	return NULL;
}

static void reusable(struct work_struct *work);
static void enter_once(struct work_struct *work);

static struct station *station_open(unsigned int n, struct chance *c)
{
	struct station *station = calloc(1, sizeof(*station));
	unsigned int flags = kinds[n];
	int has_limit = !(flags & (WQ_BH | __WQ_ORDERED));

	if (!station)
		fail("no memory");
	station->flags = flags;
	station->wq = alloc_workqueue("soak%llu", flags, flags & __WQ_ORDERED ? 1 : has_limit ? (int)below(c, 5) : 0,
				      __atomic_add_fetch(&queues, 1, __ATOMIC_SEQ_CST));
	if (!station->wq)
		fail("a queue with flags %#x cannot be made", flags);
	station->level = flags & WQ_BH ? TOP : below(c, TOP);
	station->may_refuse = below(c, 4) == 0;
	for (int i = 0; i < SUBJECTS; i++) {
		struct subject *subject = &station->subjects[i];

		subject->station = station;
		subject->class = (enum class[]){ MIXED, DISABLED, DISABLED, MIXED, DISABLED, RETIMED, RETIMED, RCU }[i % 8];
		subject->is_delayed = i % 8 >= 3 && i % 8 < 7;
		if (subject->class == RCU)
			INIT_RCU_WORK(&subject->item.rcu, reusable);
		else if (i % 8 == 5)
			INIT_DEFERRABLE_WORK(&subject->item.delayed, reusable);
		else if (subject->is_delayed)
			INIT_DELAYED_WORK(&subject->item.delayed, reusable);
		else
			INIT_WORK(&subject->item.work, reusable);
	}
	return station;
}

static void audit(struct station *station, struct subject *subject)
{
	u64_t queued = get(&subject->queued), most = queued + get(&subject->perhaps_queued);
	u64_t ended = get(&subject->runs) + get(&subject->cancelled);
	u64_t least = station->may_refuse ? 0 : queued;

	if (ended < least || ended > most || work_busy(&subject->item.work))
		fail("item %d (class %d) of a queue with flags %#x: queued %llu to %llu, runs %llu, cancelled %llu, busy %u",
		     (int)(subject - station->subjects), subject->class, station->flags, least, most,
		     get(&subject->runs), get(&subject->cancelled), work_busy(&subject->item.work));
	__atomic_add_fetch(&closed_runs, get(&subject->runs), __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&closed_cancelled, get(&subject->cancelled), __ATOMIC_SEQ_CST);
}

/* Nobody else finds it any more. */
static void station_close(struct station *station)
{
	while (__atomic_load_n(&station->users, __ATOMIC_SEQ_CST) > 0)
		sleep_us(20);
	/* Items that have not seen this are waited for; after that none queues another. */
	__atomic_store_n(&station->is_closing, 1, __ATOMIC_SEQ_CST);
	flush_workqueue(station->wq);
	for (int i = 0; i < SUBJECTS; i++) {
		struct subject *subject = &station->subjects[i];

		if (subject->class == RCU)
			flush_rcu_work(&subject->item.rcu);
		else if (subject->is_delayed)
			add(&subject->cancelled, cancel_delayed_work_sync(&subject->item.delayed));
	}
	destroy_workqueue(station->wq);
	for (int i = 0; i < SUBJECTS; i++)
		audit(station, &station->subjects[i]);
	if (get(&station->once_queued) != get(&station->once_ran))
		fail("a queue with flags %#x is gone: %llu items of one use queued, %llu run", station->flags,
		     get(&station->once_queued), get(&station->once_ran));
	__atomic_add_fetch(&closed_once, get(&station->once_ran), __ATOMIC_SEQ_CST);
	free(station);
}

static void station_replace(struct chance *c)
{
	unsigned int n = below(c, STATIONS);
	struct station *fresh = station_open(n, c), *old;

	pthread_rwlock_wrlock(&stations_lock);
	old = stations[n];
	stations[n] = fresh;
	pthread_rwlock_unlock(&stations_lock);
	station_close(old);
}

/* ---- calls on items */

static void subject_queue(struct subject *subject, struct chance *c)
{
	struct workqueue_struct *wq = subject->station->wq;
	unsigned long delay = below(c, 2);
	int cpu = (int)below(c, (unsigned int)nr_cpus);
	bool is_mine;

	if (subject->class == RCU)
		is_mine = queue_rcu_work(wq, &subject->item.rcu);
	else if (subject->is_delayed && below(c, 2))
		is_mine = queue_delayed_work_on(cpu, wq, &subject->item.delayed, delay);
	else if (subject->is_delayed)
		is_mine = queue_delayed_work(wq, &subject->item.delayed, delay);
	else if (below(c, 2))
		is_mine = queue_work_on(cpu, wq, &subject->item.work);
	else
		is_mine = queue_work(wq, &subject->item.work);
	add(&subject->queued, is_mine);
}

static void subject_retime(struct subject *subject, struct chance *c)
{
	bool was_pending;

	if (!subject->is_delayed || subject->class == DISABLED)
		return;
	was_pending = mod_delayed_work(subject->station->wq, &subject->item.delayed, below(c, 2));
	if (subject->class == MIXED)
		add(&subject->perhaps_queued, 1);
	else
		add(&subject->queued, !was_pending);
}

static void subject_cancel(struct subject *subject, bool is_sync)
{
	bool taken;

	/* Waiting disables it meanwhile. */
	if (subject->class == RCU || (is_sync && subject->class == RETIMED))
		return;
	if (subject->is_delayed)
		taken = is_sync ? cancel_delayed_work_sync(&subject->item.delayed) :
				  cancel_delayed_work(&subject->item.delayed);
	else
		taken = is_sync ? cancel_work_sync(&subject->item.work) : cancel_work(&subject->item.work);
	add(&subject->cancelled, taken);
}

static void subject_disable(struct subject *subject, bool is_sync, struct chance *c)
{
	bool taken;

	if (subject->class == RCU || subject->class == RETIMED)
		return;
	if (subject->is_delayed) {
		taken = is_sync ? disable_delayed_work_sync(&subject->item.delayed) :
				  disable_delayed_work(&subject->item.delayed);
		subject_queue(subject, c);
		enable_delayed_work(&subject->item.delayed);
	} else {
		taken = is_sync ? disable_work_sync(&subject->item.work) : disable_work(&subject->item.work);
		subject_queue(subject, c);
		if (subject->class == MIXED) {
			add(&subject->perhaps_queued, 1);
			enable_and_queue_work(subject->station->wq, &subject->item.work);
		} else {
			enable_work(&subject->item.work);
		}
	}
	add(&subject->cancelled, taken);
}

static void subject_flush(struct subject *subject)
{
	if (subject->class == RCU)
		flush_rcu_work(&subject->item.rcu);
	else if (subject->is_delayed)
		flush_delayed_work(&subject->item.delayed);
	else
		flush_work(&subject->item.work);
}

/* `done`: opened when it has run. */
static bool once_queue(struct station *station, struct gate *done)
{
	struct once *once;

	/* One that is dropped would neither run nor be freed. */
	if (station->may_refuse)
		return false;
	once = malloc(sizeof(*once));
	if (!once)
		fail("no memory");
	INIT_WORK(&once->work, enter_once);
	once->station = station;
	once->done = done;
	add(&station->once_queued, 1);
	if (!queue_work(station->wq, &once->work))
		fail("a fresh item was pending");
	return true;
}

static void once_wait(struct station *station, struct chance *c)
{
	struct gate done;

	gate_init(&done);
	if (!once_queue(station, &done))
		return;
	if (below(c, 2)) {
		cmwq_blocking_begin();
		gate_wait(&done);
		cmwq_blocking_end();
	} else {
		gate_wait(&done);
	}
}

static void apply_attrs(struct workqueue_struct *wq, struct chance *c)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();

	if (!attrs)
		fail("no memory");
	attrs->nice = (int)below(c, 8);
	attrs->affn_strict = below(c, 2);
	attrs->affn_scope = (enum wq_affn_scope)below(c, WQ_AFFN_NR_TYPES);
	if (below(c, 2)) {
		cpumask_clear(attrs->cpumask);
		cpumask_set_cpu(below(c, (unsigned int)nr_cpus), attrs->cpumask);
	}
	if (apply_workqueue_attrs(wq, attrs) != 0)
		fail("attributes are refused");
	free_workqueue_attrs(attrs);
}

/* ---- queues that live for a moment */

struct pair {
	struct work_struct waiting, awaited;
	struct gate gate;
	u64_t runs;
};

static void pair_wait(struct work_struct *work)
{
	struct pair *pair = from_work(pair, work, waiting);

	gate_wait(&pair->gate);
	add(&pair->runs, 1);
}

static void pair_come(struct work_struct *work)
{
	struct pair *pair = from_work(pair, work, awaited);

	add(&pair->runs, 1);
	gate_open(&pair->gate);
}

/* One item waits for another one, in a pool that may be no other queue's, and the queue goes. */
static void short_queue(struct chance *c)
{
	struct workqueue_struct *wq = alloc_workqueue("short", WQ_UNBOUND, 0);
	struct pair pair;

	if (!wq)
		fail("a short-lived queue cannot be made");
	add(&queues, 1);
	gate_init(&pair.gate);
	pair.runs = 0;
	INIT_WORK_ONSTACK(&pair.waiting, pair_wait);
	INIT_WORK_ONSTACK(&pair.awaited, pair_come);
	apply_attrs(wq, c);
	queue_work(wq, &pair.waiting);
	if (below(c, 4) == 0)
		apply_attrs(wq, c);
	queue_work(wq, &pair.awaited);
	switch (below(c, 3)) {
	case 0:
		flush_workqueue(wq);
		break;
	case 1:
		drain_workqueue(wq);
		break;
	}
	destroy_workqueue(wq);
	if (get(&pair.runs) != 2)
		fail("a queue is gone, and of its 2 items %llu have run", get(&pair.runs));
	destroy_work_on_stack(&pair.waiting);
	destroy_work_on_stack(&pair.awaited);
}

/* ---- what items do */

static void act(unsigned int level, bool is_bh, struct chance *c)
{
	struct station *above;
	struct subject *subject;
	unsigned int what = below(c, 24), us = below(c, 300);

	if (is_bh) {
		burn_us(us / 16);
		return;
	}
	switch (what) {
	case 0:
		sleep_us(us);
		return;
	case 1:
		burn_us(us / 4);
		return;
	case 2:
		cmwq_blocking_begin();
		sleep_us(us);
		cmwq_blocking_end();
		return;
	case 3:
		set_worker_desc("soaking %u", us);
		return;
	case 4:
		short_queue(c);
		return;
	}
	if (what > 12)
		return;
	above = station_above(level, c);
	if (!above)
		return;
	subject = &above->subjects[below(c, SUBJECTS)];
	switch (what) {
	case 5:
		once_wait(above, c);
		break;
	case 6:
		once_queue(above, NULL);
		break;
	case 7:
		subject_queue(subject, c);
		subject_flush(subject);
		break;
	case 8:
		subject_cancel(subject, true);
		break;
	case 9:
		subject_disable(subject, true, c);
		break;
	case 10:
		flush_workqueue(above->wq);
		break;
	case 11:
		if (above->may_refuse)
			drain_workqueue(above->wq);
		break;
	default:
		subject_queue(subject, c);
		subject_cancel(subject, false);
	}
	station_put(above);
}

static struct chance item_chance(void)
{
	return (struct chance){ __atomic_add_fetch(&item_seed, 0x9e3779b97f4a7c15ULL, __ATOMIC_SEQ_CST) };
}

static void reusable(struct work_struct *work)
{
	/* The item is the first of the subject's members, and the work the first of each kind of item's. */
	struct subject *subject = (struct subject *)(void *)work;
	struct station *station = subject->station;
	struct chance c = item_chance();

	if (__atomic_exchange_n(&subject->is_inside, 1, __ATOMIC_SEQ_CST))
		fail("an item was entered while it ran");
	if (below(&c, 16) == 0 && !__atomic_load_n(&station->is_closing, __ATOMIC_SEQ_CST))
		subject_queue(&station->subjects[below(&c, SUBJECTS)], &c);
	act(station->level, station->flags & WQ_BH, &c);
	__atomic_store_n(&subject->is_inside, 0, __ATOMIC_SEQ_CST);
	add(&subject->runs, 1);
}

/*
 * One that is queued at the address of one that still runs, with the same function, waits for that one, as in the
 * kernel. So what frees itself first waits for nothing.
 */
static void enter_once(struct work_struct *work)
{
	struct once *once = from_work(once, work, work);
	struct station *station = once->station;
	struct gate *done = once->done;
	struct chance c = item_chance();

	if (below(&c, 2)) {
		free(once);
		burn_us(below(&c, 50));
	} else {
		act(station->level, station->flags & WQ_BH, &c);
		free(once);
	}
	add(&station->once_ran, 1);
	if (done)
		gate_open(done);
}

#endif
