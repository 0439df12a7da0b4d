/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* From a member to the object that holds it. */
#ifndef CMWQ_LINUX_CONTAINER_OF_H
#define CMWQ_LINUX_CONTAINER_OF_H

#include <stddef.h>

#ifndef container_of
#ifdef __cplusplus
#define CMWQ_IS_TO_MEMBER(ptr, type, member) 0
#else
/* 0; it does not compile if `ptr` leads to something else than such a member, but for void. */
#define CMWQ_IS_TO_MEMBER(ptr, type, member)                                                                 \
	(0 * __extension__ sizeof(char[__builtin_types_compatible_p(__typeof__(*(ptr)),                      \
								    __typeof__(((type *)0)->member)) ||      \
						       __builtin_types_compatible_p(__typeof__(*(ptr)), void) \
					       ? 1                                                           \
					       : -1]))
#endif
#define container_of(ptr, type, member)                                  \
	((type *)(void *)((char *)(void *)(ptr) - offsetof(type, member) - \
			  CMWQ_IS_TO_MEMBER(ptr, type, member)))
#endif

/* The same, and the object is const where the member is. */
#ifndef container_of_const
#ifdef __cplusplus
extern "C++" {
template <class Type, class Member> static inline Type *cmwq_holder(Member *member, size_t offset)
{
	return (Type *)(void *)((char *)(void *)member - offset);
}
template <class Type, class Member> static inline const Type *cmwq_holder(const Member *member, size_t offset)
{
	return (const Type *)(const void *)((const char *)(const void *)member - offset);
}
}
#define container_of_const(ptr, type, member) (cmwq_holder<type>((ptr), offsetof(type, member)))
#else
#define container_of_const(ptr, type, member)                                                     \
	_Generic((ptr), const __typeof__(*(ptr)) *: (const type *)container_of(ptr, type, member), \
		 default: container_of(ptr, type, member))
#endif
#endif

#endif
