/* SPDX-License-Identifier: MIT */
/*
 * Signals. dlock blocks them all first thing and reads those it acts upon from a
 * signalfd; the command gets the mask and the dispositions that dlock was given.
 */
#ifndef DLOCK_SIGNALS_H
#define DLOCK_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct error;

struct signals {
	sigset_t mask;		/* as inherited */
	sigset_t ignored;	/* inherited as SIG_IGN */
	bool child_ignored;	/* SIGCHLD among them; reset, for dlock must reap */
	int fd;			/* signalfd, close-on-exec */
};

/* Blocks all, opens the signalfd. 0, or -1 with ERROR_INTERNAL. */
int signals_init(struct signals *signals, struct error *err);

/* Next signal that is pending, or 0. Fills *info when not NULL. */
struct signalfd_siginfo;
int signals_next(const struct signals *signals, struct signalfd_siginfo *info);

/*
 * Between these two, signals that end a program interrupt system calls (EINTR),
 * and so does the clock at until_ms (CLOCK_BOOTTIME; CLOCK_NEVER: not); others have
 * their default effect. One that comes just before the call interrupts it a little
 * later. The second gives the signal that was caught, 0 for none or the clock.
 */
void signals_admit(const struct signals *signals, int64_t until_ms);
int signals_bar(const struct signals *signals);

/* In a child, before exec: async-signal-safe. */
void signals_restore(const struct signals *signals);

/* Would sig, inherited like this, end a program that does not handle it? */
bool signals_fatal(const struct signals *signals, int sig);

/* Does sig reach the command when dlock gets it? */
bool signals_forwarded(int sig);

/* Stops this process, or with group its process group, by sig's default action. */
void signals_stop_self(int sig, bool group);

/* Ends this process, or with group its process group, by sig, without a core. */
void signals_die(int sig, bool group) __attribute__((noreturn));

#endif
