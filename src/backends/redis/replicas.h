/* SPDX-License-Identifier: MIT */
/*
 * ?replicas=N: a hold counts only when N replicas have it, too, so that it survives a failover to
 * one of them. Redis replicates asynchronously. WAIT says how many replicas have what was written
 * over the same connection before.
 */
#pragma once

#include <stdint.h>

struct error;
struct redis_node;
struct uri;

/* Reads ?replicas= into node->replicas: 0 where it is not given. 0, or -1 with *err. */
int redis_replicas_read(struct redis_node *node, const struct uri *uri, struct error *err);

/*
 * Called after a script that has written, and that was sent at sent_ms (CLOCK_BOOTTIME). Waits
 * until node->replicas replicas have it; script and wait together last no longer than one request
 * may. 0; at once, if no replicas are asked for. -1 with *err: too few have it, or it is not known.
 */
int redis_replicas_await(struct redis_node *node, int64_t sent_ms, struct error *err);
