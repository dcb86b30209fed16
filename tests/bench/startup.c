/* SPDX-License-Identifier: MIT */
/*
 * startup MAP PROGRAM ARG...
 *
 * Runs PROGRAM, a static one whose link wrote MAP (ld -Map), one instruction after the other,
 * and so all that it forks, up to an exec. Prints "ARCHIVE:MEMBER" for each member of a library
 * of which anything was executed, in the order of MAP. ptrace(2) has the way of it; x86-64 only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define CODE_MAX (16UL << 20)

static bool executed[CODE_MAX];

static void die(const char *what)
{
	fprintf(stderr, "startup: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Where the program lies in the memory of pid, which has just become it. */
static unsigned long base_of(pid_t pid)
{
	char path[64], line[512], *program;
	unsigned long base = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	program = realpath(path, NULL);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "r");
	if (!program || !maps)
		die(path);
	while (!base && fgets(line, sizeof(line), maps))
		if (strstr(line, program))
			base = strtoul(line, NULL, 16);
	fclose(maps);
	free(program);
	return base;
}

static void step(pid_t pid, int sig)
{
	ptrace(PTRACE_SINGLESTEP, pid, NULL, (void *)(long)sig);
}

/* Notes where pid, which has made a step, stands now. */
static void note(pid_t pid, unsigned long base)
{
	struct user_regs_struct registers;

	if (!ptrace(PTRACE_GETREGS, pid, NULL, &registers) && registers.rip - base < CODE_MAX)
		executed[registers.rip - base] = true;
}

static void run(char **argv)
{
	unsigned long base = 0;
	pid_t first = fork(), pid;
	int status, event;

	if (first == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execv(argv[0], argv);
		die(argv[0]);
	}
	if (first < 0 || waitpid(first, &status, 0) != first)
		die("fork");
	ptrace(PTRACE_SETOPTIONS, first, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC |
	       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE);
	ptrace(PTRACE_CONT, first, NULL, NULL);
	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status)) {
			if (pid == first)
				break;
			continue;
		}
		event = status >> 16;
		if (event == PTRACE_EVENT_EXEC && pid != first) {
			ptrace(PTRACE_DETACH, pid, NULL, NULL);
			continue;
		}
		if (event == PTRACE_EVENT_EXEC)
			base = base_of(pid);
		else if (!event && WSTOPSIG(status) == SIGTRAP)
			note(pid, base);
		/* What is new begins with a stop of its own. */
		step(pid, event || WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP
			  ? 0 : WSTOPSIG(status));
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		errno = ECANCELED;
		die(argv[0]);
	}
}

static bool any_executed(unsigned long from, unsigned long length)
{
	for (unsigned long at = from; at < from + length && at < CODE_MAX; at++)
		if (executed[at])
			return true;
	return false;
}

/* " .text.NAME ADDRESS LENGTH ARCHIVE(MEMBER)", after a long name in two lines */
static void print_members(const char *path)
{
	char line[4096], name[256], file[3072], *member;
	unsigned long from, length;
	FILE *map = fopen(path, "r");
	bool placed = false;

	if (!map)
		die(path);
	while (fgets(line, sizeof(line), map)) {
		placed |= !strncmp(line, "Linker script and memory map", 28);
		if (!placed || sscanf(line, " %255s", name) != 1 || strncmp(line, " .text", 6) != 0)
			continue;
		if (strlen(line) == strlen(name) + 2 && fgets(line, sizeof(line), map) == NULL)
			break;
		if (sscanf(strstr(line, " 0x") ? strstr(line, " 0x") : "", "%lx %lx %3071s", &from,
			   &length, file) != 3 || !any_executed(from, length))
			continue;
		member = strchr(file, '(');
		if (!member)
			continue;
		*member = '\0';
		member[strcspn(member + 1, ")") + 1] = '\0';
		printf("%s:%s\n", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, member + 1);
	}
	fclose(map);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	run(argv + 2);
	print_members(argv[1]);
	return 0;
}
