/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that has the kernel's small types already, as it likes them. */
#include <stdbool.h>
#define HZ 100
struct list_head {
	struct list_head *next, *prev;
};
typedef struct {
	long counter;
} atomic_long_t;
struct timer_list {
	char something[200];
};
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#include <linux/workqueue.h>
#include "check.h"

struct object {
	int number;
	struct delayed_work dwork;
};

static int sum;
static double ran_at;

static void add(struct work_struct *work)
{
	struct object *object = container_of(to_delayed_work(work), struct object, dwork);

	ran_at = now_ms();
	__atomic_add_fetch(&sum, object->number, __ATOMIC_RELAXED);
}

int main(void)
{
	struct object object = { .number = 42 };
	double start = now_ms();

	INIT_DELAYED_WORK(&object.dwork, add);
	CHECK(schedule_delayed_work(&object.dwork, HZ / 10));
	AWAIT(load(&sum) == 42);
	CHECK(ran_at - start >= 100 && ran_at - start < 60000);
	CHECK(!cancel_delayed_work_sync(&object.dwork));
	return 0;
}
