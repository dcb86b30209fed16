/* SPDX-License-Identifier: MIT */
/* Injects the faults of a plan. */
#include "strike.h"

#include "process.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct strike_counts strike_counts;

void strike_look(int ms)
{
	static int64_t last;
	int64_t now = now_ns();

	if (last && now - last < (int64_t)ms * 1000000)
		return;
	process_look(now);
	last = now;
}

/* The proxy answers when the word is in force; nobody waits for that here. */
void strike_proxy(const struct lane *lane, const char *word)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char line[64];
	int fd;

	if (!lane->proxy)
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		err(71, "socket");
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", lane->control);
	snprintf(line, sizeof(line), "%s\n", word);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    send(fd, line, strlen(line), MSG_NOSIGNAL) < 0)
		warn("%s", lane->control);
	close(fd);
}

/* ---- who is struck */

/* The contender that holds the lock, by its own words, or -1. */
static int find_holder(const struct lane *lane)
{
	char word[8], name[64];
	const char *line, *end;
	size_t length;
	int found = -1, i;

	line = lane_history(lane, &length);
	for (; line && *line; line = end ? end + 1 : NULL) {
		end = strchr(line, '\n');
		if (sscanf(line, "%*s %7s %63s", word, name) != 2 || sscanf(name, "c%d", &i) != 1)
			continue;
		if (strcmp(word, "begin") == 0 && i >= 0 && i < MAX_CONTENDERS &&
		    !lane->contenders[i].ended)
			found = i;
		else if (strcmp(word, "end") == 0 && found == i)
			found = -1;
	}
	return found;
}

/* The contender that fault I is for: -1 when there is nobody. */
static int find_victim(const struct lane *lane, int i)
{
	int wanted = lane->plan.faults[i].victim, k;

	if (wanted < 0)
		wanted = find_holder(lane);
	for (k = 0; wanted < 0 && k < lane->plan.contender_count; k++)
		if (lane->contenders[k].pid && !lane->contenders[k].ended)
			wanted = k;
	if (wanted < 0 || !lane->contenders[wanted].pid || lane->contenders[wanted].ended)
		return -1;
	return wanted;
}

static bool plays_role(pid_t pid, enum role role)
{
	static const char *const names[ROLES] = {
		[ROLE_GUARD] = "dlock-guard",
		[ROLE_KEEPER] = "dlock-keeper",
		[ROLE_COMMAND] = "witness",
	};

	/* About to become the command. */
	if (role == ROLE_COMMAND && strcmp(process_name(pid), "dlock-command") == 0)
		return true;
	return names[role] && strcmp(process_name(pid), names[role]) == 0;
}

static bool is_dlock(pid_t pid)
{
	return strncmp(process_name(pid), "dlock", 5) == 0;
}

static void add_process(struct strike *strike, pid_t pid)
{
	int fd;

	if (strike->count == MAX_STRUCK)
		return;
	fd = pidfd_open(pid, 0);
	if (fd >= 0)
		strike->pidfds[strike->count++] = fd;
}

/* Fills in whom fault I strikes: for a group, its leader. */
static void aim_fault(struct lane *lane, int i, int who)
{
	const struct fault_plan *fault = &lane->plan.faults[i];
	struct strike *strike = &lane->strikes[i];
	const struct process *process;
	bool all = fault->kind == FAULT_ALL_KILL || fault->kind == FAULT_ALL_STOP;
	size_t at = 0;

	if (fault->kind == FAULT_GROUP_KILL || fault->kind == FAULT_GROUP_STOP ||
	    (!all && fault->role == ROLE_DLOCK)) {
		add_process(strike, lane->contenders[who].pid);
		return;
	}
	strike_look(3);
	while ((process = process_next(lane->round, who, &at)))
		if (all ? is_dlock(process->pid) : plays_role(process->pid, fault->role))
			add_process(strike, process->pid);
}

static void signal_all(struct lane *lane, int i, int sig)
{
	const struct fault_plan *fault = &lane->plan.faults[i];
	struct strike *strike = &lane->strikes[i];
	int k;

	/* Its leader may be dead by now. Numbers come round after half a minute at the
	 * earliest, and a group that is gone is not signalled. */
	if (fault->kind == FAULT_GROUP_KILL || fault->kind == FAULT_GROUP_STOP) {
		kill(-lane->contenders[fault->victim].pid, sig);
		return;
	}
	for (k = 0; k < strike->count; k++)
		pidfd_send_signal(strike->pidfds[k], sig, NULL, 0);
}

static bool strike_processes(struct lane *lane, int i)
{
	struct fault_plan *fault = &lane->plan.faults[i];
	bool stops = fault->kind == FAULT_STOP || fault->kind == FAULT_GROUP_STOP ||
		     fault->kind == FAULT_ALL_STOP;
	bool one = fault->kind == FAULT_STOP || fault->kind == FAULT_KILL;
	int who = find_victim(lane, i);

	if (who < 0)
		return false;
	fault->victim = who;
	aim_fault(lane, i, who);
	if (!lane->strikes[i].count)
		return false;
	lane->contenders[who].struck = true;
	/* a stopped dlock may be killed by its own timer */
	if (!one || fault->role == ROLE_DLOCK)
		lane->contenders[who].killed = true;
	if (one)
		strike_counts.roles[fault->role]++;
	lane_note(lane, "%s%s%s of c%d%s", fault_name(fault->kind), one ? " " : "",
		  one ? role_name(fault->role) : "", who,
		  stops && fault->then_kill ? ", to be killed" : "");
	signal_all(lane, i, stops ? SIGSTOP : SIGKILL);
	if (stops)
		lane->strikes[i].until_ns = now_ns() + (int64_t)fault->for_ms * 1000000;
	else
		strike_end(lane, i);
	return true;
}

static bool strike_network(struct lane *lane, int i)
{
	const struct fault_plan *fault = &lane->plan.faults[i];
	char word[32];

	switch (fault->kind) {
	case FAULT_CUT:
		snprintf(word, sizeof(word), "cut");
		break;
	case FAULT_LOST_REPLY:
		snprintf(word, sizeof(word), "cut-after %d", fault->number);
		break;
	case FAULT_BLACKHOLE:
		snprintf(word, sizeof(word), "blackhole");
		break;
	case FAULT_DELAY:
		snprintf(word, sizeof(word), "hold %d", fault->number);
		break;
	default:
		return false;
	}
	strike_proxy(lane, word);
	lane_note(lane, "%s", word);
	if (fault->kind == FAULT_BLACKHOLE || fault->kind == FAULT_DELAY)
		lane->strikes[i].until_ns = now_ns() + (int64_t)fault->for_ms * 1000000;
	else
		strike_end(lane, i);
	return true;
}

void strike_fire(struct lane *lane, int i)
{
	const struct fault_plan *fault = &lane->plan.faults[i];
	struct strike *strike = &lane->strikes[i];
	bool struck;

	strike->fired = true;
	strike->at_ns = strike->over_ns = now_ns();
	if (fault->kind == FAULT_CLOCK) {
		__atomic_store_n(lane->clock, (int64_t)fault->number * 1000000, __ATOMIC_RELAXED);
		lane_note(lane, "clock set to be off by %d ms", fault->number);
		strike->over = struck = true;
	} else if (fault->kind < FAULT_CUT) {
		struck = strike_processes(lane, i);
	} else {
		struck = strike_network(lane, i);
	}
	if (struck) {
		strike_counts.struck[fault->kind]++;
	} else {
		strike_counts.missed++;
		strike->over = true;
	}
}

void strike_end(struct lane *lane, int i)
{
	const struct fault_plan *fault = &lane->plan.faults[i];
	struct strike *strike = &lane->strikes[i];

	if (strike->over)
		return;
	strike->over = true;
	strike->over_ns = now_ns();
	if (fault->kind == FAULT_BLACKHOLE || fault->kind == FAULT_DELAY) {
		strike_proxy(lane, "pass");
		lane_note(lane, "end of %s", fault_name(fault->kind));
	} else if (strike->until_ns) {
		signal_all(lane, i, fault->then_kill ? SIGKILL : SIGCONT);
		lane_note(lane, "%s %s of c%d", fault->then_kill ? "end by kill of" : "end of",
			  fault_name(fault->kind), fault->victim);
		/* dlock stops with its command, as a job does; a shell would continue both */
		if (fault->kind == FAULT_STOP && fault->role == ROLE_COMMAND &&
		    !lane->contenders[fault->victim].ended)
			kill(lane->contenders[fault->victim].pid, SIGCONT);
	}
	while (strike->count > 0)
		close(strike->pidfds[--strike->count]);
}

void strike_all(struct lane *lane)
{
	const struct process *process;
	int tries;
	size_t at;

	/* A process may have started another before it was killed. */
	for (tries = 0; tries < 3; tries++) {
		strike_look(0);
		at = 0;
		while ((process = process_next(lane->round, -1, &at)))
			kill(process->pid, SIGKILL);
	}
}
