/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ten items that sleep, on one CPU: they take as long as one, because another starts when one blocks.
 *
 *   cc $(pkg-config --cflags libcmwq) hello.c $(pkg-config --libs libcmwq) -o hello
 */
#include <linux/workqueue.h>
#include <stdio.h>
#include <unistd.h>

struct greeting {
	struct work_struct work;
	int number;
	int square;
};

static void greet(struct work_struct *work)
{
	struct greeting *greeting = container_of(work, struct greeting, work);

	usleep(5000);
	greeting->square = greeting->number * greeting->number;
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("hello", WQ_PERCPU, 0);
	struct greeting greetings[10];
	int sum = 0;

	if (!wq)
		return 1;
	for (int i = 0; i < 10; i++) {
		greetings[i].number = i;
		INIT_WORK(&greetings[i].work, greet);
		queue_work_on(0, wq, &greetings[i].work);
	}
	flush_workqueue(wq);
	for (int i = 0; i < 10; i++)
		sum += greetings[i].square;
	destroy_workqueue(wq);
	printf("the sum of the squares is %d\n", sum);
	return 0;
}
