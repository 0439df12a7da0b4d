/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * As much of RCU as rcu_work needs: read-side sections that it waits for, of this library's own. A section
 * takes a lock for a moment, and may block. A program with an RCU of its own (liburcu) uses that one's
 * sections, tells of its grace periods by cmwq_set_rcu() in <cmwq.h>, and defines CMWQ_NO_RCU_SHIM.
 */
#ifndef CMWQ_LINUX_RCUPDATE_H
#define CMWQ_LINUX_RCUPDATE_H

/* What a grace period needs to remember what waits for it. */
struct rcu_head {
	struct rcu_head *next;
	void (*func)(struct rcu_head *head);
};
#define CMWQ_RCU_HEAD rcu_head

#ifdef __cplusplus
extern "C" {
#endif
void cmwq_rcu_read_lock(void);
void cmwq_rcu_read_unlock(void);
void cmwq_synchronize_rcu(void);
#ifdef __cplusplus
}
#endif

/* Sections nest. Whoever begins one ends it, on the same thread. */
static inline void rcu_read_lock(void)
{
	cmwq_rcu_read_lock();
}

static inline void rcu_read_unlock(void)
{
	cmwq_rcu_read_unlock();
}

/* Waits until all sections that are open now have ended; inside of one that is said, and it returns. */
static inline void synchronize_rcu(void)
{
	cmwq_synchronize_rcu();
}

#endif
