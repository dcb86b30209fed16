/* SPDX-License-Identifier: MIT */
/* The keeper's process. */
#pragma once

struct job;

enum keeper_mode {
	KEEPER_ACQUIRE,		/* acquire, hold, release */
	KEEPER_NEST,		/* verify and renew the hold of the token: keeper_join.h */
	KEEPER_JOIN,		/* renew it for as long as the command runs: keeper_join.h */
	KEEPER_ADOPT,		/* a daemon for a hold that the supervisor acquired itself */
	KEEPER_KEEP,		/* retain the same hold for the rest of its minimum hold */
};

/* Run the keeper's process. fd: to the supervisor. */
void keeper_main(const struct job *job, enum keeper_mode mode, int fd)
	__attribute__((noreturn));
