/* SPDX-License-Identifier: MIT */
/* Traces the processes of a run with ptrace(2), and injects a signal at a system call. */
#include "trace.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/ptrace.h>

#define TRACED                                                                          \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |             \
	 PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC)

int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool trace_struck_all(const struct trace *trace)
{
	for (int i = 0; i < trace->strike_count; i++)
		if (!trace->strikes[i].done)
			return false;
	return trace->strike_count > 0;
}

/* A number from /proc/PID/status, or 0. */
static pid_t status_number(pid_t pid, const char *name)
{
	char path[64], line[128];
	size_t length = strlen(name);
	pid_t number = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (!number && fgets(line, sizeof(line), file))
		if (strncmp(line, name, length) == 0)
			number = (pid_t)strtol(line + length, NULL, 10);
	fclose(file);
	return number;
}

static void read_comm(struct process *process)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", process->pid);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(process->comm, sizeof(process->comm), file))
		process->comm[strcspn(process->comm, "\n")] = '\0';
	fclose(file);
}

static struct process *find_process(struct trace *trace, pid_t pid)
{
	for (int i = 0; i < trace->process_count; i++)
		if (trace->processes[i].pid == pid && !trace->processes[i].gone)
			return &trace->processes[i];
	return NULL;
}

static struct thread *find_thread(struct trace *trace, pid_t tid)
{
	for (int i = 0; i < trace->thread_count; i++)
		if (trace->threads[i].tid == tid)
			return &trace->threads[i];
	return NULL;
}

static struct process *add_process(struct trace *trace, pid_t pid, int run)
{
	struct process *process;

	if (trace->process_count == TRACE_PROCESSES)
		return NULL;
	process = &trace->processes[trace->process_count++];
	*process = (struct process){ .pid = pid, .run = run };
	return process;
}

static struct thread *add_thread(struct trace *trace, pid_t tid, struct process *process)
{
	struct thread *thread;

	if (trace->thread_count == TRACE_PROCESSES * 4)
		return NULL;
	thread = &trace->threads[trace->thread_count++];
	*thread = (struct thread){ tid, process };
	return thread;
}

static void drop_thread(struct trace *trace, struct thread *thread)
{
	*thread = trace->threads[--trace->thread_count];
}

bool trace_start(struct trace *trace, pid_t pid, int run)
{
	struct process *process;

	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)(long)TRACED))
		return false;
	process = add_process(trace, pid, run);
	if (!process)
		return false;
	strcpy(process->path, "0");
	trace->active_ms[run] = now_ms();
	return add_thread(trace, pid, process) != NULL;
}

/*
 * A new thread or process. It is seen twice, in the event of the one that made it and in
 * its own first stop, in either order; what comes first registers it.
 */
static struct thread *find_or_add_thread(struct trace *trace, pid_t tid)
{
	struct process *process, *parent;
	pid_t pid = status_number(tid, "Tgid:");

	process = find_process(trace, pid);
	if (!process) {
		parent = find_process(trace, status_number(tid, "PPid:"));
		if (!parent || pid != tid)
			return NULL;
		process = add_process(trace, pid, parent->run);
		if (!process)
			return NULL;
		snprintf(process->path, sizeof(process->path), "%.15s.%u", parent->path,
			 ++parent->children);
		/* It was made by a process that nobody follows any longer. */
		process->let_go = parent->let_go;
	}
	return add_thread(trace, tid, process);
}

static void let_go(struct trace *trace, struct thread *thread, int sig)
{
	ptrace(PTRACE_DETACH, thread->tid, NULL, (void *)(long)sig);
	drop_thread(trace, thread);
}

static void remember_victim(struct strike *strike, pid_t pid)
{
	int fd;

	if (strike->sig != SIGSTOP || strike->pidfd_count == TRACE_PROCESSES)
		return;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd >= 0)
		strike->pidfds[strike->pidfd_count++] = fd;
}

void strike_follow(struct strike *strike, int sig)
{
	while (strike->pidfd_count > 0) {
		int fd = strike->pidfds[--strike->pidfd_count];

		syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
		close(fd);
	}
}

static bool hit_by(const struct strike *strike, const struct process *victim,
		   const struct process *process, pid_t group)
{
	if (process->gone || process->command || process->run != victim->run)
		return false;
	switch (strike->reach) {
	case REACH_PROCESS:
		return process == victim;
	case REACH_GROUP:
		return getpgid(process->pid) == group;
	case REACH_ALL:
		break;
	}
	return true;
}

/* Of a process that is about to make the chosen call: KILL has it not made. */
static void inject_strike(struct trace *trace, struct strike *strike, struct process *victim)
{
	pid_t group = 0;
	int hit = 0;

	/* A run is started as a group of its own, and its first process is named by "0". */
	for (int i = 0; i < trace->process_count; i++)
		if (trace->processes[i].run == victim->run &&
		    strcmp(trace->processes[i].path, "0") == 0)
			group = trace->processes[i].pid;
	for (int i = 0; i < trace->process_count; i++) {
		struct process *process = &trace->processes[i];

		if (!hit_by(strike, victim, process, group))
			continue;
		remember_victim(strike, process->pid);
		if (strike->reach != REACH_GROUP)
			kill(process->pid, strike->sig);
		process->let_go = true;
		hit++;
	}
	if (strike->reach == REACH_GROUP && kill(-group, strike->sig))
		hit = 0;
	read_comm(victim);
	strike->done = true;
	strike->at_ms = now_ms();
	trace->note("%s to %d process%s at run %d, %s (%s, pid %d), call %u (number %d)%s",
		    strike->sig == SIGKILL ? "KILL" : "STOP", hit, hit == 1 ? "" : "es",
		    victim->run, victim->path, victim->comm, victim->pid, victim->calls,
		    victim->number, strike->asleep_ms ? ", asleep in it" : "");
}

static void note_sleep(struct process *process, int64_t now)
{
	int64_t slept_ms = now - process->began_ms;

	if (slept_ms < SLEEP_MS || process->sleeps == TRACE_SLEEPS)
		return;
	process->slept[process->sleeps] = process->calls;
	process->slept_ms[process->sleeps++] = (int)slept_ms;
}

static void begin_call(struct trace *trace, struct process *process)
{
	for (int i = 0; i < trace->strike_count; i++) {
		struct strike *next = &trace->strikes[i];

		if (next->done || next->call != process->calls || next->run != process->run ||
		    strcmp(next->path, process->path) != 0)
			continue;
		if (next->asleep_ms)
			next->due_ms = process->began_ms + next->asleep_ms;
		else
			inject_strike(trace, next, process);
	}
}

static void met_call(struct trace *trace, struct thread *thread)
{
	struct __ptrace_syscall_info info = { .op = PTRACE_SYSCALL_INFO_NONE };
	struct process *process = thread->process;
	int64_t now = now_ms();

	if (ptrace(PTRACE_GET_SYSCALL_INFO, thread->tid, (void *)sizeof(info), &info) < 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_EXIT)
		note_sleep(process, now);
	if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	process->calls++;
	process->began_ms = now;
	process->number = (int)info.entry.nr;
	if (process->renamed)
		read_comm(process);
	process->renamed = info.entry.nr == SYS_prctl && info.entry.args[0] == PR_SET_NAME;
	begin_call(trace, process);
}

void trace_tick(struct trace *trace)
{
	for (int i = 0; i < trace->strike_count; i++) {
		struct strike *next = &trace->strikes[i];

		if (next->done || !next->due_ms || now_ms() < next->due_ms)
			continue;
		/* Had it gone on, its strike would have come to nothing. */
		next->due_ms = 0;
		for (int j = 0; j < trace->process_count; j++) {
			struct process *process = &trace->processes[j];

			if (!process->gone && process->run == next->run &&
			    process->calls == next->call &&
			    strcmp(process->path, next->path) == 0)
				inject_strike(trace, next, process);
		}
	}
}

static void met_event(struct trace *trace, struct thread *thread, int event)
{
	struct process *process = thread->process;
	unsigned long message = 0;

	switch (event) {
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		if (!ptrace(PTRACE_GETEVENTMSG, thread->tid, NULL, &message) &&
		    !find_thread(trace, (pid_t)message))
			find_or_add_thread(trace, (pid_t)message);
		break;
	case PTRACE_EVENT_EXEC:
		if (strcmp(process->path, "0") != 0) {
			process->command = true;
			process->let_go = true;
		}
		break;
	default:
		break;
	}
}

void trace_stopped(struct trace *trace, pid_t tid, int status)
{
	struct thread *thread = find_thread(trace, tid);
	int event = status >> 16, sig = WSTOPSIG(status);
	bool group_stop = event == PTRACE_EVENT_STOP && sig != SIGTRAP;

	if (!thread)
		thread = find_or_add_thread(trace, tid);
	if (!thread) {
		ptrace(PTRACE_DETACH, tid, NULL, NULL);
		return;
	}
	trace->active_ms[thread->process->run] = now_ms();
	if (event)
		met_event(trace, thread, event);
	else if (sig == (SIGTRAP | 0x80))
		met_call(trace, thread);
	/* Only a signal on its way to the process is passed on. */
	if (event || sig == (SIGTRAP | 0x80))
		sig = 0;
	if (!thread->process->comm[0])
		read_comm(thread->process);
	if (thread->process->let_go || trace_struck_all(trace))
		let_go(trace, thread, sig);
	else if (group_stop)
		ptrace(PTRACE_LISTEN, tid, NULL, NULL);
	else
		ptrace(PTRACE_SYSCALL, tid, NULL, (void *)(long)sig);
}

void trace_gone(struct trace *trace, pid_t tid)
{
	struct process *process = find_process(trace, tid);
	struct thread *thread = find_thread(trace, tid);

	if (process)
		process->gone = true;
	if (thread)
		drop_thread(trace, thread);
}
