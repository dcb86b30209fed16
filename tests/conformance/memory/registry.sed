# SPDX-License-Identifier: MIT
# Puts the row of the backend in memory into a copy of src/backends/registry.c.
/^const struct backend_driver backend_drivers/i\
#include "memory/memory.h"
/^const struct backend_driver backend_drivers/a\
	{ "memory", "the memory of a process, for tests", .ops = &memory_ops },
