/* SPDX-License-Identifier: MIT */
#include "supervise.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "supervisor.h"

/* Acquires, unless obtained says that the command runs without the lock. */
static void run_protected(struct supervisor *s, enum obtained obtained)
{
	struct error err = { 0 };

	if (obtained == OBTAINED_NOT_YET) {
		if (token_make(s->token, s->run->name, s->identity, true, &err))
			obtained = supervisor_fail(s, &err);
		else
			obtained = supervisor_obtain(s);
	}
	if (obtained != OBTAINED_YES) {
		guard_dismiss(&s->guard);
		return;
	}
	supervisor_check_guard(s);
	if (!s->guard.child.pid && supervisor_start_guard(s, &err)) {
		s->unused = true;
		supervisor_fail(s, &err);
	} else {
		s->result->end = RUN_EXITED;
		supervisor_run_command(s);
	}
	if (s->protected)
		supervisor_give_back(s);
	/* The guard ends by itself, and must be reaped. */
	guard_finish(&s->guard);
	if (s->lost && s->result->end == RUN_EXITED)
		s->result->end = RUN_LOST;
}

void supervise_run(const struct run_request *run, const struct run_hooks *hooks,
		   const struct signals *signals, struct run_result *result)
{
	enum obtained obtained;
	struct supervisor s;
	struct error err = { 0 };

	if (supervisor_init(&s, run, hooks, signals, result, run->argv[0], &err)) {
		supervisor_fail(&s, &err);
		return;
	}
	/* If the guard is killed, this process inherits its tree. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		supervisor_say(&s, SAY_WARNING,
			       "the kernel does not give orphans to dlock (%s): a daemon that the "
			       "command starts may outlive the lock", strerror(errno));
	/* Children from before this program's exec do not belong to the command. */
	s.knows_spared = !tree_spare_present(&s.spared);
	if (!s.knows_spared)
		supervisor_say(&s, SAY_WARNING,
			       "cannot tell which processes belong to the command");
	obtained = supervisor_run_nested(&s);
	if (obtained != OBTAINED_NO)
		run_protected(&s, obtained);
	if (!s.reaped && result->end == RUN_EXITED && ipc_has_failed(&result->error))
		result->end = RUN_FAILED;
	if (s.overdue && result->end == RUN_EXITED)
		result->end = RUN_OVERDUE;
	result->facts.over_ms = clock_boot_ms();
	if (result->age_ms >= 0)
		result->age_ms = clock_boot_ms() - result->age_ms;
	tree_forget(&s.spared);
	backend_close(s.backend);
	if (s.lost && result->end == RUN_LOST && run->on_lost_run)
		supervisor_run_on_lost(&s);
}
