/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the parts of the soak in C share: chance, counts, gates, and who is doing what. */
#ifndef SOAK_H
#define SOAK_H

#include <cmwq.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 256 };

typedef unsigned long long u64_t;

/* ---- chance: splitmix64 */

struct chance {
	u64_t state;
};

static inline u64_t any(struct chance *c)
{
	u64_t z = c->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline unsigned int below(struct chance *c, unsigned int n)
{
	return (unsigned int)(any(c) % n);
}

/* ---- counts */

static inline void add(u64_t *count, int is_so)
{
	__atomic_add_fetch(count, is_so ? 1 : 0, __ATOMIC_SEQ_CST);
}

static inline u64_t get(u64_t *count)
{
	return __atomic_load_n(count, __ATOMIC_SEQ_CST);
}

/* ---- time */

static inline u64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64_t)now.tv_sec * 1000000 + (u64_t)now.tv_nsec / 1000;
}

static inline void sleep_us(unsigned int us)
{
	struct timespec pause = { us / 1000000, (long)(us % 1000000) * 1000 };

	nanosleep(&pause, NULL);
}

static inline void burn_us(unsigned int us)
{
	u64_t end = now_us() + us;

	while (now_us() < end)
		;
}

/* ---- gates: shut until opened */

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	int is_open;
};

static inline void gate_init(struct gate *gate)
{
	pthread_mutex_init(&gate->lock, NULL);
	pthread_cond_init(&gate->opened, NULL);
	gate->is_open = 0;
}

static inline void gate_open(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->is_open = 1;
	pthread_cond_broadcast(&gate->opened);
	pthread_mutex_unlock(&gate->lock);
}

static inline void gate_wait(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	while (!gate->is_open)
		pthread_cond_wait(&gate->opened, &gate->lock);
	pthread_mutex_unlock(&gate->lock);
}

/* ---- posts: what each thread does, and since when */

struct post {
	const char *what;
	u64_t since;
};

/* A call that must return in time. */
#define DOING(post, name, call)                                            \
	do {                                                               \
		(post)->since = now_us();                                  \
		__atomic_store_n(&(post)->what, (name), __ATOMIC_RELEASE); \
		call;                                                      \
		__atomic_store_n(&(post)->what, NULL, __ATOMIC_RELEASE);   \
	} while (0)

/* Ends the program: says what was wrong, what everybody does, and how to see it again. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *fmt, ...);

#endif
