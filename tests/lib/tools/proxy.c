/* SPDX-License-Identifier: MIT */
/*
 * A TCP proxy that does to a connection what networks do. Listens on a free port
 * of 127.0.0.1, prints it, and forwards to PORT there. Commands come as lines over
 * the unix socket CONTROL; each is answered with one line once it is in force.
 *
 *	proxy [-l LOG] PORT CONTROL
 *
 *	pass		forward everything (what it does at first)
 *	drop		swallow what the server says
 *	hold MS		hand on what the server says MS later
 *	blackhole	take nothing in, from either side, until the next mode
 *	refuse		close new connections at once
 *	cut		reset all connections now, stay in the mode
 *	cut-after [N]	let the Nth request from now reach the server and be answered
 *			(default 1), then reset that connection; the answer is lost
 *	cut-on TEXT	the same for the next request that has TEXT in it
 *	drop-on TEXT	let the next request that has TEXT in it reach the server, and
 *			swallow what it says from then on
 *	stats		"connections=C live=L requests=R cut=K"
 *
 * A request is whatever the client wrote at one time. With -l each is logged as a
 * line of its printable bytes, so that a test can see what travelled together.
 */
#include <arpa/inet.h>
#include <err.h>
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
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LINKS = 512, BUFFER = 65536, HELD = 64 };

enum mode { PASS, DROP, HOLD, BLACKHOLE, REFUSE };

struct held {
	int64_t due_ms;
	size_t length;
	char *bytes;
};

struct link {
	int client, server;
	bool doomed;		/* reset it when the server has answered */
	struct held held[HELD];
	size_t held_count;
};

static struct link links[MAX_LINKS];
static size_t link_count;
static enum mode mode = PASS;
static int hold_ms, cut_in;
static char cut_text[64], drop_text[64];
static uint16_t target_port;
static FILE *request_log;
static struct {
	unsigned connections, requests, cut;
} stats;

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct sockaddr_in make_loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static void reset_connection(int fd)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(fd);
}

static void link_drop(size_t i, bool hard)
{
	struct link *link = &links[i];
	size_t k;

	if (hard) {
		reset_connection(link->client);
		stats.cut++;
	} else {
		close(link->client);
	}
	close(link->server);
	for (k = 0; k < link->held_count; k++)
		free(link->held[k].bytes);
	links[i] = links[--link_count];
}

/* Both ends take what we write: requests and answers here are small. */
static bool write_all(int fd, const char *bytes, size_t length)
{
	ssize_t n;

	while (length > 0) {
		n = send(fd, bytes, length, MSG_NOSIGNAL);
		if (n < 0)
			return false;
		bytes += n;
		length -= (size_t)n;
	}
	return true;
}

static void link_accept(int listener)
{
	struct sockaddr_in address = make_loopback(target_port);
	int one = 1, client, server;

	client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (client < 0)
		return;
	stats.connections++;
	if (mode == REFUSE || link_count == MAX_LINKS) {
		reset_connection(client);
		return;
	}
	server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (server < 0)
		err(70, "socket");
	if (connect(server, (struct sockaddr *)&address, sizeof(address)) != 0) {
		close(server);
		reset_connection(client);
		return;
	}
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	links[link_count++] = (struct link){ .client = client, .server = server };
}

static void log_request(const char *bytes, size_t length)
{
	size_t i;

	if (!request_log)
		return;
	for (i = 0; i < length; i++)
		fputc(bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : ' ', request_log);
	fputc('\n', request_log);
	fflush(request_log);
}

/* Does the request have that text? It is told once. */
static bool has_text(const char *bytes, size_t length, char *text)
{
	if (!text[0] || !memmem(bytes, length, text, strlen(text)))
		return false;
	text[0] = '\0';
	return true;
}

/* Client to server. False: the link is over. */
static bool forward_request(struct link *link)
{
	static char buffer[BUFFER];
	ssize_t n;

	n = recv(link->client, buffer, sizeof(buffer), 0);
	if (n <= 0)
		return false;
	stats.requests++;
	log_request(buffer, (size_t)n);
	if ((cut_in > 0 && --cut_in == 0) || has_text(buffer, (size_t)n, cut_text))
		link->doomed = true;
	if (has_text(buffer, (size_t)n, drop_text))
		mode = DROP;
	return write_all(link->server, buffer, (size_t)n);
}

/* Server to client. False: the link is over. */
static bool forward_reply(struct link *link)
{
	static char buffer[BUFFER];
	struct held *held;
	ssize_t n;

	n = recv(link->server, buffer, sizeof(buffer), 0);
	if (n <= 0 || link->doomed)
		return false;
	if (mode == DROP)
		return true;
	if (mode != HOLD && link->held_count == 0)
		return write_all(link->client, buffer, (size_t)n);
	if (link->held_count == HELD)
		return false;
	held = &link->held[link->held_count++];
	held->due_ms = now_ms() + (mode == HOLD ? hold_ms : 0);
	held->length = (size_t)n;
	held->bytes = malloc((size_t)n);
	if (!held->bytes)
		err(70, "malloc");
	memcpy(held->bytes, buffer, (size_t)n);
	return true;
}

static bool flush_held(struct link *link, int64_t now)
{
	bool ok = true;

	while (link->held_count > 0 && link->held[0].due_ms <= now) {
		ok = ok && write_all(link->client, link->held[0].bytes, link->held[0].length);
		free(link->held[0].bytes);
		memmove(link->held, link->held + 1, --link->held_count * sizeof(link->held[0]));
	}
	return ok;
}

static void obey_line(int control, const char *line)
{
	char answer[128];
	int number = 1;
	bool cut = false;

	snprintf(answer, sizeof(answer), "ok\n");
	if (strcmp(line, "pass") == 0)
		mode = PASS;
	else if (strcmp(line, "drop") == 0)
		mode = DROP;
	else if (strcmp(line, "blackhole") == 0)
		mode = BLACKHOLE;
	else if (strcmp(line, "refuse") == 0)
		mode = REFUSE;
	else if (sscanf(line, "hold %d", &hold_ms) == 1)
		mode = HOLD;
	else if (strcmp(line, "cut") == 0)
		cut = true;
	else if (strcmp(line, "cut-after") == 0 || sscanf(line, "cut-after %d", &number) == 1)
		cut_in = number;
	else if (sscanf(line, "cut-on %63[^\n]", cut_text) == 1 ||
		 sscanf(line, "drop-on %63[^\n]", drop_text) == 1)
		cut = false;
	else if (strcmp(line, "stats") == 0)
		snprintf(answer, sizeof(answer), "connections=%u live=%zu requests=%u cut=%u\n",
			 stats.connections, link_count, stats.requests, stats.cut);
	else
		snprintf(answer, sizeof(answer), "unknown command\n");
	while (cut && link_count > 0)
		link_drop(0, true);
	if (!write_all(control, answer, strlen(answer)))
		warnx("nobody reads the answer");
}

/* One command a connection: the caller writes a line, reads a line. */
static void take_command(int listener)
{
	char line[128];
	size_t used = 0;
	ssize_t n;
	int control;

	control = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (control < 0)
		return;
	while (used < sizeof(line) - 1 && !memchr(line, '\n', used)) {
		n = recv(control, line + used, sizeof(line) - 1 - used, 0);
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	line[used] = '\0';
	line[strcspn(line, "\n")] = '\0';
	obey_line(control, line);
	close(control);
}

static int listen_tcp(uint16_t *port)
{
	struct sockaddr_in address = make_loopback(0);
	socklen_t length = sizeof(address);
	int fd;

	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 ||
	    listen(fd, 511) != 0 || getsockname(fd, (struct sockaddr *)&address, &length) != 0)
		err(70, "listen");
	*port = ntohs(address.sin_port);
	return fd;
}

static int listen_unix(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		errx(64, "%s: too long for a socket", path);
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(fd, 16) != 0)
		err(70, "%s", path);
	return fd;
}

/* Milliseconds until the first held answer is due, or -1. */
static int next_due(int64_t now)
{
	int64_t due = INT64_MAX;
	size_t i;

	for (i = 0; i < link_count; i++)
		if (links[i].held_count > 0 && links[i].held[0].due_ms < due)
			due = links[i].held[0].due_ms;
	if (due == INT64_MAX || mode == BLACKHOLE)
		return -1;
	return due <= now ? 0 : (int)(due - now);
}

static void run_turn(int listener, int control)
{
	static struct pollfd pfds[2 + 2 * MAX_LINKS];
	short wanted = mode == BLACKHOLE ? 0 : POLLIN;
	size_t i, count = link_count;
	int64_t now;
	bool ok;

	pfds[0] = (struct pollfd){ .fd = control, .events = POLLIN };
	/* a black hole neither accepts nor reads; the kernel keeps what comes */
	pfds[1] = (struct pollfd){ .fd = mode == BLACKHOLE ? -1 : listener, .events = POLLIN };
	for (i = 0; i < count; i++) {
		pfds[2 + 2 * i] = (struct pollfd){ .fd = wanted ? links[i].client : -1,
						   .events = wanted };
		pfds[3 + 2 * i] = (struct pollfd){ .fd = wanted ? links[i].server : -1,
						   .events = wanted };
	}
	if (poll(pfds, 2 + 2 * count, next_due(now_ms())) < 0)
		err(70, "poll");
	now = now_ms();
	/* from the end: link_drop() moves the last link into the gap */
	for (i = count; i-- > 0;) {
		ok = mode == BLACKHOLE || flush_held(&links[i], now);
		if (ok && pfds[3 + 2 * i].revents)
			ok = forward_reply(&links[i]);
		if (ok && pfds[2 + 2 * i].revents)
			ok = forward_request(&links[i]);
		if (!ok)
			link_drop(i, links[i].doomed);
	}
	if (pfds[1].revents)
		link_accept(listener);
	if (pfds[0].revents)
		take_command(control);
}

int main(int argc, char **argv)
{
	int listener, control, option;
	uint16_t port;

	while ((option = getopt(argc, argv, "l:")) != -1) {
		if (option != 'l')
			return 64;
		request_log = fopen(optarg, "w");
		if (!request_log)
			err(64, "%s", optarg);
	}
	if (argc - optind != 2)
		errx(64, "usage: proxy [-l LOG] PORT CONTROL");
	signal(SIGPIPE, SIG_IGN);
	target_port = (uint16_t)atoi(argv[optind]);
	control = listen_unix(argv[optind + 1]);
	listener = listen_tcp(&port);
	printf("%u\n", port);
	fflush(stdout);
	for (;;)
		run_turn(listener, control);
}
