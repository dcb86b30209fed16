/* SPDX-License-Identifier: MIT */
/* Finds out whether the sentinels, or the nodes of a cluster, are fit to lead to a lock. */
#pragma once

struct findings;
struct redis_node;

/* Asks all of them, one after the other. node has a route, and has had an answer from a server. */
void redis_check_route(struct redis_node *node, struct findings *findings);
