/* SPDX-License-Identifier: MIT */
/* What a process that ends a hold does for the waiters that come next. */
#pragma once

#include <stdint.h>

struct zk_backend;
struct zk_call;

/*
 * Waits until those whose turn it is have taken it, and removes the places of those who do not
 * take it in time, until somebody has taken it, nobody is there, or until_ms (CLOCK_BOOTTIME).
 * Best effort. names: what zk_list() has answered after the last holder went; freed here.
 */
void zk_hand_over(struct zk_backend *zk, const char *directory, struct zk_call *names,
		  int64_t until_ms);
