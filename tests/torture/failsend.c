/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into dlock: messages between its processes (SOCK_SEQPACKET) fail. The environment says
 * which:
 *
 *	FAIL_CALL	send or recv, which stand for sendmsg and recvmsg, too
 *	FAIL_AT		the first that fails, counted from 1 in all processes together
 *	FAIL_ON		when set, all after that fail, too
 *	FAIL_ERRNO	with this error number; 0: the call succeeds, but loses the descriptor that
 *			comes with the message, as at the limit on descriptors
 *	FAIL_MARK	a file that is made when a call fails
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int *count;
static const char *mark;
static int first, errnum;
static bool sends, goes_on;

static void __attribute__((constructor)) begin(void)
{
	const char *call = getenv("FAIL_CALL"), *at = getenv("FAIL_AT");
	const char *with = getenv("FAIL_ERRNO");
	void *page = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			  -1, 0);

	count = page == MAP_FAILED ? NULL : page;
	sends = call && !strcmp(call, "send");
	first = at ? atoi(at) : 0;
	mark = getenv("FAIL_MARK");
	goes_on = getenv("FAIL_ON") != NULL;
	errnum = with ? atoi(with) : 0;
}

/* Count a call. Does it fail? */
static bool fails(int fd, bool is_send)
{
	socklen_t size = sizeof(int);
	int type, number;

	if (!count || is_send != sends || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) ||
	    type != SOCK_SEQPACKET)
		return false;
	number = atomic_fetch_add(count, 1) + 1;
	if (number == first && mark)
		close(open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	return number == first || (goes_on && number > first);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (fails(fd, true)) {
		errno = errnum;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	if (fails(fd, true)) {
		errno = errnum;
		return -1;
	}
	return syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	const bool failing = fails(fd, false);
	ssize_t length;
	int lost;

	if (failing && errnum) {
		errno = errnum;
		return -1;
	}
	length = syscall(SYS_recvmsg, fd, message, flags);
	if (failing && length >= 0 && message->msg_control && CMSG_FIRSTHDR(message) &&
	    CMSG_FIRSTHDR(message)->cmsg_type == SCM_RIGHTS) {
		memcpy(&lost, CMSG_DATA(CMSG_FIRSTHDR(message)), sizeof(lost));
		close(lost);
		message->msg_controllen = 0;
		message->msg_flags |= MSG_CTRUNC;
	}
	return length;
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
	if (fails(fd, false) && errnum) {
		errno = errnum;
		return -1;
	}
	return syscall(SYS_recvfrom, fd, data, size, flags, NULL, NULL);
}
