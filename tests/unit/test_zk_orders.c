/* SPDX-License-Identifier: MIT */
/*
 * Searches all orders in which the requests of three clients can reach a ZooKeeper server, with the
 * rules of backends/zookeeper/acquire.c for exclusive holds: two clients never hold at once. Each
 * request is one step of the server, and any time may pass between two steps of a client, so that
 * every stop of a client and every slow reply is one of the orders. The session of a client that
 * does not hold may end at any step. Client i's entry may be evicted by every waiter behind it at
 * any time, and not only after HOLD_LATE_MS.
 *
 * Each RULE but RULES_KEPT breaks one rule. Then the search must find two holders.
 */
#include <stdlib.h>

#include "unit.h"

#include "base/memory.h"

enum { CLIENTS = 3, LIVES = 2, VERSIONS = 4 };

enum rule {
	RULES_KEPT,
	LIST_BEFORE_WRITE,	/* reads the queue first, and then writes: as good */
	HOLD_WITHOUT_WRITE,	/* holds as soon as the queue is free */
	WRITE_WITHOUT_LIST,	/* holds as soon as it has written so */
	EVICT_ANY_VERSION,	/* deletes what is there, whatever was read */
	EVICT_HOLDERS,		/* deletes what does not say that it waits */
	EVICT_NEW,		/* deletes what says nothing, whether it was seen blocked or not */
	NEW_HOLDS,		/* holds without a write, though it was blocked when it was made */
};

enum does {
	AWAY, MADE, MUST_WAIT, WAITS, CLAIMED, SAW_FREE, DECIDED, HOLDS,
};

enum data { NEW, WAITING, HELD };

struct client {
	unsigned does;
	unsigned life;	/* how many entries it has made */
	/* Its entry at the server. */
	unsigned there;
	unsigned data;
	unsigned version;
	unsigned order;	/* how many entries came before */
	unsigned free;	/* none, when it was made */
	/* 1 + the client whose entry, before its own, its first list showed as blocked; 0: none. */
	unsigned blocked;
	/* The reply to its get request, for an eviction: 1 + the client; 0: none. */
	unsigned target;
	unsigned target_version;
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
		key = key << 2 | c->data;
		key = key << 3 | c->version;
		key = key << 2 | c->order;
		key = key << 1 | c->free;
		key = key << 2 | c->blocked;
		key = key << 2 | c->target;
		key = key << 3 | c->target_version;
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
	ended->there = ended->data = ended->version = ended->order = ended->free = 0;
}

static void make_entry(struct world *world, int i)
{
	struct client *c = &world->clients[i];

	for (int k = 0; k < CLIENTS; k++)
		c->order += k != i && world->clients[k].there;
	c->there = 1;
	c->free = !c->order;
	c->life++;
	c->does = MADE;
}

/* A write to its own entry, which fails where that was evicted. */
static void write_entry(struct client *c, enum data data, enum does next)
{
	if (!c->there) {
		c->does = AWAY;
		return;
	}
	c->data = data;
	c->version++;
	c->does = next;
}

/* A list request: nothing before its entry, or something, or the entry is gone. */
static void list_entries(struct client *c, enum does free, enum does blocked)
{
	c->does = !c->there ? AWAY : !c->order ? free : blocked;
}

/* The first list request of client i, which also shows which entries before its own are blocked. */
static void first_list(struct world *world, int i)
{
	struct client *c = &world->clients[i];

	for (unsigned k = 0; k < CLIENTS; k++) {
		const struct client *other = &world->clients[k];

		if (other->there && other->order && other->order < c->order)
			c->blocked = k + 1;
	}
	list_entries(c, c->free || rule == NEW_HOLDS ? DECIDED : WAITS, MUST_WAIT);
}

/* What client i does next with its own entry. */
static void step_client(struct world world, int i)
{
	struct client *c = &world.clients[i];

	switch ((enum does)c->does) {
	case AWAY:
		/* The search of more lives of the third one would take a minute. */
		if (c->life == (i < 2 ? LIVES : 1))
			return;
		make_entry(&world, i);
		break;
	case MADE:
		first_list(&world, i);
		break;
	case MUST_WAIT:
		write_entry(c, WAITING, WAITS);
		break;
	case WAITS:
		/* It believes that its turn has come, rightly or not. */
		if (c->version >= VERSIONS)
			return;
		if (rule == LIST_BEFORE_WRITE || rule == HOLD_WITHOUT_WRITE)
			list_entries(c, rule == HOLD_WITHOUT_WRITE ? DECIDED : SAW_FREE, WAITS);
		else
			write_entry(c, HELD, rule == WRITE_WITHOUT_LIST ? DECIDED : CLAIMED);
		break;
	case CLAIMED:
		list_entries(c, DECIDED, MUST_WAIT);
		break;
	case SAW_FREE:
		write_entry(c, HELD, DECIDED);
		break;
	case DECIDED:
		c->does = HOLDS;
		break;
	case HOLDS:
		end_entry(&world, i);
		c->does = AWAY;
		break;
	}
	if (c->does == AWAY) {
		end_entry(&world, i);
		c->blocked = c->target = c->target_version = 0;
	}
	reach_world(&world);
}

static bool may_evict(const struct client *c, const struct client *other, unsigned k)
{
	if (other->data == NEW)
		return c->blocked == k + 1 || rule == EVICT_NEW || rule == EVICT_HOLDERS;
	return other->data == WAITING || rule == EVICT_HOLDERS;
}

/* Waiter i reads the entry of client k, which is before its own. */
static void read_other(struct world world, int i, unsigned k)
{
	struct client *c = &world.clients[i];
	const struct client *other = &world.clients[k];

	if (!other->there || other->order > c->order || !may_evict(c, other, k))
		return;
	c->target = (k + 1) & 3;
	c->target_version = other->version;
	reach_world(&world);
}

/* Waiter i deletes the version that it has read. A later entry is not before its own. */
static void evict_entry(struct world world, int i)
{
	struct client *c = &world.clients[i];
	const int k = (int)c->target - 1;
	const struct client *other = &world.clients[k];

	if (other->there && other->order < c->order &&
	    (rule == EVICT_ANY_VERSION || other->version == c->target_version))
		end_entry(&world, k);
	c->target = c->target_version = 0;
	reach_world(&world);
}

/* The session of client i ends, which the client does not know yet. */
static void expire_session(struct world world, int i)
{
	const enum does does = (enum does)world.clients[i].does;

	if (!world.clients[i].there || does == DECIDED || does == HOLDS)
		return;
	end_entry(&world, i);
	reach_world(&world);
}

static void try_steps(const struct world *world)
{
	for (int i = 0; i < CLIENTS; i++) {
		const struct client *c = &world->clients[i];

		step_client(*world, i);
		expire_session(*world, i);
		if (c->does != WAITS || !c->there || c->data == NEW)
			continue;
		if (c->target)
			evict_entry(*world, i);
		for (unsigned k = 0; !c->target && k < CLIENTS; k++)
			if (k != (unsigned)i)
				read_other(*world, i, k);
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
	CHECK(overlap || seen_count > 10000);
	printf("# %zu worlds\n", seen_count);
}

int main(void)
{
	search_worlds(RULES_KEPT, false, "held is written, then the queue is read");
	search_worlds(LIST_BEFORE_WRITE, false, "the queue is read, then held is written");
	search_worlds(HOLD_WITHOUT_WRITE, true, "no write");
	search_worlds(WRITE_WITHOUT_LIST, true, "no list");
	search_worlds(EVICT_ANY_VERSION, true, "eviction of any version");
	search_worlds(EVICT_HOLDERS, true, "eviction of those that hold");
	search_worlds(EVICT_NEW, true, "eviction of those that may hold without a write");
	search_worlds(NEW_HOLDS, true, "no write, though it was blocked when it was made");
	free(seen);
	free(left);
	return unit_done();
}
