/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the programs here check with, and how items meet them. */
#ifndef CHECK_H
#define CHECK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(cond)                                                                     \
	do {                                                                            \
		if (!(cond)) {                                                          \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

/* Shut until it is opened, then open for good. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	int is_open;
};
#define GATE_SHUT { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 }

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

static inline int load(int *counter)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

static inline void count(int *counter)
{
	__atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL);
}

static inline double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* Waits until `cond` holds; a minute is too long on any machine. */
#define AWAIT(cond)                                                      \
	do {                                                             \
		struct timespec pause = { 0, 200000 };                   \
		double start = now_ms();                                 \
                                                                         \
		while (!(cond)) {                                        \
			CHECK(now_ms() - start < 60000 && "in time");    \
			nanosleep(&pause, NULL);                         \
		}                                                        \
	} while (0)

#endif
