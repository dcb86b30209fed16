/* SPDX-License-Identifier: MIT */
/*
 * The command that a crash test runs under the lock: a process with a child, a grandchild in
 * a session of its own that ignores TERM, and a daemon that has forked twice. All of them
 * hold one flock(2), by the descriptor that they inherit: who finds it taken runs beside a
 * process of another holder's tree, and the kernel frees it only when the last one is dead.
 *
 *	tree SOCKET LOCK WHO KIDS LEAVE
 *
 * SOCKET is the abstract address of a datagram socket that is told what happens, LOCK the
 * file to lock. WHO tells the trees of one test apart. KIDS 0: no other processes. LEAVE 1:
 * the daemon is left behind when the command ends. Times in ms of CLOCK_BOOTTIME:
 *
 *	WHO begin TIME FENCE alone|overlap	first of all
 *	WHO over TIME				nobody else is alive any longer, after an overlap
 *	WHO up TIME				the other processes are there
 *	WHO end TIME				about to end with 0; all but the daemon are dead
 *
 * It ends when it receives a datagram at SOCKET.WHO, or after 60 s.
 */
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_S 60

static const char *who;
static struct sockaddr_un teller;
static socklen_t teller_size;
static int channel;

static socklen_t make_address(struct sockaddr_un *address, const char *name)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "%s", name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   strlen(address->sun_path + 1));
}

static void send_message(const char *what, const char *more)
{
	struct timespec now;
	char text[256];
	int length;

	clock_gettime(CLOCK_BOOTTIME, &now);
	length = snprintf(text, sizeof(text), "%s %s %lld %s", who, what,
			  (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000, more);
	if (sendto(channel, text, (size_t)length, 0, (struct sockaddr *)&teller,
		   teller_size) != length)
		err(70, "cannot tell of %s", what);
}

/* Live until an order to end, or a kill, even when the command is dead. */
static void __attribute__((noreturn)) obey_orders(int orders)
{
	char order;

	alarm(LIMIT_S);
	if (read(orders, &order, 1) == 1)
		_exit(0);
	for (;;)
		pause();
}

static pid_t fork_or_end(void)
{
	pid_t pid = fork();

	if (pid < 0)
		err(71, "fork");
	return pid;
}

/* The child and the grandchild. */
static void start_child(int orders)
{
	if (fork_or_end())
		return;
	if (!fork_or_end()) {
		setsid();
		signal(SIGTERM, SIG_IGN);
	}
	obey_orders(orders);
}

static void start_daemon(int orders)
{
	pid_t pid = fork_or_end();

	if (pid) {
		waitpid(pid, NULL, 0);
		return;
	}
	setsid();
	if (fork_or_end())
		_exit(0);
	obey_orders(orders);
}

int main(int argc, char **argv)
{
	int lock, child_orders[2], daemon_orders[2], all[2];
	struct sockaddr_un own;
	const char *fence = getenv("DLOCK_FENCE");
	char text[sizeof(own.sun_path) - 1];
	bool kids, leave;

	if (argc != 6)
		errx(64, "usage: tree SOCKET LOCK WHO KIDS LEAVE");
	who = argv[3];
	kids = atoi(argv[4]);
	leave = atoi(argv[5]);
	channel = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	teller_size = make_address(&teller, argv[1]);
	snprintf(text, sizeof(text), "%s.%s", argv[1], who);
	if (channel < 0 || bind(channel, (struct sockaddr *)&own, make_address(&own, text)))
		err(70, "socket");
	lock = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0)
		err(70, "%s", argv[2]);
	if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
		snprintf(text, sizeof(text), "%s alone", fence ? fence : "0");
		send_message("begin", text);
	} else {
		snprintf(text, sizeof(text), "%s overlap", fence ? fence : "0");
		send_message("begin", text);
		alarm(LIMIT_S);
		flock(lock, LOCK_EX);
		send_message("over", "");
	}
	if (pipe(child_orders) || pipe(daemon_orders) || pipe(all))
		err(70, "pipe");
	if (kids) {
		start_child(child_orders[0]);
		start_daemon(daemon_orders[0]);
	}
	send_message("up", "");
	poll(&(struct pollfd){ .fd = channel, .events = POLLIN }, 1, LIMIT_S * 1000);
	if (kids && write(child_orders[1], "xx", 2) != 2)
		err(70, "pipe");
	if (kids && !leave && write(daemon_orders[1], "x", 1) != 1)
		err(70, "pipe");
	close(all[1]);
	if (!leave && read(all[0], text, 1) != 0)
		err(70, "pipe");
	while (kids && wait(NULL) > 0)
		;
	/* What has closed its descriptors is about to be dead, and is no leftover by then. */
	poll(NULL, 0, kids ? 5 : 0);
	send_message("end", "");
	return 0;
}
