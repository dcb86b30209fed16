/* SPDX-License-Identifier: MIT */
/*
 * noofd ERRNO COMMAND [ARG]...: runs COMMAND where fcntl() refuses locks of open file
 * descriptions (F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW) with this error number, as some file
 * systems and sandboxes do.
 */
#include <err.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The low half of an argument of a system call. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOW_HALF(n) offsetof(struct seccomp_data, args[n])
#else
#define LOW_HALF(n) (offsetof(struct seccomp_data, args[n]) + 4)
#endif

int main(int argc, char **argv)
{
	if (argc < 3)
		errx(64, "usage: noofd ERRNO COMMAND [ARG]...");

	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW_HALF(1)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, F_OFD_GETLK, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, F_OFD_SETLKW, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)atoi(argv[1])),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		err(70, "seccomp");
	execvp(argv[2], argv + 2);
	err(71, "%s", argv[2]);
}
