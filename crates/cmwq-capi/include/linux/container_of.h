/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* From a member to the object that holds it. */
#ifndef CMWQ_LINUX_CONTAINER_OF_H
#define CMWQ_LINUX_CONTAINER_OF_H

#include <stddef.h>

#ifndef container_of
#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(void *)(ptr) - offsetof(type, member)))
#endif

#endif
