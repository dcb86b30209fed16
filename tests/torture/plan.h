/* SPDX-License-Identifier: MIT */
/*
 * What a round is to be: who contends for the lock, and what is done to whom. Made of the seed,
 * the name of the backend and the number of the round alone, so that a round can be played again;
 * what the schedulers of the machine make of it is different each time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MAX_CONTENDERS = 5, MAX_FAULTS = 3 };

enum fault_kind {
	FAULT_KILL,		/* SIGKILL to one process */
	FAULT_STOP,		/* SIGSTOP to one process, and SIGCONT or SIGKILL later */
	FAULT_GROUP_KILL,	/* the same to the process group of the dlock that was started */
	FAULT_GROUP_STOP,
	FAULT_ALL_KILL,		/* the same to all processes of one dlock, one after the other */
	FAULT_ALL_STOP,
	FAULT_CUT,		/* all connections of the lock's contenders are reset */
	FAULT_BLACKHOLE,	/* nothing gets through, for a while */
	FAULT_LOST_REPLY,	/* a request reaches the server, then its connection is reset */
	FAULT_DELAY,		/* what the server says comes late, for a while */
	FAULT_CLOCK,		/* the wall clock of the contenders is set */
	FAULT_SERVER_STOP,	/* the server is stopped for a while; for all locks at once */
	FAULT_SERVER_RESTART,	/* it is killed, and started again with its data */
	FAULT_SERVER_CLOCK,	/* its wall clock is set back */
	FAULT_SERVER_FULL,	/* its disk is full, for a while */
	FAULT_KINDS
};

/* Which process of a contender. */
enum role { ROLE_DLOCK, ROLE_GUARD, ROLE_KEEPER, ROLE_COMMAND, ROLES };

struct contender_plan {
	int start_ms;		/* after the begin of the round */
	int command_ms;
	int wait_ms;		/* 0: -n */
	int slots;		/* 0: exclusive, -1: shared */
	int kill_after_ms;
	bool daemon, ignores_term;
	/* drawn only if options vary */
	int min_hold_ms, max_run_ms;	/* 0: without */
	bool no_renew, contain, if_down_wait, leftovers_wait;
};

struct fault_plan {
	enum fault_kind kind;
	enum role role;
	int at_ms;		/* after the begin of the round */
	int for_ms;
	bool then_kill;		/* a stopped process is killed instead of continued */
	int victim;		/* which contender, -1: whoever holds the lock then */
	int number;		/* of the request whose reply is lost; ms by which a clock is set */
};

struct plan {
	int ttl_ms;
	int contender_count, fault_count;
	bool queue;		/* those behind the first come one after the other and wait */
	struct contender_plan contenders[MAX_CONTENDERS];
	struct fault_plan faults[MAX_FAULTS];
};

/* What the backend has, and what the one who calls wants. */
struct plan_options {
	bool shared, slots;	/* the strategy has them */
	bool network;		/* there is a server, behind a proxy; and a keeper */
	bool clock;		/* the contenders' clock can be set */
	bool contained;		/* dlock is run with --contain */
	bool varied;		/* contenders have options of their own, and some rounds a queue */
	unsigned kinds;		/* a bit for each fault_kind that is wanted */
};

struct random {
	uint64_t state;
};

uint64_t random_next(struct random *random);

/* A number from LOW to HIGH, both included. */
int random_in(struct random *random, int low, int high);

void plan_make(struct plan *plan, const struct plan_options *options, uint64_t seed,
	       const char *backend, unsigned round);

const char *fault_name(enum fault_kind kind);
const char *role_name(enum role role);

/* The kind of that name, or FAULT_KINDS. */
enum fault_kind fault_by_name(const char *name);
