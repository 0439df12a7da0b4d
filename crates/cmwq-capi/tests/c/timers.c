/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Timers by themselves. */
#include <linux/workqueue.h>
#include "check.h"

struct object {
	struct timer_list timer;
	int runs;
	int left;
	unsigned long ran_at;
};

static void count_run(struct timer_list *timer)
{
	struct object *object = from_timer(object, timer, timer);

	object->ran_at = jiffies;
	count(&object->runs);
}

/* Arms itself again. */
static void again(struct timer_list *timer)
{
	struct object *object = timer_container_of(object, timer, timer);

	if (--object->left > 0)
		mod_timer(timer, jiffies);
	count(&object->runs);
}

static void not_again(struct timer_list *timer)
{
	struct object *object = from_timer(object, timer, timer);

	mod_timer(timer, jiffies + MAX_JIFFY_OFFSET);
	count(&object->runs);
}

static struct gate entered = GATE_SHUT, may_leave = GATE_SHUT;

static void wait_at_gate(struct timer_list *timer)
{
	struct object *object = from_timer(object, timer, timer);

	gate_open(&entered);
	gate_wait(&may_leave);
	/* Still armed when it has returned, unless somebody sees to it. */
	mod_timer(timer, jiffies + 1000 * HZ);
	count(&object->runs);
}

static void free_itself(struct timer_list *timer)
{
	struct object *object = from_timer(object, timer, timer);

	free(object);
}

static struct work_struct work;
static int works, deleted_inside;

static void count_work(struct work_struct *item)
{
	(void)item;
	count(&works);
}

/* Timers may queue work; to delete oneself by waiting is said. */
static void delete_itself(struct timer_list *timer)
{
	CHECK(!timer_delete_sync(timer));
	CHECK(schedule_work(&work));
	count(&deleted_inside);
}

static DEFINE_TIMER(declared, delete_itself);

static void one_by_one(void)
{
	struct object object = { .runs = 0 };
	unsigned long due;

	timer_setup(&object.timer, count_run, 0);
	CHECK(!timer_pending(&object.timer) && !timer_delete(&object.timer) && !timer_delete_sync(&object.timer));
	due = jiffies + 2;
	CHECK(mod_timer(&object.timer, due) == 0 && object.timer.expires == due);
	AWAIT(load(&object.runs) == 1);
	CHECK(time_after_eq(object.ran_at, due));
	CHECK(!timer_delete_sync(&object.timer) && !timer_pending(&object.timer));

	/* Far away, later, sooner, and not at all. */
	CHECK(mod_timer_pending(&object.timer, jiffies) == 0 && !timer_pending(&object.timer));
	CHECK(mod_timer(&object.timer, jiffies + 1000 * HZ) == 0 && timer_pending(&object.timer));
	CHECK(mod_timer(&object.timer, jiffies + 2000 * HZ) == 1);
	due = object.timer.expires;
	CHECK(timer_reduce(&object.timer, due + HZ) == 1 && object.timer.expires == due);
	CHECK(timer_reduce(&object.timer, due - HZ) == 1 && object.timer.expires == due - HZ);
	CHECK(mod_timer_pending(&object.timer, due) == 1 && object.timer.expires == due);
	/* Said, and it stays. */
	object.timer.expires = due;
	add_timer(&object.timer);
	CHECK(timer_pending(&object.timer) && timer_delete(&object.timer) && !timer_pending(&object.timer));
	CHECK(load(&object.runs) == 1);

	/* In the past is soon. */
	CHECK(timer_reduce(&object.timer, jiffies - 5 * HZ) == 0);
	AWAIT(load(&object.runs) == 2);
	object.timer.expires = jiffies + 1;
	add_timer_on(&object.timer, 0);
	AWAIT(load(&object.runs) == 3);

	/* A deferrable one comes with others. */
	timer_delete_sync(&object.timer);
	timer_setup_on_stack(&object.timer, count_run, TIMER_DEFERRABLE);
	mod_timer(&object.timer, jiffies + 1);
	while (load(&object.runs) == 3) {
		struct object other = { .runs = 0 };

		timer_setup(&other.timer, count_run, 0);
		mod_timer(&other.timer, jiffies + 1);
		AWAIT(load(&other.runs) == 1);
		CHECK(!timer_delete_sync(&other.timer));
	}

	/* For good. */
	mod_timer(&object.timer, jiffies + 1000 * HZ);
	CHECK(timer_shutdown(&object.timer) == 1 && mod_timer(&object.timer, jiffies) == 0);
	CHECK(!timer_pending(&object.timer) && timer_shutdown_sync(&object.timer) == 0 && load(&object.runs) == 4);
	destroy_timer_on_stack(&object.timer);
}

static void *delete_it(void *arg)
{
	struct object *object = arg;

	/* It was armed by the function that this has waited for. */
	CHECK(timer_delete_sync(&object->timer));
	CHECK(load(&object->runs) == 1 && !timer_pending(&object->timer));
	return NULL;
}

static void running(void)
{
	static struct object object;
	pthread_t thread;

	timer_setup(&object.timer, wait_at_gate, 0);
	mod_timer(&object.timer, jiffies);
	gate_wait(&entered);
	CHECK(!timer_pending(&object.timer) && timer_delete_sync_try(&object.timer) == -1);
	CHECK(!del_timer(&object.timer) && load(&object.runs) == 0);
	CHECK(pthread_create(&thread, NULL, delete_it, &object) == 0);
	gate_open(&may_leave);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(try_to_del_timer_sync(&object.timer) == 0 && !del_timer_sync(&object.timer));
}

static void many(void)
{
	static struct object objects[500];
	struct object *freed;
	int i, all = 0;

	for (i = 0; i < 500; i++) {
		timer_setup(&objects[i].timer, again, i % 5 ? 0 : TIMER_DEFERRABLE);
		objects[i].left = 3;
		mod_timer(&objects[i].timer, jiffies + (unsigned long)i % 7);
	}
	for (i = 0; i < 500; i++)
		if (i % 5)
			AWAIT(load(&objects[i].runs) == 3);
	for (i = 0; i < 500; i++) {
		timer_delete_sync(&objects[i].timer);
		all += objects[i].runs;
	}
	CHECK(all >= 1200);
	for (i = 0; i < 50; i++) {
		freed = malloc(sizeof(*freed));
		CHECK(freed);
		timer_setup(&freed->timer, free_itself, 0);
		mod_timer(&freed->timer, jiffies + 1);
	}
	/* Behind all of them. */
	objects[0].runs = 0;
	timer_setup(&objects[0].timer, count_run, 0);
	mod_timer(&objects[0].timer, jiffies + 2);
	AWAIT(load(&objects[0].runs) == 1);
	timer_delete_sync(&objects[0].timer);
}

/* "Never" is not now, also where a function arms its own timer so. */
static void never(void)
{
	struct object object = { .runs = 0 }, deferrable = { .runs = 0 }, other = { .runs = 0 };

	timer_setup(&object.timer, not_again, 0);
	timer_setup(&deferrable.timer, not_again, TIMER_DEFERRABLE);
	timer_setup(&other.timer, count_run, 0);
	CHECK(mod_timer(&object.timer, jiffies + MAX_JIFFY_OFFSET) == 0);
	CHECK(mod_timer(&deferrable.timer, jiffies + MAX_JIFFY_OFFSET) == 0);
	/* What is due is called in the order in which it is. */
	mod_timer(&other.timer, jiffies + 1);
	AWAIT(load(&other.runs) == 1);
	CHECK(load(&object.runs) == 0 && timer_pending(&object.timer));
	CHECK(load(&deferrable.runs) == 0 && timer_delete(&deferrable.timer));
	CHECK(timer_reduce(&object.timer, jiffies + 1) == 1);
	AWAIT(load(&object.runs) == 1);
	mod_timer(&other.timer, jiffies + 1);
	AWAIT(load(&other.runs) == 2);
	CHECK(timer_delete_sync(&object.timer) && load(&object.runs) == 1);
	CHECK(!timer_delete_sync(&other.timer));
}

/* The timer of a delayed item is the item's: armed by queueing, and by nothing else. */
static void of_items(void)
{
	struct delayed_work dwork;

	INIT_DELAYED_WORK(&dwork, count_work);
	CHECK(mod_timer(&dwork.timer, jiffies) == 0 && !timer_pending(&dwork.timer));
	CHECK(schedule_delayed_work(&dwork, 1000 * HZ) && timer_pending(&dwork.timer));
	CHECK(!timer_delete(&dwork.timer) && timer_pending(&dwork.timer) && cancel_delayed_work(&dwork));
	CHECK(!timer_pending(&dwork.timer));
}

/* It is armed all along, also while it is armed anew and while time comes nearer. */
#define SEEN 2000
static struct object seen[SEEN];
static int is_over, nr_lost, is_looking;

static void *look(void *until)
{
	while (!load(&is_over) && time_before(jiffies, *(unsigned long *)until))
		for (int i = 0; i < SEEN; i++) {
			bool is_lost = !timer_pending(&seen[i].timer);

			nr_lost += is_lost && time_before(jiffies, *(unsigned long *)until);
			count(&is_looking);
		}
	return NULL;
}

static void pending_all_along(void)
{
	unsigned long end = jiffies + 1000 * HZ;
	pthread_t looker;

	for (int i = 0; i < SEEN; i++) {
		timer_setup(&seen[i].timer, count_run, 0);
		mod_timer(&seen[i].timer, end + 1);
	}
	CHECK(pthread_create(&looker, NULL, look, &end) == 0);
	AWAIT(load(&is_looking));
	for (int i = 0; i < 200000; i++)
		CHECK(mod_timer(&seen[i % SEEN].timer, end + i % 1000) == 1);
	count(&is_over);
	CHECK(pthread_join(looker, NULL) == 0 && nr_lost == 0);

	is_over = 0;
	for (int round = 0; round < 10; round++) {
		end = jiffies + HZ / 10;
		for (int i = 0; i < SEEN; i++)
			mod_timer(&seen[i].timer, end);
		CHECK(pthread_create(&looker, NULL, look, &end) == 0);
		CHECK(pthread_join(looker, NULL) == 0 && nr_lost == 0);
	}
	for (int i = 0; i < SEEN; i++)
		timer_delete_sync(&seen[i].timer);
}

int main(void)
{
	INIT_WORK(&work, count_work);
	one_by_one();
	running();
	many();
	never();
	of_items();
	pending_all_along();
	declared.expires = jiffies + 1;
	add_timer(&declared);
	AWAIT(load(&deleted_inside) == 1);
	AWAIT(load(&works) == 1);
	timer_delete_sync(&declared);
	flush_work(&work);
	/* POSIX's own, beside it. */
	timer_t posix;
	CHECK(timer_create(CLOCK_MONOTONIC, NULL, &posix) == 0 && (timer_delete)(posix) == 0);
	return 0;
}
