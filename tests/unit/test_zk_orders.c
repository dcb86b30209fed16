/* SPDX-License-Identifier: MIT */
/*
 * Searches all orders in which the requests of three clients can reach a ZooKeeper server, with the
 * rules of backends/zookeeper/acquire.c for exclusive holds: two clients never hold at once. Each
 * request is one step of the server, and any time may pass between two steps of a client, so that
 * every stop of a client and every slow reply is one of the orders. The session of a client may end
 * at any step but while a lease lasts, which a write has proven. The guard ends the command of a
 * client that is stopped for longer.
 *
 * Each RULE but RULES_KEPT and LIST_BEFORE_WRITE breaks one rule. Then the search must find two
 * holders.
 */
#include <stdlib.h>

#include "unit.h"

#include "base/memory.h"

enum { CLIENTS = 3, LIVES = 2 };

enum rule {
	RULES_KEPT,
	LIST_BEFORE_WRITE,	/* reads the queue first, and then writes: as good */
	HOLD_WITHOUT_WRITE,	/* holds as soon as the queue is free, without a proof of its own */
	WRITE_WITHOUT_LIST,	/* holds as soon as it has written */
	NEW_HOLDS,		/* holds as soon as its entry is made */
};

enum does {
	AWAY, MADE, WAITS, CLAIMED, SAW_FREE, DECIDED, HOLDS,
};

struct client {
	unsigned does;
	unsigned life;	/* how many entries it has made */
	/* Its entry at the server. */
	unsigned there;
	unsigned order;	/* how many entries came before */
	unsigned leased;	/* a write has just proven its session */
};

struct world {
	struct client clients[CLIENTS];
};

static enum rule rule;
static uint64_t *seen;			/* a hash table of worlds; 0: empty */
static size_t seen_count, seen_size;
static struct world *left;		/* worlds whose steps are still to be tried */
static size_t left_count, left_size;
static bool overlap;

static uint64_t pack_world(const struct world *world)
{
	uint64_t key = 0;

	for (int i = 0; i < CLIENTS; i++) {
		const struct client *c = &world->clients[i];

		key = key << 3 | c->does;
		key = key << 2 | c->life;
		key = key << 1 | c->there;
		key = key << 2 | c->order;
		key = key << 1 | c->leased;
	}
	return key | UINT64_C(1) << 63;
}

static bool insert_key(uint64_t key)
{
	size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (seen_size - 1);

	for (; seen[i]; i = (i + 1) & (seen_size - 1))
		if (seen[i] == key)
			return false;
	seen[i] = key;
	seen_count++;
	return true;
}

static void grow_table(void)
{
	uint64_t *old = seen;
	const size_t size = seen_size;

	seen_size = size ? 2 * size : 1 << 16;
	seen = calloc(seen_size, sizeof(*seen));
	seen_count = 0;
	for (size_t i = 0; i < size; i++)
		if (old[i])
			insert_key(old[i]);
	free(old);
}

/* Here a world is reached. */
static void reach_world(const struct world *world)
{
	int holders = 0;

	for (int i = 0; i < CLIENTS; i++)
		holders += world->clients[i].does == HOLDS;
	overlap |= holders > 1;
	if (2 * seen_count >= seen_size)
		grow_table();
	if (!insert_key(pack_world(world)))
		return;
	if (left_count == left_size) {
		left_size = left_size ? 2 * left_size : 1024;
		left = memory_resize(left, left_size, sizeof(*left));
	}
	left[left_count++] = *world;
}

/* The entry of client i ends. Those behind it move up. */
static void end_entry(struct world *world, int i)
{
	struct client *ended = &world->clients[i];

	if (!ended->there)
		return;
	for (int k = 0; k < CLIENTS; k++)
		if (world->clients[k].there && world->clients[k].order > ended->order)
			world->clients[k].order--;
	ended->there = ended->order = ended->leased = 0;
}

static void make_entry(struct world *world, int i)
{
	struct client *c = &world->clients[i];

	for (int k = 0; k < CLIENTS; k++)
		c->order += k != i && world->clients[k].there;
	c->there = c->leased = 1;
	c->life++;
	c->does = rule == NEW_HOLDS ? DECIDED : MADE;
}

/* A write to its own entry, which fails where that has ended. */
static void write_entry(struct client *c, enum does next)
{
	c->leased = c->there;
	c->does = c->there ? next : AWAY;
}

/* A list request: nothing before its entry, or something, or the entry is gone. */
static void list_entries(struct client *c, enum does free)
{
	c->does = !c->there ? AWAY : !c->order ? free : WAITS;
	/* While it waits, its last write proves nothing. */
	if (c->does == WAITS)
		c->leased = 0;
}

/* What client i does next with its own entry. */
static void step_client(struct world world, int i)
{
	struct client *c = &world.clients[i];

	switch ((enum does)c->does) {
	case AWAY:
		if (c->life == LIVES)
			return;
		make_entry(&world, i);
		break;
	case MADE:
	case CLAIMED:
		list_entries(c, DECIDED);
		break;
	case WAITS:
		/* It believes that its turn has come, rightly or not. */
		if (rule == LIST_BEFORE_WRITE || rule == HOLD_WITHOUT_WRITE)
			list_entries(c, rule == HOLD_WITHOUT_WRITE ? DECIDED : SAW_FREE);
		else
			write_entry(c, rule == WRITE_WITHOUT_LIST ? DECIDED : CLAIMED);
		break;
	case SAW_FREE:
		write_entry(c, DECIDED);
		break;
	case DECIDED:
		c->does = HOLDS;
		break;
	case HOLDS:
		c->does = AWAY;
		break;
	}
	if (c->does == AWAY)
		end_entry(&world, i);
	reach_world(&world);
}

/* The session of client i ends, which the client does not know yet. */
static void expire_session(struct world world, int i)
{
	if (!world.clients[i].there || world.clients[i].leased)
		return;
	end_entry(&world, i);
	reach_world(&world);
}

/* The lease of a client that is slow ends before it holds. Then it starts no command. */
static void end_lease(struct world world, int i)
{
	struct client *c = &world.clients[i];

	if (!c->leased || c->does == HOLDS)
		return;
	c->leased = 0;
	if (c->does == DECIDED || c->does == MADE || c->does == CLAIMED)
		c->does = WAITS;
	reach_world(&world);
}

static void try_steps(const struct world *world)
{
	for (int i = 0; i < CLIENTS; i++) {
		step_client(*world, i);
		expire_session(*world, i);
		end_lease(*world, i);
	}
}

static void search_worlds(enum rule broken, bool expected, const char *name)
{
	const struct world start = { 0 };
	struct world world;

	unit_case("%s", name);
	rule = broken;
	overlap = false;
	free(seen);
	seen = NULL;
	seen_size = seen_count = left_count = 0;
	reach_world(&start);
	while (left_count && !overlap) {
		world = left[--left_count];
		try_steps(&world);
	}
	CHECK_INT(overlap, expected);
	/* The search has gone somewhere. */
	CHECK(overlap || seen_count > 1000);
	printf("# %zu worlds\n", seen_count);
}

int main(void)
{
	search_worlds(RULES_KEPT, false, "a write, then the queue is read");
	search_worlds(LIST_BEFORE_WRITE, false, "the queue is read, then a write");
	search_worlds(HOLD_WITHOUT_WRITE, true, "no write");
	search_worlds(WRITE_WITHOUT_LIST, true, "no list");
	search_worlds(NEW_HOLDS, true, "no list after it was made");
	free(seen);
	free(left);
	return unit_done();
}
