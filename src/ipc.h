/* SPDX-License-Identifier: MIT */
/* Messages between dlock's processes, over SOCK_SEQPACKET pairs. */
#ifndef DLOCK_IPC_H
#define DLOCK_IPC_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>

/*
 * Receives one message without waiting, as recv(). A peer that ends without having read
 * all that it was sent makes the kernel report that first (ECONNRESET), before what it
 * has said itself: its last words must not be lost over it.
 */
static inline ssize_t ipc_receive(int fd, void *message, size_t size)
{
	ssize_t length = recv(fd, message, size, MSG_DONTWAIT);

	if (length < 0 && errno == ECONNRESET)
		length = recv(fd, message, size, MSG_DONTWAIT);
	return length;
}

#endif
