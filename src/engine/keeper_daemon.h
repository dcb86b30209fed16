/* SPDX-License-Identifier: MIT */
/*
 * The daemon of `dlock acquire`: it holds for a process, or because the lock lives with its session
 * or descriptors, and answers the queries of keeper_socket.h.
 *
 * Calling sequence: become_daemon(); then answer_caller() after each WAKE_QUERY, lose_and_exit()
 * when the lock is lost, or when next_deadline() has come.
 */
#pragma once

#include "keeper_hold.h"

/* Become a daemon: socket, no terminal, nothing inherited. Ends the process on failure. */
void become_daemon(struct keeping *k, struct grant *grant);

/*
 * Accept a caller, answer a query, or notice the end of a run that has joined. False: the hold is
 * lost. Does not return if the query ends the hold.
 */
bool answer_caller(struct keeping *k, struct grant *grant);

/*
 * Return when a daemon must act (CLOCK_BOOTTIME): at its end, or when its process must be signalled
 * because the lease is about to end. For a keeper that is no daemon, the end of a minimum hold.
 */
int64_t next_deadline(const struct keeping *k);

/* The lock is lost: signal the process that the daemon holds it for, and end the daemon. */
void lose_and_exit(struct keeping *k) __attribute__((noreturn));
