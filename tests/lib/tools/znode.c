/* SPDX-License-Identifier: MIT */
/*
 * Looks at what a ZooKeeper has stored, and changes it: one command, over a connection
 * and a session of its own, closed in the end.
 *
 *	znode [-a USER:PASSWORD] PORT[,PORT]... COMMAND [ARG]...
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
 *
 * Servers are ports of 127.0.0.1. Status: 0; 1 and a line on standard error for an error
 * of ZooKeeper; 2 when no server answers.
 */
#include <signal.h>

#include "zk_wire.h"

static volatile sig_atomic_t caught;

static void list_children(const char *path)
{
	int error;
	char **names = children_of(path, &error);

	check_result(error, path);
	for (char **name = names; *name; name++)
		puts(*name);
}

/* All that is below path, parents first, or removed, children first. */
static void walk_tree(const char *path, bool remove)
{
	char below[4096];
	int error;
	char **names = children_of(path, &error);

	if (error != NO_NODE)
		check_result(error, path);
	for (char **name = names; *name; name++) {
		if (!strcmp(path, "/") && !strcmp(*name, "zookeeper"))
			continue;
		snprintf(below, sizeof(below), "%s/%s", strcmp(path, "/") ? path : "", *name);
		if (!remove)
			puts(below);
		walk_tree(below, remove);
		/* others may be quicker */
		error = remove ? send_path(DELETE, below) : OK;
		if (error != NO_NODE)
			check_result(error, below);
		free(*name);
	}
	free(names);
}

static char *make_node(int flags, const char *path, const char *data)
{
	begin_request(flags == CONTAINER ? CREATE_CONTAINER : CREATE);
	put_string(path);
	put_string(data);
	put_int(1);
	put_int(31);
	put_string("world");
	put_string("anyone");
	put_int(flags);
	check_result(send_request(), path);
	return take_string();
}

/* In the order of their bits: read, write, create, delete, administer. */
static const char permissions[] = "rwcda";

static void protect_node(const char *path, const char *letters, const char *who)
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
	begin_request(SET_ACL);
	put_string(path);
	put_int(1);
	put_int(bits);
	put_string(scheme);
	put_string(colon + 1);
	put_int(-1);
	check_result(send_request(), path);
}

static void show_node(const char *command, const char *path)
{
	struct stat_of stat;
	int32_t length, bits;
	int error = send_path(!strcmp(command, "stat") ? EXISTS : !strcmp(command, "acl") ?
			      GET_ACL : GET, path);

	check_result(error, path);
	if (!strcmp(command, "get")) {
		length = take_int();
		if (length > 0)
			fwrite(take_bytes((size_t)length), 1, (size_t)length, stdout);
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

static void hold_node(int flags, const char *path, const char *data)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	puts(make_node(flags, path, data));
	fflush(stdout);
	while (!caught) {
		poll(NULL, 0, SESSION_MS / 10);
		begin_request(PING);
		if (send_request() == DOWN)
			errx(2, "the connection is lost");
	}
}

/*
 * Takes the session over and ends it, in one write: its owner, whose connection the server
 * ends, takes it back at once. Until there is no such session, or nobody knows of it.
 */
static void expire_session(int64_t session)
{
	int one = 1, none = 0;
	bool sent = false, there;
	size_t failures = 0;

	/* 0 would make a new one each time */
	if (!session)
		errx(64, "expire: want the number of a session");
	while (failures < 100) {
		there = connect_to(ports[port_next++ % port_count]);
		if (there) {
			setsockopt(fd, IPPROTO_TCP, TCP_CORK, &one, sizeof(one));
			there = send_greeting(session);
			begin_request(CLOSE);
			there = send_packet() && there;
			setsockopt(fd, IPPROTO_TCP, TCP_CORK, &none, sizeof(none));
		}
		if (!there || !receive_packet(now_ms() + ANSWER_MS)) {
			/* it may have ended the session and the connection at once */
			sent = sent || there;
			failures++;
			poll(NULL, 0, PAUSE_MS);
		} else if (read_session()) {
			sent = true;
		} else if (sent) {
			exit(0);
		} else {
			errx(1, "there is no such session");
		}
	}
	errx(2, "no server answers");
}

static void obey_command(char **args, int count)
{
	const char *verb = args[0], *path = args[1], *data = count > 2 ? args[2] : "";

	if (!strcmp(verb, "ls")) {
		list_children(path);
	} else if (!strcmp(verb, "tree") || !strcmp(verb, "wipe")) {
		walk_tree(path, verb[0] == 'w');
	} else if (!strcmp(verb, "get") || !strcmp(verb, "stat") || !strcmp(verb, "acl")) {
		show_node(verb, path);
	} else if (!strcmp(verb, "create")) {
		make_node(PLAIN, path, data);
	} else if (!strcmp(verb, "container")) {
		make_node(CONTAINER, path, "");
	} else if (!strcmp(verb, "rm")) {
		check_result(send_path(DELETE, path), path);
	} else if (!strcmp(verb, "set")) {
		begin_request(SET);
		put_string(path);
		put_string(data);
		put_int(-1);
		check_result(send_request(), path);
	} else if (!strcmp(verb, "protect") && count == 4) {
		protect_node(path, data, args[3]);
	} else if (!strcmp(verb, "hold") || !strcmp(verb, "sequence")) {
		hold_node(verb[0] == 'h' ? EPHEMERAL : SEQUENCE, path, data);
	} else {
		errx(64, "%s: unknown command", verb);
	}
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "+a:")) != -1) {
		if (option != 'a')
			return 64;
		credentials = optarg;
	}
	argc -= optind;
	argv += optind;
	if (argc < 3)
		errx(64, "usage: znode [-a USER:PASSWORD] PORT[,PORT]... COMMAND ARG...");
	read_ports(argv[0]);
	if (!strcmp(argv[1], "expire"))
		expire_session((int64_t)strtoull(argv[2], NULL, 16));
	reach_any();
	obey_command(argv + 1, argc - 1);
	/* whatever it was, the session must not stay */
	begin_request(CLOSE);
	check_result(send_request(), "close");
	return 0;
}
