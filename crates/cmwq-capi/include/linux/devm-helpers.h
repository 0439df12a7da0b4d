/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Items that are initialised now and cancelled at the end of a device: see devm_alloc_workqueue() for what that is. */
#ifndef CMWQ_LINUX_DEVM_HELPERS_H
#define CMWQ_LINUX_DEVM_HELPERS_H

#include <linux/workqueue.h>

static inline void cmwq_cancel_with_device(void *work)
{
	cancel_work_sync((struct work_struct *)work);
}

static inline void cmwq_cancel_delayed_with_device(void *dwork)
{
	cancel_delayed_work_sync((struct delayed_work *)dwork);
}

/* 0, or what the program's CMWQ_DEVM_ADD_ACTION says when it fails. */
static inline int devm_work_autocancel(struct device *dev, struct work_struct *work, work_func_t func)
{
	INIT_WORK(work, func);
	return CMWQ_DEVM_ADD_ACTION(dev, cmwq_cancel_with_device, work);
}

static inline int devm_delayed_work_autocancel(struct device *dev, struct delayed_work *dwork, work_func_t func)
{
	INIT_DELAYED_WORK(dwork, func);
	return CMWQ_DEVM_ADD_ACTION(dev, cmwq_cancel_delayed_with_device, dwork);
}

#endif
