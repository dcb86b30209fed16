/* SPDX-License-Identifier: MIT */
/* What the keeper says to the supervisor, and its end in good order. */
#include "keeping.h"

#include <linux/sockios.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "base/system_log.h"
#include "watchdog.h"

/* Bytes that the supervisor has not read yet (SIOCOUTQ), a third of what Linux holds for it. */
#define UNREAD_MAX (64 * 1024)

/*
 * A supervisor that is stopped reads nothing. Events that are only shown are not sent then, so that
 * there is always room for those that change the outcome, and sending them does not block.
 */
static bool is_worth_sending(const struct keeping *k, enum keeper_event_type type)
{
	int unread = 0;

	switch (type) {
	case KEEPER_WAITING:
	case KEEPER_RETRYING:
	case KEEPER_RENEWED:
	case KEEPER_TROUBLE:
		return ioctl(k->fd, SIOCOUTQ, &unread) || unread < UNREAD_MAX;
	default:
		return true;
	}
}

void keeping_log(const struct keeping *k, enum keeper_event_type type)
{
	const char *name = k->request.name, *why = k->event.error.message;

	switch (type) {
	case KEEPER_TROUBLE:
		system_log(LOG_WARNING, name, "cannot renew the lock: %s; trying again", why);
		break;
	case KEEPER_RENEWED:
		system_log(LOG_NOTICE, name, "the lock is renewed again");
		break;
	case KEEPER_LOST:
		system_log(LOG_ERR, name, "lock lost: %s", why[0] ? why : KEEPING_GONE);
		break;
	case KEEPER_FAILED:
		system_log(LOG_ERR, name, "could not release the lock: %s", why);
		break;
	default:
		break;
	}
}

void keeping_tell(struct keeping *k, enum keeper_event_type type)
{
	k->event.type = type;
	k->event.at_ms = clock_boot_ms();
	if (k->fd < 0)
		keeping_log(k, type);
	if (k->fd < 0 || !is_worth_sending(k, type))
		return;
	if (ipc_send(k->fd, &k->event, sizeof(k->event), 0,
		     type == KEEPER_HELD ? k->hold_fd : -1) == IPC_FAILED)
		keeping_abort(k);
}

void keeping_abort(struct keeping *k)
{
	keeping_end_daemon(k);
	_exit(1);
}

void keeping_end_daemon(struct keeping *k)
{
	if (k->listener < 0)
		return;
	close(k->listener);
	k->listener = -1;
	watchdog_end(k->watchdog);
}

void keeping_finish(struct keeping *k, enum keeper_event_type type)
{
	keeping_end_daemon(k);
	k->event.last = true;
	keeping_tell(k, type);
	_exit(0);
}

void keeping_finish_asked(struct keeping *k, enum outcome outcome)
{
	switch (outcome) {
	case OUTCOME_HELD:
		keeping_finish(k, KEEPER_HELD);
	case OUTCOME_BUSY:
		keeping_finish(k, KEEPER_BUSY);
	case OUTCOME_LOST:
		keeping_finish(k, KEEPER_LOST);
	case OUTCOME_ERROR:
		break;
	}
	keeping_finish(k, KEEPER_FAILED);
}
