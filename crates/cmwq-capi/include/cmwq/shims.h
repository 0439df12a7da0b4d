/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which of the kernel's small headers the program brings itself. CMWQ_NO_KERNEL_SHIMS: all of them. Else one by one:
 * CMWQ_NO_ATOMIC_SHIM, _CPUMASK_, _DEVICE_, _JIFFIES_, _LIST_, _LOCKDEP_, _RCU_, _TIMER_. The file of that name beside this
 * folder is then empty, but for the program's own file of the same name, if that comes later in the compiler's path. A file
 * that comes earlier takes the place of ours without these.
 */
#ifndef CMWQ_SHIMS_H
#define CMWQ_SHIMS_H

#ifdef CMWQ_NO_KERNEL_SHIMS
#ifndef CMWQ_NO_ATOMIC_SHIM
#define CMWQ_NO_ATOMIC_SHIM
#endif
#ifndef CMWQ_NO_CPUMASK_SHIM
#define CMWQ_NO_CPUMASK_SHIM
#endif
#ifndef CMWQ_NO_DEVICE_SHIM
#define CMWQ_NO_DEVICE_SHIM
#endif
#ifndef CMWQ_NO_JIFFIES_SHIM
#define CMWQ_NO_JIFFIES_SHIM
#endif
#ifndef CMWQ_NO_LIST_SHIM
#define CMWQ_NO_LIST_SHIM
#endif
#ifndef CMWQ_NO_LOCKDEP_SHIM
#define CMWQ_NO_LOCKDEP_SHIM
#endif
#ifndef CMWQ_NO_RCU_SHIM
#define CMWQ_NO_RCU_SHIM
#endif
#ifndef CMWQ_NO_TIMER_SHIM
#define CMWQ_NO_TIMER_SHIM
#endif
#endif

#endif
