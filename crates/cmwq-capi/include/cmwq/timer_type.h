/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A timer, by itself and inside of a delayed work item, whatever it is to be called. */
#ifndef CMWQ_TIMER_TYPE_H
#define CMWQ_TIMER_TYPE_H

/* `expires` and `function` may be read, and `expires` written before add_timer(); the rest is the library's. The timer of
 * a delayed work item has no function. */
#define CMWQ_DEFINE_TIMER_TYPE(name)                          \
	struct name {                                         \
		struct {                                      \
			void *next, *prev;                    \
		} cmwq_entry;                                 \
		unsigned long cmwq_due;                       \
		unsigned int cmwq_tag;                        \
		unsigned short cmwq_slot;                     \
		unsigned char cmwq_deferrable;                \
		unsigned char cmwq_pad;                       \
		unsigned long expires;                        \
		void (*function)(struct name *);              \
	}

#endif
