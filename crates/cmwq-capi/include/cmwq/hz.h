/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CMWQ_HZ: how many jiffies a second has. It must be the same number in all files of a program, so it is never taken from
 * <sys/param.h>, whose HZ of 100 is in some files and not in others. The program may define CMWQ_HZ, or HZ as anything but
 * 100; else it is 250. Where it has a <linux/jiffies.h> of its own, HZ is what that says. From here on HZ is the same number.
 */
#if !defined(CMWQ_HZ_H) && !defined(CMWQ_LINUX_JIFFIES_H)
/* A program's own says what HZ is; ours comes back here. */
#include <linux/jiffies.h>
#endif

#ifndef CMWQ_HZ_H
#define CMWQ_HZ_H

#include <cmwq/shims.h>

#ifndef CMWQ_HZ
#if defined(CMWQ_NO_JIFFIES_SHIM) || !defined(CMWQ_LINUX_JIFFIES_H)
#ifndef HZ
#error "the program brings its own jiffies and no HZ: define HZ before this file, or have a <linux/jiffies.h> that does"
#endif
#define CMWQ_HZ HZ
#elif !defined(HZ)
#define CMWQ_HZ 250
#elif HZ != 100
#define CMWQ_HZ HZ
#elif defined(_SYS_PARAM_H) || defined(_LINUX_PARAM_H) || defined(__ASM_GENERIC_PARAM_H)
#define CMWQ_HZ 250
#else
#error "HZ of 100 cannot be told from that of <sys/param.h>: define CMWQ_HZ as 100 in all files, or no HZ at all"
#endif
#endif

#if !defined(HZ) || HZ != CMWQ_HZ
#undef HZ
#define HZ CMWQ_HZ
#endif

#endif
