/* SPDX-License-Identifier: MIT */
/*
 * The keeper as the last of dlock's processes: supervisor and guard were killed, and the keeper,
 * which is no ancestor of the command, ends what the command has started before it releases the
 * lock. It finds the command's process group and, if the hold is this run's own, all processes with
 * the hold's token, at any level, in their environment. A process that has changed both its group
 * and its environment is not found: only --contain ends that, too.
 */
#include "keeping.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/lease.h"
#include "shared.h"

/* The pause between two looks for processes: the first one, and the longest one. */
#define PAUSE_FIRST_MS 5
#define PAUSE_LAST_MS 1000

static void begin(struct keeping *k)
{
	const struct lease_span lease = shared_lease(k->plan->shared);

	k->ending.begun = true;
	k->ending.pause_ms = PAUSE_FIRST_MS;
	k->ending.next_ms = clock_boot_ms();
	k->ending.kill_at_ms = k->ending.next_ms + lease_grace(lease, k->plan->kill_after_ms);
}

/*
 * /proc shows nothing, in this container or at this moment. Kills the command's group. True: some
 * of it is left. Whether others are left nobody can know.
 */
static bool kill_unseen(const struct proctree_scope *scope, int64_t lease_end_ms)
{
	return scope->group && !kill(-scope->group, SIGKILL) && clock_boot_ms() < lease_end_ms;
}

/* One step. Returns when the next one is due; 0: nothing is left. */
static int64_t step(struct keeping *k, bool at_once)
{
	char entry[sizeof("DLOCK_TOKEN=") + TOKEN_SIZE];
	const struct proctree_scope scope = {
		.carriers = true, .group = atomic_load(&k->plan->shared->command),
		/* The token of a joined hold does not mark the processes of this command. */
		.session = k->session, .entry = k->plan->mode == KEEPER_JOIN ? NULL : entry,
	};
	const struct lease_span lease = shared_lease(k->plan->shared);
	struct keeper_ending *ending = &k->ending;
	int64_t now = clock_boot_ms(), kill_at_ms;
	struct proctree_memory *memory = &ending->termed;
	int left;

	snprintf(entry, sizeof(entry), "DLOCK_TOKEN=%s", k->request.token);
	kill_at_ms = clock_earlier(ending->kill_at_ms,
				   lease_stop(lease, k->plan->kill_after_ms).kill_ms);
	if (at_once || now >= kill_at_ms)
		memory = NULL;
	left = proctree_signal(&scope, memory ? SIGTERM : SIGKILL, memory, NULL);
	if (!left || (left < 0 && !kill_unseen(&scope, lease.end_ms)))
		return 0;
	if (ending->pause_ms < PAUSE_LAST_MS)
		ending->pause_ms += ending->pause_ms / 2;
	now += ending->pause_ms;
	return memory ? clock_earlier(now, kill_at_ms) : now;
}

bool keeping_end_tree(struct keeping *k, enum wake wake)
{
	struct keeper_ending *ending = &k->ending;

	if (wake == WAKE_ABANDONED)
		k->abandoned = true;
	if (wake == WAKE_UNGUARDED)
		ending->at_once = ending->unguarded = true;
	if (wake == WAKE_ABANDONED || wake == WAKE_UNGUARDED)
		begin(k);
	if (!ending->begun || clock_boot_ms() < ending->next_ms)
		return false;
	/*
	 * The supervisor also kills what the guard has left, finds all of it, and then orders the
	 * release. A supervisor that is stopped is continued for that, again and again.
	 */
	if (ending->unguarded && !k->abandoned && getppid() == k->supervisor)
		kill(k->supervisor, SIGCONT);
	ending->next_ms = step(k, ending->at_once);
	if (!ending->next_ms && k->abandoned)
		return true;
	if (!ending->next_ms)
		ending->next_ms = clock_boot_ms() + PAUSE_LAST_MS;
	return false;
}

int64_t keeping_end_next(const struct keeping *k)
{
	return k->ending.begun ? k->ending.next_ms : CLOCK_NEVER;
}
