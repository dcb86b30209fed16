/* SPDX-License-Identifier: MIT */
/* The guard's process. */
#pragma once

struct job;

/* Run the guard's process. fd: to the supervisor. */
void guard_main(const struct job *job, int fd) __attribute__((noreturn));
