/* SPDX-License-Identifier: MIT */
/* A Redis cluster, in which each lock is on one of several masters. */
#pragma once

struct error;
struct redis_route;
struct uri;

/* The route for redis+cluster://NODE[,NODE...]. NULL with *err. */
struct redis_route *redis_cluster_open(const struct uri *uri, struct error *err);
