/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A load for workqueues, after the generator that was posted with the first concurrency-managed workqueues in 2010:
 * works that burn CPU, sleep, burn again, and come back later, in three kinds. It tells how late each kind starts.
 *
 *   cc $(pkg-config --cflags libcmwq) perf-wq.c $(pkg-config --libs libcmwq) -o perf-wq
 */
#define HZ 1000
#include <cmwq.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL
#define NS_PER_MS 1000000LL
/* Latenesses are counted by powers of two, in eighths. */
#define SLOTS (64 * 8)

/* A kind of works: microseconds of CPU time, and means in milliseconds. */
struct kind {
	const char *name;
	long burn_us, sleep_ms, resched_ms;
	long count;
	/* Over all works of the kind, after the run. */
	long cycles, early;
	long long latest_ns, sum_ns;
	long slots[SLOTS];
};

static struct kind kinds[] = {
	{ .name = "short", .burn_us = 50, .sleep_ms = 1, .resched_ms = 10, .count = 10 },
	{ .name = "medium", .burn_us = 50, .sleep_ms = 10, .resched_ms = 50, .count = 10 },
	{ .name = "long", .burn_us = 50, .sleep_ms = 100, .resched_ms = 250, .count = 10 },
};
#define NR_KINDS (sizeof(kinds) / sizeof(*kinds))

struct load {
	struct delayed_work dwork;
	const struct kind *kind;
	unsigned long long random;
	long long due_ns;
	int cpu;
	/* Written by the work alone, read when it has stopped. */
	long cycles, early;
	long long latest_ns, sum_ns;
	long slots[SLOTS];
};

static struct workqueue_struct *wq;
static int is_over;

static const char usage[] =
	"usage: perf-wq [-t SECONDS] [-s SEED] [-q QUEUE] [-m MAX_ACTIVE] [-w KIND=COUNT[:BURN/SLEEP/RESCHED]]...\n"
	"\n"
	"Works of three kinds burn CPU for half of BURN microseconds, sleep for SLEEP milliseconds, burn the other half and\n"
	"come back after RESCHED milliseconds; sleeps and pauses are random, from none to twice the mean that is given. How\n"
	"late a work starts after it was due is reported for each kind.\n"
	"\n"
	"  -t SECONDS      how long, 5 if it is not said; fractions are taken\n"
	"  -s SEED         of all that is random; from the clock if it is not said, and printed\n"
	"  -q QUEUE        percpu (works are dealt out to the CPUs), unbound or managed; percpu if it is not said\n"
	"  -m MAX_ACTIVE   the queue's limit, 0 for the default of 1024\n"
	"  -w KIND=COUNT   how many works of a kind, and what they do; without it ten of each:\n"
	"                  short=10:50/1/10  medium=10:50/10/50  long=10:50/100/250\n"
	"  -h              this text\n";

static void die(const char *what, const char *value)
{
	fprintf(stderr, "perf-wq: %s: %s\n%s", what, value, usage);
	exit(2);
}

static long long clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* xorshift64*: each work has its own, so a run does not depend on who comes first. */
static unsigned long long next_random(unsigned long long *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

/* From 0 to twice the mean, in nanoseconds. */
static long long random_ns(struct load *load, long mean_ms)
{
	return (long long)(next_random(&load->random) >> 11) % (2 * mean_ms * NS_PER_MS + 1);
}

/* Time in which something else has the CPU does not count. */
static void burn(long us)
{
	long long end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + us * 1000LL;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void sleep_ns(long long ns)
{
	struct timespec left = { ns / NS_PER_S, ns % NS_PER_S };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static unsigned int slot_of(long long ns)
{
	unsigned int top;

	if (ns < 8)
		return 0;
	top = 63 - (unsigned int)__builtin_clzll((unsigned long long)ns);
	return top * 8 + (unsigned int)((ns >> (top - 3)) & 7);
}

/* The middle of a slot. */
static double slot_ns(unsigned int slot)
{
	unsigned int top = slot / 8;

	return top < 3 ? 0 : (double)(1ULL << top) * (1 + (slot % 8 + 0.5) / 8);
}

static void note_lateness(struct load *load)
{
	long long late = clock_ns(CLOCK_MONOTONIC) - load->due_ns;

	load->cycles++;
	if (late < 0) {
		load->early++;
		return;
	}
	load->sum_ns += late;
	if (late > load->latest_ns)
		load->latest_ns = late;
	load->slots[slot_of(late)]++;
}

/* A whole number of ticks, so that what is measured is not the rounding. */
static void arm(struct load *load)
{
	unsigned long ticks = (unsigned long)(random_ns(load, load->kind->resched_ms) * HZ / NS_PER_S);

	load->due_ns = clock_ns(CLOCK_MONOTONIC) + (long long)ticks * (NS_PER_S / HZ);
	queue_delayed_work_on(load->cpu, wq, &load->dwork, ticks);
}

static void cycle(struct work_struct *work)
{
	struct load *load = container_of(to_delayed_work(work), struct load, dwork);

	note_lateness(load);
	burn(load->kind->burn_us / 2);
	sleep_ns(random_ns(load, load->kind->sleep_ms));
	burn(load->kind->burn_us - load->kind->burn_us / 2);
	if (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
		arm(load);
}

static void parse_kind(char *text)
{
	char *value = strchr(text, '=');
	struct kind *kind = NULL;
	int fields, count_end = 0, end = 0;

	if (!value)
		die("not KIND=COUNT", text);
	*value++ = '\0';
	for (size_t i = 0; i < NR_KINDS; i++)
		if (!strcmp(kinds[i].name, text))
			kind = &kinds[i];
	if (!kind)
		die("no such kind", text);
	fields = sscanf(value, "%ld%n:%ld/%ld/%ld%n", &kind->count, &count_end, &kind->burn_us, &kind->sleep_ms,
			&kind->resched_ms, &end);
	/* All of it, with nothing behind. */
	if (!(fields == 1 && !value[count_end]) && !(fields == 4 && !value[end]))
		die("not COUNT or COUNT:BURN/SLEEP/RESCHED", value);
	if (kind->count < 0 || kind->burn_us < 0 || kind->sleep_ms < 0 || kind->resched_ms < 0 ||
	    kind->count > 1000000 || kind->burn_us > 60000000 || kind->sleep_ms > 60000 || kind->resched_ms > 60000)
		die("out of range", value);
}

static double parse_number(const char *text, double max)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0) || value > max)
		die("not a number in range", text);
	return value;
}

static unsigned long long parse_seed(const char *text)
{
	char *end;
	unsigned long long seed;

	errno = 0;
	seed = strtoull(text, &end, 0);
	if (*text < '0' || *text > '9' || *end || errno)
		die("not a seed", text);
	return seed;
}

static unsigned int flags_of(const char *queue)
{
	if (!strcmp(queue, "percpu"))
		return WQ_PERCPU;
	if (!strcmp(queue, "unbound"))
		return WQ_UNBOUND;
	if (!strcmp(queue, "managed"))
		return CMWQ_MANAGED;
	die("no such queue", queue);
	return 0;
}

static void collect(struct kind *kind, const struct load *load)
{
	kind->cycles += load->cycles;
	kind->early += load->early;
	kind->sum_ns += load->sum_ns;
	if (load->latest_ns > kind->latest_ns)
		kind->latest_ns = load->latest_ns;
	for (int slot = 0; slot < SLOTS; slot++)
		kind->slots[slot] += load->slots[slot];
}

static double percentile_us(const struct kind *kind, double part)
{
	long before = 0;

	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		before += kind->slots[slot];
		if (before && (double)before >= part * (double)kind->cycles)
			return slot_ns(slot) / 1e3;
	}
	return 0;
}

static void report(const struct kind *kind)
{
	double mean = kind->cycles ? (double)kind->sum_ns / (double)kind->cycles / 1e3 : 0;

	printf("%-8s %7ld %10ld %12.1f %12.1f %12.1f %12.1f\n", kind->name, kind->count, kind->cycles, mean,
	       percentile_us(kind, 0.5), percentile_us(kind, 0.99), (double)kind->latest_ns / 1e3);
}

static long start(struct load *loads, unsigned long long seed, int is_percpu)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), nr = 0;

	for (size_t i = 0; i < NR_KINDS; i++) {
		for (long j = 0; j < kinds[i].count; j++, nr++) {
			struct load *load = &loads[nr];

			load->kind = &kinds[i];
			/* Never 0, and unlike its neighbours. */
			load->random = (seed + (unsigned long long)nr + 1) * 0x9e3779b97f4a7c15ULL | 1;
			next_random(&load->random);
			load->cpu = is_percpu ? (int)(nr % cpus) : WORK_CPU_UNBOUND;
			INIT_DELAYED_WORK(&load->dwork, cycle);
			arm(load);
		}
	}
	return nr;
}

int main(int argc, char **argv)
{
	unsigned long long seed = (unsigned long long)clock_ns(CLOCK_REALTIME);
	const char *queue = "percpu";
	double seconds = 5;
	int max_active = 0, option;
	long nr = 0;
	struct load *loads;
	struct kind *kind;

	while ((option = getopt(argc, argv, "t:s:q:m:w:h")) != -1) {
		switch (option) {
		case 't':
			seconds = parse_number(optarg, 1e6);
			break;
		case 's':
			seed = parse_seed(optarg);
			break;
		case 'q':
			queue = optarg;
			break;
		case 'm':
			max_active = (int)parse_number(optarg, WQ_MAX_ACTIVE);
			break;
		case 'w':
			parse_kind(optarg);
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind < argc)
		die("what is this", argv[optind]);
	wq = alloc_workqueue("perf-wq", flags_of(queue), max_active);
	for (kind = kinds; kind < kinds + NR_KINDS; kind++)
		nr += kind->count;
	loads = calloc((size_t)nr + 1, sizeof(*loads));
	if (!wq || !loads)
		return 1;

	printf("perf-wq -t %g -s %llu -q %s -m %d\n", seconds, seed, queue, max_active);
	for (kind = kinds; kind < kinds + NR_KINDS; kind++)
		printf("  -w %s=%ld:%ld/%ld/%ld\n", kind->name, kind->count, kind->burn_us, kind->sleep_ms,
		       kind->resched_ms);
	nr = start(loads, seed, !strcmp(queue, "percpu"));
	sleep_ns((long long)(seconds * 1e9));
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	for (long i = 0; i < nr; i++) {
		cancel_delayed_work_sync(&loads[i].dwork);
		collect(&kinds[loads[i].kind - kinds], &loads[i]);
	}
	destroy_workqueue(wq);

	printf("\nlateness of starts, in microseconds; percentiles to an eighth\n");
	printf("%-8s %7s %10s %12s %12s %12s %12s\n", "kind", "works", "cycles", "mean", "p50", "p99", "max");
	for (kind = kinds; kind < kinds + NR_KINDS; kind++)
		report(kind);
	free(loads);
	for (kind = kinds; kind < kinds + NR_KINDS; kind++) {
		if (kind->early) {
			fprintf(stderr, "perf-wq: %ld starts of kind %s were early\n", kind->early, kind->name);
			return 1;
		}
	}
	return 0;
}
