/* SPDX-License-Identifier: MIT */
/*
 * The guard's process. From its start to its end:
 *
 *	guard_main()
 *	  await_order()			waits for the order, and takes the lock
 *	  start_command()		then executes the command, by vfork(), which copies no
 *					memory and returns after the exec or its failure
 *	  start_contained()		or executes it in a namespace, for --contain
 *	  then in a loop, until nothing is left of the tree:
 *	    enforce_deadlines()		acts on the clock
 *	    read_reports()		reads the command's state in the namespace
 *	    reap_children()		ends this process when the tree is dead
 *	    stop_tree()			on a loss, or the supervisor's death
 *
 * It always ends the command's tree before the lease is over. It sends events to the supervisor,
 * and the processes of the namespace send reports to it. guard.c is the supervisor's side.
 */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "base/kernel_timer.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/terminal.h"
#include "base/tree.h"
#include "lock/lease.h"
#include "environment.h"
#include "supervisor.h"

/* The limit of an exec without a lease. */
#define EXEC_MOST_MS	60000

struct guarding {
	const struct supervisor *s;	/* as it was at the fork */
	int fd;			/* to the supervisor; -1 once it is gone */
	int hold_fd;		/* stays open until the tree is dead; -1: none */
	bool locked;		/* the command runs under the lock */
	pid_t child;		/* the command's process, or the init of its namespace; 0: none */
	pid_t command;		/* 0 once reaped, because a new process may get the number */
	pid_t group;		/* the command's, used without /proc */
	int report_fd;		/* --contain: the socket of struct report; -1: closed */
	bool ended;		/* the command has ended, with status */
	int status;
	bool leftovers;		/* the command has ended, and left processes behind */
	bool end_sent;		/* GUARD_EXITED was sent */
	bool stopping;		/* the tree is being ended, */
	bool ending_leftovers;	/* only because the command has ended by itself */
	bool killing;		/* the command got KILL, and its tree is swept */
	int64_t limit_at_ms;	/* end of the command's time; CLOCK_NEVER */
	enum ending limit;	/* the option that sets limit_at_ms */
	int64_t kill_at_ms;	/* while stopping */
	int64_t sweep_at_ms;	/* while killing: when to sweep the tree again */
	int64_t sweep_pause_ms;
	struct kernel_timer wake_timer;	/* continues this process when it has to act, */
	struct kernel_timer kill_timer;	/* and kills it when it has not acted in time */
};

/*
 * Is g->hold_fd the descriptor of a lock of `file:` that this run has taken? That of an outer hold
 * is not this run's to free or to pass on.
 */
static bool has_local_lock(const struct guarding *g)
{
	return g->hold_fd >= 0 && g->s->run->driver->local && !g->s->joined;
}

/* Was no command executed? The reason is in struct shared. */
static bool is_unused(const struct guarding *g)
{
	return atomic_load(&g->s->shared->exec_failure) ||
	       atomic_load(&g->s->shared->start_failed);
}

/* Record that no command is started, because a call has failed. Returns -1. */
static int fail_to_start(const struct guarding *g, const char *what)
{
	error_set(&g->s->shared->start_error, ERROR_INTERNAL, errno, "%s", what);
	atomic_store(&g->s->shared->start_failed, true);
	return -1;
}

/* ---- events to the supervisor ---- */

/* Only the last event waits until the supervisor reads. */
static void send_event(const struct guarding *g, struct guard_event event)
{
	if (g->fd >= 0)
		ipc_send(g->fd, &event, sizeof(event), event.last ? 0 : MSG_DONTWAIT, -1);
}

/* Send why the command is stopped, or not begun. */
static void send_ending(const struct guarding *g, enum ending why)
{
	/* If this event is dropped, the supervisor reads the value with the last one. */
	atomic_fetch_or(&g->s->shared->endings, (int)why);
	send_event(g, (struct guard_event){ .type = GUARD_ENDING });
}

/* ---- the state of the command ---- */

/* Record the pid of the command. */
static void record_command(struct guarding *g, pid_t pid)
{
	g->command = g->group = pid;
	atomic_store(&g->s->shared->command, pid);
}

/* Record that the command has stopped or ended with this wait status. */
static void command_changed(struct guarding *g, int status)
{
	if (WIFSTOPPED(status)) {
		send_event(g, (struct guard_event){ .type = GUARD_STOPPED,
						    .value = WSTOPSIG(status) });
		return;
	}
	g->command = 0;
	g->ended = true;
	g->status = status;
}

/* With --contain, init and the command's process send reports to the guard over a socket. */
enum report_type {
	REPORT_PID,		/* the sender is to become the command */
	REPORT_STOPPED,		/* value: wait status of the command */
	REPORT_ENDED,		/* value: wait status of the command */
	REPORT_LEFTOVERS,	/* the command has ended, and left processes in its namespace */
};

struct report {
	enum report_type type;
	int value;
};

/* Receive a report. Sets *sender to the sender's pid in the namespace of this process. */
static bool next_report(struct guarding *g, struct report *report, pid_t *sender)
{
	enum ipc_result received;

	*sender = 0;
	if (g->report_fd < 0)
		return false;
	received = ipc_receive(g->report_fd, report, sizeof(*report), MSG_DONTWAIT, sender);
	/*
	 * The socket would stay readable, and end each poll(): an init that has ended may not be
	 * reaped while its namespace ends.
	 */
	if (received == IPC_FAILED || received == IPC_GONE) {
		close(g->report_fd);
		g->report_fd = -1;
	}
	return received == IPC_DONE;
}

/* Read all reports, and update *g. */
static void read_reports(struct guarding *g)
{
	struct report report;
	pid_t sender;

	while (next_report(g, &report, &sender)) {
		switch (report.type) {
		case REPORT_PID:
			if (sender)
				record_command(g, sender);
			break;
		case REPORT_STOPPED:
		case REPORT_ENDED:
			command_changed(g, report.value);
			break;
		case REPORT_LEFTOVERS:
			g->leftovers = true;
			break;
		}
	}
}

/* ---- the command ---- */

/* Let this process, which becomes the command, die with parent, or here if parent has died. */
static void die_with(pid_t parent)
{
	/* The last resort, when every process of dlock is killed at once. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
}

static void ignore_signal(int sig)
{
	(void)sig;
}

/*
 * Ignore Ctrl-Z until the exec, because the guard waits for the exec. The handler is reset by the
 * exec.
 */
static void ignore_stops(const sigset_t *ignored)
{
	static const int stops[] = { SIGTSTP, SIGTTIN, SIGTTOU };

	for (size_t i = 0; i < sizeof(stops) / sizeof(*stops); i++)
		if (sigismember(ignored, stops[i]) != 1)
			signal(stops[i], ignore_signal);
}

/*
 * Execute the command in this process, which may share the guard's memory. foreground: the command
 * gets the terminal. Ends the process when the command cannot be executed.
 */
static void __attribute__((noreturn)) execute_or_exit(struct guarding *g, bool foreground)
{
	const struct supervisor *s = g->s;

	/* The terminal's signals to dlock's process group must not reach the command. */
	setpgid(0, 0);
	if (foreground)
		terminal_give(&s->terminal, getpid());
	/* If supervisor and guard are killed at once, the lock is held until the tree is dead. */
	if (has_local_lock(g) && !s->run->closes)
		fcntl(g->hold_fd, F_SETFD, 0);
	ignore_stops(&s->signals->ignored);
	signals_restore(s->signals);
	execvp(s->run->argv[0], s->run->argv);
	atomic_store(&s->shared->exec_failure, errno);
	_exit(127);
}

/* Run the command's process, which shares the guard's memory until the exec. */
static void __attribute__((noreturn)) command_main(struct guarding *g, pid_t guard, bool foreground)
{
	prctl(PR_SET_NAME, "dlock-command");
	die_with(guard);
	/* Before the exec, so that the supervisor knows the command if the guard is killed now. */
	record_command(g, getpid());
	execute_or_exit(g, foreground);
}

/*
 * Start the command, and set g->child. Returns 0, or -1 with exec_failure or start_failed.
 */
static int start_command(struct guarding *g, bool foreground)
{
	const bool has_end = g->kill_timer.at_ms != CLOCK_NEVER;
	const pid_t guard = getpid();
	pid_t child;

	/* An exec that hangs must not block the guard for ever, even without a lease. */
	if (!has_end)
		kernel_timer_set(&g->kill_timer, clock_boot_ms() + EXEC_MOST_MS);
	child = vfork();
	if (child == 0)
		command_main(g, guard, foreground);
	if (!has_end)
		kernel_timer_set(&g->kill_timer, CLOCK_NEVER);
	if (child < 0)
		return fail_to_start(g, "cannot start the command: fork");
	record_command(g, child);
	g->child = child;
	if (!is_unused(g))
		return 0;
	waitpid(child, NULL, 0);
	return -1;
}

/*
 * ---- --contain ----
 *
 * The command runs in a PID namespace of its own, whose init (process 1) is ours:
 *
 *	guard ── init ── COMMAND ── …
 *
 * When init dies the kernel kills all processes of the namespace, with any group, session or user.
 * Init dies with the guard (PR_SET_PDEATHSIG), which the kernel kills at the end of the lease when
 * it is stopped (kernel_timer.h), and by the guard's one kill(). Init cannot have such a timer: the
 * kernel drops a timer's SIGKILL to a namespace's process 1.
 *
 * Init reaps orphans, reports the command's state to the guard, and ends with the last process of
 * the namespace. A user who may not make a PID namespace alone gets it inside a user namespace,
 * where only this user exists.
 */
#define NAMESPACES (CLONE_NEWPID | CLONE_NEWNS)

static int write_file(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);

	/* After a failure this process ends. */
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -1;
	return close(fd);
}

/* Map this user and this group, and no others, to themselves in the new user namespace. */
static int map_user(uid_t user, gid_t group)
{
	char text[64];

	if (write_file("/proc/self/setgroups", "deny"))
		return -1;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned)user, (unsigned)user);
	if (write_file("/proc/self/uid_map", text))
		return -1;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned)group, (unsigned)group);
	return write_file("/proc/self/gid_map", text);
}

/* Mount a /proc with the pids of the new namespace. */
static int mount_proc(void)
{
	if (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL))
		return -1;
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* Send a report, or end this process if that fails. */
static void send_report(int fd, enum report_type type, int value)
{
	const struct report report = { type, value };

	/* Without a report the guard takes this process's end for the command's. */
	if (ipc_send(fd, &report, sizeof(report), 0, -1) == IPC_FAILED)
		_exit(125);
}

/* Reap. Ends this process, and with it the namespace, when it has no child left. */
static void reap_in_namespace(int report_fd, pid_t command)
{
	bool ended = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (pid != command)
			continue;
		ended = !WIFSTOPPED(status);
		send_report(report_fd, ended ? REPORT_ENDED : REPORT_STOPPED, status);
	}
	if (pid < 0 && errno == ECHILD)
		_exit(0);
	if (ended)
		send_report(report_fd, REPORT_LEFTOVERS, 0);
}

/* Record errno: there is no namespace. Returns -1. */
static int fail_to_contain(struct guarding *g)
{
	g->child = 0;
	return fail_to_start(g, "--contain: this system gives no PID namespace");
}

static void __attribute__((noreturn)) fail_and_exit(struct guarding *g)
{
	fail_to_contain(g);
	_exit(125);
}

struct user {
	uid_t uid;
	gid_t gid;
	bool mapped;		/* in a user namespace */
};

static void __attribute__((noreturn))
init_main(struct guarding *g, int report_fd, const struct user *user, bool foreground)
{
	struct pollfd fds[] = {
		{ .fd = g->s->signals->fd, .events = POLLIN },
		{ .fd = report_fd },
	};
	const pid_t self = getpid();
	pid_t command;

	/* The guard's sockets must end with the guard. */
	close(g->fd);
	close(g->report_fd);
	close(g->s->guard_pipe[1]);
	prctl(PR_SET_NAME, "dlock-init");
	if ((user->mapped && map_user(user->uid, user->gid)) || mount_proc())
		fail_and_exit(g);
	/* After the last change of credentials, which would reset it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The guard died before prctl(). */
	if (poll(&fds[1], 1, 0) && fds[1].revents)
		_exit(0);
	command = fork();
	if (command < 0)
		fail_and_exit(g);
	if (command == 0) {
		die_with(self);
		send_report(report_fd, REPORT_PID, 0);
		execute_or_exit(g, foreground);
	}
	for (;;) {
		poll(fds, 1, -1);
		reap_in_namespace(report_fd, command);
		if (signals_drain(g->s->signals))
			reap_in_namespace(report_fd, command);
	}
}

/* fork() into new namespaces; glibc has no function for it. */
static pid_t fork_into(unsigned long namespaces)
{
	return (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, NULL);
}

/*
 * Fork the init of a new PID namespace, which starts the command there, and set g->child and
 * g->report_fd. Returns 0, or -1 with start_failed.
 */
static int start_contained(struct guarding *g, bool foreground)
{
	struct user user = { .uid = geteuid(), .gid = getegid() };
	static const int on = 1;
	int ends[2], failed;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return fail_to_contain(g);
	g->report_fd = ends[0];
	g->child = fork_into(NAMESPACES);
	if (g->child < 0 && errno == EPERM) {
		user.mapped = true;
		g->child = fork_into(NAMESPACES | CLONE_NEWUSER);
	}
	if (g->child == 0)
		init_main(g, ends[1], &user, foreground);
	failed = g->child < 0 ? fail_to_contain(g) : 0;
	close(ends[1]);
	return failed;
}

/* ---- how the tree is ended ---- */

/* The first and the longest pause between two sweeps of the tree. */
#define SWEEP_FIRST_MS 5
#define SWEEP_LAST_MS 1000

static struct lease_stop stop_of(const struct guarding *g)
{
	return shared_stop(g->s->shared, g->s->run, g->locked);
}

/* Send sig to the command's process group; without /proc, even when the command has ended. */
static void signal_group(const struct guarding *g, int sig)
{
	if (g->command)
		kill(-g->command, sig);
	else if (g->group && !tree_usable() && process_group_has_child(g->group))
		kill(-g->group, sig);
}

/* Send sig to all processes of the tree, until until_ms. Returns their number, or -1. */
static int sweep_tree(struct guarding *g, int sig, int64_t until_ms)
{
	static const struct tree_excluded none = { .pids = NULL };
	pid_t refused;
	const int count = tree_signal(&none, sig == SIGTERM ? g->command : 0, sig, until_ms,
				      &refused);

	if (refused)
		send_event(g, (struct guard_event){ .type = GUARD_STUCK, .value = refused });
	return count;
}

static void kill_tree(struct guarding *g)
{
	signal_group(g, SIGKILL);
	/* The command may have changed its group. */
	if (g->command)
		kill(g->command, SIGKILL);
	/* A namespace ends with its init. */
	if (g->s->run->contain && g->child)
		kill(g->child, SIGKILL);
	/* Children that killed processes leave to this one must not wait for a long list. */
	sweep_tree(g, SIGKILL, clock_boot_ms() + g->sweep_pause_ms);
}

/* Sweep soon when a child has ended: its children are those of this process now. */
static void sweep_soon(struct guarding *g)
{
	if (!g->killing)
		return;
	g->sweep_pause_ms = SWEEP_FIRST_MS;
	g->sweep_at_ms = clock_earlier(g->sweep_at_ms, clock_boot_ms() + SWEEP_FIRST_MS);
}

/*
 * Begin to end the tree: TERM now, KILL at kill_at_ms or before the lease ends. If this has begun
 * already, the earlier KILL wins.
 */
static void stop_tree(struct guarding *g, int64_t kill_at_ms)
{
	int64_t half_ms;

	if (g->stopping) {
		g->kill_at_ms = clock_earlier(g->kill_at_ms, kill_at_ms);
		return;
	}
	g->stopping = true;
	g->kill_at_ms = clock_earlier(kill_at_ms, stop_of(g).kill_ms);
	half_ms = clock_boot_ms();
	half_ms += (g->kill_at_ms - half_ms) / 2;
	signal_group(g, SIGTERM);
	/* A stopped process would not handle TERM. */
	signal_group(g, SIGCONT);
	/* Only once, because the new children of a process may clean up for it. */
	sweep_tree(g, SIGTERM, half_ms);
	/* KILL takes long, too, where the tree is so large or the machine so slow. */
	if (clock_boot_ms() >= half_ms)
		g->kill_at_ms = half_ms;
}

/* Return the time of KILL for a stop that begins now: kill-after as far as the lease allows. */
static int64_t grace_end(const struct guarding *g)
{
	return clock_boot_ms() +
	       lease_kill_after(shared_lease(g->s->shared).ttl_ms, g->s->run->kill_after_ms);
}

/* ---- and when: before the lease ends, or on an order ---- */

/* Set the kill timer, and publish its time: the supervisor finds out whether it has fired. */
static void die_at(struct guarding *g, int64_t at_ms)
{
	kernel_timer_set(&g->kill_timer, at_ms);
	atomic_store(&g->s->shared->guard_dies_ms, g->kill_timer.at_ms);
}

/* Do the processes that must be dead at the end of the lease die with this process? */
static bool dies_with_guard(const struct guarding *g)
{
	/* A namespace does. Leftovers that are being ended have their own time. */
	return !g->ended || (g->s->run->contain && g->s->run->leftovers == LEFTOVERS_WAIT);
}

/*
 * Set the kill timer to the end of the current lease while the command lives and has not got KILL.
 * Later the guard must live, because it may be the only process that can sweep the tree. A lease
 * should have been renewed when half of it is left: lease_renew_at(). Returns when to call this
 * again (CLOCK_BOOTTIME).
 */
static int64_t arm_kill_timer(struct guarding *g)
{
	const struct lease_span lease = shared_lease(g->s->shared);
	const int64_t now_ms = clock_boot_ms(), check_ms = lease.end_ms - lease.ttl_ms / 2;

	if (!dies_with_guard(g) || g->killing || stop_of(g).term_ms == CLOCK_NEVER) {
		die_at(g, CLOCK_NEVER);
		return CLOCK_NEVER;
	}
	if (lease.end_ms > now_ms)
		die_at(g, lease.end_ms);
	return check_ms > now_ms ? check_ms : CLOCK_NEVER;
}

/*
 * Begin to stop the command when the lease or the time to run is about to end. Returns when to call
 * this again, or CLOCK_NEVER when the command is being stopped.
 */
static int64_t stop_in_time(struct guarding *g, struct lease_stop stop, int64_t now)
{
	if (g->stopping)
		return CLOCK_NEVER;
	if (now < stop.term_ms && now < g->limit_at_ms)
		return clock_earlier(stop.term_ms, g->limit_at_ms);
	if (now >= stop.term_ms) {
		send_ending(g, ENDING_LEASE);
		stop_tree(g, stop.kill_ms);
	} else {
		send_ending(g, g->limit);
		stop_tree(g, grace_end(g));
	}
	return CLOCK_NEVER;
}

/* Act on the clock. Returns when to call this again (CLOCK_BOOTTIME). */
static int64_t enforce_deadlines(struct guarding *g)
{
	const struct lease_stop stop = stop_of(g);
	int64_t now = clock_boot_ms(), check_ms = arm_kill_timer(g), kill_at, next_ms;

	next_ms = stop_in_time(g, stop, now);
	if (!g->stopping)
		return clock_earlier(next_ms, check_ms);
	kill_at = clock_earlier(g->kill_at_ms, stop.kill_ms);
	if (now < kill_at)
		return clock_earlier(kill_at, check_ms);
	g->killing = true;
	if (now >= g->sweep_at_ms) {
		/* The sweep takes as long as its pause. */
		atomic_store(&g->s->shared->guard_due_ms,
			     now + 2 * g->sweep_pause_ms + GUARD_GRACE_MS);
		kill_tree(g);
		/* The pauses grow while no child ends: it cannot be ended, or not yet. */
		g->sweep_at_ms = clock_boot_ms() + g->sweep_pause_ms;
		if (g->sweep_pause_ms < SWEEP_LAST_MS)
			g->sweep_pause_ms *= 2;
	}
	/* From here on the timer would only end the sweeps. */
	arm_kill_timer(g);
	return g->sweep_at_ms;
}

/* ---- the end ---- */

/* Return the last event, when the tree is dead. After a failure the status is unknown. */
static struct guard_event last_event(const struct guarding *g)
{
	if (is_unused(g) || ipc_has_failed(NULL))
		return (struct guard_event){ .type = GUARD_EMPTY };
	return (struct guard_event){ .type = GUARD_EXITED, .value = g->status };
}

/*
 * Does the guard free a lock of `file:` as soon as the tree is dead, even if the supervisor is
 * stopped? The supervisor's release reports the result, and retains a lock or its record.
 */
static bool unlocks(const struct guarding *g)
{
	const struct run_request *run = g->s->run;

	return has_local_lock(g) && run->mode == HOLD_EXCLUSIVE && !run->min_hold_ms &&
	       !run->once_ms;
}

/*
 * The tree is dead: report this to the keeper, which then releases, and to the supervisor, and end
 * this process. No deadline is left, so the last event may wait until the supervisor reads.
 */
static void __attribute__((noreturn)) finish_and_exit(struct guarding *g, struct guard_event event)
{
	ssize_t ignored;

	/* A command that could not be executed has no minimum hold. */
	if (is_unused(g) || !g->group)
		atomic_store(&g->s->shared->held_ms, 0);
	if (event.type == GUARD_EXITED && !event.value && (!g->stopping || g->ending_leftovers))
		atomic_store(&g->s->shared->succeeded, true);
	if (unlocks(g))
		flock(g->hold_fd, LOCK_UN);
	if (g->hold_fd >= 0)
		close(g->hold_fd);
	ignored = write(g->s->guard_pipe[1], "", 1);
	(void)ignored;	/* The supervisor handles a keeper that is gone. */
	/* Only now: until the keeper has the byte, the timers must continue a stopped guard. */
	kernel_timer_set(&g->wake_timer, CLOCK_NEVER);
	kernel_timer_set(&g->kill_timer, CLOCK_NEVER);
	event.last = true;
	send_event(g, event);
	_exit(0);
}

/* ---- before the command runs ---- */

/*
 * Set the timers before the lock is taken: from then on this process does not outlive the lease,
 * and is continued if it is stopped. The lease is read first: when it has ended no timer is set,
 * and a later renewal must not let the command start. Returns when it is too late to start the
 * command.
 */
static int64_t arm_timers(struct guarding *g)
{
	const int64_t start_by_ms = lease_stop(shared_lease(g->s->shared),
					       g->s->run->kill_after_ms).term_ms;
	const int64_t check_ms = arm_kill_timer(g);

	kernel_timer_set(&g->wake_timer, g->locked ? clock_earlier(start_by_ms, check_ms)
						   : CLOCK_NEVER);
	return start_by_ms;
}

/* The command is not started, because its time is over. */
static void __attribute__((noreturn)) refuse_and_exit(struct guarding *g, enum ending why)
{
	send_ending(g, why);
	finish_and_exit(g, (struct guard_event){ .type = GUARD_EMPTY });
}

/*
 * Wait for the order to run, and take the keeper's offer. The keeper has withdrawn it if the
 * supervisor was stopped before the order. Ends the process if the supervisor is gone or needs no
 * command, or if it is too late.
 */
static void await_order(struct guarding *g)
{
	struct shared *shared = g->s->shared;
	enum ipc_result received = IPC_LATER;
	struct guard_order order;
	int64_t start_by_ms;

	while (received == IPC_LATER)
		received = ipc_receive(g->fd, &order, sizeof(order), 0, &g->hold_fd);
	if (received != IPC_DONE || order.type != GUARD_ORDER_RUN)
		_exit(0);
	g->locked = order.locked;
	if (g->locked)
		environment_write_fence(order.fence);
	else
		environment_drop_hold();
	start_by_ms = arm_timers(g);
	/* There is no offer for a lock of `file:` or an outer hold. */
	if (g->locked && ((!shared_take(shared) &&
			   atomic_load(&shared->offer) == OFFER_WITHDRAWN) ||
			  clock_boot_ms() >= start_by_ms))
		refuse_and_exit(g, ENDING_LEASE);
}

/* Set the limits of the command's time, which begins now. */
static void begin_limit(struct guarding *g)
{
	const struct run_request *run = g->s->run;
	const int64_t now_ms = clock_boot_ms();
	int64_t max_run_at_ms = CLOCK_NEVER, until_at_ms = CLOCK_NEVER;

	if (run->max_run_ms)
		max_run_at_ms = now_ms + run->max_run_ms;
	if (run->until_ms)
		until_at_ms = now_ms + (run->until_ms - clock_wall_ms());
	g->limit = until_at_ms < max_run_at_ms ? ENDING_UNTIL : ENDING_MAX_RUN;
	g->limit_at_ms = clock_earlier(max_run_at_ms, until_at_ms);
}

/* ---- while it runs ---- */

/* The pause before a guard that is stopped again is continued. */
#define WAKE_AGAIN_MS 20

/*
 * Send how the command ended, and how many processes it left behind. These are ended now, or go on
 * under the lock, or with --leftovers leave go on alone.
 */
static void send_end(struct guarding *g)
{
	int left;

	send_event(g, (struct guard_event){ .type = GUARD_EXITED, .value = g->status });
	g->end_sent = true;
	if (g->stopping)
		return;
	left = sweep_tree(g, 0, stop_of(g).term_ms);
	/* At least one child is left, even if the sweep has not seen it. */
	if (g->s->run->contain && left > 0)
		left--;		/* the namespace's init */
	send_event(g,
		   (struct guard_event){ .type = GUARD_LEFTOVERS, .value = left > 0 ? left : 1 });
	if (g->s->run->leftovers == LEFTOVERS_LEAVE)
		finish_and_exit(g, last_event(g));
	if (g->s->run->leftovers == LEFTOVERS_WAIT)
		return;
	g->ending_leftovers = true;
	stop_tree(g, grace_end(g));
}

/* Handle that the guard's child has stopped or ended: the command, or the init of its namespace. */
static void child_changed(struct guarding *g, int status)
{
	/* Reports come first. An init that was killed has not reported the command's end. */
	read_reports(g);
	if (!g->s->run->contain)
		command_changed(g, status);
	else if (!g->ended)
		command_changed(g, SIGKILL);
	if (!WIFSTOPPED(status))
		g->child = 0;
}

/*
 * Reap; when the tree is dead, finish. A stopped init is continued after the loop, which otherwise
 * would not end if the init were stopped again and again.
 */
static void reap_children(struct guarding *g)
{
	bool init_stopped = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		sweep_soon(g);
		if (pid != g->child)
			continue;
		init_stopped = g->s->run->contain && WIFSTOPPED(status);
		if (!init_stopped)
			child_changed(g, status);
	}
	if (init_stopped)
		kill(g->child, SIGCONT);
	if (pid < 0 && errno == ECHILD)
		finish_and_exit(g, last_event(g));
	/* A child is left. With --contain it is init, which reports leftovers. */
	if (g->ended && !g->s->run->contain)
		g->leftovers = true;
	if (g->leftovers && !g->end_sent && !is_unused(g))
		send_end(g);
}

/* ---- orders and deadlines ---- */

/*
 * Pass a signal on. target: the command, or its process group as a negative number. Leftovers get
 * it after the command's end, unless they got TERM, except for the signals that the supervisor does
 * not pass on after the end: see follow_job().
 */
static void forward_signal(struct guarding *g, pid_t target, int sig)
{
	if (g->end_sent && !g->stopping && sig != SIGTSTP && sig != SIGCONT) {
		signal_group(g, sig);
		sweep_tree(g, sig, stop_of(g).term_ms);
	} else if (g->command && kill(target, sig) && errno == EPERM) {
		send_event(g, (struct guard_event){ .type = GUARD_STUCK, .value = g->command });
	}
}

static void obey_order(struct guarding *g)
{
	struct guard_order order;
	enum ipc_result received = ipc_receive(g->fd, &order, sizeof(order), MSG_DONTWAIT, NULL);

	if (received == IPC_LATER)
		return;
	if (received != IPC_DONE) {
		/* The supervisor was killed. The keeper holds the lock until the guard is done. */
		g->fd = -1;
		stop_tree(g, grace_end(g));
		return;
	}
	forward_signal(g, order.group ? -g->command : g->command, order.sig);
}

static void __attribute__((noreturn)) guard_loop(struct guarding *g)
{
	enum { SIGNALS, SUPERVISOR, LOST, REPORT, POLLED };
	struct pollfd fds[POLLED];
	eventfd_t losses;
	int64_t wake_ms;

	for (;;) {
		/* The supervisor ends with the failure, and may not have read it. */
		if (ipc_has_failed(NULL))
			stop_tree(g, grace_end(g));
		wake_ms = enforce_deadlines(g);
		fds[SIGNALS] = (struct pollfd){ .fd = g->s->signals->fd, .events = POLLIN };
		/* Orders wait until the command's pid is known. */
		fds[SUPERVISOR] = (struct pollfd){
			.fd = g->command || g->ended ? g->fd : -1, .events = POLLIN
		};
		fds[LOST] = (struct pollfd){ .fd = g->s->lost_fd, .events = POLLIN };
		fds[REPORT] = (struct pollfd){ .fd = g->report_fd, .events = POLLIN };
		/* The timer's SIGCONT shows at the signals' descriptor, also after a suspend. */
		kernel_timer_set(&g->wake_timer, wake_ms);
		poll(fds, POLLED, clock_poll_timeout(wake_ms));
		/* First, because the next holder waits; then again for the signals' children. */
		if (fds[REPORT].revents)
			read_reports(g);
		reap_children(g);
		if (signals_drain(g->s->signals))
			reap_children(g);
		if (fds[LOST].revents) {
			eventfd_read(g->s->lost_fd, &losses);
			if (g->s->run->kill_on_lost)
				stop_tree(g, grace_end(g));
		}
		if (fds[SUPERVISOR].revents)
			obey_order(g);
	}
}

void guard_main(const struct supervisor *s, int fd)
{
	struct guarding g = {
		.s = s, .fd = fd, .hold_fd = -1, .report_fd = -1,
		.sweep_pause_ms = SWEEP_FIRST_MS,
	};
	bool foreground;

	/* A signal that ends or stops dlock's job must leave a process to enforce the lease. */
	setpgid(0, 0);
	prctl(PR_SET_NAME, "dlock-guard");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* That of a guard before this one. */
	atomic_store(&s->shared->start_failed, false);
	if (kernel_timer_open(&g.wake_timer, CLOCK_BOOTTIME, SIGCONT, WAKE_AGAIN_MS) ||
	    kernel_timer_open(&g.kill_timer, CLOCK_BOOTTIME, SIGKILL, 0)) {
		fail_to_start(&g, "cannot guard the command: timer_create");
		_exit(0);
	}
	await_order(&g);
	begin_limit(&g);
	/* A limit of --max-run begins now. */
	if (clock_boot_ms() >= g.limit_at_ms && g.limit == ENDING_UNTIL)
		refuse_and_exit(&g, ENDING_UNTIL);
	/* Asked here, because in a namespace the terminal's group has no number. */
	foreground = terminal_is_free(&s->terminal);
	if (s->run->contain ? start_contained(&g, foreground) : start_command(&g, foreground))
		finish_and_exit(&g, last_event(&g));
	guard_loop(&g);
}
