/* SPDX-License-Identifier: MIT */
/*
 * The keeper's process, from the inside. From its start to its end:
 *
 *	keeping_main()			keeper_process.c
 *	  acquire_lock()		acquires the lock and offers it
 *	  join_hold()			or joins an outer hold
 *	  then in a loop, until the tree is dead:
 *	    continue_supervisor()	which ends the tree of a dead guard
 *	    keeping_sleep()		sleeps
 *	    keeping_answer()		a daemon's queries: keeper_daemon.c
 *	    renew_lease()
 *	  keeping_release()
 *
 * keeper_hold.c has the single steps of these; keeper.c is the supervisor's side.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "keeper_socket.h"
#include "supervisor.h"

/* Why keeping_sleep() has returned. */
enum wake {
	WAKE_TIME,
	WAKE_EVENT,		/* the backend's descriptor is readable */
	WAKE_RELEASE,		/* an order, or the tree or the process of --pid has ended */
	WAKE_UNGUARDED,		/* the guard died just now */
	WAKE_ABANDONED,		/* supervisor and guard are gone; returned once */
	WAKE_RETRY,
	WAKE_DETACH,
	WAKE_ORPHANED,		/* the supervisor died just now */
	WAKE_QUERY,		/* daemon: the socket is readable */
	WAKE_CHECK,		/* the lock may be lost: SIGURG, or the joined daemon has ended */
};

struct keeping {
	const struct supervisor *s;	/* as it was at the fork */
	enum keeper_mode mode;
	struct request request;		/* the supervisor's, with the text below */
	struct holder self;		/* the supervisor's; a daemon sets until_ms in it */
	char text[HOLDER_TEXT_SIZE];	/* self, encoded */
	bool text_changed;		/* the next renewal stores it */
	int64_t timeout_ms;		/* of the backend's calls, as configured */
	int64_t connect_timeout_ms;
	struct backend *backend;
	int hold_fd;			/* see struct grant; joined: the share; -1: none */
	int fd;				/* to the supervisor; -1: a daemon, or a minimum hold */
	int64_t viewed_ms;		/* when the holders were last read; 0: never */
	bool orphaned;			/* the supervisor is dead: the guard's end is the order */
	bool abandoned;			/* supervisor and guard are dead */
	pid_t guard;			/* 0: not started yet */
	int guard_fd;			/* its pidfd; -1: not started, or it has ended */
	pid_t session;			/* of the supervisor, and of the command at its start */
	pid_t supervisor;
	int64_t continue_ms;		/* the guard is dead: when to continue the supervisor */
	int listener;			/* daemon: its socket; -1 before */
	int callers;			/* daemon: epoll of its socket and the connections to it */
	int watchdog;			/* daemon for a process: ends its watchdog; -1: none */
	int timer;			/* of a hold, which a suspended host must not delay */
	int64_t until_ms;		/* end of a minimum hold, or of a daemon without process */
	int64_t own_ms;			/* TTL of that daemon, unless a renewal changes it */
	int members;			/* daemon: number of runs that have joined its hold */
	bool leaving;			/* daemon: release as soon as the last run has ended */
	int share_fd;			/* joined: see keeper_socket_ask(); -1: no daemon */
	bool daemon_ended;		/* joined */
	bool trouble;			/* the last renewal has failed, or was too late to begin */
	struct keeper_event event;	/* being sent */
};

/* Is the lock only retained for the rest of its minimum hold? */
static inline bool keeping_is_retained(const struct keeping *k)
{
	return k->fd < 0 && k->listener < 0;
}

/* ---- keeper_process.c ---- */

/* Run the keeper's process. fd: to the supervisor. */
void keeping_main(const struct supervisor *s, enum keeper_mode mode, int fd)
	__attribute__((noreturn));

/* ---- keeper_hold.c ---- */

/* Publish the lease for the processes that enforce it. */
void keeping_publish(struct keeping *k, const struct grant *grant);

/* Reset the timeouts of the backend's calls, which a lease has shortened. */
void keeping_reset_timeouts(struct keeping *k);

/* Renew once, and store k->text if it has changed. */
enum outcome keeping_renew_once(struct keeping *k, struct grant *grant, struct error *err);

/* Encode k->self again, for the next renewal to store. */
void keeping_change_text(struct keeping *k);

/* Read the holder and the number of waiters before this one, for the next event. */
void keeping_view(struct keeping *k);

/*
 * Release the lock, unless the backend needs this process to keep it for the rest of the minimum
 * hold: HELD, and *keep_ms > 0. Then keeping_keep() follows.
 */
enum outcome keeping_release_once(struct keeping *k, int64_t *keep_ms, struct error *err);

/* The reason of a loss without an error. */
#define KEEPING_GONE "this token does not hold it any more"

/* Send k->event as an event of this type, or end the process if that fails. */
void keeping_send(struct keeping *k, enum keeper_event_type type);

/* Close a daemon's socket, and end its watchdog without a signal. */
void keeping_end_daemon(struct keeping *k);

/* keeping_send(), and end the process. */
void keeping_exit(struct keeping *k, enum keeper_event_type type) __attribute__((noreturn));

/*
 * Sleep until an event or until_ms. The backend's descriptor counts only when with_backend is set.
 */
enum wake keeping_sleep(struct keeping *k, int64_t until_ms, bool with_backend);

/*
 * Release the lock and end the process, or return after keeping_keep(). was_held: this token has
 * held the lock, so it is lost if the token does not hold it now.
 */
void keeping_release(struct keeping *k, bool was_held);

/* Retain the lock in this process for keep_ms. The supervisor does not wait for it. */
void keeping_keep(struct keeping *k, int64_t keep_ms);

/* ---- keeper_daemon.c ---- */

/* Become a daemon: socket, no terminal, nothing inherited. Ends the process on failure. */
void keeping_detach(struct keeping *k, struct grant *grant);

/*
 * Accept a caller, answer a query, or notice the end of a run that has joined. False: the hold is
 * lost. Does not return if the query ends the hold.
 */
bool keeping_answer(struct keeping *k, struct grant *grant);

/*
 * Return when a daemon must act (CLOCK_BOOTTIME): at its end, or when its process must be signalled
 * because the lease is about to end. CLOCK_NEVER for a keeper that is no daemon.
 */
int64_t keeping_deadline(const struct keeping *k);

/* The lock is lost: signal the process that the daemon holds it for, and end the daemon. */
void keeping_lose_daemon_exit(struct keeping *k) __attribute__((noreturn));
