/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * As much of devices as queues need that go with one: an address to keep them by. devres_release_all() is what
 * the driver core calls when a driver lets its device go.
 */
#ifndef CMWQ_LINUX_DEVICE_H
#define CMWQ_LINUX_DEVICE_H

#include <cmwq/shims.h>

#ifdef CMWQ_NO_DEVICE_SHIM
#if __has_include_next(<linux/device.h>)
/* -Wpedantic warns of what follows. */
#pragma GCC system_header
#include_next <linux/device.h>
#endif
#else

struct device {
	const char *init_name;
	void *driver_data;
};

#ifdef __cplusplus
extern "C" {
#endif
int cmwq_devm_add_action(void *dev, void (*action)(void *), void *data);
int cmwq_devres_release_all(void *dev);
#ifdef __cplusplus
}
#endif

/* Notes what to do at the device's end; what was noted last is done first. It fails in a handler of a fork only. */
static inline int devm_add_action_or_reset(struct device *dev, void (*action)(void *), void *data)
{
	return cmwq_devm_add_action(dev, action, data);
}

/* The device's end. Returns how much was done. */
static inline int devres_release_all(struct device *dev)
{
	return cmwq_devres_release_all(dev);
}

#endif
#endif
