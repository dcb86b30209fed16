/* SPDX-License-Identifier: MIT */
/* Draws a random plan of contenders and faults. */
#include "plan.h"

#include <string.h>

static const char *const fault_names[FAULT_KINDS] = {
	[FAULT_KILL] = "kill",
	[FAULT_STOP] = "stop",
	[FAULT_GROUP_KILL] = "group-kill",
	[FAULT_GROUP_STOP] = "group-stop",
	[FAULT_ALL_KILL] = "all-kill",
	[FAULT_ALL_STOP] = "all-stop",
	[FAULT_CUT] = "cut",
	[FAULT_BLACKHOLE] = "blackhole",
	[FAULT_LOST_REPLY] = "lost-reply",
	[FAULT_DELAY] = "delay",
	[FAULT_CLOCK] = "clock",
	[FAULT_SERVER_STOP] = "server-stop",
	[FAULT_SERVER_RESTART] = "server-restart",
	[FAULT_SERVER_CLOCK] = "server-clock",
	[FAULT_SERVER_FULL] = "server-full",
};

/* How often each kind is drawn in a round. What is done to the server is not part of a round. */
static const int weights[FAULT_KINDS] = {
	[FAULT_KILL] = 24,	[FAULT_STOP] = 24,	[FAULT_GROUP_KILL] = 8,
	[FAULT_GROUP_STOP] = 8, [FAULT_ALL_KILL] = 4,	[FAULT_ALL_STOP] = 8,
	[FAULT_CUT] = 10,	[FAULT_BLACKHOLE] = 10, [FAULT_LOST_REPLY] = 10,
	[FAULT_DELAY] = 8,	[FAULT_CLOCK] = 6,
};

const char *fault_name(enum fault_kind kind)
{
	return fault_names[kind];
}

enum fault_kind fault_by_name(const char *name)
{
	int kind;

	for (kind = 0; kind < FAULT_KINDS; kind++)
		if (strcmp(fault_names[kind], name) == 0)
			break;
	return (enum fault_kind)kind;
}

const char *role_name(enum role role)
{
	static const char *const names[ROLES] = { "dlock", "guard", "keeper", "command" };

	return names[role];
}

/* splitmix64, by Sebastiano Vigna (public domain). */
uint64_t random_next(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

int random_in(struct random *random, int low, int high)
{
	return low + (int)(random_next(random) % (uint64_t)(high - low + 1));
}

static bool one_in(struct random *random, int count)
{
	return random_in(random, 1, count) == 1;
}

static bool is_possible(const struct plan_options *options, int kind)
{
	if (!weights[kind] || !(options->kinds & 1U << kind))
		return false;
	if (kind == FAULT_CLOCK)
		return options->clock;
	return options->network || kind < FAULT_CUT || kind > FAULT_DELAY;
}

/* -1: none is possible */
static int draw_kind(struct random *random, const struct plan_options *options)
{
	int kind, total = 0, drawn;

	for (kind = 0; kind < FAULT_KINDS; kind++)
		total += is_possible(options, kind) ? weights[kind] : 0;
	if (!total)
		return -1;
	drawn = random_in(random, 1, total);
	for (kind = 0; kind < FAULT_KINDS; kind++) {
		drawn -= is_possible(options, kind) ? weights[kind] : 0;
		if (drawn <= 0)
			break;
	}
	return kind;
}

static void plan_fault(struct fault_plan *fault, struct random *random,
		       const struct plan_options *options, const struct plan *plan, int kind)
{
	static const enum role roles[] = { ROLE_DLOCK, ROLE_GUARD, ROLE_KEEPER, ROLE_COMMAND };

	*fault = (struct fault_plan){ .kind = (enum fault_kind)kind };
	fault->at_ms = random_in(random, 5, 250 * plan->contender_count);
	/* from a moment to longer than the lease */
	fault->for_ms = one_in(random, 3) ? random_in(random, 10, 200) :
					    random_in(random, 200, plan->ttl_ms * 3 / 2);
	fault->then_kill = one_in(random, 4);
	fault->victim = one_in(random, 3) ? random_in(random, 0, plan->contender_count - 1) : -1;
	do {
		fault->role = roles[random_in(random, 0, 3)];
	} while (fault->role == ROLE_KEEPER && !options->network);
	if (kind == FAULT_LOST_REPLY)
		fault->number = random_in(random, 1, 6);
	else if (kind == FAULT_DELAY)
		fault->number = random_in(random, 20, 600);
	else if (kind == FAULT_CLOCK)
		fault->number = random_in(random, 1, 100000) * (one_in(random, 2) ? 1000 : -1000);
}

static bool is_of_one(const struct fault_plan *fault)
{
	return fault->kind == FAULT_KILL || fault->kind == FAULT_STOP;
}

/*
 * Could what is planned hit both dlock and its guard? Then nobody may be left who could end what
 * the command has left behind: this is what --contain is for, and without it the contract promises
 * the end of the command alone. A group has the process that was started in it.
 */
static bool may_hit_both(const struct plan *plan)
{
	const unsigned both = 1U << ROLE_DLOCK | 1U << ROLE_GUARD;
	enum fault_kind kind;
	unsigned hit = 0;
	int i;

	for (i = 0; i < plan->fault_count; i++) {
		kind = plan->faults[i].kind;
		if (kind == FAULT_ALL_KILL || kind == FAULT_ALL_STOP)
			return true;
		if (is_of_one(&plan->faults[i]))
			hit |= 1U << plan->faults[i].role;
		else if (kind < FAULT_CUT)
			hit |= 1U << ROLE_DLOCK;
	}
	return (hit & both) == both;
}

static void plan_contenders(struct plan *plan, struct random *random,
			    const struct plan_options *options)
{
	bool daemons = options->contained || !may_hit_both(plan);
	int i, drawn = random_in(random, 1, 8), slots = random_in(random, 2, 3);
	struct contender_plan *contender;

	for (i = 0; i < plan->contender_count; i++) {
		contender = &plan->contenders[i];
		contender->start_ms = i == 0 ? 0 : random_in(random, 0, 60 * i);
		contender->command_ms = random_in(random, 20, 300);
		/* some need a renewal, or outlive their lease if there is none */
		if (one_in(random, 4))
			contender->command_ms = random_in(random, plan->ttl_ms / 2,
							  plan->ttl_ms * 3 / 2);
		contender->wait_ms = 20000;
		if (one_in(random, 8))
			contender->wait_ms = one_in(random, 2) ? 0 : random_in(random, 20, 600);
		if (drawn == 1 && options->slots)
			contender->slots = slots;
		else if (drawn == 2 && options->shared)
			contender->slots = one_in(random, 3) ? 0 : -1;
		contender->kill_after_ms = random_in(random, 50, 330);
		contender->daemon = one_in(random, 3) && daemons;
		contender->ignores_term = one_in(random, 4);
	}
}

/* Drawn behind all else: a seed's other rounds are the same with these and without. */
static void vary_contenders(struct plan *plan, struct random *random,
			    const struct plan_options *options)
{
	bool both = may_hit_both(plan);
	struct contender_plan *contender;
	int i;

	plan->queue = one_in(random, 6);
	/* a waiter that nobody wakes is one that begins when a lease has ended */
	if (plan->queue)
		plan->ttl_ms = random_in(random, 8000, 10000);
	for (i = 0; i < plan->contender_count; i++) {
		contender = &plan->contenders[i];
		if (plan->queue) {
			contender->start_ms = i == 0 ? 0 : contender[-1].start_ms +
							   random_in(random, 2600, 3500);
			contender->command_ms = i == 0 ? random_in(random, 4000, 12000) :
							 random_in(random, 20, 300);
			contender->wait_ms = 30000;
			contender->slots = 0;
		}
		contender->contain = one_in(random, 4);
		if (contender->contain && both)
			contender->daemon = one_in(random, 3);
		if (one_in(random, 6))
			contender->min_hold_ms = random_in(random, 100, 800);
		if (one_in(random, 8))
			contender->max_run_ms = random_in(random, 50, 400);
		/* A guard that gets no processor at the end of the lease counts as killed: see
		 * may_hit_both(). */
		contender->no_renew = options->network && one_in(random, 8) &&
				      (!contender->daemon || contender->contain);
		contender->if_down_wait = options->network && one_in(random, 6);
		contender->leftovers_wait = !contender->daemon && one_in(random, 8);
	}
}

void plan_make(struct plan *plan, const struct plan_options *options, uint64_t seed,
	       const char *backend, unsigned round)
{
	struct random random = { seed };
	int kind;

	for (; *backend; backend++)
		random.state = random_next(&random) ^ (unsigned char)*backend;
	random.state = random_next(&random) ^ round;
	memset(plan, 0, sizeof(*plan));
	plan->ttl_ms = random_in(&random, 1000, 2000);
	plan->contender_count = random_in(&random, 2, MAX_CONTENDERS);
	plan->fault_count = random_in(&random, 1, MAX_FAULTS);
	for (int i = 0; i < plan->fault_count; i++) {
		kind = draw_kind(&random, options);
		if (kind < 0)
			plan->fault_count = 0;
		else
			plan_fault(&plan->faults[i], &random, options, plan, kind);
	}
	plan_contenders(plan, &random, options);
	if (options->varied)
		vary_contenders(plan, &random, options);
}
