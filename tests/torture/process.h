/* SPDX-License-Identifier: MIT */
/*
 * Whose processes are whose. Every process that a contender starts inherits TORTURE_MARK, which
 * has the word of this harness, the number of the round and of the contender. One look into /proc
 * serves all rounds: what is known of a process is kept, and only new ones are read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t pid;
	unsigned round;		/* 0: not in a round */
	int contender;
	bool sure;		/* the mark was looked for after it could have been there */
	int64_t first_ns;	/* when it was first seen */
};

/* The word by which this harness knows its own processes from those of others. */
void process_word(const char *word);

/* The mark of a contender, for its environment. */
void process_mark(char *mark, size_t size, unsigned round, int contender);

/* Looks round. The clock is passed in, for processes just begun do not have their mark yet. */
void process_look(int64_t now_ns);

/*
 * The next process of that contender (-1: of any, and of the round's own probe) among those that
 * the last look has found, in the order of pids, from *AT on, which is 0 at first. NULL: no more.
 */
const struct process *process_next(unsigned round, int contender, size_t *at);

/* The name that the process has given itself, "" when it is gone or a zombie. */
const char *process_name(pid_t pid);
