/* SPDX-License-Identifier: MIT */
/* The dialect shedlock: locks in the table of Java's ShedLock. */
#pragma once

#include "run.h"

struct shedlock {
	struct mysql_backend my;
	char zone[80];			/* ready for SQL */
	int64_t pause_ms;		/* the last one between two tries; 0: not waiting */
};

extern const struct backend_ops shedlock_ops;

int shedlock_open(struct backend *backend, const struct uri *uri, struct error *err);
int shedlock_check(struct backend *backend, struct findings *findings, struct error *err);
