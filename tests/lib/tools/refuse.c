/* SPDX-License-Identifier: MIT */
/*
 * Runs COMMAND where the kernel refuses system calls, as under the seccomp profile of a container:
 * with the errno that is named, for calls named by name or number. With :MASK a call is refused
 * only when its first argument has one of these bits (clone:0x20000000).
 *
 *	refuse EPERM|ENOSYS|EINVAL CALL[:MASK][,CALL[:MASK]]... COMMAND [ARG]...
 */
#include <err.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_CALLS 32
/* Statements for each call, and one before and one after all of them. */
#define STATEMENTS 5

static const struct {
	const char *name;
	uint32_t number;
} calls[] = {
	{ "clone", SYS_clone }, { "clone3", SYS_clone3 }, { "close_range", SYS_close_range },
	{ "flock", SYS_flock }, { "inotify_init1", SYS_inotify_init1 }, { "kill", SYS_kill },
	{ "memfd_create", SYS_memfd_create }, { "mount", SYS_mount },
	{ "pidfd_open", SYS_pidfd_open },
	{ "pidfd_send_signal", SYS_pidfd_send_signal }, { "prctl", SYS_prctl },
	{ "setns", SYS_setns }, { "signalfd4", SYS_signalfd4 },
	{ "timer_create", SYS_timer_create },
	{ "timer_settime", SYS_timer_settime }, { "timerfd_create", SYS_timerfd_create },
	{ "unshare", SYS_unshare },
};

static const struct {
	const char *name;
	uint32_t number;
} errors[] = { { "EPERM", EPERM }, { "ENOSYS", ENOSYS }, { "EINVAL", EINVAL } };

static uint32_t call_of(const char *name)
{
	char *end;
	unsigned long number;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].number;
	number = strtoul(name, &end, 10);
	if (end == name || *end)
		errx(64, "no such system call here: %s", name);
	return (uint32_t)number;
}

static uint32_t error_of(const char *name)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (!strcmp(errors[i].name, name))
			return errors[i].number;
	errx(64, "no such error here: %s", name);
}

/* Adds the statements that refuse one call: "NAME" or "NAME:MASK". */
static size_t add_filter(struct sock_filter *filter, char *call, uint32_t errnum)
{
	char *mask = strchr(call, ':');
	uint32_t bits = 0;
	size_t count = 0;

	if (mask) {
		*mask++ = '\0';
		bits = (uint32_t)strtoul(mask, NULL, 0);
	}
	filter[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						       offsetof(struct seccomp_data, nr));
	filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call_of(call),
						       0, mask ? 3 : 1);
	if (mask) {
		/* The low half, which comes first on the machines that matter here. */
		filter[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
							       offsetof(struct seccomp_data, args));
		filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K,
							       bits, 0, 1);
	}
	filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						       SECCOMP_RET_ERRNO | errnum);
	return count;
}

int main(int argc, char **argv)
{
	struct sock_filter filter[MOST_CALLS * STATEMENTS + 1];
	struct sock_fprog program = { .filter = filter };
	uint32_t errnum;
	size_t count = 0;
	char *call;

	if (argc < 4)
		errx(64, "usage: refuse EPERM|ENOSYS|EINVAL CALL[:MASK],... COMMAND [ARG]...");
	errnum = error_of(argv[1]);
	while ((call = strsep(&argv[2], ","))) {
		if (count + STATEMENTS >= sizeof(filter) / sizeof(filter[0]))
			errx(64, "too many system calls");
		count += add_filter(filter + count, call, errnum);
	}
	filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)count;
	/* What anybody but root must have set; and set-user-ID programs must not run so. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		err(70, "seccomp");
	execvp(argv[3], argv + 3);
	err(127, "%s", argv[3]);
}
