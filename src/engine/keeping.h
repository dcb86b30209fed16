/* SPDX-License-Identifier: MIT */
/*
 * The keeper's process, from the inside. From its start to its end:
 *
 *	keeping_main()			keeper_process.c
 *	  keeping_acquire()		gets the lock and offers it: keeper_acquire.c
 *	  keeping_join()		or joins a hold that is there: keeper_join.c
 *	  then in a loop, until the guard or the supervisor says that it is over:
 *	    continue_supervisor()	which ends what a dead guard has left
 *	    keeping_sleep()		sleeps
 *	    keeping_answer()		a daemon's queries: keeper_daemon.c
 *	    renew_lease()
 *	  keeping_release()
 *
 * keeper_hold.c has the single steps that these are made of; keeper.c is how the supervisor starts
 * the keeper and talks to it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "keeper.h"
#include "keeper_socket.h"
#include "run.h"
#include "shared.h"

/* What the supervisor says. */
enum keeper_order {
	KEEPER_ORDER_RELEASE,	/* leave the line, or release, and end */
	KEEPER_ORDER_RETRY,	/* go back in line */
	KEEPER_ORDER_DETACH,	/* the supervisor ends: stay as a daemon */
};

/* Why keeping_sleep() came back. */
enum wake {
	WAKE_TIME,
	WAKE_EVENT,		/* the backend's descriptor is readable */
	WAKE_RELEASE,		/* an order, or nothing is left to hold the lock for */
	WAKE_UNGUARDED,		/* the guard died just now */
	WAKE_ABANDONED,		/* supervisor and guard are gone; returned once */
	WAKE_RETRY,
	WAKE_DETACH,
	WAKE_ORPHANED,		/* the supervisor died just now */
	WAKE_QUERY,		/* daemon: somebody asks at the socket */
	WAKE_CHECK,		/* the lock may be gone: SIGURG, or the joined daemon has ended */
};

struct keeping {
	const struct keeper_plan *plan;
	struct request request;		/* the plan's; its text is the one below */
	struct holder self;		/* the plan's; a daemon sets until_ms in it */
	char text[HOLDER_TEXT_SIZE];	/* self, encoded */
	bool text_changed;		/* the next renewal stores it */
	int64_t timeout_ms;		/* of the backend's calls, as configured */
	int64_t connect_timeout_ms;
	struct backend *backend;
	int hold_fd;			/* see struct grant; joined: the share; -1: none */
	/* To the supervisor; -1: a daemon, or one that keeps the lock for its minimum hold. */
	int fd;
	int64_t viewed_ms;		/* when the holders were last looked up; 0: never */
	bool orphaned;			/* the supervisor is dead: the guard's end is the order */
	bool abandoned;			/* the guard, too: nobody hears of anything */
	pid_t guard;			/* 0: not known yet */
	int guard_fd;			/* its pidfd; -1: not known, or it has ended */
	pid_t session;			/* of the supervisor, and of the command at its start */
	pid_t supervisor;
	int64_t continue_ms;		/* the guard is dead: the supervisor is continued then */
	int listener;			/* daemon: its socket; -1 before */
	int callers;			/* daemon: epoll of its socket and the connections to it */
	int watchdog;			/* daemon for a process: ends its watchdog; -1: none */
	int timer;			/* of a hold, which a suspended host must not delay */
	/* A daemon without a process to watch, or a minimum hold: when it ends. */
	int64_t until_ms;
	int64_t own_ms;			/* the same: its TTL, unless a renewal asks for another */
	int members;			/* daemon: how many runs have joined its hold */
	bool leaving;			/* it releases as soon as the last run has ended */
	/* A run that has joined a daemon's hold: */
	int share_fd;			/* see keeper_socket_ask(); -1: there is no daemon */
	bool daemon_ended;
	bool trouble;			/* the last renewal failed, or came too late to begin */
	struct keeper_event event;	/* being sent */
};

/* Is the lock only kept for the rest of its minimum hold? */
static inline bool keeping_is_retained(const struct keeping *k)
{
	return k->fd < 0 && k->listener < 0;
}

/* ---- keeper_process.c ---- */

/* The keeper's process. fd: to the supervisor. */
void keeping_main(const struct keeper_plan *plan, int fd) __attribute__((noreturn));

/* ---- keeper_hold.c ---- */

/* Shares the lease that was granted with the processes that enforce it. */
void keeping_publish(struct keeping *k, const struct grant *grant);

/* The backend's calls have the time that is configured again, and not what a lease leaves them. */
void keeping_reset_timeouts(struct keeping *k);

/* Renew once, and store k->text if it has changed. */
enum outcome keeping_renew_once(struct keeping *k, struct grant *grant, struct error *err);

/* Encode k->self again, for the next renewal to store. */
void keeping_change_text(struct keeping *k);

/* Look up who holds the lock and how many waiters are before this one, for the next event. */
void keeping_view(struct keeping *k);

/*
 * Release the lock, unless the backend needs this process to keep it for the rest of the minimum
 * hold: HELD, and *keep_ms > 0. Then keeping_keep() follows.
 */
enum outcome keeping_release_once(struct keeping *k, int64_t *keep_ms, struct error *err);

/* What is said of a loss that nothing more is known of. */
#define KEEPING_GONE "this token does not hold it any more"

/* Sends k->event as an event of this type, or ends the process if that fails. */
void keeping_send(struct keeping *k, enum keeper_event_type type);

/* A daemon is about to end in good order: its socket and its watchdog go with it. */
void keeping_end_daemon(struct keeping *k);

/* keeping_send(), and ends the process. */
void keeping_exit(struct keeping *k, enum keeper_event_type type) __attribute__((noreturn));

/*
 * Sleeps until something happens or the clock says until_ms. The backend's descriptor counts only
 * when with_backend is set.
 */
enum wake keeping_sleep(struct keeping *k, int64_t until_ms, bool with_backend);

/*
 * Release the lock and end the process, or return after keeping_keep(). was_held: this token has
 * held the lock, so that it was lost if it does not hold now.
 */
void keeping_release(struct keeping *k, bool was_held);

/* From now on this process keeps the lock, for keep_ms, and nobody waits for it. */
void keeping_keep(struct keeping *k, int64_t keep_ms);

/* ---- keeper_acquire.c ---- */

/* Acquires, waits, and offers the lock; ends the process if the lock is not to be kept. */
void keeping_acquire(struct keeping *k, struct grant *grant);

/* ---- keeper_join.c ---- */

/*
 * A `dlock run` inside a hold that another process keeps, such as that of `dlock acquire`, joins
 * the hold if it has a valid token, and if there is no outer run that would end this run when the
 * lock is lost. The nested run's keeper (keeper_join.c) renews the hold every third of its TTL
 * while the command runs, publishes the lease's end for guard and supervisor, and neither acquires
 * nor releases the lock.
 *
 * Where a daemon has the hold, the keeper asks it (keeper_daemon.c), through its socket:
 *
 *	nested keeper			daemon
 *	JOIN		->	checks that the hold covers what is asked for, and renews
 *			<-	fence, lease and TTL; the connection is the share
 *	STAY		->	every third of the TTL: renews
 *			<-	lease and TTL
 *	VERIFY		->	when the command's tree is dead: is the lock still held?
 *
 * A nested `dlock acquire` asks once, with NEST, which verifies and renews. STAY and VERIFY are for
 * holds that live with the daemon's session or descriptors. For leases the keeper asks the backend.
 *
 * The nested run's keeper, guard and supervisor have the share until the tree is dead. While any of
 * them has it, the death of the daemon frees no lock that lives in a descriptor, and a daemon whose
 * process has ended does not end yet. The nested keeper notices the daemon's end at once. The hold
 * is then lost if it lived with the daemon; else the keeper asks the backend.
 */

/* Joins the hold, and tells what came of it. Ends the process if it cannot be joined. */
void keeping_join(struct keeping *k, struct grant *grant);

/*
 * For `dlock acquire` with a token: verifies the hold, renews it for the longer of the TTL that was
 * asked for and its own, tells what came of it, with the fence in shared memory, and ends the
 * process.
 */
void keeping_nest_exit(struct keeping *k) __attribute__((noreturn));

/* As the backend's renew() and verify(); ask the daemon for a hold that lives with it. */
enum outcome keeping_renew_joined(struct keeping *k, struct grant *grant);
enum outcome keeping_verify_joined(struct keeping *k);

/* The command's tree is dead: tells whether the lock was held until now, and ends the process. */
void keeping_end_joined_exit(struct keeping *k) __attribute__((noreturn));

/* ---- keeper_daemon.c ---- */

/* Becomes a daemon: socket, no terminal, nothing inherited. Ends the process on failure. */
void keeping_detach(struct keeping *k, struct grant *grant);

/*
 * Accepts a caller, answers one, or notices that a run has ended which had joined. False: the hold
 * is lost. Does not return if it ends the hold.
 */
bool keeping_answer(struct keeping *k, struct grant *grant);

/*
 * When a daemon must act without being asked (CLOCK_BOOTTIME): at its end, or when its process must
 * be told that the lease is about to end. CLOCK_NEVER for a keeper that is no daemon.
 */
int64_t keeping_deadline(const struct keeping *k);

/* The lock is lost: tells the process that the daemon holds it for, and ends the daemon. */
void keeping_lose_daemon_exit(struct keeping *k) __attribute__((noreturn));
