/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Atomic numbers, sets of CPUs and jiffies of the small headers: compiled and run as gnu89, C11, gnu11 and C++17. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include <linux/workqueue.h>
#include "check.h"

/* The same for each of the three types. */
#define ATOMICS(a, T, init)                                                                          \
	static void a##_numbers(void)                                                                \
	{                                                                                            \
		a##_t v = init(5);                                                                   \
		T old = 1;                                                                           \
                                                                                                     \
		CHECK(a##_read(&v) == 5 && a##_read_acquire(&v) == 5);                               \
		a##_set(&v, 6);                                                                      \
		a##_add(4, &v);                                                                      \
		a##_sub(3, &v);                                                                      \
		a##_inc(&v);                                                                         \
		a##_inc(&v);                                                                         \
		a##_dec(&v);                                                                         \
		CHECK(a##_read(&v) == 8);                                                            \
		a##_or(3, &v);                                                                       \
		a##_and(14, &v);                                                                     \
		a##_xor(1, &v);                                                                      \
		a##_andnot(8, &v);                                                                   \
		CHECK(a##_read(&v) == 3);                                                            \
		a##_set_release(&v, 10);                                                             \
		CHECK(a##_add_return(5, &v) == 15 && a##_sub_return(5, &v) == 10);                   \
		CHECK(a##_inc_return(&v) == 11 && a##_dec_return(&v) == 10);                         \
		CHECK(a##_fetch_add(1, &v) == 10 && a##_fetch_sub(1, &v) == 11);                     \
		CHECK(a##_fetch_inc(&v) == 10 && a##_fetch_dec(&v) == 11);                           \
		CHECK(a##_fetch_or(1, &v) == 10 && a##_fetch_and(3, &v) == 11);                      \
		CHECK(a##_fetch_xor(1, &v) == 3 && a##_fetch_andnot(2, &v) == 2);                    \
		CHECK(a##_read(&v) == 0);                                                            \
		CHECK(a##_add_return_relaxed(2, &v) == 2 && a##_fetch_add_acquire(2, &v) == 2);      \
		CHECK(a##_sub_return_release(2, &v) == 2 && a##_xchg_relaxed(&v, 0) == 2);           \
		CHECK(a##_xchg(&v, 7) == 0 && a##_cmpxchg(&v, 7, 8) == 7);                           \
		CHECK(a##_cmpxchg(&v, 7, 9) == 8 && a##_cmpxchg_acquire(&v, 8, 8) == 8);             \
		CHECK(!a##_try_cmpxchg(&v, &old, 3) && old == 8 && a##_try_cmpxchg(&v, &old, 3));    \
		CHECK(a##_read(&v) == 3 && !a##_sub_and_test(2, &v) && a##_dec_and_test(&v));        \
		a##_set(&v, -1);                                                                     \
		CHECK(a##_inc_and_test(&v) && a##_add_negative(-1, &v) && !a##_add_negative(1, &v)); \
		CHECK(!a##_inc_not_zero(&v) && a##_read(&v) == 0);                                   \
		CHECK(a##_fetch_add_unless(&v, 2, 3) == 0 && a##_inc_not_zero(&v));                  \
		CHECK(!a##_add_unless(&v, 2, 3) && a##_add_unless(&v, 2, 4) && a##_read(&v) == 5);   \
		CHECK(a##_inc_unless_negative(&v) && !a##_dec_unless_positive(&v));                  \
		CHECK(a##_dec_if_positive(&v) == 5 && a##_read(&v) == 5);                            \
		a##_set(&v, 0);                                                                      \
		CHECK(a##_dec_if_positive(&v) == -1 && a##_read(&v) == 0);                           \
		CHECK(a##_dec_unless_positive(&v) && !a##_inc_unless_negative(&v));                  \
		CHECK(a##_read(&v) == -1);                                                           \
	}
ATOMICS(atomic, int, ATOMIC_INIT)
ATOMICS(atomic_long, long, ATOMIC_LONG_INIT)
ATOMICS(atomic64, long long, ATOMIC64_INIT)

/* Operations of several threads do not get lost. */
static atomic_t shared = ATOMIC_INIT(0);

static void *add(void *arg)
{
	int i;

	for (i = 0; i < 10000; i++) {
		atomic_inc(&shared);
		atomic_add_unless(&shared, 1, -1);
		atomic_fetch_add_relaxed(1, &shared);
	}
	return arg;
}

static void threads(void)
{
	pthread_t other;

	CHECK(pthread_create(&other, NULL, add, NULL) == 0);
	add(NULL);
	CHECK(pthread_join(other, NULL) == 0);
	CHECK(atomic_read(&shared) == 60000);
}

static struct cpumask one, other, result;

static void sets(void)
{
	cpumask_var_t mask;
	unsigned int cpu, sum = 0;
	int number;

	cpumask_clear(&one);
	CHECK(cpumask_empty(&one) && cpumask_first(&one) >= nr_cpu_ids && cpumask_last(&one) >= nr_cpu_ids);
	cpumask_set_cpu(3, &one);
	cpumask_set_cpu(64, &one);
	cpumask_set_cpu(8191, &one);
	CHECK(cpumask_first(&one) == 3 && cpumask_last(&one) == 8191 && cpumask_weight(&one) == 3);
	CHECK(cpumask_next(-1, &one) == 3 && cpumask_next(3, &one) == 64 && cpumask_next(64, &one) == 8191);
	CHECK(cpumask_next(8191, &one) >= nr_cpu_ids && cpumask_any(&one) == 3 && cpumask_any_but(&one, 3) == 64);
	CHECK(cpumask_test_cpu(64, &one) && !cpumask_test_cpu(65, &one));
	CHECK(!cpumask_test_and_set_cpu(65, &one) && cpumask_test_and_set_cpu(65, &one));
	CHECK(cpumask_test_and_clear_cpu(65, &one) && !cpumask_test_and_clear_cpu(65, &one));
	CHECK(cpumask_first_zero(&one) == 0 && cpumask_next_zero(2, &one) == 4);
	for_each_cpu(cpu, &one)
		sum += cpu;
	CHECK(sum == 3 + 64 + 8191);

	cpumask_clear(&other);
	cpumask_set_cpu(64, &other);
	cpumask_set_cpu(70, &other);
	CHECK(cpumask_first_and(&one, &other) == 64 && cpumask_any_and(&one, &other) == 64);
	CHECK(cpumask_next_and(64, &one, &other) >= nr_cpu_ids && cpumask_intersects(&one, &other));
	sum = 0;
	for_each_cpu_and(number, &one, &other)
		sum += (unsigned int)number;
	CHECK(sum == 64);
	CHECK(cpumask_and(&result, &one, &other) && cpumask_weight(&result) == 1 && cpumask_subset(&result, &one));
	CHECK(cpumask_andnot(&result, &one, &other) && cpumask_weight(&result) == 2);
	CHECK(!cpumask_and(&result, &result, &other) && !cpumask_subset(&other, &one));
	CHECK(cpumask_or(&result, &one, &other) && cpumask_weight(&result) == 4);
	CHECK(cpumask_xor(&result, &one, &other) && cpumask_weight(&result) == 3);
	cpumask_copy(&result, &one);
	CHECK(cpumask_equal(&result, &one) && !cpumask_equal(&result, &other));
	cpumask_complement(&result, &one);
	sum = 0;
	for_each_cpu_not(cpu, &result)
		sum += cpu;
	CHECK(sum == 3 + 64 + 8191 && !cpumask_full(&result));
	cpumask_setall(&result);
	CHECK(cpumask_full(&result));

	/* Round from a start: each once, in that order. */
	sum = 0;
	for_each_cpu_wrap(cpu, &one, 64)
		sum = sum * 10 + (cpu == 64 ? 1 : cpu == 8191 ? 2 : 3);
	CHECK(sum == 123);
	for_each_cpu_wrap(cpu, &one, 0)
		sum = sum * 10 + (cpu == 64 ? 1 : cpu == 8191 ? 2 : 3);
	CHECK(sum == 123312);
	for_each_cpu_wrap(cpu, &one, 65)
		sum = sum * 10 + (cpu == 64 ? 1 : cpu == 8191 ? 2 : 3);
	CHECK(sum == 123312231);
	cpumask_clear(&other);
	for_each_cpu_wrap(cpu, &other, 5)
		CHECK(0);

	CHECK(zalloc_cpumask_var(&mask, 0) && cpumask_available(mask) && cpumask_empty(mask));
	sum = 0;
	for_each_online_cpu(cpu) {
		CHECK(cpu_online(cpu) && cpu_possible(cpu) && cpu_present(cpu));
		cpumask_set_cpu(cpu, mask);
		sum++;
	}
	CHECK(sum >= 1 && sum == num_online_cpus() && sum == num_possible_cpus() && cpumask_equal(mask, cpu_online_mask));
	for_each_possible_cpu(cpu)
		sum--;
	for_each_present_cpu(cpu)
		sum++;
	CHECK(sum == num_present_cpus() && sum == num_active_cpus() && !cpu_online(8190));
	free_cpumask_var(mask);
	CHECK(alloc_cpumask_var_node(&mask, 0, 0));
	free_cpumask_var(mask);
}

static void jiffy(void)
{
	unsigned long now = jiffies, soon = now + 3600 * HZ;

	CHECK(get_jiffies_64() >= now && time_before_eq(now, jiffies));
	CHECK(secs_to_jiffies(3) == 3UL * HZ && msecs_to_jiffies(1000) == (unsigned long)HZ);
	CHECK(jiffies_to_msecs(HZ) == 1000 && jiffies_to_usecs(HZ) == 1000000 && jiffies_to_nsecs(HZ) == 1000000000ULL);
	CHECK(jiffies_to_nsecs(3600UL * HZ) == 3600000000000ULL && jiffies64_to_msecs(HZ / 2) == 1000ULL * (HZ / 2) / HZ);
	CHECK(nsecs_to_jiffies64(1000000000ULL) == HZ && jiffies64_to_nsecs(HZ) == 1000000000ULL);
	/* Part of a millisecond counts as one. */
	CHECK(jiffies_to_msecs(1) == (1000 + HZ - 1) / HZ && jiffies_to_msecs(HZ + 1) == 1000 + jiffies_to_msecs(1));
	CHECK(jiffies_to_msecs(0) == 0 && jiffies_to_msecs(HZ - 1) == (1000 * (HZ - 1) + HZ - 1) / HZ);
	CHECK(nsecs_to_jiffies(999999999) == HZ - 1 && nsecs_to_jiffies64(3600000000000ULL) == 3600ULL * HZ);
	CHECK(nsecs_to_jiffies64(3599999999999ULL) == 3600ULL * HZ - 1);
	CHECK(nsecs_to_jiffies64(~0ULL) == 18446744073ULL * HZ + 709551615ULL * HZ / 1000000000);
	/* Across the end. */
	CHECK(time_after(1UL, ~0UL) && time_before(~0UL, 1UL) && time_after_eq(~0UL, ~0UL));
	CHECK(time_in_range(~0UL, ~0UL - 1, 1UL) && time_in_range(1UL, ~0UL, 1UL) && !time_in_range(2UL, ~0UL, 1UL));
	CHECK(!time_in_range_open(1UL, ~0UL, 1UL) && time_in_range_open(0UL, ~0UL, 1UL));
	CHECK(time_after64(1ULL, ~0ULL) && time_before64(~0ULL, 1ULL) && time_in_range64(0ULL, ~0ULL, 1ULL));
	CHECK(time_after(10U, 5U) && !time_after(5U, 10U) && time_before(5U, 10UL) && !time_after_eq(5U, 10U));
	CHECK(time_after64(10U, 5U) && !time_after_eq64(5U, 10U) && time_in_range(7U, 5U, 10U));
	CHECK(time_after_eq64(1ULL, 1ULL) && time_before_eq64(1ULL, 1ULL));
	CHECK(time_is_after_jiffies(soon) && !time_is_before_jiffies(soon) && time_is_before_eq_jiffies(now));
	CHECK(time_is_after_eq_jiffies(soon) && time_is_before_jiffies(now - 1) && time_is_after_jiffies64(soon));
	CHECK(time_is_before_jiffies64(now - 1));

	/* To whole seconds, and not into the past. */
	soon -= soon % HZ;
	CHECK(round_jiffies(soon) == soon && round_jiffies_up(soon) == soon);
	CHECK(round_jiffies(soon + 1) == soon && round_jiffies_up(soon + 1) == soon + HZ);
	CHECK(round_jiffies(soon + HZ / 4) == soon + HZ && __round_jiffies(soon + HZ - 1, 3) == soon + HZ);
	CHECK(__round_jiffies_up(soon + HZ / 2, 0) == soon + HZ);
	CHECK(cmwq_round_jiffies(soon + 2, soon + 1, false) == soon + 2);
	do {
		now = jiffies;
		soon = now + round_jiffies_relative(10 * HZ);
	} while (now != jiffies);
	CHECK(soon % HZ == 0);
	CHECK(round_jiffies_up_relative(10 * HZ) >= 10UL * HZ && __round_jiffies_up_relative(10 * HZ, 1) <= 11UL * HZ);
	CHECK(__round_jiffies_relative(10 * HZ, 1) <= 11UL * HZ);
}

static const struct cpumask *kept;

static void *keep(void *arg)
{
	kept = cpu_possible_mask;
	return arg;
}

/* The address of a set may be kept, by whomever it was asked for. */
static void kept_sets(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	/* So much memory is given back with the thread. */
	CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 256 << 20) == 0);
	CHECK(pthread_create(&thread, &attr, keep, NULL) == 0 && pthread_join(thread, NULL) == 0);
	CHECK(pthread_attr_destroy(&attr) == 0);
	CHECK(cpumask_weight(kept) == num_possible_cpus());
	CHECK(kept == cpu_possible_mask && kept == cpu_online_mask);
}

/* What is only named. */
static struct lock_class_key key;
static struct lockdep_map map = STATIC_LOCKDEP_MAP_INIT("map", &key);

int main(void)
{
	atomic_numbers();
	atomic_long_numbers();
	atomic64_numbers();
	threads();
	sets();
	kept_sets();
	jiffy();
	lockdep_init_map(&map, "map", &key, 0);
	CHECK(WORK_STRUCT_STATIC == 0 && WORK_STRUCT_STATIC_BIT == 63 && map.cmwq_unused == 0);
	return 0;
}
