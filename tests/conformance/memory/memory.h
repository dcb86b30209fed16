/* SPDX-License-Identifier: MIT */
/* A backend in the memory of one process, for tests: memory.c. */
#pragma once

extern const struct backend_ops memory_ops;

/*
 * Hold the rows, at a socket of this name in the kernel's abstract namespace, until the process is
 * killed. A fault makes the backend wrong on purpose, to show that oracle.c finds it: "forget"
 * keeps a hold after its release while somebody waits, "barge" lets newcomers pass the queue, and
 * "deaf" wakes nobody.
 */
int memory_serve(const char *name, const char *fault);
