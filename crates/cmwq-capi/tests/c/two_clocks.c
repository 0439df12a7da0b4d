/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* As if it were two files, with another HZ each. */
#include <linux/jiffies.h>

static unsigned long other_file(void)
{
	return cmwq_jiffies(1000);
}

int main(void)
{
	int i, is_later = 1;

	for (i = 0; i < 3; i++)
		is_later &= jiffies <= other_file();
	return !is_later;
}
