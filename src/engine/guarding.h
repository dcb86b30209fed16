/* SPDX-License-Identifier: MIT */
/*
 * The guard's process, from the inside. From its start to its end:
 *
 *	guarding_main()			guard_process.c
 *	  await_order()			waits for the order, and takes the lock
 *	  guarding_start_command()	then executes the command: guard_command.c
 *	  guarding_contain()		or executes it in a namespace, for --contain
 *	  then in a loop, until nothing is left of the tree:
 *	    enforce_deadlines()		acts on the clock
 *	    guarding_read_reports()	reads the command's state: guard_command.c
 *	    stop_tree()			on a loss, or the supervisor's death
 *
 * guard.c is the supervisor's side.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/ipc.h"
#include "base/kernel_timer.h"
#include "supervisor.h"

enum guard_order_type {
	GUARD_ORDER_RUN,
	GUARD_ORDER_SIGNAL,
};

struct guard_order {
	enum guard_order_type type;
	int sig;
	bool group;		/* the signal is for the command's process group */
	bool locked;
	uint64_t fence;		/* 0: unknown */
};

struct guarding {
	const struct supervisor *s;	/* as it was at the fork */
	int fd;			/* to the supervisor; -1 once it is gone */
	int hold_fd;		/* stays open until the tree is dead; -1: none */
	bool locked;		/* the command runs under the lock, */
	uint64_t fence;		/* with this fence; 0: unknown */
	pid_t child;		/* the command's process, or the init of its namespace; 0: none */
	pid_t command;		/* 0 once reaped, because a new process may get the number */
	pid_t group;		/* the command's, used without /proc */
	int report_fd;		/* --contain: the socket of struct report; -1: closed */
	bool ended;		/* the command has ended, with status */
	int status;
	bool leftovers;		/* the command has ended, and left processes behind */
	bool start_sent;	/* GUARD_STARTED was sent, or is not needed */
	bool end_sent;		/* GUARD_EXITED was sent */
	bool stopping;		/* the tree is being ended, */
	bool ending_leftovers;	/* only because the command has ended by itself */
	bool killing;		/* the command got KILL, and its tree is swept */
	int64_t limit_at_ms;	/* end of the command's time; CLOCK_NEVER */
	enum ending limit;	/* the option that sets limit_at_ms */
	int64_t kill_at_ms;	/* while stopping */
	int64_t sweep_at_ms;	/* while killing: when to sweep the tree again */
	int64_t sweep_pause_ms;
	struct kernel_timer wake_timer;	/* continues this process when it has to act, */
	struct kernel_timer kill_timer;	/* and kills it when it has not acted in time */
};

/* ---- guard_process.c ---- */

/* Run the guard's process. fd: to the supervisor. */
void guarding_main(const struct supervisor *s, int fd) __attribute__((noreturn));

/* ---- guard_command.c ---- */

/*
 * Start the command, and set g->child. Returns 0, or -1 with exec_failure or after
 * ipc_record_failure().
 */
int guarding_start_command(struct guarding *g, bool foreground);

/*
 * Fork the init of a new PID namespace, which starts the command there, and set g->child and
 * g->report_fd. Returns 0, or -1 with contain_failure.
 */
int guarding_contain(struct guarding *g, bool foreground);

/*
 * Send an event to the supervisor. Only the last event waits until the supervisor reads.
 */
void guarding_send(const struct guarding *g, struct guard_event event);

/* Send why the command is stopped, or not begun. */
void guarding_send_ending(const struct guarding *g, enum ending why);

/* Was no command executed? The reason is in struct shared. */
static inline bool guarding_is_unused(const struct guarding *g)
{
	return atomic_load(&g->s->shared->exec_failure) ||
	       atomic_load(&g->s->shared->contain_failure);
}

/* With --contain, init and the command's process send reports to the guard over a socket. */
enum report_type {
	REPORT_PID,		/* the sender is to become the command; value: is_announced() */
	REPORT_STOPPED,		/* value: wait status of the command */
	REPORT_ENDED,		/* value: wait status of the command */
	REPORT_LEFTOVERS,	/* the command has ended, and left processes in its namespace */
};

struct report {
	enum report_type type;
	int value;
};

/* Read all reports, and update *g. */
void guarding_read_reports(struct guarding *g);

/* Record that the command has stopped or ended with this wait status. */
void guarding_command_changed(struct guarding *g, int status);
