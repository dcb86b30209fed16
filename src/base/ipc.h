/* SPDX-License-Identifier: MIT */
/*
 * Messages between dlock's processes, over SOCK_SEQPACKET pairs. A failure to send or receive one
 * ends the connection, and the run fails: the first error number is recorded in shared memory,
 * where each process reads it.
 *
 * Calling sequence: ipc_share_failure() by the supervisor before the first fork; then all others,
 * in any process.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct error;

enum ipc_result {
	IPC_DONE,
	IPC_LATER,		/* no message, or no room for one; or a signal or a time-out */
	IPC_GONE,		/* the peer has closed its end, or sent something else */
	IPC_FAILED,		/* errno, which is recorded, too */
};

/* Let this process and its children record the first failure in *failure, which is 0. */
void ipc_share_failure(_Atomic int *failure);

/* Has any process recorded a failure? Then *err, unless NULL, gets ERROR_INTERNAL. */
bool ipc_has_failed(struct error *err);

/*
 * Send one message as send(), with a copy of passed_fd unless that is -1. The caller keeps
 * passed_fd. Async-signal-safe, as ipc_receive() is.
 */
enum ipc_result ipc_send(int fd, const void *message, size_t size, int flags, int passed_fd);

/*
 * Receive one message of this size as recv(). Sets *passed to the descriptor of the message,
 * close-on-exec, which the caller closes, or with SO_PASSCRED to the sender's pid; a message
 * without either leaves *passed. NULL: none is expected. It is a failure when this process has no
 * room for a descriptor.
 */
enum ipc_result ipc_receive(int fd, void *message, size_t size, int flags, int *passed);
