# SPDX-License-Identifier: MIT
# Puts the row of the backend in memory into a copy of src/backends/registry.c.
/^const struct backend_driver backend_drivers/i\
#include "memory/memory.h"\
static const struct backend_scheme memory_schemes[] = {\
	{ .name = "memory", .summary = "the memory of a process, for tests" },\
	{ .name = NULL },\
};
/^const struct backend_driver backend_drivers/a\
	{ .schemes = memory_schemes, .ops = &memory_ops },
