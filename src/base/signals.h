/* SPDX-License-Identifier: MIT */
/*
 * Signals. dlock blocks all signals first, and reads those that it acts on from a signalfd. The
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
	bool child_ignored;	/* SIGCHLD is one of them; dlock resets it in order to reap */
	int fd;			/* signalfd, close-on-exec */
};

/* Blocks all signals and opens the signalfd. 0, or -1 with ERROR_INTERNAL. */
int signals_init(struct signals *signals, struct error *err);

/* The next pending signal, or 0. info may be NULL. */
struct signalfd_siginfo;
int signals_next(const struct signals *signals, struct signalfd_siginfo *info);

/*
 * Forgets pending signals, one of each kind at most, so that nobody who sends signals without a
 * pause can keep the caller. Was there one?
 */
bool signals_drain(const struct signals *signals);

/*
 * Between these two calls, a signal that ends a program interrupts system calls (EINTR), and so
 * does the clock at until_ms (CLOCK_BOOTTIME; CLOCK_NEVER: it does not). Other signals have their
 * default effect. A signal that comes just before a system call interrupts it some 20 ms later.
 * signals_bar() returns the signal that was caught; 0: none, or the clock.
 */
void signals_admit(const struct signals *signals, int64_t until_ms);
int signals_bar(const struct signals *signals);

/* In a child, before exec: async-signal-safe. */
void signals_restore(const struct signals *signals);

/* Would sig end a program that was started with these dispositions and does not handle it? */
bool signals_fatal(const struct signals *signals, int sig);

/* Does dlock pass sig on to the command? */
bool signals_forwarded(int sig);

/* Stops this process, or with group its process group, by the default action of sig. */
void signals_stop_self(int sig, bool group);

/* Ends this process, or with group its process group, by sig, without a core file. */
void signals_die(int sig, bool group) __attribute__((noreturn));
