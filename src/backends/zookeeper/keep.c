/* SPDX-License-Identifier: MIT */
#include "keep.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "lock.h"

/* Nothing that was open is ours, pipes of the caller above all: it would wait for us. */
static void leave_all(void)
{
	fds_drop_standard();
	fds_close_all_but(NULL, 0);
	setsid();
	if (chdir("/"))
		_exit(1);
}

/* Sleeps until then, or until somebody wants the process to end. */
static void sleep_until(int64_t until_ms)
{
	struct timespec rest;
	sigset_t term;
	int64_t rest_ms;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	while ((rest_ms = until_ms - clock_boot_ms()) > 0) {
		/* In steps: this clock stands still while the machine sleeps. */
		rest_ms = clock_earlier(rest_ms, 1000);
		rest = (struct timespec){ rest_ms / 1000, rest_ms % 1000 * 1000000 };
		if (sigtimedwait(&term, NULL, &rest) == SIGTERM)
			break;
	}
}

/*
 * The child has none of the library's threads, which keep a session alive: it takes the
 * session over on a connection of its own. Until it has, the last ping counts.
 */
static void keep(struct zk_backend *zk, int64_t until_ms)
{
	struct error err = { 0 };

	if (zk_conn_adopt(&zk->conn))
		_exit(1);
	do {
		zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
		if (!zk_conn_open(&zk->conn, zk->conn.asked_ms, &err))
			break;
		if (err.errnum == ESTALE)
			_exit(1);
	} while (clock_boot_ms() < until_ms);
	sleep_until(until_ms);
	zk_hold_end(zk);
	_exit(0);
}

int zk_keep(struct zk_backend *zk, int64_t keep_ms, struct error *err)
{
	int64_t until_ms = clock_boot_ms() + keep_ms;
	pid_t pid = fork();

	if (pid < 0) {
		error_set(err, ERROR_INTERNAL, errno, "fork");
		return -1;
	}
	if (!pid) {
		prctl(PR_SET_NAME, "dlock-min-hold");
		leave_all();
		keep(zk, until_ms);
	}
	return 0;
}
