/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What makes of a read-modify-write that returns a value the full barrier that it is in the kernel. */
#ifndef CMWQ_FULL_BARRIER_H
#define CMWQ_FULL_BARRIER_H

/*
 * To be called behind it, with its order. One instruction of x86, of s390 or of ARM's LSE is a full barrier by itself. A loop
 * is not, such as that of ldaxr and stlxr on ARMv8.0: the compiler's __ATOMIC_SEQ_CST lets accesses behind it be seen before
 * what it stores.
 */
static inline void cmwq_fence_after(int order)
{
#if defined(__x86_64__) || defined(__i386__) || defined(__s390x__) || \
	(defined(__aarch64__) && defined(__ARM_FEATURE_ATOMICS))
	(void)order;
#else
	if (order == __ATOMIC_SEQ_CST)
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#endif
