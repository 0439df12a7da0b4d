/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What arguments of queues and items name. There is no lockdep: nobody looks at these. */
#ifndef CMWQ_LINUX_LOCKDEP_H
#define CMWQ_LINUX_LOCKDEP_H

#include <cmwq/shims.h>

#ifdef CMWQ_NO_LOCKDEP_SHIM
#if __has_include_next(<linux/lockdep.h>)
/* -Wpedantic warns of what follows. */
#pragma GCC system_header
#include_next <linux/lockdep.h>
#endif
#else

struct lock_class_key {
	char cmwq_unused;
};

struct lockdep_map {
	char cmwq_unused;
};

/* Nobody knows who holds a lock. */
#ifndef lockdep_is_held
#define lockdep_is_held(lock) ((void)(lock), 1)
#endif
#define STATIC_LOCKDEP_MAP_INIT(name, key) { 0 }
#define lockdep_init_map(map, name, key, subclass) ((void)(map), (void)(name), (void)(key), (void)(subclass))

#endif
#endif
