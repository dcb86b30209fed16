/* SPDX-License-Identifier: MIT */
#include "proctree.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proctable.h"
#include "textfile.h"

/* How often /proc is read at most, while processes come and go faster than it can be read. */
#define LOOKS 8

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

struct proctree_sent {
	pid_t pid;
	int sig;
	unsigned long long start_ticks;
};

/* ---- the scope ---- */

/* sig 0: has it got any signal? */
static bool has_got(const struct proctree_memory *memory, const struct proctable_row *row, int sig)
{
	for (size_t i = 0; i < memory->count; i++) {
		const struct proctree_sent *sent = &memory->sent[i];

		if (sent->pid == row->pid && (!sig || sent->sig == sig) &&
		    sent->start_ticks == row->start_ticks)
			return true;
	}
	return false;
}

/*
 * Marks all descendants of the processes with this mark that have no mark. A child may stand before
 * its parent in the table, because numbers wrap: so this goes on until nothing changes.
 */
static void mark_below(struct proctable *table, enum proctable_mark mark)
{
	const struct proctable_row *parent;
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < table->count; i++) {
			struct proctable_row *row = &table->rows[i];

			if (row->mark != PROCTABLE_NONE)
				continue;
			parent = proctable_find(table, row->parent);
			if (parent && parent->mark == mark) {
				row->mark = mark;
				changed = true;
			}
		}
	}
}

static void spare(struct proctable *table, pid_t pid)
{
	struct proctable_row *row = pid ? proctable_find(table, pid) : NULL;

	if (row)
		row->mark = PROCTABLE_SPARED;
}

static bool is_carrier(const struct proctree_scope *scope, const struct proctable_row *row)
{
	if (scope->group && row->group == scope->group && row->session == scope->session)
		return true;
	return scope->entry && row->thread && proctable_has_entry(row, scope->entry);
}

/* Was it chosen before? A dead carrier no longer shows which processes are its descendants. */
static bool was_chosen(const struct proctable *before, const struct proctree_memory *memory,
		       const struct proctable_row *row)
{
	const struct proctable_row *old = proctable_find(before, row->pid);

	if (old && old->start_ticks == row->start_ticks && old->mark == PROCTABLE_CHOSEN)
		return true;
	return memory && has_got(memory, row, 0);
}

static void mark(struct proctable *table, const struct proctable *before,
		 const struct proctree_scope *scope, const struct proctree_memory *memory)
{
	const struct proctree_inherited *inherited = scope->inherited;
	const pid_t self = getpid();

	for (size_t i = 0; i < ARRAY_SIZE(scope->spare); i++)
		spare(table, scope->spare[i]);
	for (size_t i = 0; inherited && i < inherited->count; i++)
		spare(table, inherited->pids[i]);
	mark_below(table, PROCTABLE_SPARED);
	/* After mark_below(): the descendants of this process are not spared. */
	spare(table, self);
	for (size_t i = 0; i < table->count; i++) {
		struct proctable_row *row = &table->rows[i];

		if (row->mark != PROCTABLE_NONE)
			continue;
		if (scope->carriers ? is_carrier(scope, row) || was_chosen(before, memory, row)
				    : row->parent == self)
			row->mark = PROCTABLE_CHOSEN;
	}
	mark_below(table, PROCTABLE_CHOSEN);
}

/*
 * Is it certain that this reading of /proc has missed no process of the scope? A process that was
 * forked after /proc was read has an ancestor that has changed since the reading before: the
 * ancestor was not there, or was alive. With carriers every dead process may be such an ancestor,
 * because nothing tells any more whether it was a carrier.
 */
static bool is_complete(const struct proctable *table, const struct proctable *before,
			const struct proctree_scope *scope)
{
	if (scope->carriers && table->vanished)
		return false;
	for (size_t i = 0; i < table->count; i++) {
		const struct proctable_row *row = &table->rows[i], *old;

		if (row->mark != PROCTABLE_CHOSEN && (row->thread || !scope->carriers))
			continue;
		old = proctable_find(before, row->pid);
		if (!old || old->start_ticks != row->start_ticks ||
		    (row->thread && old->mark != PROCTABLE_CHOSEN) ||
		    (!row->thread && old->thread))
			return false;
	}
	return true;
}

/* ---- signals ---- */

/*
 * Notes the signal. False: memory is short, and the signal must not be sent, or it may come twice.
 */
static bool note(struct proctree_memory *memory, const struct proctable_row *row, int sig)
{
	if (memory->count == memory->room) {
		size_t room = memory->room ? memory->room * 2 : 64;
		struct proctree_sent *sent = realloc(memory->sent, room * sizeof(*sent));

		if (!sent)
			return false;
		memory->sent = sent;
		memory->room = room;
	}
	memory->sent[memory->count++] = (struct proctree_sent){
		.pid = row->pid, .sig = sig, .start_ticks = row->start_ticks,
	};
	return true;
}

void proctree_memory_finish(struct proctree_memory *memory)
{
	free(memory->sent);
	*memory = (struct proctree_memory){ .sent = NULL };
}

/* Signals the living chosen processes; memory may be NULL. 0, or -1 with ENOMEM. */
static int signal_chosen(const struct proctable *table, const struct proctree_scope *scope,
			 int sig, struct proctree_memory *memory, struct proctree_report *report)
{
	*report = (struct proctree_report){ .refused_user = (uid_t)-1 };
	for (size_t i = 0; i < table->count; i++) {
		const struct proctable_row *row = &table->rows[i];
		const bool skipped = scope->skip_group && row->group == scope->skip_group;
		bool again = false;

		if (row->mark != PROCTABLE_CHOSEN || !row->thread)
			continue;
		report->alive++;
		if (sig && memory)
			again = has_got(memory, row, sig);
		if (sig && memory && !again && !note(memory, row, sig)) {
			errno = ENOMEM;
			return -1;
		}
		/* Signal 0 asks only whether signals are allowed. */
		if (!kill(row->pid, again || skipped ? 0 : sig) || errno != EPERM) {
			/* A stopped process does not act on SIGTERM. */
			if (sig == SIGTERM && !again && !skipped)
				kill(row->pid, SIGCONT);
			continue;
		}
		report->refused++;
		report->refused_pid = row->pid;
	}
	if (report->refused)
		report->refused_user = proctable_user(report->refused_pid);
	return 0;
}

static int look(struct proctable *table, const struct proctable *before,
		const struct proctree_scope *scope, const struct proctree_memory *memory)
{
	if (proctable_read(table))
		return -1;
	mark(table, before, scope, memory);
	return 0;
}

/* As proctree_signal(); leaves the last reading in *table, which starts empty. */
static int signal_scope(const struct proctree_scope *scope, int sig,
			struct proctree_memory *memory, struct proctree_report *report,
			struct proctable *table)
{
	struct proctable before = { .rows = NULL }, last;
	bool complete = false;
	int errnum = 0;

	*report = (struct proctree_report){ .refused_user = (uid_t)-1 };
	if (!proctable_usable())
		return -1;
	for (int looks = 0; !errnum && !complete && looks < LOOKS; looks++) {
		last = before;
		before = *table;
		*table = last;
		if (look(table, &before, scope, memory) ||
		    signal_chosen(table, scope, sig, memory, report))
			errnum = errno;
		else
			complete = is_complete(table, &before, scope);
	}
	/* Descendants fork and end all the time: one is alive, though no reading has shown it. */
	if (!complete && !scope->carriers && !report->alive)
		report->alive = 1;
	proctable_finish(&before);
	errno = errnum;
	return errnum ? -1 : report->alive;
}

int proctree_signal(const struct proctree_scope *scope, int sig, struct proctree_memory *memory,
		    struct proctree_report *report)
{
	struct proctree_memory local = { .sent = NULL };
	struct proctable table = { .rows = NULL };
	struct proctree_report ignored;
	int alive, errnum;

	/* /proc is read several times, but each process gets one signal. */
	if (!memory && sig && sig != SIGKILL)
		memory = &local;
	alive = signal_scope(scope, sig, memory, report ? report : &ignored, &table);
	errnum = errno;
	proctable_finish(&table);
	proctree_memory_finish(&local);
	errno = errnum;
	return alive;
}

/* ---- the children that the kernel lists ---- */

/* Room for a line with the numbers of some 500 children. */
#define CHILDREN_SIZE 4096
/* Commands are hardly ever nested deeper, and proctree_signal() finds what is. */
#define DEPTH_MAX 64

static void kill_below(pid_t pid, int depth)
{
	char path[64], list[CHILDREN_SIZE], *next = list, *at;
	long child;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	textfile_start(path, list, sizeof(list));
	for (;;) {
		at = next;
		child = strtol(at, &next, 10);
		/* No blank follows a number that was cut off at the end of the buffer. */
		if (next == at || *next != ' ')
			return;
		if (depth < DEPTH_MAX)
			kill_below((pid_t)child, depth + 1);
		kill((pid_t)child, SIGKILL);
	}
}

void proctree_kill_listed(void)
{
	if (proctable_usable())
		kill_below(getpid(), 0);
}

/* ---- killing ---- */

/* The pauses in which processes that were killed end: the sum is half a second. */
#define PAUSE_FIRST_NS 2000000
#define PAUSE_LAST_NS 256000000

/* waitpid(-1) would also reap inherited children, whose numbers must not be used again. */
static void reap(const struct proctable *table)
{
	const pid_t self = getpid();

	for (size_t i = 0; i < table->count; i++) {
		const struct proctable_row *row = &table->rows[i];

		if (row->mark == PROCTABLE_CHOSEN && row->parent == self && !row->thread)
			waitpid(row->pid, NULL, WNOHANG);
	}
}

int proctree_kill(const struct proctree_scope *scope, struct proctree_memory *memory,
		  struct proctree_report *report)
{
	struct timespec pause = { .tv_nsec = PAUSE_FIRST_NS };
	struct proctable table = { .rows = NULL };
	struct proctree_report local;
	int alive, errnum;

	if (!report)
		report = &local;
	for (;;) {
		alive = signal_scope(scope, SIGKILL, memory, report, &table);
		errnum = errno;
		reap(&table);
		if (alive <= 0 || alive == report->refused || pause.tv_nsec > PAUSE_LAST_NS)
			break;
		nanosleep(&pause, NULL);
		pause.tv_nsec *= 2;
	}
	proctable_finish(&table);
	errno = errnum;
	return alive < 0 ? -1 : alive > 0;
}

/* ---- inherited processes ---- */

int proctree_inherit(struct proctree_inherited *inherited)
{
	const struct proctree_scope all = { .carriers = false };
	struct proctable table = { .rows = NULL };
	siginfo_t info;
	int result = -1;

	*inherited = (struct proctree_inherited){ .pids = NULL };
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) && errno == ECHILD)
		return 0;
	if (!proctable_usable())
		return -1;
	if (look(&table, &table, &all, NULL))
		goto out;
	inherited->pids = calloc(table.count + 1, sizeof(*inherited->pids));
	if (!inherited->pids)
		goto out;
	for (size_t i = 0; i < table.count; i++)
		if (table.rows[i].mark == PROCTABLE_CHOSEN)
			inherited->pids[inherited->count++] = table.rows[i].pid;
	result = 0;
out:
	proctable_finish(&table);
	return result;
}

void proctree_forget(struct proctree_inherited *inherited)
{
	free(inherited->pids);
	*inherited = (struct proctree_inherited){ .pids = NULL };
}

void proctree_forget_one(struct proctree_inherited *inherited, pid_t pid)
{
	for (size_t i = 0; i < inherited->count; i++)
		if (inherited->pids[i] == pid)
			inherited->pids[i] = 0;
}
