/* SPDX-License-Identifier: MIT */
#include "redlock.h"

#include "base/clock.h"

/* How often names are looked up that could not be found. */
#define LOOK_UP_MS 30000

void redlock_look_up(struct redlock *lock)
{
	if (lock->looked_up_ms && clock_boot_ms() < lock->looked_up_ms + LOOK_UP_MS)
		return;
	for (int i = 0; i < lock->count; i++)
		redlock_node_look_up(&lock->nodes[i], &lock->nodes[i].error);
	lock->looked_up_ms = clock_boot_ms();
}

void redlock_begin(struct redlock *lock, const char *name)
{
	redis_make_keys(lock->prefix, name, lock->keys);
	redlock_look_up(lock);
}
