/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into dlock, and into no program that it starts: calls fail. The environment says which:
 *
 *	FAIL_CALL	one of the kinds below. send and recv are messages between dlock's
 *			processes (SOCK_SEQPACKET), whichever function sends or receives them.
 *	FAIL_AT		the first that fails, counted from 1 in all processes together
 *	FAIL_ON		when set, all after that fail, too
 *	FAIL_ERRNO	with this error number; 0, of recv: the call succeeds, but loses the
 *			descriptor that comes with the message, as at the limit on descriptors
 *	FAIL_MARK	a file that is made when a call fails
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum kind { SEND, RECV, SOCKET, FORK, PIPE, TIMER, OPEN, WRITE, MALLOC, KINDS };

static const char *const kind_names[KINDS] = {
	"send", "recv", "socket", "fork", "pipe", "timer", "open", "write", "malloc",
};

static enum kind chosen = KINDS;
static _Atomic int *count;
static const char *mark;
static int first, errnum;
static bool goes_on;

/* What stands behind the functions that are more than a system call. */
static pid_t (*next_fork)(void);
static pid_t (*next_vfork)(void);
static FILE *(*next_fopen)(const char *, const char *);
static int (*next_timer_create)(clockid_t, struct sigevent *, timer_t *);
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t members, size_t size);
void *__libc_realloc(void *memory, size_t size);

static void __attribute__((constructor)) read_variables(void)
{
	const char *call = getenv("FAIL_CALL"), *at = getenv("FAIL_AT");
	const char *with = getenv("FAIL_ERRNO");
	void *page = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			  -1, 0);
	enum kind kind = 0;

	*(void **)&next_fork = dlsym(RTLD_NEXT, "_Fork");
	*(void **)&next_vfork = dlsym(RTLD_NEXT, "vfork");
	*(void **)&next_fopen = dlsym(RTLD_NEXT, "fopen64");
	*(void **)&next_timer_create = dlsym(RTLD_NEXT, "timer_create");
	first = at ? atoi(at) : 0;
	mark = getenv("FAIL_MARK");
	goes_on = getenv("FAIL_ON") != NULL;
	errnum = with ? atoi(with) : 0;
	while (call && kind < KINDS && strcmp(call, kind_names[kind]) != 0)
		kind++;
	if (page == MAP_FAILED || !call || strcmp(program_invocation_short_name, "dlock") != 0)
		return;
	count = page;
	chosen = kind;
}

/* Count a call. If it fails, errno is set. */
static bool should_fail(enum kind kind)
{
	int number, fd;

	if (kind != chosen)
		return false;
	number = atomic_fetch_add(count, 1) + 1;
	if (number == first && mark) {
		fd = (int)syscall(SYS_openat, AT_FDCWD, mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		syscall(SYS_close, fd);
	}
	errno = errnum;
	return number == first || (goes_on && number > first);
}

static bool fails_message(enum kind kind, int fd)
{
	socklen_t size = sizeof(int);
	int type;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_SEQPACKET &&
	       should_fail(kind);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	return fails_message(SEND, fd) ? -1 : syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	return fails_message(SEND, fd) ? -1 : syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	const bool failing = fails_message(RECV, fd);
	ssize_t length;
	int lost;

	if (failing && errnum)
		return -1;
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
	if (fails_message(RECV, fd) && errnum)
		return -1;
	return syscall(SYS_recvfrom, fd, data, size, flags, NULL, NULL);
}

int socket(int domain, int type, int protocol)
{
	return should_fail(SOCKET) ? -1 : (int)syscall(SYS_socket, domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int ends[2])
{
	return should_fail(SOCKET) ? -1
				   : (int)syscall(SYS_socketpair, domain, type, protocol, ends);
}

pid_t _Fork(void)
{
	return should_fail(FORK) ? -1 : next_fork();
}

pid_t fork(void)
{
	return _Fork();
}

/* The call must be a jump, because the child returns from it first, and would spoil our frame. */
pid_t vfork(void)
{
	return should_fail(FORK) ? -1 : next_vfork();
}

int pipe2(int ends[2], int flags)
{
	return should_fail(PIPE) ? -1 : (int)syscall(SYS_pipe2, ends, flags);
}

int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	return should_fail(TIMER) ? -1 : next_timer_create(clock, event, timer);
}

int timerfd_create(int clock, int flags)
{
	return should_fail(TIMER) ? -1 : (int)syscall(SYS_timerfd_create, clock, flags);
}

int open64(const char *path, int flags, ...)
{
	va_list more;
	int mode;

	va_start(more, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
	va_end(more);
	return should_fail(OPEN) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
	return should_fail(OPEN) ? NULL : next_fopen(path, mode);
}

ssize_t write(int fd, const void *data, size_t size)
{
	return should_fail(WRITE) ? -1 : syscall(SYS_write, fd, data, size);
}

void *malloc(size_t size)
{
	return should_fail(MALLOC) ? NULL : __libc_malloc(size);
}

void *calloc(size_t members, size_t size)
{
	return should_fail(MALLOC) ? NULL : __libc_calloc(members, size);
}

void *realloc(void *memory, size_t size)
{
	return should_fail(MALLOC) ? NULL : __libc_realloc(memory, size);
}
