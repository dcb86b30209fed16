/* SPDX-License-Identifier: MIT */
/* The dialect redisson. redisson.c describes how it works. */
#pragma once

struct backend;
struct error;
struct uri;

/* Opens uri, which has ?dialect=. See struct backend_ops. */
struct backend *redisson_open(const struct uri *uri, struct error *err);
