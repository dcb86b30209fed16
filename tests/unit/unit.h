/* SPDX-License-Identifier: MIT */
/*
 * Checks for the test programs of pure modules. Each check prints one line of
 * TAP (https://testanything.org), and where it stands and what it saw when it
 * failed. main() ends in `return unit_done();`.
 */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static int unit_count;
static int unit_failures;
static char unit_row[256];

/* Names the row of a table: stands before the text of the checks that follow. */
__attribute__((format(printf, 1, 2), unused))
static void unit_case(const char *format, ...)
{
	va_list args;
	char *s;

	va_start(args, format);
	vsnprintf(unit_row, sizeof(unit_row) - 2, format, args);
	va_end(args);
	for (s = unit_row; *s; s++)	/* '#' and newlines mean something in TAP */
		if ((unsigned char)*s < 0x20 || *s == '#')
			*s = '?';
	strcat(unit_row, ": ");
}

__attribute__((unused))
static bool unit_result(bool ok, const char *text, const char *file, int line)
{
	printf("%s %d - %s%s\n", ok ? "ok" : "not ok", ++unit_count, unit_row, text);
	if (!ok) {
		unit_failures++;
		printf("# %s:%d\n", file, line);
	}
	return ok;
}

__attribute__((unused))
static void unit_int(intmax_t got, intmax_t want, const char *text, const char *file,
		     int line)
{
	if (!unit_result(got == want, text, file, line))
		printf("# got %jd, want %jd\n", got, want);
}

__attribute__((unused))
static void unit_hex(uintmax_t got, uintmax_t want, const char *text, const char *file,
		     int line)
{
	if (!unit_result(got == want, text, file, line))
		printf("# got 0x%jx, want 0x%jx\n", got, want);
}

/* NULL equals NULL alone. */
__attribute__((unused))
static void unit_str(const char *got, const char *want, const char *text,
		     const char *file, int line)
{
	bool ok = got && want ? strcmp(got, want) == 0 : got == want;

	if (!unit_result(ok, text, file, line))
		printf("# got \"%s\", want \"%s\"\n", got ? got : "(NULL)",
		       want ? want : "(NULL)");
}

__attribute__((unused))
static void unit_has(const char *got, const char *part, bool want, const char *text,
		     const char *file, int line)
{
	if (!unit_result((strstr(got, part) != NULL) == want, text, file, line))
		printf("# \"%s\" %s \"%s\"\n", got, want ? "lacks" : "has", part);
}

/* From now on the kernel refuses this system call to this process and its children. */
__attribute__((unused))
static void unit_refuse(uint32_t call, uint32_t errnum)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errnum),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(99);
}

/* Starts a child that runs body(arg) and then ends. The child dies with this program. */
__attribute__((unused))
static pid_t unit_start(void (*body)(void *arg), void *arg)
{
	const pid_t parent = getpid();
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* getppid() is 0 for a parent outside of the child's PID namespace. */
	if (getppid() == parent || !getppid())
		body(arg);
	_exit(0);
}

/* For unit_start(): a process that waits to be killed. */
__attribute__((unused))
static void unit_sleep(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

__attribute__((unused))
static int unit_done(void)
{
	printf("1..%d\n", unit_count);
	return unit_failures ? 1 : 0;
}

#define CHECK(condition) \
	((void)unit_result((condition), #condition, __FILE__, __LINE__))
#define CHECK_INT(got, want) \
	unit_int((intmax_t)(got), (intmax_t)(want), #got " is " #want, __FILE__, __LINE__)
#define CHECK_HEX(got, want) \
	unit_hex((uintmax_t)(got), (uintmax_t)(want), #got " is " #want, __FILE__, __LINE__)
#define CHECK_STR(got, want) \
	unit_str((got), (want), #got " is " #want, __FILE__, __LINE__)
#define CHECK_HAS(got, part) \
	unit_has((got), (part), true, #got " has " #part, __FILE__, __LINE__)
#define CHECK_LACKS(got, part) \
	unit_has((got), (part), false, #got " lacks " #part, __FILE__, __LINE__)
