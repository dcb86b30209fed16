/* SPDX-License-Identifier: MIT */
/*
 * Something on a TCP port of 127.0.0.1 that is not a Redis. Prints the port when
 * ready, then stays until it is killed.
 *
 *	listener	its backlog is full, so that the kernel drops every further SYN:
 *			connecting hangs as it does to a host behind a firewall
 *	listener TEXT	takes one connection after another, says TEXT and waits for
 *			the other side to close; with "" it never says anything
 *	listener TEXT MORE MS
 *			takes all connections at once, and says TEXT and then MORE for
 *			ever, every MS ms; with 0 as fast as the other side reads it
 *	listener -a ANSWER...
 *			takes all connections at once, and gives the requests of each
 *			these answers, the last one to all that follow
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void fill_backlog(const struct sockaddr_in *address)
{
	struct pollfd pfd;
	int fd, filled;

	for (filled = 0; filled < 64; filled++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd < 0)
			err(70, "socket");
		if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
		    errno != EINPROGRESS)
			err(70, "connect");
		pfd = (struct pollfd){ .fd = fd, .events = POLLOUT };
		if (poll(&pfd, 1, 200) == 0)
			return;
	}
	errx(70, "the backlog does not fill");
}

static void accept_and_talk(int listener, const char *text)
{
	char buffer[4096];
	int fd;

	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		err(70, "accept");
	if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		warn("send");
	while (recv(fd, buffer, sizeof(buffer), 0) > 0)
		continue;
	close(fd);
}

/* Does not return. */
static void flood_peer(int fd, const char *text, const char *more, int pause_ms)
{
	static char many[65536];
	size_t length = strlen(more), filled = 0;

	while (!filled || (!pause_ms && filled + length <= sizeof(many))) {
		memcpy(many + filled, more, length);
		filled += length;
	}
	if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		_exit(0);
	while (send(fd, many, filled, MSG_NOSIGNAL) > 0)
		poll(NULL, 0, pause_ms);
	_exit(0);
}

static void answer_peer(int fd, char **answers)
{
	char buffer[65536];

	while (recv(fd, buffer, sizeof(buffer), 0) > 0) {
		if (send(fd, *answers, strlen(*answers), MSG_NOSIGNAL) < 0)
			break;
		if (answers[1])
			answers++;
	}
	_exit(0);
}

/* Each connection gets a process, which ends with this one. */
static void serve_peers(int listener, char **argv)
{
	const pid_t self = getpid();
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		err(70, "accept");
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != self)
			_exit(0);
		if (!strcmp(argv[1], "-a"))
			answer_peer(fd, argv + 2);
		flood_peer(fd, argv[1], argv[2], atoi(argv[3]));
	}
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t length = sizeof(address);
	int listener;

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 ||
	    listen(listener, argc > 1 ? 64 : 0) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) != 0)
		err(70, "listen");
	if (argc == 1)
		fill_backlog(&address);
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	signal(SIGCHLD, SIG_IGN);
	while (argc > 2)
		serve_peers(listener, argv);
	while (argc > 1)
		accept_and_talk(listener, argv[1]);
	for (;;)
		pause();
}
