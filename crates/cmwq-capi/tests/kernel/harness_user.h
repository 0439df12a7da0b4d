/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The programs as programs: ./queueing queue_work */
#ifndef HARNESS_USER_H
#define HARNESS_USER_H

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmwq.h>

#define CHECK(cond)                                                                        \
	do {                                                                               \
		if (!(cond)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			_exit(1);                                                          \
		}                                                                          \
	} while (0)

#define harness_skip(why)                          \
	do {                                       \
		printf("skipped: %s\n", why);      \
		return;                            \
	} while (0)

/* Read when the library is first used. */
#define HARNESS_PARAMS(text)                                                 \
	__attribute__((constructor)) static void harness_params(void)        \
	{                                                                    \
		setenv("CMWQ_PARAMS", text, 1);                              \
	}

/* ---- time */

#define max(a, b) ((a) > (b) ? (a) : (b))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define __maybe_unused __attribute__((unused))

static inline void usleep_range(unsigned long least, unsigned long most)
{
	struct timespec pause = { (time_t)(least / 1000000), (long)(least % 1000000) * 1000 };

	(void)most;
	nanosleep(&pause, NULL);
}

static inline void msleep(unsigned int ms)
{
	usleep_range(ms * 1000UL, ms * 1000UL);
}

/* As long as the CPU needs for it, whoever else wants the CPU. */
static inline void udelay(unsigned long us)
{
	struct timespec start, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000L + (now.tv_nsec - start.tv_nsec) / 1000 < (long)us);
}

static inline void cpu_relax(void)
{
	sched_yield();
}

/* ---- memory */

#define GFP_KERNEL 0
#define kmalloc(size, gfp) ((void)(gfp), malloc(size))
#define kzalloc(size, gfp) ((void)(gfp), calloc(1, size))
#define kcalloc(number, size, gfp) ((void)(gfp), calloc(number, size))
#define kfree(object) free((void *)(object))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELAXED)

#ifndef ATOMIC_INIT
typedef struct {
	int counter;
} atomic_t;
#define ATOMIC_INIT(value) { (value) }
#define atomic_read(v) __atomic_load_n(&(v)->counter, __ATOMIC_ACQUIRE)
#define atomic_set(v, value) __atomic_store_n(&(v)->counter, value, __ATOMIC_RELEASE)
#define atomic_inc_return(v) __atomic_add_fetch(&(v)->counter, 1, __ATOMIC_SEQ_CST)
#define atomic_dec_return(v) __atomic_sub_fetch(&(v)->counter, 1, __ATOMIC_SEQ_CST)
#define atomic_add_return(n, v) __atomic_add_fetch(&(v)->counter, n, __ATOMIC_SEQ_CST)
#define atomic_inc(v) ((void)atomic_inc_return(v))
#define atomic_dec(v) ((void)atomic_dec_return(v))
#define atomic_dec_and_test(v) (atomic_dec_return(v) == 0)
#endif

/* ---- locks and waiting */

struct mutex {
	pthread_mutex_t lock;
};
#define DEFINE_MUTEX(name) struct mutex name = { PTHREAD_MUTEX_INITIALIZER }
#define mutex_init(m) pthread_mutex_init(&(m)->lock, NULL)
#define mutex_lock(m) pthread_mutex_lock(&(m)->lock)
#define mutex_unlock(m) pthread_mutex_unlock(&(m)->lock)
#define mutex_trylock(m) (pthread_mutex_trylock(&(m)->lock) == 0)

typedef struct mutex spinlock_t;
#define DEFINE_SPINLOCK(name) spinlock_t name = { PTHREAD_MUTEX_INITIALIZER }
#define spin_lock_init(s) mutex_init(s)
#define spin_lock(s) mutex_lock(s)
#define spin_unlock(s) mutex_unlock(s)

typedef struct {
	pthread_mutex_t lock;
	pthread_cond_t woken;
} wait_queue_head_t;
#define DECLARE_WAIT_QUEUE_HEAD(name) \
	wait_queue_head_t name = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER }
#define wait_event(queue, cond)                                            \
	do {                                                               \
		pthread_mutex_lock(&(queue).lock);                         \
		while (!(cond))                                            \
			pthread_cond_wait(&(queue).woken, &(queue).lock);  \
		pthread_mutex_unlock(&(queue).lock);                       \
	} while (0)

static inline void wake_up_all(wait_queue_head_t *queue)
{
	pthread_mutex_lock(&queue->lock);
	pthread_cond_broadcast(&queue->woken);
	pthread_mutex_unlock(&queue->lock);
}

struct completion {
	wait_queue_head_t wait;
	unsigned int done;
};
#define COMPLETION_INITIALIZER { { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER }, 0 }
#define DECLARE_COMPLETION(name) struct completion name = COMPLETION_INITIALIZER
#define DECLARE_COMPLETION_ONSTACK(name) struct completion name = COMPLETION_INITIALIZER
#define COMPLETED_FOR_ALL (~0U / 2)

static inline void init_completion(struct completion *x)
{
	*x = (struct completion)COMPLETION_INITIALIZER;
}

static inline void reinit_completion(struct completion *x)
{
	pthread_mutex_lock(&x->wait.lock);
	x->done = 0;
	pthread_mutex_unlock(&x->wait.lock);
}

static inline void complete_all(struct completion *x)
{
	pthread_mutex_lock(&x->wait.lock);
	x->done = COMPLETED_FOR_ALL;
	pthread_cond_broadcast(&x->wait.woken);
	pthread_mutex_unlock(&x->wait.lock);
}

static inline void complete(struct completion *x)
{
	pthread_mutex_lock(&x->wait.lock);
	x->done += x->done < COMPLETED_FOR_ALL;
	pthread_cond_signal(&x->wait.woken);
	pthread_mutex_unlock(&x->wait.lock);
}

static inline void wait_for_completion(struct completion *x)
{
	pthread_mutex_lock(&x->wait.lock);
	while (!x->done)
		pthread_cond_wait(&x->wait.woken, &x->wait.lock);
	x->done -= x->done < COMPLETED_FOR_ALL;
	pthread_mutex_unlock(&x->wait.lock);
}

static inline bool completion_done(struct completion *x)
{
	pthread_mutex_lock(&x->wait.lock);
	bool is_done = x->done != 0;
	pthread_mutex_unlock(&x->wait.lock);
	return is_done;
}

/* ---- threads and CPUs */

struct harness_thread {
	int (*fn)(void *);
	void *arg;
	pthread_t id;
};

static void *harness_body(void *data)
{
	struct harness_thread *thread = data;

	thread->fn(thread->arg);
	return NULL;
}

static inline void harness_run(struct harness_thread *thread, int (*fn)(void *), void *arg)
{
	thread->fn = fn;
	thread->arg = arg;
	CHECK(pthread_create(&thread->id, NULL, harness_body, thread) == 0);
}

static inline void harness_join(struct harness_thread *thread)
{
	CHECK(pthread_join(thread->id, NULL) == 0);
}

/* The calling thread; any pointer stands for it. */
#define current ((struct task_struct *)&harness_self)
static char harness_self __maybe_unused;
#define KERN_INFO ""
#define raw_smp_processor_id() sched_getcpu()

static inline int harness_cpu(int index)
{
	cpu_set_t cpus;

	CHECK(sched_getaffinity(getpid(), sizeof(cpus), &cpus) == 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus) && index-- == 0)
			return cpu;
	return -1;
}

/* How many of this process's tasks have names that begin so. */
static inline int harness_tasks(const char *prefix, bool is_normal)
{
	DIR *tasks = opendir("/proc/self/task");
	char name[64], path[64];
	int number = 0;

	CHECK(tasks);
	for (struct dirent *task; (task = readdir(tasks));) {
		snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", task->d_name);
		FILE *comm = task->d_name[0] == '.' ? NULL : fopen(path, "r");

		if (!comm)
			continue;
		if (fgets(name, sizeof(name), comm) && !strncmp(name, prefix, strlen(prefix)))
			number += !is_normal || !strchr(name, 'H');
		fclose(comm);
	}
	closedir(tasks);
	return number;
}

static inline int harness_workers(int cpu)
{
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "kworker/%d:", cpu);
	return harness_tasks(prefix, true);
}

/* The library's threads are made by this function, too, where the program defines HARNESS_NO_THREADS. */
#ifdef HARNESS_NO_THREADS
static atomic_t harness_is_without = ATOMIC_INIT(0);

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (atomic_read(&harness_is_without))
		return EAGAIN;
	*(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
	return create(thread, attr, body, arg);
}

static inline void harness_no_threads(bool is_so)
{
	atomic_set(&harness_is_without, is_so);
}
#endif

/* ---- the program: all rows, or those that are named */

struct row {
	const char *name;
	void (*run)(void);
};

static int harness_main(int argc, char **argv, const struct row *rows, size_t nr_rows)
{
	for (size_t i = 0; i < nr_rows; i++) {
		bool is_named = argc < 2;

		for (int arg = 1; arg < argc; arg++)
			is_named |= strcmp(argv[arg], rows[i].name) == 0;
		if (is_named) {
			rows[i].run();
			printf("%s: done\n", rows[i].name);
			fflush(stdout);
		}
	}
	/* Its threads leave; else they would end with the process. The last may be on its way through the C library. */
	CHECK(cmwq_shutdown(60000) == 0);
	for (int i = 0; harness_tasks("", false) > 1; i++) {
		CHECK(i < 60000 && "its threads have left");
		usleep_range(1000, 1000);
	}
	return 0;
}

#define ROWS(...)                                                                 \
	int main(int argc, char **argv)                                           \
	{                                                                         \
		static const struct row rows[] = { __VA_ARGS__ };                 \
                                                                                  \
		return harness_main(argc, argv, rows, ARRAY_SIZE(rows));          \
	}                                                                         \
	_Static_assert(1, "so that a semicolon may follow")

#endif
