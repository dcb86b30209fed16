/* SPDX-License-Identifier: MIT */
#include "turn.h"

#include "base/clock.h"
#include "base/error.h"
#include "lock.h"

/* How many are waited for at once; a holder may be followed by many readers. */
#define MOST 8

struct turn {
	struct zk_pair at;
	struct zk_call *call;		/* for the twin's data */
	uint32_t watch;			/* on the twin */
	int32_t version;
	bool taken;
};

/* Has it waited, and not yet noticed that its turn has come? */
static bool is_open(struct turn *turn)
{
	struct zk_state state;

	turn->version = turn->call->stat.version;
	return zk_call_state(turn->call, &state) && state.phase == ZK_WAITING;
}

/* Fills turns with the places of dlock whose turn has come and is not taken. Their number. */
static size_t open_turns(struct zk_backend *zk, const char *directory, struct zk_call *names,
			 struct turn turns[static MOST])
{
	struct error unread;
	struct zk_line line;
	size_t count = 0, open = 0;
	int failed = zk_line_read(&zk->conn, directory, names, &line, &unread);

	for (ptrdiff_t i = 0; !failed && i < line.count && count < MOST; i++) {
		struct turn *turn = &turns[count];

		if (zk_places_blocker(line.places, i) >= 0 ||
		    !zk_line_pair(&line, i, directory, &turn->at))
			continue;
		turn->taken = false;
		turn->watch = zk_watch_number(&zk->conn);
		turn->call = zk_get(&zk->conn, turn->at.twin, turn->watch);
		count++;
	}
	zk_line_finish(&line);
	failed = zk_conn_wait(&zk->conn);
	for (size_t i = 0; i < count; i++) {
		struct zk_call *call = turns[i].call;

		if (!failed && is_open(&turns[i]))
			turns[open++] = turns[i];
		zk_call_free(call);
	}
	return open;
}

/* Removes the places of those who have not taken their turn, unless their twins have changed. */
static void remove_open(struct zk_backend *zk, struct turn *turns, size_t count)
{
	for (size_t i = 0; i < count; i++)
		turns[i].call = turns[i].taken ? NULL
			: zk_delete_two(&zk->conn, &turns[i].at, turns[i].version);
	zk_conn_wait(&zk->conn);
	for (size_t i = 0; i < count; i++)
		zk_call_free(turns[i].call);
}

enum taking { ALL_TAKEN, SOME_LATE, LOOK_ANEW };

/* Waits until all have taken their turn, or until_ms. */
static enum taking await_taking(struct zk_backend *zk, struct turn *turns, size_t count,
				int64_t until_ms)
{
	size_t left = count;
	struct zk_event event;

	while (left && clock_boot_ms() < until_ms) {
		if (!zk_conn_rest(&zk->conn, until_ms))
			continue;
		while (zk_conn_event(&zk->conn, &event)) {
			for (size_t i = 0; i < count; i++) {
				if (turns[i].watch != event.watch || turns[i].taken)
					continue;
				if (event.gone)
					return LOOK_ANEW;
				turns[i].taken = true;
				left--;
			}
		}
		if (zk_conn_broken(&zk->conn))
			return LOOK_ANEW;
	}
	return left ? SOME_LATE : ALL_TAKEN;
}

void zk_hand_over(struct zk_backend *zk, const char *directory, struct zk_call *names,
		  int64_t until_ms)
{
	static struct turn turns[MOST];
	enum taking taking;
	size_t count;

	for (;;) {
		zk_conn_begin(&zk->conn, until_ms - clock_boot_ms());
		count = open_turns(zk, directory, names, turns);
		if (!count || clock_boot_ms() + ZK_GRACE_MS > until_ms)
			return;
		taking = await_taking(zk, turns, count, clock_boot_ms() + ZK_GRACE_MS);
		if (taking == ALL_TAKEN)
			return;
		if (taking == SOME_LATE)
			remove_open(zk, turns, count);
		names = zk_list(&zk->conn, directory, 0);
		zk_conn_wait(&zk->conn);
	}
}
