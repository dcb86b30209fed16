/* SPDX-License-Identifier: MIT */
/* One point of a run: starts dlock, injects the fault, and judges what is left. */
#include "point.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A contender that has made no call for so long is asleep: it waits, or its command runs. */
#define QUIET_MS 60
/* How long after the last one was started the first is told to end. */
#define BEHIND_MS 100
/* How much of the TTL the first command runs: beyond a third its lease is renewed. */
#define FIRST_RUNS_PERCENT 45
/* How long after its lease at most the command of a run that was struck lives, if it may. */
#define STRUCK_RUNS_MS 1000
/* Beyond all bounds: what hangs is reported, and killed. */
#define LIMIT_MS 30000
#define FAULT_MS 3000

struct contender {
	pid_t pid;		/* 0: not started */
	bool ended;
	int status;
	int64_t started_ms, begun_ms, ended_ms;
	int begun, finished;	/* how often its command did */
	bool told;		/* to end */
	int err_fd;		/* what dlock wrote to standard error */
};

static const struct setting *set;
static const struct point *at;
static struct trace trace;
static struct strike strikes[2];
static struct contender contenders[CONTENDERS];
static int channel, signals;
static char address_name[64];
static int64_t begin_ms, busy_ms;	/* start; last moment that may delay the last one */
static unsigned long long last_fence;
static bool failed, unsafe, kept;
static bool more;			/* others may have stopped, see reap_children() */
static int late_ms;			/* by how much we woke up too late, at most */
static long running_sum, running_samples;	/* how many processes run on this machine */
static char history[16384];
static size_t history_length;

static void __attribute__((format(printf, 1, 2))) note(const char *format, ...)
{
	va_list args;
	int length;

	length = snprintf(history + history_length, sizeof(history) - history_length,
			  "  %6lld ", (long long)(now_ms() - begin_ms));
	history_length += (size_t)length;
	va_start(args, format);
	/* clang-tidy takes args for uninitialized here when it is given several files. */
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	length = vsnprintf(history + history_length, sizeof(history) - history_length - 1,
			   format, args);
	va_end(args);
	history_length += (size_t)length;
	/* A history that is too long loses its end. */
	if (history_length > sizeof(history) - 400)
		history_length = sizeof(history) - 400;
	history[history_length++] = '\n';
	history[history_length] = '\0';
}

#define fault(...)                                                                      \
	do {                                                                            \
		note("FAULT: " __VA_ARGS__);                                            \
		failed = true;                                                          \
	} while (0)

/* Of what no lack of processors may excuse, unless the tester itself has got too little. */
#define breach(...)                                                                     \
	do {                                                                            \
		fault(__VA_ARGS__);                                                     \
		unsafe = true;                                                          \
	} while (0)

static void busy_until(int64_t ms)
{
	if (ms > busy_ms)
		busy_ms = ms;
}

/* ---- starting ---- */

static socklen_t make_address(struct sockaddr_un *address, const char *name)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "%s", name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   strlen(address->sun_path + 1));
}

static void open_all(void)
{
	struct sockaddr_un address;
	sigset_t child;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	/* A process in another PID namespace may have our number, and see our sockets. */
	snprintf(address_name, sizeof(address_name), "dlock-crash-%s-%d",
		 strrchr(set->dir, '.') + 1, getpid());
	channel = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (signals < 0 || channel < 0 ||
	    bind(channel, (struct sockaddr *)&address, make_address(&address, address_name)))
		err(70, "socket or signalfd");
}

/* With a tree of its own only where the contract says that nothing of it can be left. */
static bool with_kids(void)
{
	if (set->contained)
		return true;
	for (int i = 0; i < at->strike_count; i++)
		if (at->strikes[i].reach == REACH_ALL)
			return false;
	/* Both the supervisor and the guard may be struck. */
	return !(at->strike_count == 2 && at->strikes[0].run == at->strikes[1].run);
}

static void __attribute__((noreturn)) become_dlock(int who, int go, int err_fd)
{
	char ttl[32], lock_file[256], name[2] = { (char)('0' + who), '\0' };
	const char *argv[40] = { set->dlock, "run", "-b", set->uri, "-t", ttl };
	int argc = 6, null = open("/dev/null", O_RDWR);
	sigset_t none;
	char byte;

	snprintf(ttl, sizeof(ttl), "%dms", set->ttl_ms);
	snprintf(lock_file, sizeof(lock_file), "%s/%s", set->dir, at->lock);
	for (int i = 0; set->options[i]; i++)
		argv[argc++] = set->options[i];
	argv[argc++] = at->lock;
	argv[argc++] = "--";
	argv[argc++] = set->tree;
	argv[argc++] = address_name;
	argv[argc++] = lock_file;
	argv[argc++] = name;
	argv[argc++] = with_kids() ? "1" : "0";
	argv[argc++] = at->leave && who == 0 ? "1" : "0";
	setpgid(0, 0);
	/* When a test is interrupted, dlock ends what it has started. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, 0);
	dup2(null, 1);
	dup2(err_fd, 2);
	if (read(go, &byte, 1) != 1)
		_exit(70);
	execv(set->dlock, (char *const *)argv);
	_exit(71);
}

static void start_contender(int who)
{
	struct contender *contender = &contenders[who];
	int go[2];

	contender->err_fd = memfd_create("stderr", MFD_CLOEXEC);
	if (contender->err_fd < 0 || pipe2(go, O_CLOEXEC))
		err(70, "memfd or pipe");
	contender->started_ms = now_ms();
	contender->pid = fork();
	if (contender->pid < 0)
		err(70, "fork");
	if (contender->pid == 0) {
		close(go[1]);
		become_dlock(who, go[0], contender->err_fd);
	}
	setpgid(contender->pid, contender->pid);
	note("run %d starts, pid %d", who, contender->pid);
	if ((at->traced & 1 << who) && !trace_start(&trace, contender->pid, who))
		err(70, "ptrace");
	if (write(go[1], "x", 1) != 1)
		err(70, "pipe");
	close(go[0]);
	close(go[1]);
}

/* ---- what happens ---- */

static void read_messages(void)
{
	char text[256], what[16], verdict[16] = "";
	long long time, fence = 0;
	struct contender *contender;
	ssize_t length;
	int who;

	while ((length = recv(channel, text, sizeof(text) - 1, 0)) > 0) {
		text[length] = '\0';
		if (sscanf(text, "%d %15s %lld %lld %15s", &who, what, &time, &fence,
			   verdict) < 3 || who < 0 || who >= CONTENDERS)
			continue;
		note("command of run %d: %s, at %lld %s", who, what, time - begin_ms, verdict);
		contender = &contenders[who];
		if (strcmp(what, "begin") == 0) {
			contender->begun++;
			contender->begun_ms = time;
			if (strcmp(verdict, "alone") != 0)
				breach("OVERLAP: it begins beside another one's process");
			if (fence && (unsigned long long)fence <= last_fence)
				breach("FENCE: %lld after %llu", fence, last_fence);
			last_fence = (unsigned long long)fence;
		} else if (strcmp(what, "end") == 0) {
			contender->finished++;
		}
	}
}

static struct contender *contender_of(pid_t pid)
{
	for (int i = 0; i < CONTENDERS; i++)
		if (contenders[i].pid == pid && !contenders[i].ended)
			return &contenders[i];
	return NULL;
}

static void met_end(pid_t pid, int status)
{
	struct contender *contender = contender_of(pid);

	trace_gone(&trace, pid);
	if (!contender)
		return;
	contender->ended = true;
	contender->status = status;
	contender->ended_ms = now_ms();
	if (WIFSIGNALED(status))
		note("run %d ends of signal %d", (int)(contender - contenders), WTERMSIG(status));
	else
		note("run %d ends with %d", (int)(contender - contenders), WEXITSTATUS(status));
}

static void handle_stop(pid_t pid, int status)
{
	if (WIFSTOPPED(status))
		trace_stopped(&trace, pid, status);
	else
		met_end(pid, status);
}

/*
 * Lets everybody go on who has stopped, in turn: waitpid(-1) alone would prefer the youngest,
 * and a guard that looks through /proc would keep a keeper from renewing. false: there is no
 * child left, and nothing that is traced. Sets more when it has not come to an end.
 */
static bool reap_children(void)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(signals, &info, sizeof(info)) > 0)
		;
	more = true;
	for (int turn = 0; turn < 50 && more; turn++) {
		more = false;
		for (int i = trace.thread_count - 1; i >= 0; i--) {
			/* Handling one may take others from the list. */
			if (i >= trace.thread_count)
				continue;
			pid = waitpid(trace.threads[i].tid, &status, WNOHANG | __WALL);
			if (pid > 0)
				handle_stop(pid, status);
			more = more || pid > 0;
		}
		pid = waitpid(-1, &status, WNOHANG | __WALL);
		if (pid < 0)
			return false;
		if (pid > 0)
			handle_stop(pid, status);
		more = more || pid > 0;
	}
	return true;
}

/* ---- who does what when ---- */

/* When it was struck first; 0: it was not. */
static int64_t struck_ms(int who)
{
	int64_t first_ms = 0;

	for (int i = 0; i < trace.strike_count; i++)
		if (strikes[i].done && strikes[i].run == who &&
		    (!first_ms || strikes[i].at_ms < first_ms))
			first_ms = strikes[i].at_ms;
	return first_ms;
}

static bool is_struck(int who)
{
	return struck_ms(who) != 0;
}

/* It waits, or runs its command, or will never do more than now. */
static bool has_settled(int who)
{
	const struct contender *contender = &contenders[who];
	int64_t active_ms = contender->started_ms;

	if (!contender->pid)
		return false;
	if (contender->begun || contender->ended || is_struck(who))
		return true;
	if (at->traced & 1 << who && trace.active_ms[who] > active_ms)
		active_ms = trace.active_ms[who];
	return now_ms() >= active_ms + QUIET_MS;
}

static void tell_to_end(int who)
{
	struct sockaddr_un address;
	char name[80];
	socklen_t size;

	snprintf(name, sizeof(name), "%s.%d", address_name, who);
	size = make_address(&address, name);
	sendto(channel, "x", 1, 0, (struct sockaddr *)&address, size);
	contenders[who].told = true;
	if (who < at->contenders - 1)
		busy_until(now_ms());
}

/*
 * May the lock stay taken for as long as this is stopped? It may when all that could act is
 * stopped, or more than one thing happens, or the process that the user started is stopped:
 * who suspends a job suspends it with its lock.
 */
static bool may_keep(const struct strike *strike)
{
	return at->strike_count > 1 || strike->reach != REACH_PROCESS ||
	       strcmp(strike->path, "0") == 0;
}

/*
 * Is it time for its command to end? Not for that of a run that was struck: others in its
 * place must wait until dlock has ended it, or may run beside it, which then shows.
 */
static bool time_to_end(int who, int64_t now)
{
	const struct contender *contender = &contenders[who];
	const struct contender *last = &contenders[at->contenders - 1];
	int64_t runs_ms = who == 0 ? set->ttl_ms * FIRST_RUNS_PERCENT / 100 : 20;

	if (!contender->begun || contender->told || !last->pid)
		return false;
	if (is_struck(who) && !last->begun)
		return now >= struck_ms(who) + set->ttl_ms + STRUCK_RUNS_MS;
	return now >= contender->begun_ms + runs_ms &&
	       (who > 0 || now >= last->started_ms + BEHIND_MS);
}

static void go_on(struct strike *strike, int64_t now)
{
	strike_follow(strike, at->kill_stopped ? SIGKILL : SIGCONT);
	note("what was stopped at run %d %s", strike->run,
	     at->kill_stopped ? "is killed" : "goes on");
	if (!may_keep(strike))
		return;
	kept = kept || !contenders[at->contenders - 1].begun;
	busy_until(now);
}

static void give_directions(void)
{
	int64_t now = now_ms();

	for (int i = 0; i < at->contenders; i++)
		if (!contenders[i].pid && (i == 0 || has_settled(i - 1)))
			start_contender(i);
	for (int i = 0; i < at->contenders; i++)
		if (time_to_end(i, now))
			tell_to_end(i);
	for (int i = 0; i < at->strike_count; i++) {
		struct strike *strike = &strikes[i];

		if (!strike->done)
			continue;
		busy_until(strike->at_ms);
		if (strike->pidfd_count && now >= strike->at_ms + set->stop_ms)
			go_on(strike, now);
	}
}

static bool strikes_pending(void)
{
	for (int i = 0; i < at->strike_count; i++)
		if (strikes[i].pidfd_count)
			return true;
	return false;
}

static bool all_ended(void)
{
	for (int i = 0; i < at->contenders; i++)
		if (!contenders[i].ended)
			return false;
	return true;
}

/* ---- at the end ---- */

/* Kills all children, those of others that come to us included; names them before. */
static void kill_all(void)
{
	char path[64], name[64], comm[64];
	FILE *list, *file;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	while (reap_children()) {
		list = fopen(path, "re");
		while (list && fscanf(list, "%d", &pid) == 1) {
			snprintf(name, sizeof(name), "/proc/%d/comm", pid);
			file = fopen(name, "re");
			if (file && fgets(comm, sizeof(comm), file))
				note("left: %d %.*s", pid, (int)strcspn(comm, "\n"), comm);
			if (file)
				fclose(file);
			kill(pid, SIGKILL);
		}
		if (list)
			fclose(list);
		poll(NULL, 0, 20);
	}
}

/* Has the run ended as its options allow? --max-run ends what a command has left behind. */
static bool ended_by_option(const struct contender *contender)
{
	const int code = contender->ended && WIFEXITED(contender->status)
		? WEXITSTATUS(contender->status) : -1;
	bool allowed = false;

	for (int i = 0; set->options[i]; i++)
		if (!strncmp(set->options[i], "--max-run=", strlen("--max-run=")))
			allowed |= code == 121 && contender->finished;
	return allowed;
}

static void judge_contender(int who)
{
	const struct contender *contender = &contenders[who];
	bool well = contender->ended && WIFEXITED(contender->status) &&
		    WEXITSTATUS(contender->status) == 0;

	if (contender->begun > 1)
		breach("run %d began its command %d times", who, contender->begun);
	if (well && !contender->finished)
		breach("run %d ended with 0, its command did not come to its end", who);
	if (!is_struck(who) && !well && !ended_by_option(contender))
		fault("run %d was not struck, and did not end with 0", who);
}

static void judge_point(void)
{
	const struct contender *last = &contenders[at->contenders - 1];
	int64_t waited_ms = last->begun_ms - busy_ms - set->ttl_ms;

	for (int i = 0; i < at->contenders; i++)
		judge_contender(i);
	if (!last->begun)
		fault("LATE: the last one was never served");
	else if (waited_ms > SLACK_MS)
		fault("LATE: the last one was served %lld ms after the TTL", (long long)waited_ms);
}

static void show_errors(void)
{
	char text[4096];
	ssize_t length;

	for (int i = 0; i < at->contenders; i++) {
		if (!contenders[i].pid)
			continue;
		length = pread(contenders[i].err_fd, text, sizeof(text) - 1, 0);
		if (length > 0)
			printf("  run %d wrote: %.*s", i, (int)length, text);
	}
}

/* How much is there to do for processors? Others than ours may have much to do, too. */
static void sample_load(int64_t now)
{
	static int64_t next_ms;
	char text[64] = "";
	const char *field = text;
	int fd;

	if (now < next_ms)
		return;
	next_ms = now + 50;
	fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) > 0) {
		for (int i = 0; i < 3 && field; i++)
			field = strchr(field + (i > 0), ' ');
		running_sum += field ? strtol(field, NULL, 10) : 0;
		running_samples++;
	}
	close(fd);
}

static void stand_by(void)
{
	struct pollfd fds[] = {
		{ .fd = signals, .events = POLLIN }, { .fd = channel, .events = POLLIN },
	};
	int64_t limit_ms = LIMIT_MS + (at->strike_count ? set->stop_ms : 0), left_ms = 0, now;
	int timeout_ms;

	for (;;) {
		bool anybody = reap_children();

		trace_tick(&trace);
		read_messages();
		give_directions();
		if (!anybody && all_ended())
			break;
		now = now_ms();
		if (!all_ended() || strikes_pending())
			left_ms = now + set->ttl_ms + SLACK_MS;
		/* For so long is seen how a fault goes on. */
		if (failed && limit_ms > now - begin_ms + FAULT_MS)
			limit_ms = now - begin_ms + FAULT_MS;
		if (now > begin_ms + limit_ms || now > left_ms) {
			fault("%s", all_ended() ? "LEFT: processes are left at the end" :
						  "HANGS: not all have ended");
			kill_all();
			break;
		}
		sample_load(now);
		timeout_ms = more ? 0 : all_ended() ? 50 : 15;
		poll(fds, 2, timeout_ms);
		if (now_ms() - now - timeout_ms > late_ms)
			late_ms = (int)(now_ms() - now - timeout_ms);
	}
	read_messages();
}

void point_run(const struct setting *setting, const struct point *point, struct result *result)
{
	set = setting;
	at = point;
	memcpy(strikes, point->strikes, sizeof(strikes));
	trace.strikes = strikes;
	trace.strike_count = point->strike_count;
	trace.note = note;
	begin_ms = now_ms();
	open_all();
	start_contender(0);
	stand_by();
	judge_point();
	memcpy(result->processes, trace.processes, sizeof(trace.processes));
	result->process_count = trace.process_count;
	result->kept = kept;
	result->unsafe = unsafe;
	result->late_ms = late_ms;
	result->running = running_samples ? (double)running_sum / (double)running_samples : 0;
	result->verdict = VERDICT_PASSED;
	if (failed)
		result->verdict = VERDICT_FAILED;
	else if (point->strike_count && !trace_struck_all(&trace))
		result->verdict = VERDICT_NOT_REACHED;
	if (failed || set->verbose) {
		fputs(history, stdout);
		printf("  the tester woke up %d ms late, at most; %.1f processes ran\n", late_ms,
		       result->running);
		show_errors();
	}
	fflush(stdout);
}
