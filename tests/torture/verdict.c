/* SPDX-License-Identifier: MIT */
/* Compares what the contenders of a round did with what was done to them. */
#include "verdict.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum {
	MS = 1000000,		/* in ns */
	WAKE_MS = 3000,		/* from the end of a hold to the begin of the next */
	JOIN_MS = 2500,		/* from a contender's start to its place in the line */
	SETTLE_MS = 1000,	/* a fault of the network is felt for so long after its end */
	RECOVER_MS = 20000,	/* and one of the server: others take over, or it starts again */
};

/* What a busy machine may add to a limit: it has kept us waiting, too. */
static int64_t slack_ns(const struct lane *lane)
{
	return 10 * lane->late_ns;
}

/* The file has a line when a fault of the server begins and one when it serves again, or one when
 * its clock is set back. */
static bool server_had_faults(const struct lane *lane, int64_t from_ns, int64_t to_ns)
{
	char path[330], line[120];
	bool found = false, lasts = false;
	double at, begin = 0, from = (double)from_ns / MS - RECOVER_MS, to = (double)to_ns / MS;
	FILE *file;

	snprintf(path, sizeof(path), "%s/server", lane->settings->directory);
	file = fopen(path, "r");
	while (file && !found && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "# %lf", &at) != 1)
			continue;
		if (!lasts)
			begin = at;
		lasts = !strstr(line, "serves again") && !strstr(line, "set back");
		found = begin <= to && at >= from;
	}
	if (file)
		fclose(file);
	return found || (lasts && begin <= to);
}

static bool disturbs(const struct fault_plan *fault, const struct strike *strike, int64_t from_ns,
		     int64_t to_ns)
{
	/* the reply that is lost may be one of much later */
	bool lasts = !strike->over || fault->kind == FAULT_LOST_REPLY;

	return strike->fired && fault->kind >= FAULT_CUT && fault->kind <= FAULT_DELAY &&
	       strike->at_ns <= to_ns &&
	       (lasts || strike->over_ns + (int64_t)SETTLE_MS * MS >= from_ns);
}

/* Could the network or the server have kept a contender from what it wanted in this time? */
static bool was_disturbed(const struct lane *lane, int64_t from_ns, int64_t to_ns)
{
	int i;

	for (i = 0; i < lane->plan.fault_count; i++)
		if (disturbs(&lane->plan.faults[i], &lane->strikes[i], from_ns, to_ns))
			return true;
	return server_had_faults(lane, from_ns, to_ns);
}

/* ---- statuses */

/* Was somebody there who may have had the lock when this contender, which does not wait, came? */
static bool met_another(const struct lane *lane, int who)
{
	const struct contender *contender = &lane->contenders[who], *other;
	int64_t lapse_ns = 2LL * lane->plan.ttl_ms * MS + slack_ns(lane);
	int i;

	for (i = 0; i < lane->plan.contender_count; i++) {
		other = &lane->contenders[i];
		if (i != who && other->pid && other->start_ns < contender->exit_ns &&
		    (!other->ended || other->exit_ns + lapse_ns > contender->start_ns))
			return true;
	}
	return false;
}

static bool waited_long_enough(const struct lane *lane, int who)
{
	const struct contender *contender = &lane->contenders[who];
	int wait_ms = lane->plan.contenders[who].wait_ms;

	return wait_ms ? contender->exit_ns - contender->start_ns >= (int64_t)wait_ms * MS :
			 met_another(lane, who);
}

static bool has_reason(const struct lane *lane, int who, int code)
{
	const struct contender *contender = &lane->contenders[who];
	const struct contender_plan *plan = &lane->plan.contenders[who];
	bool disturbed = was_disturbed(lane, contender->start_ns, contender->exit_ns) ||
			 lane->late_ns > 50LL * MS;

	switch (code) {
	case 0:
		return true;
	case 121:
		/* OPTIONS may have --max-run */
		return plan->max_run_ms || *lane->settings->options;
	case 122:
		/* no answer by the end of a short wait */
		return lane->settings->plan.network &&
		       (disturbed || contender->struck || (plan->wait_ms && plan->wait_ms < 1000));
	case 123:
		return contender->struck || plan->no_renew ||
		       (lane->settings->plan.network && disturbed);
	case 124:
		return disturbed || waited_long_enough(lane, who);
	case 125:
		/* a keeper or guard that was killed before there was a lock to lose */
	case 128 + SIGKILL:
	case 128 + SIGTERM:
		return contender->struck;
	default:
		return false;
	}
}

static const struct hold *hold_named(const struct history *history, int who)
{
	char name[8];
	size_t i;

	snprintf(name, sizeof(name), "c%d", who);
	for (i = 0; i < history->count; i++)
		if (strcmp(history->holds[i].name, name) == 0)
			return &history->holds[i];
	return NULL;
}

/* Does what dlock ended with agree with what its command has done, and with what was done to it? */
static void judge_status(struct lane *lane, int who, const struct hold *hold)
{
	const struct contender *contender = &lane->contenders[who];
	int code;

	if (WIFSIGNALED(contender->status)) {
		if (WTERMSIG(contender->status) != SIGKILL || !contender->killed)
			lane_find(lane, "dlock of c%d died of signal %d", who,
				  WTERMSIG(contender->status));
		return;
	}
	code = WEXITSTATUS(contender->status);
	if (!has_reason(lane, who, code))
		lane_find(lane, "dlock of c%d ended with %d, and nothing explains it", who, code);
	if (code == 0 && (!hold || !hold->end_ns))
		lane_find(lane, "dlock of c%d ended with 0, and its command was cut short", who);
	if (code == 124 && hold)
		lane_find(lane, "dlock of c%d ended with 124, and its command ran", who);
}

/* ---- the line */

/* The contender of a hold, or -1: of an earlier round, or the probe. */
static int contender_of(const struct hold *hold)
{
	int who;

	return sscanf(hold->name, "c%d", &who) == 1 && who >= 0 && who < MAX_CONTENDERS ? who : -1;
}

/* LATER began after EARLIER: was it there first? */
static void judge_order(struct lane *lane, const struct hold *earlier, const struct hold *later)
{
	int first = contender_of(later), second = contender_of(earlier);
	int64_t from_ns, before_ns;

	if (!lane->settings->fair || first < 0 || second < 0 || earlier->slots || later->slots ||
	    lane->contenders[first].struck)
		return;
	from_ns = lane->contenders[first].start_ns;
	before_ns = lane->contenders[second].start_ns - from_ns;
	if (before_ns > (int64_t)JOIN_MS * MS + slack_ns(lane) &&
	    !was_disturbed(lane, from_ns, earlier->begin_ns))
		lane_find(lane, "c%d began before c%d, which had come %lld ms earlier", second,
			  first, (long long)(before_ns / MS));
}

/* When the minimum of a contender's hold ends. It counts from the acquisition, a little before. */
static int64_t least_end_ns(const struct lane *lane, const struct hold *hold, int who)
{
	return hold->begin_ns + (int64_t)lane->plan.contenders[who].min_hold_ms * MS;
}

/* LATER began after EARLIER: was the minimum of this hold over? */
static void judge_min_hold(struct lane *lane, const struct hold *earlier, const struct hold *later)
{
	int who = contender_of(earlier);
	int64_t early_ns;

	if (who < 0 || (earlier->slots && earlier->slots == later->slots) ||
	    lane->contenders[who].struck || !WIFEXITED(lane->contenders[who].status) ||
	    WEXITSTATUS(lane->contenders[who].status) != 0)
		return;
	early_ns = least_end_ns(lane, earlier, who) - later->begin_ns;
	if (earlier->last_ns < later->begin_ns && early_ns > 250LL * MS + slack_ns(lane))
		lane_find(lane, "%s began %lld ms before the minimum hold of c%d was over",
			  later->name, (long long)(early_ns / MS), who);
}

/* When a hold can last have kept the lock, as far as others have seen. */
static int64_t freed_ns(const struct lane *lane, const struct hold *hold, int64_t before_ns)
{
	int64_t ns = hold->exit_ns && hold->exit_ns < before_ns ? hold->exit_ns : hold->last_ns;
	int who = contender_of(hold);
	int64_t least_ns = who >= 0 ? least_end_ns(lane, hold, who) : 0;

	return ns > least_ns ? ns : least_ns;
}

/* How long the lapses of those that were killed or stopped may take in this round. */
static int64_t lapses_ns(const struct lane *lane)
{
	int64_t ns = 0;
	int i;

	for (i = 0; i < lane->plan.contender_count; i++)
		if (lane->contenders[i].struck)
			ns += (2LL * lane->plan.ttl_ms + 5000) * MS;
	return ns;
}

/* Holds[I] began: soon after the lock was free, and it had come? */
static void judge_wake(struct lane *lane, const struct history *history, size_t i)
{
	const struct hold *hold = &history->holds[i];
	int who = contender_of(hold);
	int64_t since_ns, ns, limit_ns = (int64_t)WAKE_MS * MS + slack_ns(lane) + lapses_ns(lane);
	size_t k;

	if (who < 0 || lane->contenders[who].struck)
		return;
	since_ns = lane->contenders[who].start_ns;
	for (k = 0; k < i; k++) {
		ns = freed_ns(lane, &history->holds[k], hold->begin_ns);
		since_ns = since_ns > ns ? since_ns : ns;
	}
	if (hold->begin_ns - since_ns > limit_ns &&
	    !was_disturbed(lane, lane->contenders[who].start_ns, hold->begin_ns))
		lane_find(lane, "c%d began %lld ms after the lock was free; %lld may pass", who,
			  (long long)((hold->begin_ns - since_ns) / MS),
			  (long long)(limit_ns / MS));
}

void verdict_round(struct lane *lane, const struct history *history)
{
	size_t i, k;
	int who;

	for (who = 0; who < lane->plan.contender_count; who++)
		if (lane->contenders[who].ended)
			judge_status(lane, who, hold_named(history, who));
	for (i = 0; i < history->count; i++) {
		judge_wake(lane, history, i);
		for (k = 0; k < i; k++) {
			judge_order(lane, &history->holds[k], &history->holds[i]);
			judge_min_hold(lane, &history->holds[k], &history->holds[i]);
		}
	}
}
