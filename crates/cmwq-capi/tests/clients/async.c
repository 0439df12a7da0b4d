/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Functions that run when there is a CPU, each with a number (a cookie), and waiting until all with a smaller one have
 * finished, as drivers that look for devices need it: one allocation each, an unbound queue, a sorted list of what is
 * under way, and a wait queue. Functions wait for those before them from inside, and start others.
 */
#include <linux/workqueue.h>
#include "harness.h"

#define NR 600
#define NR_DOMAINS 3

typedef unsigned long async_cookie_t;

struct async_domain {
	struct list_head pending;
	atomic_t done;
	async_cookie_t last_in_order;
};

struct async_entry {
	struct list_head link;
	struct work_struct work;
	struct async_domain *domain;
	async_cookie_t cookie;
	void (*func)(struct async_entry *entry);
};

static struct workqueue_struct *wq;
static DEFINE_SPINLOCK(lock);
static DECLARE_WAIT_QUEUE_HEAD(done);
static async_cookie_t next_cookie = 1;
static struct async_domain domains[NR_DOMAINS];
static atomic_t nr_ran, nr_inside;

static async_cookie_t lowest_in_progress(struct async_domain *domain)
{
	async_cookie_t lowest = ~0UL;

	spin_lock(&lock);
	if (!list_empty(&domain->pending))
		lowest = list_entry(domain->pending.next, struct async_entry, link)->cookie;
	spin_unlock(&lock);
	return lowest;
}

static void async_synchronize_cookie_domain(async_cookie_t cookie, struct async_domain *domain)
{
	wait_event(done, lowest_in_progress(domain) >= cookie);
}

static void async_synchronize_full_domain(struct async_domain *domain)
{
	async_synchronize_cookie_domain(~0UL, domain);
}

static void run_entry(struct work_struct *work)
{
	struct async_entry *entry = container_of(work, struct async_entry, work);

	entry->func(entry);
	spin_lock(&lock);
	list_del_init(&entry->link);
	atomic_inc(&entry->domain->done);
	spin_unlock(&lock);
	kfree(entry);
	wake_up_all(&done);
}

static async_cookie_t async_schedule_domain(void (*func)(struct async_entry *), struct async_domain *domain, int cpu)
{
	struct async_entry *entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	async_cookie_t cookie;

	CHECK(entry);
	INIT_WORK(&entry->work, run_entry);
	entry->func = func;
	entry->domain = domain;
	spin_lock(&lock);
	cookie = entry->cookie = next_cookie++;
	list_add_tail(&entry->link, &domain->pending);
	spin_unlock(&lock);
	CHECK(cpu < 0 ? queue_work(wq, &entry->work) : queue_work_node(0, wq, &entry->work));
	return cookie;
}

/* Computes at once, and has its effect in the order of the cookies. */
static void in_order(struct async_entry *entry)
{
	struct async_domain *domain = entry->domain;

	CHECK(atomic_inc_return(&nr_inside) <= WQ_MAX_ACTIVE);
	CHECK(current_work() == &entry->work);
	udelay(entry->cookie % 5 * 20);
	async_synchronize_cookie_domain(entry->cookie, domain);
	CHECK(lowest_in_progress(domain) == entry->cookie);
	CHECK(domain->last_in_order < entry->cookie);
	domain->last_in_order = entry->cookie;
	atomic_inc(&nr_ran);
	atomic_dec(&nr_inside);
}

static void no_order(struct async_entry *entry)
{
	if (entry->cookie % 11 == 0)
		usleep_range(200, 400);
	atomic_inc(&nr_ran);
}

/* What it starts has a greater cookie, and is not waited for by who waits for its own. */
static void starts_another(struct async_entry *entry)
{
	async_cookie_t cookie = async_schedule_domain(no_order, &domains[1], -1);

	CHECK(cookie > entry->cookie);
	atomic_inc(&nr_ran);
}

static void begin(void)
{
	/* As many as that may wait for each other. */
	wq = alloc_workqueue("async", WQ_UNBOUND, WQ_MAX_ACTIVE);
	CHECK(wq);
	atomic_set(&nr_ran, 0);
	for (int i = 0; i < NR_DOMAINS; i++) {
		INIT_LIST_HEAD(&domains[i].pending);
		atomic_set(&domains[i].done, 0);
		domains[i].last_in_order = 0;
	}
}

static void end(void)
{
	for (int i = 0; i < NR_DOMAINS; i++) {
		async_synchronize_full_domain(&domains[i]);
		CHECK(list_empty(&domains[i].pending));
	}
	destroy_workqueue(wq);
}

static void row_effects_are_in_order(void)
{
	begin();
	for (int i = 0; i < NR; i++)
		async_schedule_domain(in_order, &domains[i % 2], i % 3 - 1);
	end();
	CHECK(atomic_read(&nr_ran) == NR && atomic_read(&nr_inside) == 0);
}

static void row_a_cookie_is_waited_for(void)
{
	begin();
	for (int i = 0; i < NR; i++) {
		async_cookie_t cookie = async_schedule_domain(i % 4 ? no_order : starts_another, &domains[2], -1);

		if (i % 50 == 49) {
			async_synchronize_cookie_domain(cookie + 1, &domains[2]);
			CHECK(atomic_read(&domains[2].done) == i + 1);
		}
	}
	async_synchronize_full_domain(&domains[2]);
	CHECK(atomic_read(&domains[2].done) == NR);
	end();
	CHECK(atomic_read(&nr_ran) == NR + NR / 4 && atomic_read(&domains[1].done) == NR / 4);
}

ROWS(ROW(effects_are_in_order), ROW(a_cookie_is_waited_for));
