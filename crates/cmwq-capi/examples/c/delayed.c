/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Timers: a file that is written once however often it changes meanwhile, and a heartbeat that times itself anew.
 *
 *   cc $(pkg-config --cflags libcmwq) delayed.c $(pkg-config --libs libcmwq) -o delayed
 */
#include <linux/workqueue.h>
#include <semaphore.h>
#include <stdio.h>

#define BEATS 3

struct document {
	int changes;
	int saves;
	struct delayed_work save;
};

static void save(struct work_struct *work)
{
	struct document *document = container_of(to_delayed_work(work), struct document, save);

	document->saves++;
	printf("saved %d changes\n", document->changes);
}

static sem_t stopped;
static int beats;

/* Never runs twice at once, so `beats` needs no lock. */
static void beat(struct work_struct *work)
{
	printf("beat %d\n", ++beats);
	if (beats < BEATS)
		schedule_delayed_work(to_delayed_work(work), msecs_to_jiffies(20));
	else
		sem_post(&stopped);
}

static DECLARE_DELAYED_WORK(heartbeat, beat);

int main(void)
{
	struct document document = { 0 };

	/* Each change puts the saving off by ten seconds. */
	INIT_DELAYED_WORK(&document.save, save);
	for (int i = 0; i < 5; i++) {
		document.changes++;
		mod_delayed_work(system_dfl_wq, &document.save, 10 * HZ);
	}
	/* Now, and not in ten seconds. */
	flush_delayed_work(&document.save);

	/* Nothing is saved: the timer had not expired. */
	schedule_delayed_work(&document.save, 10 * HZ);
	printf("cancelled: %s\n", cancel_delayed_work_sync(&document.save) ? "yes" : "no");

	sem_init(&stopped, 0, 0);
	schedule_delayed_work(&heartbeat, 0);
	while (sem_wait(&stopped))
		;
	cancel_delayed_work_sync(&heartbeat);
	return document.saves == 1 ? 0 : 1;
}
