/* SPDX-License-Identifier: MIT */
/*
 * Looks at what a ZooKeeper has stored, and changes it: one command, over a connection
 * and a session of its own, closed in the end. It speaks the protocol itself, so that
 * what is tested is not asked about through the library that it uses.
 *
 *	znode [-a USER:PASSWORD] [-i] PORT[,PORT]... COMMAND [ARG]...
 *
 *	ls PATH			names of the children, one a line
 *	tree PATH		paths of all nodes below, one a line; not /zookeeper
 *	get PATH		what is in it
 *	stat PATH		"czxid=N owner=0xN version=N cversion=N length=N children=N"
 *	acl PATH		"PERMISSIONS SCHEME:ID", one a line
 *	protect PATH PERMISSIONS SCHEME:ID
 *				only that one may, and only so: "rwcda digest:joe:HASH"
 *	create PATH [DATA]	a persistent node
 *	container PATH		a container, that the server removes once it is empty again
 *	set PATH DATA
 *	rm PATH
 *	wipe PATH		removes all nodes below
 *	hold PATH [DATA]	an ephemeral node; prints its path, keeps it until a signal
 *	sequence PATH [DATA]	the same, and the server appends a number to the path
 *	expire SESSION		ends the session with that number (0xN) as if it had expired
 *	witness PATH CZXID LOG	see below; -i: it ignores TERM, INT and HUP
 *
 * Hosts are ports of 127.0.0.1. Status: 0; 1 and a line on standard error for an error
 * of ZooKeeper; 2 when no server answers.
 *
 * The witness is a command that testifies, as witness.c does for Redis: every few ms it
 * asks whether the child of PATH that was made by transaction CZXID is still there, and
 * writes what it hears to LOG, with the same words: "TIME held 0", "TIME LOST -" (only a
 * process that has outlived its lock can hear that), "TIME down", "TIME alive".
 */
#include <arpa/inet.h>
#include <endian.h>
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
#include <time.h>
#include <unistd.h>

enum {
	CREATE = 1, DELETE = 2, EXISTS = 3, GET = 4, SET = 5, GET_ACL = 6, CHILDREN = 8,
	SET_ACL = 7, PING = 11, CREATE_CONTAINER = 19, AUTH = 100, CLOSE = -11,
};
enum { PLAIN = 0, EPHEMERAL = 1, SEQUENCE = 3, CONTAINER = 4 };
enum { SESSION_MS = 30000, ANSWER_MS = 4000, PAUSE_MS = 2, PASSWORD = 16 };
enum { NO_NODE = -101, OK = 0, DOWN = 1 };

/* What is sent, or what came and how far it was read. */
struct packet {
	unsigned char bytes[1 << 20];
	size_t length, at;
};

struct stat_of {
	int64_t czxid, owner;
	int32_t version, cversion, length, children;
};

static uint16_t ports[8];
static size_t port_count, port_next;
static const char *credentials;
static int fd = -1;
static int32_t last_xid;
static int64_t last_zxid;
static struct packet request, reply;
static void (*idle)(void);	/* called every PAUSE_MS while an answer is waited for */
static int log_fd = -1;
static volatile sig_atomic_t caught;

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- numbers and strings, as jute writes them */

static void put(const void *bytes, size_t length)
{
	if (length > sizeof(request.bytes) - request.length)
		errx(64, "too long");
	memcpy(request.bytes + request.length, bytes, length);
	request.length += length;
}

static void put_int(int32_t number)
{
	uint32_t big = htobe32((uint32_t)number);

	put(&big, sizeof(big));
}

static void put_long(int64_t number)
{
	uint64_t big = htobe64((uint64_t)number);

	put(&big, sizeof(big));
}

static void put_string(const char *string)
{
	put_int((int32_t)strlen(string));
	put(string, strlen(string));
}

static const unsigned char *take(size_t length)
{
	const unsigned char *bytes = reply.bytes + reply.at;

	if (length > reply.length - reply.at)
		errx(70, "the server's answer is too short");
	reply.at += length;
	return bytes;
}

static int32_t take_int(void)
{
	uint32_t big;

	memcpy(&big, take(sizeof(big)), sizeof(big));
	return (int32_t)be32toh(big);
}

static int64_t take_long(void)
{
	uint64_t big;

	memcpy(&big, take(sizeof(big)), sizeof(big));
	return (int64_t)be64toh(big);
}

/* Into a string of its own. */
static char *take_string(void)
{
	int32_t length = take_int();
	char *string;

	string = length > 0 ? strndup((const char *)take((size_t)length), (size_t)length) :
			      strdup("");
	if (!string)
		err(70, "strdup");
	return string;
}

/* ---- a request, and what comes back */

static void hang_up(void)
{
	if (fd >= 0)
		close(fd);
	fd = -1;
}

static bool receive(unsigned char *bytes, size_t length, int64_t deadline_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	ssize_t n;

	while (length > 0) {
		if (now_ms() > deadline_ms)
			return false;
		if (poll(&pfd, 1, PAUSE_MS) <= 0) {
			if (idle)
				idle();
			continue;
		}
		n = recv(fd, bytes, length, 0);
		if (n <= 0)
			return false;
		bytes += n;
		length -= (size_t)n;
	}
	return true;
}

static bool receive_packet(int64_t deadline_ms)
{
	uint32_t big;

	if (!receive((unsigned char *)&big, sizeof(big), deadline_ms))
		return false;
	reply.length = be32toh(big);
	reply.at = 0;
	return reply.length <= sizeof(reply.bytes) &&
	       receive(reply.bytes, reply.length, deadline_ms);
}

static bool send_packet(void)
{
	uint32_t big = htobe32((uint32_t)request.length);

	return send(fd, &big, sizeof(big), MSG_NOSIGNAL | MSG_MORE) == sizeof(big) &&
	       send(fd, request.bytes, request.length, MSG_NOSIGNAL) == (ssize_t)request.length;
}

/* Starts a request; its own fields follow. */
static void ask(int32_t operation)
{
	request.length = 0;
	/* those of authentication and of pings are fixed */
	put_int(operation == AUTH ? -4 : operation == PING ? -2 : ++last_xid);
	put_int(operation);
}

/* Sends it. OK, an error of ZooKeeper (below 0), or DOWN. The answer's fields follow. */
static int answer(void)
{
	int64_t deadline_ms = now_ms() + ANSWER_MS, zxid;
	int32_t xid, error, wanted;
	uint32_t big;

	memcpy(&big, request.bytes, sizeof(big));
	wanted = (int32_t)be32toh(big);
	if (fd < 0 || !send_packet())
		return DOWN;
	do {
		if (!receive_packet(deadline_ms))
			return DOWN;
		xid = take_int();
		zxid = take_long();
		error = take_int();
	} while (xid != wanted);
	if (zxid > last_zxid)
		last_zxid = zxid;
	return error;
}

/*
 * The password of a session is made of its number, by the generator of java.util.Random
 * over a seed that all servers share: whoever knows the number can end the session.
 */
static void session_password(int64_t session, unsigned char password[PASSWORD])
{
	uint64_t mask = (UINT64_C(1) << 48) - 1;
	uint64_t seed = ((uint64_t)session ^ UINT64_C(0xB3415C00) ^ UINT64_C(0x5DEECE66D)) & mask;
	uint32_t number = 0;

	for (int i = 0; i < PASSWORD; i++) {
		if (i % 4 == 0) {
			seed = (seed * UINT64_C(0x5DEECE66D) + 0xB) & mask;
			number = (uint32_t)(seed >> 16);
		}
		password[i] = (unsigned char)(number >> (i % 4 * 8));
	}
}

/* Asks to take up a session, or to make one (0). */
static bool send_greeting(int64_t session)
{
	unsigned char password[PASSWORD] = { 0 };

	if (session)
		session_password(session, password);
	request.length = 0;
	put_int(0);
	put_long(last_zxid);
	put_int(SESSION_MS);
	put_long(session);
	put_int(PASSWORD);
	put(password, PASSWORD);
	put("", 1);
	return send_packet();
}

/* The answer that came to that: is there a session now? */
static bool granted(void)
{
	take_int();
	return take_int() > 0;
}

static bool connect_to(uint16_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int one = 1;

	hang_up();
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		err(70, "socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return true;
	hang_up();
	return false;
}

/* To the next of the servers, once. */
static bool reach(void)
{
	bool ok = connect_to(ports[port_next++ % port_count]) && send_greeting(0) &&
		  receive_packet(now_ms() + ANSWER_MS) && granted();

	if (ok && credentials) {
		ask(AUTH);
		put_int(0);
		put_string("digest");
		put_string(credentials);
		ok = answer() == OK;
	}
	if (!ok)
		hang_up();
	return ok;
}

/* ---- commands */

static void check(int error, const char *what)
{
	if (error == DOWN)
		errx(2, "%s: no answer", what);
	if (error)
		errx(1, "%s: error %d%s", what, error, error == NO_NODE ? " (no node)" : "");
}

static int about(int32_t operation, const char *path)
{
	ask(operation);
	put_string(path);
	if (operation == EXISTS || operation == GET || operation == CHILDREN)
		put("", 1);
	if (operation == DELETE)
		put_int(-1);
	return answer();
}

static struct stat_of take_stat(void)
{
	struct stat_of stat;

	stat.czxid = take_long();
	take(3 * 8);
	stat.version = take_int();
	stat.cversion = take_int();
	take_int();
	stat.owner = take_long();
	stat.length = take_int();
	stat.children = take_int();
	take_long();
	return stat;
}

/* The children of path, in a vector that ends with NULL. */
static char **children_of(const char *path, int *error)
{
	char **names;
	int32_t count;

	*error = about(CHILDREN, path);
	count = *error ? 0 : take_int();
	names = calloc((size_t)count + 1, sizeof(*names));
	if (!names)
		err(70, "calloc");
	for (int32_t i = 0; i < count; i++)
		names[i] = take_string();
	return names;
}

static void list(const char *path)
{
	int error;
	char **names = children_of(path, &error);

	check(error, path);
	for (char **name = names; *name; name++)
		puts(*name);
}

/* All that is below path, parents first, or removed, children first. */
static void walk(const char *path, bool remove)
{
	char below[4096];
	int error;
	char **names = children_of(path, &error);

	if (error != NO_NODE)
		check(error, path);
	for (char **name = names; *name; name++) {
		if (!strcmp(path, "/") && !strcmp(*name, "zookeeper"))
			continue;
		snprintf(below, sizeof(below), "%s/%s", strcmp(path, "/") ? path : "", *name);
		if (!remove)
			puts(below);
		walk(below, remove);
		/* others may be quicker */
		error = remove ? about(DELETE, below) : OK;
		if (error != NO_NODE)
			check(error, below);
		free(*name);
	}
	free(names);
}

static char *make(int flags, const char *path, const char *data)
{
	ask(flags == CONTAINER ? CREATE_CONTAINER : CREATE);
	put_string(path);
	put_string(data);
	put_int(1);
	put_int(31);
	put_string("world");
	put_string("anyone");
	put_int(flags);
	check(answer(), path);
	return take_string();
}

/* In the order of their bits: read, write, create, delete, administer. */
static const char permissions[] = "rwcda";

static void protect(const char *path, const char *letters, const char *who)
{
	const char *colon = strchr(who, ':');
	char scheme[16];
	int32_t bits = 0;

	if (!colon)
		errx(64, "%s: want SCHEME:ID", who);
	snprintf(scheme, sizeof(scheme), "%.*s", (int)(colon - who), who);
	for (int bit = 0; permissions[bit]; bit++)
		if (strchr(letters, permissions[bit]))
			bits |= 1 << bit;
	ask(SET_ACL);
	put_string(path);
	put_int(1);
	put_int(bits);
	put_string(scheme);
	put_string(colon + 1);
	put_int(-1);
	check(answer(), path);
}

static void show(const char *command, const char *path)
{
	struct stat_of stat;
	int32_t length, bits;
	int error = about(!strcmp(command, "stat") ? EXISTS : !strcmp(command, "acl") ?
			  GET_ACL : GET, path);

	check(error, path);
	if (!strcmp(command, "get")) {
		length = take_int();
		if (length > 0)
			fwrite(take((size_t)length), 1, (size_t)length, stdout);
	} else if (!strcmp(command, "stat")) {
		stat = take_stat();
		printf("czxid=%lld owner=0x%llx version=%d cversion=%d length=%d children=%d\n",
		       (long long)stat.czxid, (unsigned long long)stat.owner, stat.version,
		       stat.cversion, stat.length, stat.children);
	} else {
		for (int32_t count = take_int(); count > 0; count--) {
			bits = take_int();
			for (int bit = 0; permissions[bit]; bit++)
				if (bits & 1 << bit)
					putchar(permissions[bit]);
			printf(" %s", take_string());
			printf(":%s\n", take_string());
		}
	}
}

static void on_signal(int sig)
{
	caught = sig;
}

static void hold(int flags, const char *path, const char *data)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	puts(make(flags, path, data));
	fflush(stdout);
	while (!caught) {
		poll(NULL, 0, SESSION_MS / 10);
		ask(PING);
		if (answer() == DOWN)
			errx(2, "the connection is lost");
	}
}

/*
 * Takes the session over and ends it, in one write: its owner, whose connection the server
 * ends, takes it back at once. Until there is no such session, or nobody knows of it.
 */
static void expire(int64_t session)
{
	int one = 1, none = 0;
	bool sent = false, there;

	/* 0 would make a new one each time */
	if (!session)
		errx(64, "expire: want the number of a session");
	for (size_t failures = 0; failures < 100; ) {
		there = connect_to(ports[port_next++ % port_count]);
		if (there) {
			setsockopt(fd, IPPROTO_TCP, TCP_CORK, &one, sizeof(one));
			there = send_greeting(session);
			ask(CLOSE);
			there = send_packet() && there;
			setsockopt(fd, IPPROTO_TCP, TCP_CORK, &none, sizeof(none));
		}
		if (!there || !receive_packet(now_ms() + ANSWER_MS)) {
			/* it may have ended the session and the connection at once */
			sent = sent || there;
			failures++;
			poll(NULL, 0, PAUSE_MS);
		} else if (granted()) {
			sent = true;
		} else if (sent) {
			exit(0);
		} else {
			errx(1, "there is no such session");
		}
	}
	errx(2, "no server answers");
}

/* ---- the witness */

static void note(const char *text)
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
		note(sigabbrev_np(caught));
		caught = 0;
	}
	note("alive");
}

/* The path of the child of parent that transaction czxid has made. */
static char *find(const char *parent, int64_t czxid)
{
	int error;
	char **names = children_of(parent, &error), *path;

	check(error, parent);
	for (char **name = names; *name; name++) {
		if (asprintf(&path, "%s/%s", parent, *name) < 0)
			err(70, "asprintf");
		if (about(EXISTS, path) == OK && take_stat().czxid == czxid)
			return path;
		free(path);
	}
	return NULL;
}

static void testify(const char *parent, int64_t czxid, bool ignore)
{
	struct sigaction action = { .sa_handler = on_signal };
	char *path = find(parent, czxid);
	int error;

	if (!path)
		note("LOST not there at first");
	if (ignore) {
		sigaction(SIGTERM, &action, NULL);
		sigaction(SIGINT, &action, NULL);
		sigaction(SIGHUP, &action, NULL);
	}
	idle = note_alive;
	while (path) {
		error = fd >= 0 || reach() ? about(EXISTS, path) : DOWN;
		if (error == DOWN) {
			hang_up();
			note("down");
		} else if (error == OK && take_stat().czxid == czxid) {
			note("held 0");
		} else {
			note("LOST -");
		}
		poll(NULL, 0, PAUSE_MS);
	}
}

static void obey(char **args, int count, bool ignore)
{
	const char *verb = args[0], *path = args[1], *data = count > 2 ? args[2] : "";

	if (!strcmp(verb, "ls")) {
		list(path);
	} else if (!strcmp(verb, "tree") || !strcmp(verb, "wipe")) {
		walk(path, verb[0] == 'w');
	} else if (!strcmp(verb, "get") || !strcmp(verb, "stat") || !strcmp(verb, "acl")) {
		show(verb, path);
	} else if (!strcmp(verb, "create")) {
		make(PLAIN, path, data);
	} else if (!strcmp(verb, "container")) {
		make(CONTAINER, path, "");
	} else if (!strcmp(verb, "rm")) {
		check(about(DELETE, path), path);
	} else if (!strcmp(verb, "set")) {
		ask(SET);
		put_string(path);
		put_string(data);
		put_int(-1);
		check(answer(), path);
	} else if (!strcmp(verb, "protect") && count == 4) {
		protect(path, data, args[3]);
	} else if (!strcmp(verb, "hold") || !strcmp(verb, "sequence")) {
		hold(verb[0] == 'h' ? EPHEMERAL : SEQUENCE, path, data);
	} else if (!strcmp(verb, "witness") && count == 4) {
		log_fd = open(args[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (log_fd < 0)
			err(64, "%s", args[3]);
		testify(path, strtoll(data, NULL, 10), ignore);
	} else {
		errx(64, "%s: unknown command", verb);
	}
}

int main(int argc, char **argv)
{
	bool ignore = false;
	int option;
	char *port;

	while ((option = getopt(argc, argv, "+a:i")) != -1) {
		if (option == 'a')
			credentials = optarg;
		else if (option == 'i')
			ignore = true;
		else
			return 64;
	}
	argc -= optind;
	argv += optind;
	if (argc < 3)
		errx(64, "usage: znode [-a USER:PASSWORD] [-i] PORT[,PORT]... COMMAND ARG...");
	for (port = strtok(argv[0], ","); port && port_count < 8; port = strtok(NULL, ","))
		ports[port_count++] = (uint16_t)atoi(port);
	if (!strcmp(argv[1], "expire"))
		expire((int64_t)strtoull(argv[2], NULL, 16));
	for (size_t tries = 0; fd < 0; tries++)
		if (!reach() && tries + 1 >= port_count)
			errx(2, "no server answers");
	obey(argv + 1, argc - 1, ignore);
	/* whatever it was, the session must not stay */
	ask(CLOSE);
	check(answer(), "close");
	return 0;
}
