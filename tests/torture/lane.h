/* SPDX-License-Identifier: MIT */
/*
 * A lane is a lock and all that happens to it: one round after the other, on the same name, so
 * that fences have to grow from round to round. After a round that failed, the lane goes on with
 * another name, so that what it has left does not fail the next one.
 *
 * lane_open() once; then lane_begin() whenever lane_idle(); lane_turn() when its time has come;
 * lane_ended() for each child that was reaped. A round ends by calling settings.done.
 */
#pragma once

#include "history.h"
#include "plan.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROBE = MAX_CONTENDERS, MAX_STRUCK = 12, MAX_FINDINGS = 12 };

struct lane;

struct settings {
	const char *backend;		/* for people, and part of the seed */
	const char *uri;		/* PORT in it stands for the port of the lane's proxy */
	const char *dlock, *witness, *proxy;
	const char *directory;		/* for histories and logs */
	const char *wallclock;		/* a library that sets clocks, or NULL */
	const char *whole;		/* directory for the histories of all rounds, or NULL */
	bool fair;			/* the strategy has waiters in a line */
	char **options;			/* more options of dlock run, NULL at the end */
	uint64_t seed;
	int server_port;		/* 0: there is none */
	int names;			/* how many names a lane may use */
	struct plan_options plan;
	void (*done)(struct lane *lane, bool failed);
};

struct contender {
	pid_t pid;			/* 0: not started */
	bool ended, struck, killed;	/* struck: by any fault; killed: dlock itself */
	int status;
	int64_t start_ns, exit_ns;
};

struct strike {
	bool fired, over;
	int64_t at_ns, until_ns, over_ns;
	int pidfds[MAX_STRUCK];
	int count;
};

enum phase { PHASE_IDLE, PHASE_RUN, PHASE_PROBE, PHASE_LEFT };

struct lane {
	const struct settings *settings;
	int index, name_number;
	char name[32], uri[256];
	char history[300], log[300];	/* files of this round */
	char control[108];		/* of the proxy */
	pid_t proxy;
	int64_t *clock;			/* ns that the contenders' wall clock is off, or NULL */
	enum phase phase;
	unsigned round;
	int64_t began_ns, phase_ns;	/* when the round, the phase began */
	int64_t next_ns;		/* when lane_turn() is wanted */
	struct plan plan;
	bool clocked;			/* in this round the contenders' clock can be set */
	struct contender contenders[MAX_CONTENDERS + 1];
	struct strike strikes[MAX_FAULTS];
	struct hold carried;		/* the hold with the last fence of the rounds before */
	int64_t late_ns;		/* by how much lane_turn() came too late in this round */
	int findings, probes;
	int64_t retry_ns;		/* no other probe before */
};

int64_t now_ns(void);

void lane_open(struct lane *lane, const struct settings *settings, int index);
void lane_close(struct lane *lane);
void lane_begin(struct lane *lane, unsigned round);
void lane_turn(struct lane *lane);

/* Was PID one of the lane's? Then its status is taken. */
bool lane_ended(struct lane *lane, pid_t pid, int status);

/* A line for people in the history of the lane's round. */
__attribute__((format(printf, 2, 3))) void lane_note(struct lane *lane, const char *format, ...);

/* A finding: the round has failed. */
__attribute__((format(printf, 2, 3))) void lane_find(struct lane *lane, const char *format, ...);

/* What the lane's history has by now; valid until the next call. */
const char *lane_history(const struct lane *lane, size_t *length);
