/* SPDX-License-Identifier: MIT */
/* What the keeper does when it notices that the guard is dead, and that all others are. */
#include "keeping.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "shared.h"

/* The pause between two continuations of the supervisor. */
#define CONTINUE_MS 100

/*
 * The guard died. The supervisor kills what the guard has left, and then orders the release. A
 * supervisor that is stopped is continued for that, again and again.
 */
int64_t keeping_continue_supervisor(struct keeping *k, enum wake wake)
{
	const int64_t now_ms = clock_boot_ms();

	if (wake == WAKE_UNGUARDED)
		k->continue_ms = now_ms;
	if (now_ms < k->continue_ms)
		return k->continue_ms;
	if (getppid() == k->supervisor)
		kill(k->supervisor, SIGCONT);
	k->continue_ms = now_ms + CONTINUE_MS;
	return k->continue_ms;
}

/*
 * Supervisor and guard were killed, and the command with the guard. What the command has left
 * running may go on, so that the lease is left to lapse.
 */
void keeping_end_abandoned(struct keeping *k)
{
	const pid_t command = atomic_load(&k->plan->shared->command);

	k->abandoned = true;
	if (!command && k->plan->mode != KEEPER_JOIN)
		keeping_release(k, true);
	/* In another session, another process has its number. */
	if (command && getsid(command) == k->session)
		kill(-command, SIGKILL);
	_exit(1);
}
