/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The C twin of the soak: the operations of <linux/workqueue.h> at random, from many threads. Each item that was
 * accepted runs once or is taken back, none runs twice at once, each call returns in time.
 *
 *     soak SECONDS SEED THREADS PATIENCE-SECONDS AS-JSON
 */
#include "items.h"
#include <linux/rcupdate.h>

enum { MOST_RSS_MIB = 2048 };

static struct post posts[MOST_THREADS + 2];
static int nr_posts, is_over;
static u64_t seed, calls, freezes;
static unsigned int nr_threads, secs, patience;
/* The command that does the same again. */
static const char *again;

void fail(const char *fmt, ...)
{
	static int is_failing;
	va_list args;

	if (__atomic_exchange_n(&is_failing, 1, __ATOMIC_SEQ_CST))
		for (;;)
			pause();
	va_start(args, fmt);
	fprintf(stderr, "\nsoak in C: FAILED: ");
	vfprintf(stderr, fmt, args);
	fprintf(stderr, "\n");
	va_end(args);
	for (int i = 0; i < nr_posts; i++) {
		const char *what = __atomic_load_n(&posts[i].what, __ATOMIC_ACQUIRE);

		if (what)
			fprintf(stderr, "thread %d: %s, for %.1f s\n", i, what, (now_us() - posts[i].since) / 1e6);
	}
	fprintf(stderr, "soak: to do the same again: %s\n", again);
	show_all_workqueues();
	_exit(1);
}

/* ---- what threads do */

static void on_subject(struct station *station, struct post *post, struct chance *c)
{
	struct subject *subject = &station->subjects[below(c, SUBJECTS)];

	switch (below(c, 10)) {
	case 0:
		subject_cancel(subject, false);
		break;
	case 1:
		DOING(post, "cancel_work_sync", subject_cancel(subject, true));
		break;
	case 2:
		DOING(post, "flush_work", subject_flush(subject));
		break;
	case 3:
		DOING(post, "disable_work", subject_disable(subject, below(c, 2), c));
		break;
	case 4:
		subject_retime(subject, c);
		break;
	case 5:
		rcu_read_lock();
		for (int i = 0; i < 4; i++)
			subject_queue(&station->subjects[below(c, SUBJECTS)], c);
		rcu_read_unlock();
		break;
	default:
		subject_queue(subject, c);
	}
}

static void on_queue(struct station *station, struct post *post, struct chance *c)
{
	struct cmwq_stats stats;
	int few = 1 + (int)below(c, 8);

	switch (below(c, 8)) {
	case 0:
	case 1:
		DOING(post, "flush_workqueue", flush_workqueue(station->wq));
		break;
	case 2:
		if (station->may_refuse)
			DOING(post, "drain_workqueue", drain_workqueue(station->wq));
		break;
	case 3:
		if (!(station->flags & (WQ_BH | __WQ_ORDERED)))
			workqueue_set_max_active(station->wq, few);
		break;
	case 4:
		if (station->flags & WQ_UNBOUND && !(station->flags & WQ_HIGHPRI))
			DOING(post, "apply_workqueue_attrs", apply_attrs(station->wq, c));
		break;
	case 5:
		cmwq_workqueue_stats(station->wq, &stats, sizeof(stats));
		if (stats.completed > stats.started)
			fail("more items have returned than were entered");
		break;
	default:
		workqueue_congested((int)below(c, (unsigned int)nr_cpus), station->wq);
	}
}

static void once_on_cpu(struct work_struct *work)
{
	(void)work;
	sched_yield();
}

static long answer(void *arg)
{
	return (long)arg + 1;
}

static void on_process(struct post *post, struct chance *c)
{
	long number = (long)below(c, 1000), answered = 0;
	int cpu = (int)below(c, (unsigned int)nr_cpus);

	DOING(post, "work_on_cpu", answered = work_on_cpu(cpu, answer, (void *)number));
	if (answered != number + 1)
		fail("work_on_cpu has lost what its function returned");
	if (below(c, 8) == 0)
		DOING(post, "schedule_on_each_cpu", schedule_on_each_cpu(once_on_cpu));
}

static void *actor(void *number)
{
	struct post *post = &posts[(long)number];
	struct chance c = { seed + (u64_t)(long)number * 0x51ed2701ULL };

	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
		struct station *station = station_get(&c);
		unsigned int what = below(&c, 100);

		add(&calls, 1);
		if (what < 60)
			on_subject(station, post, &c);
		else if (what < 75)
			once_queue(station, NULL);
		else if (what < 82)
			DOING(post, "an item of one use", once_wait(station, &c));
		else if (what < 92)
			on_queue(station, post, &c);
		station_put(station);
		if (what >= 98)
			DOING(post, "replacing a queue", station_replace(&c));
		else if (what == 97)
			on_process(post, &c);
		else if (what >= 92)
			DOING(post, "a queue that lives briefly", short_queue(&c));
	}
	return NULL;
}

/* Frozen items may wait for each other, so it is not waited for until none is busy. */
static void *freezer(void *number)
{
	struct post *post = &posts[(long)number];
	struct chance c = { ~seed };

	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
		sleep_us(below(&c, 300000));
		DOING(post, "freeze_workqueues_begin", freeze_workqueues_begin());
		for (unsigned int i = below(&c, 30); i && freeze_workqueues_busy(); i--)
			sleep_us(below(&c, 1000));
		DOING(post, "thaw_workqueues", thaw_workqueues());
		add(&freezes, 1);
	}
	return NULL;
}

/* Closes everything, and shuts the library down. */
static void *ender(void *number)
{
	struct post *post = &posts[(long)number];
	int error = 0;

	for (int i = 0; i < STATIONS; i++) {
		struct station *station;

		pthread_rwlock_wrlock(&stations_lock);
		station = stations[i];
		stations[i] = NULL;
		pthread_rwlock_unlock(&stations_lock);
		DOING(post, "closing a queue", station_close(station));
	}
	DOING(post, "cmwq_shutdown", error = cmwq_shutdown(60000));
	if (error)
		fail("cmwq_shutdown: %d", error);
	return NULL;
}

/* ---- watching */

static unsigned long rss_mib(void)
{
	unsigned long pages = 0;
	FILE *statm = fopen("/proc/self/statm", "r");

	if (statm) {
		if (fscanf(statm, "%*u %lu", &pages) != 1)
			pages = 0;
		fclose(statm);
	}
	return pages * (unsigned long)sysconf(_SC_PAGESIZE) >> 20;
}

static void check_posts(void)
{
	for (int i = 0; i < nr_posts; i++) {
		const char *what = __atomic_load_n(&posts[i].what, __ATOMIC_ACQUIRE);
		u64_t since = get(&posts[i].since), now = now_us();

		if (what && now > since && now - since > patience * 1000000ULL)
			fail("thread %d: %s: has not returned for %u s", i, what, patience);
	}
}

static pthread_t start(void *(*func)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, func, (void *)(long)nr_posts++))
		fail("no thread");
	return thread;
}

/* Joins a thread while the posts are watched. */
static void join(pthread_t thread)
{
	while (pthread_tryjoin_np(thread, NULL)) {
		sleep_us(1000);
		check_posts();
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[MOST_THREADS + 1];
	unsigned long rss, most_rss = 0;
	u64_t end;

	if (argc != 7) {
		fprintf(stderr, "usage: soak SECONDS SEED THREADS PATIENCE AS-JSON COMMAND\n");
		return 2;
	}
	again = argv[6];
	secs = (unsigned int)strtoul(argv[1], NULL, 10);
	seed = item_seed = strtoull(argv[2], NULL, 10);
	nr_threads = (unsigned int)strtoul(argv[3], NULL, 10);
	patience = (unsigned int)strtoul(argv[4], NULL, 10);
	if (nr_threads > MOST_THREADS)
		nr_threads = MOST_THREADS;
	nr_cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	for (unsigned int i = 0; i < STATIONS; i++)
		stations[i] = station_open(i, &(struct chance){ seed + i });
	for (unsigned int i = 0; i < nr_threads; i++)
		threads[i] = start(actor);
	threads[nr_threads] = start(freezer);
	end = now_us() + secs * 1000000ULL;
	while (now_us() < end) {
		sleep_us(100000);
		check_posts();
		rss = rss_mib();
		if (rss > MOST_RSS_MIB)
			fail("%lu MiB of memory are more than %d", rss, MOST_RSS_MIB);
		most_rss = rss > most_rss ? rss : most_rss;
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
	for (unsigned int i = 0; i <= nr_threads; i++)
		join(threads[i]);
	join(start(ender));
	printf(strcmp(argv[5], "1") == 0 ?
		       "{\"seed\":%llu,\"secs\":%u,\"threads\":%u,\"calls\":%llu,\"queues\":%llu,\"once\":%llu,\"runs\":%llu,"
		       "\"cancelled\":%llu,\"freezes\":%llu,\"rss_peak_mib\":%lu}\n" :
		       "soak in C, seed %llu: %u s with %u threads: all is well\n%llu calls, %llu queues made\n%llu items of one "
		       "use, %llu runs of reusable items, %llu taken back\n%llu freezes; at most %lu MiB\n",
	       seed, secs, nr_threads, calls, queues, closed_once, closed_runs, closed_cancelled, freezes, most_rss);
	return 0;
}
