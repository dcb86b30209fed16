/* SPDX-License-Identifier: MIT */
#include "ipc.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Room for one descriptor beside a message. */
struct fd_room {
	_Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(int))];
};

ssize_t ipc_send(int fd, const void *message, size_t size, int flags, int passed_fd)
{
	struct iovec part = { .iov_base = (void *)message, .iov_len = size };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	struct fd_room room = { { 0 } };
	struct cmsghdr *control;

	if (passed_fd < 0)
		return send(fd, message, size, flags | MSG_NOSIGNAL);
	header.msg_control = room.bytes;
	header.msg_controllen = sizeof(room.bytes);
	control = CMSG_FIRSTHDR(&header);
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof(passed_fd));
	memcpy(CMSG_DATA(control), &passed_fd, sizeof(passed_fd));
	return sendmsg(fd, &header, flags | MSG_NOSIGNAL);
}

ssize_t ipc_receive(int fd, void *message, size_t size, int flags, int *passed_fd)
{
	struct fd_room room;
	struct iovec part = { .iov_base = message, .iov_len = size };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *control;
	ssize_t length;

	if (passed_fd) {
		header.msg_control = room.bytes;
		header.msg_controllen = sizeof(room.bytes);
	}
	length = recvmsg(fd, &header, flags | MSG_CMSG_CLOEXEC);
	if (length < 0 && errno == ECONNRESET)
		length = recvmsg(fd, &header, flags | MSG_CMSG_CLOEXEC);
	if (length < 0 || !passed_fd)
		return length;
	control = CMSG_FIRSTHDR(&header);
	if (control && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS)
		memcpy(passed_fd, CMSG_DATA(control), sizeof(*passed_fd));
	return length;
}
