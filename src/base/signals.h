/* SPDX-License-Identifier: MIT */
/*
 * Signals. dlock blocks all signals first, and reads those that it handles from a signalfd. The
 * command gets the mask and the dispositions that dlock was started with.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct error;

struct signals {
	sigset_t mask;		/* as inherited */
	sigset_t ignored;	/* inherited as SIG_IGN */
	int fd;			/* signalfd, close-on-exec */
};

/* Block all signals and open the signalfd. Returns 0, or -1 with ERROR_INTERNAL. */
int signals_init(struct signals *signals, struct error *err);

/* Return the next pending signal, or 0. info may be NULL. */
struct signalfd_siginfo;
int signals_next(const struct signals *signals, struct signalfd_siginfo *info);

/*
 * Drop pending signals, at most one of each kind, so that a flood of signals cannot delay the
 * caller. Returns whether there was one.
 */
bool signals_drain(const struct signals *signals);

/*
 * Between these two calls, a signal that ends a program interrupts system calls (EINTR), as does
 * the clock at until_ms (CLOCK_BOOTTIME; CLOCK_NEVER: no limit). Other signals have their default
 * effect. A signal just before a system call interrupts it some 20 ms later. signals_unblock()
 * returns 0, or -1 with ERROR_INTERNAL when the kernel gives no timer. signals_block() returns the
 * signal that was caught; 0: none, or the clock.
 */
int signals_unblock(const struct signals *signals, int64_t until_ms, struct error *err);
int signals_block(void);

/* Restore the inherited mask and SIGCHLD in a child, before exec. Async-signal-safe. */
void signals_restore(const struct signals *signals);

/* Would sig end a program that was started with these dispositions and does not handle it? */
bool signals_fatal(const struct signals *signals, int sig);

/* Stop this process, or with group its process group, by the default action of sig. */
void signals_stop_self(int sig, bool group);

/* End this process by sig, without a core file. */
void signals_exit(int sig) __attribute__((noreturn));
