/* SPDX-License-Identifier: MIT */
/* What a server reports about itself. */
#pragma once

#include <stddef.h>

struct redis_node;

/*
 * Each fills buf, of size bytes, and returns it; "" when there is no such value.
 *
 * The value of "name:" in the text of INFO or CLUSTER INFO.
 */
const char *redis_info_field(const char *info, const char *name, char *buf, size_t size);

/* A setting, by CONFIG GET, which is forbidden on many managed servers. */
const char *redis_setting(struct redis_node *node, const char *name, char *buf, size_t size);
