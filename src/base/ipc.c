/* SPDX-License-Identifier: MIT */
/* Sends and receives messages between dlock's processes, and records what fails. */
#include "ipc.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "error.h"

/* errno of the first failure; 0: none. */
static _Atomic int no_failure, *failure = &no_failure;

void ipc_share_failure(_Atomic int *shared)
{
	failure = shared;
}

bool ipc_has_failed(struct error *err)
{
	const int first = atomic_load(failure);

	if (first && err)
		error_set(err, ERROR_INTERNAL, first, "dlock's processes cannot exchange messages");
	return first != 0;
}

/* Translate errno after a call has failed. */
static enum ipc_result classify_error(void)
{
	int none = 0;

	if (errno == EAGAIN || errno == EINTR)
		return IPC_LATER;
	if (errno == EPIPE || errno == ECONNRESET)
		return IPC_GONE;
	atomic_compare_exchange_strong(failure, &none, errno);
	return IPC_FAILED;
}

/* Room for one descriptor, or the sender's credentials, beside a message. */
union room {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(struct ucred))];
};

enum ipc_result ipc_send(int fd, const void *message, size_t size, int flags, int passed_fd)
{
	struct iovec part = { .iov_base = (void *)message, .iov_len = size };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	union room room = { .bytes = { 0 } };
	struct cmsghdr *control;

	if (passed_fd >= 0) {
		header.msg_control = &room;
		header.msg_controllen = CMSG_SPACE(sizeof(passed_fd));
		control = CMSG_FIRSTHDR(&header);
		control->cmsg_level = SOL_SOCKET;
		control->cmsg_type = SCM_RIGHTS;
		control->cmsg_len = CMSG_LEN(sizeof(passed_fd));
		memcpy(CMSG_DATA(control), &passed_fd, sizeof(passed_fd));
	}
	return sendmsg(fd, &header, flags | MSG_NOSIGNAL) >= 0 ? IPC_DONE : classify_error();
}

enum ipc_result ipc_receive(int fd, void *message, size_t size, int flags, int *passed)
{
	union room room;
	struct iovec part = { .iov_base = message, .iov_len = size };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *control;
	ssize_t length;

	if (passed) {
		header.msg_control = &room;
		header.msg_controllen = sizeof(room);
	}
	length = recvmsg(fd, &header, flags | MSG_CMSG_CLOEXEC);
	/* Returned once when the peer has not read everything; its last messages come after it. */
	if (length < 0 && errno == ECONNRESET)
		length = recvmsg(fd, &header, flags | MSG_CMSG_CLOEXEC);
	if (length < 0)
		return classify_error();
	control = passed ? CMSG_FIRSTHDR(&header) : NULL;
	/* The descriptor, or the pid that struct ucred begins with. */
	if (control)
		memcpy(passed, CMSG_DATA(control), sizeof(*passed));
	if (passed && header.msg_flags & MSG_CTRUNC) {
		errno = EMFILE;
		return classify_error();
	}
	return length == (ssize_t)size ? IPC_DONE : IPC_GONE;
}
