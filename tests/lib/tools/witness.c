/* SPDX-License-Identifier: MIT */
/*
 * A command that testifies. It writes one line to its log every few ms for as
 * long as it lives, and, when told of a Redis, asks that server over a connection
 * of its own whether the lock that it should be running under is still held. A
 * reply that says "no" can only be read by a process that has outlived its lease:
 * the line "LOST" proves that dlock did not kill in time, and no schedule can
 * produce it when dlock did.
 *
 *	witness [-id] [-l LOG] [-H HISTORY] [-n HOLD] [-m MODE] [-e MS] [-f MS]
 *		[-p PORT -k KEY -t TOKEN]
 *
 *	-i  ignore TERM, INT and HUP
 *	-d  leave a daemon behind (a session of its own, parent gone) that ignores the same
 *	    signals and lives until it is killed: an orphan that shows in the history
 *	-H  history, default: see record.h; without -l there is then no log
 *	-n  what this hold is called in the history; default: the first half of $DLOCK_TOKEN
 *	-m  how it is held, for the history: x (default), s, or a number of slots
 *	-l  log; default: standard output. Lines, times in ms of CLOCK_BOOTTIME:
 *	      TIME pid PID        first of all
 *	      TIME held PTTL      the server says: this token, for PTTL ms more
 *	      TIME LOST VALUE     the server says: another value (or none: "-")
 *	      TIME down           the server cannot be reached
 *	      TIME alive          no server to ask, or it has not answered
 *	      TIME TERM           (or INT, HUP) a signal came
 *	-e  pause between two lines, default 2
 *	-f  end by itself after so long, status 0
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "record.h"

struct server {
	uint16_t port;
	const char *key, *token;
	int fd;			/* -1: not connected */
	bool asked;		/* a request is on its way */
	char reply[1024];
	size_t used;
};

static int log_fd = STDOUT_FILENO;
static volatile sig_atomic_t caught;

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void note_problem(const char *text)
{
	char line[1200];
	int length;

	if (log_fd < 0)
		return;
	length = snprintf(line, sizeof(line), "%lld %s\n", (long long)now_ms(), text);
	/* one write a line: several witnesses may share a log */
	if (write(log_fd, line, (size_t)length) != length)
		_exit(74);
}

static void on_signal(int sig)
{
	caught = sig;
}

static void hang_up(struct server *server)
{
	if (server->fd >= 0)
		close(server->fd);
	server->fd = -1;
	server->asked = false;
	server->used = 0;
}

static bool connect_server(struct server *server)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(server->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int one = 1;

	if (server->fd >= 0)
		return true;
	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (server->fd < 0)
		err(70, "socket");
	setsockopt(server->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(server->fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return true;
	hang_up(server);
	return false;
}

static bool ask_server(struct server *server)
{
	char request[1024];
	int length;

	if (server->asked)
		return true;
	length = snprintf(request, sizeof(request),
			  "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n"
			  "*2\r\n$4\r\nPTTL\r\n$%zu\r\n%s\r\n",
			  strlen(server->key), server->key,
			  strlen(server->key), server->key);
	server->used = 0;
	server->asked = send(server->fd, request, (size_t)length, MSG_NOSIGNAL) == length;
	return server->asked;
}

/* "$-1" or "$32 TOKEN", then ":PTTL"; true once both are there. */
static bool parse_reply(struct server *server, char *value, size_t size, long long *pttl)
{
	char *line = server->reply, *end;
	long long length;

	server->reply[server->used] = '\0';
	value[0] = '\0';
	end = strstr(line, "\r\n");
	if (!end)
		return false;
	if (line[0] != '$') {
		snprintf(value, size, "%.*s", (int)(end - line), line);
		*pttl = -2;
		return true;
	}
	length = strtoll(line + 1, NULL, 10);
	line = end + 2;
	if (length >= 0) {
		if (server->reply + server->used < line + length + 2)
			return false;
		snprintf(value, size, "%.*s", (int)length, line);
		line += length + 2;
	}
	if (line[0] != ':' || !strstr(line, "\r\n"))
		return false;
	*pttl = strtoll(line + 1, NULL, 10);
	return true;
}

/* A daemon that beats in the history until it is killed. */
static void leave_daemon(int pause_ms)
{
	pid_t pid = fork();

	if (pid < 0)
		err(71, "fork");
	if (pid > 0) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return;
	}
	setsid();
	if (fork() != 0)
		_exit(0);
	prctl(PR_SET_NAME, "witness-daemon");
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	for (;;) {
		write_record("beat", "");
		poll(NULL, 0, pause_ms);
	}
}

static void record_holder(struct server *server, int pause_ms)
{
	struct pollfd pfd;
	char value[600], line[700];
	long long pttl;
	ssize_t n;

	if (!connect_server(server) || !ask_server(server)) {
		hang_up(server);
		note_problem("down");
		poll(NULL, 0, pause_ms);
		return;
	}
	pfd = (struct pollfd){ .fd = server->fd, .events = POLLIN };
	if (poll(&pfd, 1, pause_ms) <= 0) {
		note_problem("alive");
		return;
	}
	n = recv(server->fd, server->reply + server->used,
		 sizeof(server->reply) - 1 - server->used, 0);
	if (n <= 0) {
		hang_up(server);
		note_problem("down");
		return;
	}
	server->used += (size_t)n;
	if (!parse_reply(server, value, sizeof(value), &pttl))
		return;
	server->asked = false;
	if (strcmp(value, server->token) == 0)
		snprintf(line, sizeof(line), "held %lld", pttl);
	else
		snprintf(line, sizeof(line), "LOST %s", value[0] ? value : "-");
	note_problem(line);
	poll(NULL, 0, pause_ms);
}

struct options {
	int64_t end_ms;
	int pause_ms;
	bool ignore, daemon, logs;
	const char *history, *name, *mode;
};

static void exit_usage(void)
{
	errx(64, "usage: witness [-id] [-l LOG] [-H HISTORY] [-n HOLD] [-m MODE] [-e MS] [-f MS] "
		 "[-p PORT -k KEY -t TOKEN]");
}

static void apply_option(struct options *options, struct server *server, int option, char *value)
{
	switch (option) {
	case 'i':
		options->ignore = true;
		break;
	case 'd':
		options->daemon = true;
		break;
	case 'l':
		options->logs = true;
		log_fd = open(value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (log_fd < 0)
			err(64, "%s", value);
		break;
	case 'H':
		options->history = value;
		if (!options->logs)
			log_fd = -1;
		break;
	case 'n':
		options->name = value;
		break;
	case 'm':
		options->mode = value;
		break;
	case 'e':
		options->pause_ms = atoi(value);
		break;
	case 'f':
		options->end_ms = now_ms() + atoll(value);
		break;
	case 'p':
		server->port = (uint16_t)atoi(value);
		break;
	case 'k':
		server->key = value;
		break;
	case 't':
		server->token = value;
		break;
	default:
		exit_usage();
	}
}

static void run_until_end(const struct options *options, struct server *server)
{
	int64_t left_ms;

	while ((left_ms = options->end_ms - now_ms()) > 0) {
		if (caught) {
			note_problem(sigabbrev_np(caught));
			caught = 0;
		}
		write_record("beat", "");
		if (server->port) {
			record_holder(server, options->pause_ms);
		} else {
			note_problem("alive");
			poll(NULL, 0,
			     left_ms < options->pause_ms ? (int)left_ms : options->pause_ms);
		}
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct server server = { .fd = -1, .token = "" };
	struct options options = { .end_ms = INT64_MAX,
				   .pause_ms = 2,
				   .mode = "x" };
	char line[32];
	int option;

	while ((option = getopt(argc, argv, "idl:H:n:m:e:f:p:k:t:")) != -1)
		apply_option(&options, &server, option, optarg);
	if (optind != argc || (server.port && !server.key))
		exit_usage();
	record_open(options.history, options.name);
	record_begin(options.mode);
	snprintf(line, sizeof(line), "pid %ld", (long)getpid());
	note_problem(line);
	if (options.ignore) {
		sigaction(SIGTERM, &action, NULL);
		sigaction(SIGINT, &action, NULL);
		sigaction(SIGHUP, &action, NULL);
	}
	if (options.daemon)
		leave_daemon(options.pause_ms);
	run_until_end(&options, &server);
	write_record("end", "");
	return 0;
}
