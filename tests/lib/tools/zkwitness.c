/* SPDX-License-Identifier: MIT */
/*
 * A command that testifies, as witness.c does for Redis: every few ms it asks a ZooKeeper
 * whether the lock's node is still there, and writes what it hears to its log. Only a
 * process that has outlived its lock can hear that it is not.
 *
 *	zkwitness [-i] PORT[,PORT]... PATH CZXID LOG
 *
 * The node is the child of PATH that was made by transaction CZXID. -i: ignore TERM, INT
 * and HUP. It writes its history, too (record.h). Lines of the log, times in ms of CLOCK_BOOTTIME:
 *
 *	TIME held		a server says: it is there
 *	TIME LOST		a server says: it is not
 *	TIME down		no server answers
 *	TIME alive		the answer has not come yet
 *	TIME TERM		(or INT, HUP) a signal came
 */
#include <fcntl.h>
#include <signal.h>

#include "record.h"
#include "zk_wire.h"

static int log_fd;
static volatile sig_atomic_t caught;

static void on_signal(int sig)
{
	caught = sig;
}

static void note_problem(const char *text)
{
	char line[128];
	int length;

	length = snprintf(line, sizeof(line), "%lld %s\n", (long long)now_ms(), text);
	if (write(log_fd, line, (size_t)length) != length)
		_exit(74);
}

static void note_alive(void)
{
	if (caught) {
		note_problem(sigabbrev_np(caught));
		caught = 0;
	}
	note_problem("alive");
	write_record("beat", "");
}

/* The path of the child of parent that transaction czxid has made. */
static char *find_child(const char *parent, int64_t czxid)
{
	int error;
	char **names = children_of(parent, &error), *path;

	check_result(error, parent);
	for (char **name = names; *name; name++) {
		if (asprintf(&path, "%s/%s", parent, *name) < 0)
			err(70, "asprintf");
		if (send_path(EXISTS, path) == OK && take_stat().czxid == czxid)
			return path;
		free(path);
	}
	return NULL;
}

static void record_holder(const char *parent, int64_t czxid, bool ignore)
{
	struct sigaction action = { .sa_handler = on_signal };
	char *path = find_child(parent, czxid);
	int error;

	if (!path)
		note_problem("LOST not there at first");
	if (ignore) {
		sigaction(SIGTERM, &action, NULL);
		sigaction(SIGINT, &action, NULL);
		sigaction(SIGHUP, &action, NULL);
	}
	idle = note_alive;
	while (path) {
		error = fd >= 0 || connect_next() ? send_path(EXISTS, path) : DOWN;
		if (error == DOWN) {
			hang_up();
			note_problem("down");
		} else if (error == OK && take_stat().czxid == czxid) {
			note_problem("held");
			write_record("beat", "");
		} else {
			note_problem("LOST");
		}
		poll(NULL, 0, PAUSE_MS);
	}
}

int main(int argc, char **argv)
{
	bool ignore = false;
	int option;

	while ((option = getopt(argc, argv, "+i")) != -1) {
		if (option != 'i')
			return 64;
		ignore = true;
	}
	argc -= optind;
	argv += optind;
	if (argc != 4)
		errx(64, "usage: zkwitness [-i] PORT[,PORT]... PATH CZXID LOG");
	read_ports(argv[0]);
	log_fd = open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log_fd < 0)
		err(64, "%s", argv[3]);
	record_open(NULL, NULL);
	record_begin("x");
	reach_any();
	record_holder(argv[1], strtoll(argv[2], NULL, 10), ignore);
	return 1;
}
