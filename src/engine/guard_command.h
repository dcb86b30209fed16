/* SPDX-License-Identifier: MIT */
/*
 * The guard's state, and the command: its start by vfork(), which copies no memory and returns
 * after the exec or its failure, and what the guard knows of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/kernel_timer.h"
#include "job.h"
#include "message.h"

struct guarding {
	const struct job *job;	/* as it was at the fork */
	int fd;			/* to the supervisor; -1 once it is gone */
	int hold_fd;		/* stays open until the tree is dead; -1: none */
	bool locked;		/* the command runs under the lock */
	pid_t child;		/* the command's process, or the init of its namespace; 0: none */
	pid_t command;		/* 0 once reaped, because a new process may get the number */
	pid_t group;		/* the command's, used without /proc */
	int report_fd;		/* --contain: the socket of struct report; -1: closed */
	bool ended;		/* the command has ended, with status */
	int status;
	bool leftovers;		/* the command has ended, and left processes behind */
	bool end_sent;		/* GUARD_EXITED was sent */
	bool stopping;		/* the tree is being ended */
	bool ending_leftovers;	/* because the command has ended by itself */
	bool killing;		/* the command got KILL, and its tree is swept */
	int64_t limit_at_ms;	/* end of the command's time; CLOCK_NEVER */
	enum ending limit;	/* the option that sets limit_at_ms */
	int64_t kill_at_ms;	/* while stopping */
	int64_t sweep_at_ms;	/* while killing: when to sweep the tree again */
	int64_t sweep_pause_ms;
	struct kernel_timer wake_timer;	/* continues this process when it has to act, */
	struct kernel_timer kill_timer;	/* and kills it when it has not acted in time */
};

/*
 * Is g->hold_fd the descriptor of a lock of `file:` that this run has taken? That of an outer hold
 * is not this run's to free or to pass on.
 */
bool has_local_lock(const struct guarding *g);

/* Was no command executed? The reason is in struct shared. */
bool is_unused(const struct guarding *g);

/* Record that no command is started, because a call has failed. Returns -1. */
int fail_to_start(const struct guarding *g, const char *what);

/* Send an event to the supervisor. Only the last one waits until the supervisor reads. */
void guard_send(const struct guarding *g, struct guard_event event);

/* Record the pid of the command. */
void record_command(struct guarding *g, pid_t pid);

/* Record that the command has stopped or ended with this wait status. */
void command_changed(struct guarding *g, int status);

/* Let this process, which becomes the command, die with parent, or here if parent has died. */
void die_with(pid_t parent);

/*
 * Execute the command in this process, which may share the guard's memory. foreground: the command
 * gets the terminal. Ends the process when the command cannot be executed.
 */
void execute_or_exit(struct guarding *g, bool foreground) __attribute__((noreturn));

/* Start the command, and set g->child. Returns 0, or -1 with exec_failure or start_failed. */
int start_command(struct guarding *g, bool foreground);
