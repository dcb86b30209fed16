/* SPDX-License-Identifier: MIT */
/*
 * The keeper's hold: its events, renewals, sleep and release, which all parts of the keeper's
 * process use:
 *
 *	keeper_process.c	the process, and its loop while it holds
 *	keeper_daemon.c		the daemon of `dlock acquire`
 *	keeper_join.c		the hold of another process
 *	keeper_acquire.c	acquiring: the wait and the offer
 *	keeper_hold.c		this
 *
 * Each uses those below it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lock/backend.h"
#include "lock/holder.h"
#include "job.h"
#include "message.h"

/* The reason of a loss without an error. */
#define NOT_HELD "this token does not hold it any more"

/* Why sleep_until() has returned. */
enum wake {
	WAKE_TIME,
	WAKE_EVENT,		/* the backend's descriptor is readable */
	WAKE_RELEASE,		/* an order, or the tree or the process of --pid has ended */
	WAKE_ABANDONED,		/* supervisor and guard are gone; returned once */
	WAKE_RETRY,
	WAKE_DETACH,
	WAKE_ORPHANED,		/* the supervisor died just now */
	WAKE_QUERY,		/* daemon: the socket is readable */
	WAKE_CHECK,		/* the lock may be lost: SIGURG, or the joined daemon has ended */
};

/* What the keeper is at. README.md has the table of the wakes of each. */
enum stage {
	STAGE_ACQUIRING,	/* or waiting in the queue */
	STAGE_OFFERED,		/* to the guard, or for `dlock acquire` to the supervisor */
	STAGE_WITHDRAWN,	/* the offer was not taken in time */
	STAGE_HOLDING,
	STAGE_JOINED,		/* holding, with the hold of another process */
	STAGE_LOST,		/* until the tree is dead */
	STAGE_DAEMON,		/* of `dlock acquire` */
	STAGE_RETAINED,		/* for the rest of a minimum hold */
};

/* The daemon of `dlock acquire`. */
struct daemon {
	int listener;			/* its socket; -1: closed */
	int callers;			/* epoll of its socket and the connections to it */
	int watchdog;			/* of --pid: a byte ends it without a signal; -1: none */
	int64_t own_ms;			/* TTL without a process, unless a renewal changes it */
	int members;			/* number of runs that have joined its hold */
};

/* The daemon whose hold a run has joined. */
struct joined {
	int share_fd;			/* see keeper_socket_ask(); -1: no daemon */
	bool daemon_ended;
};

struct keeping {
	const struct job *job;
	bool joins;			/* an outer hold: KEEPER_JOIN */
	enum stage stage;
	struct request request;		/* the job's */
	struct holder self;		/* the job's; a daemon sets until_ms in it */
	char text[HOLDER_TEXT_SIZE];	/* self, encoded, once it has changed: */
	bool text_changed;		/* the next renewal stores it */
	int64_t timeout_ms;		/* of the backend's calls, as configured */
	int64_t connect_timeout_ms;
	struct backend *backend;
	int hold_fd;			/* see struct grant; joined: the share; -1: none */
	int fd;				/* to the supervisor; -1: a daemon, or a minimum hold */
	int64_t viewed_ms;		/* when the holders were last read; 0: never */
	bool orphaned;			/* the supervisor is dead: the guard's end is the order */
	bool abandoned;			/* supervisor and guard are dead */
	pid_t session;			/* of the supervisor, and of the command at its start */
	int timer;			/* of a hold, which a suspended host must not delay */
	int64_t until_ms;		/* end of a minimum hold, or of a daemon without process */
	bool leaving;			/* release as soon as the last run that joined has ended */
	bool trouble;			/* the last renewal has failed, or was too late to begin */
	struct daemon daemon;
	struct joined joined;
	struct keeper_event event;	/* being sent */
};

/*
 * Send k->event as an event of this type. A failure ends the connection, and this process goes on
 * as after the supervisor's death. A daemon gets TERM then.
 */
void send_event(struct keeping *k, enum keeper_event_type type);

/* send_event(), and end the process. */
void send_and_exit(struct keeping *k, enum keeper_event_type type) __attribute__((noreturn));

/* Close a daemon's socket, and end its watchdog without a signal. */
void end_daemon(struct keeping *k);

/* Publish the lease for the processes that enforce it. */
void publish_lease(struct keeping *k, const struct grant *grant);

/*
 * Limit the timeouts of the backend's calls to what is left of a lease or a wait; CLOCK_NEVER: no
 * limit any more. False: nothing is left.
 */
bool limit_calls(struct keeping *k, int64_t left_ms);

/* Renew once, and store k->text if it has changed. */
enum outcome renew_once(struct keeping *k, struct grant *grant, struct error *err);

/* Verify the hold in the backend. An error is in k->event.error. */
enum outcome verify_here(struct keeping *k, struct grant *grant);

/* Encode k->self again, for the next renewal to store. */
void change_text(struct keeping *k);

/* Read the holder and the number of waiters before this one, for the next event. */
void view_lock(struct keeping *k);

/*
 * Release the lock, unless the backend needs this process to keep it for the rest of the minimum
 * hold: HELD, and *keep_ms > 0. Then retain_lock() follows.
 */
enum outcome release_once(struct keeping *k, int64_t *keep_ms, struct error *err);

/* Retain the lock in this process for keep_ms. The supervisor does not wait for it. */
void retain_lock(struct keeping *k, int64_t keep_ms);

/*
 * Release the lock and end the process, or return after retain_lock(). was_held: this token has
 * held the lock, so it is lost if the token does not hold it now.
 */
void release_lock(struct keeping *k, bool was_held);

/*
 * Sleep until an event or until_ms (CLOCK_BOOTTIME). The backend's descriptor counts only when
 * with_backend is set.
 */
enum wake sleep_until(struct keeping *k, int64_t until_ms, bool with_backend);
