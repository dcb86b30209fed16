/* SPDX-License-Identifier: MIT */
/*
 * Random faults against many locks at once: see README.md, and `run`, which starts the servers.
 *
 *	torture [-A MS] [-C] [-D] [-F FIRST] [-G FILE] [-H DIRECTORY] [-I NUMBER] [-K FAULTS]
 *		[-L LANES] [-M LACKS] [-N NAMES] [-P PORT] [-S] [-T SECONDS] [-V] [-W LIBRARY]
 *		[-n ROUNDS] [-s SEED]
 *		BACKEND URI DLOCK TOOLS DIRECTORY [OPTION]...
 *
 *	-A  the server is one of several, of which some may fail: its faults come MS to three and
 *	    a half times MS after the last one (4000), and every second one is a restart
 *	-C  dlock's OPTIONs have --contain
 *	-D  the server's disk can be full: -S has the order "full MS", too
 *	-F  the number of the first round (1): -F N -n 1 plays round N again
 *	-G  a file like that of wallclock.c, for the server's clock, which is then set back now
 *	    and then
 *	-H  append the holds of each round to a file in this directory that the lock has there,
 *	    BACKEND.LOCK, for the judge
 *	-I  the number of the first lane (0): several of us may share a server and a directory
 *	-K  kinds of faults, with commas (all); see plan.c for their names
 *	-L  locks at once (40)
 *	-M  what the strategy lacks, some of "shared slots order"
 *	-N  how many names a lane may use; the locks are called torture_LANE_NUMBER
 *	-P  the server's port: there is a server, and the word PORT in URI becomes that of a proxy
 *	-S  descriptor 3 gets orders for the process that has started the server, "stop MS" and
 *	    "restart"; a line on descriptor 4 confirms each
 *	-T  begin no round after so long (no limit)
 *	-V  each contender has options of its own, and some rounds are a queue
 *	-W  wallclock.so: set the contenders' clocks, in every second round
 *
 * Prints each round that fails, with its faults and its history, then what was counted: lines
 * "= WHAT NAME NUMBER". Status 1: a round has failed; the files of these stay in DIRECTORY.
 */
#include "lane.h"
#include "process.h"
#include "strike.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_LANES = 200, WORDS_FD = 3, DONE_FD = 4 };

static struct {
	struct settings settings;
	struct lane lanes[MAX_LANES];
	int lane_count, first_lane;
	unsigned first, rounds, begun, passed, failed;
	bool serves;			/* the server can be stopped and restarted */
	bool fills;			/* its disk can be full */
	bool server_busy;		/* it has such a fault */
	int apart_ms;			/* the least time from a fault of the server to the next */
	int stops_of_ten;		/* how many of ten such faults are no restart */
	int64_t server_next_ns, stop_ns;
	int64_t *server_clock;
	struct random server_random;
	unsigned outcomes[256], by_signal;
	char witness[300], proxy[300];
} torture;

/* ---- the end of a round */

static void count_outcomes(const struct lane *lane)
{
	int i;

	for (i = 0; i < lane->plan.contender_count; i++) {
		if (WIFEXITED(lane->contenders[i].status))
			torture.outcomes[WEXITSTATUS(lane->contenders[i].status)]++;
		else
			torture.by_signal++;
	}
}

/* All of a history but its beats, and the last beat of each burst. */
static void print_history(const struct lane *lane)
{
	const char *line, *end;
	size_t length;

	line = lane_history(lane, &length);
	for (; *line; line = end + 1) {
		end = strchr(line, '\n');
		if (!end)
			break;
		if (*line == '#' || !memmem(line, (size_t)(end - line), " beat ", 6))
			printf("  %.*s\n", (int)(end - line), line);
	}
}

/* What was done to the server since a little before the round began. */
static void print_server(const struct lane *lane)
{
	char path[300], line[120];
	double since = (double)lane->began_ns / 1e6 - 5000, at;
	FILE *file;

	snprintf(path, sizeof(path), "%s/server", torture.settings.directory);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "# %lf", &at) == 1 && at >= since)
			printf("  %s", line);
	if (file)
		fclose(file);
}

static void end_lane(struct lane *lane, bool failed)
{
	count_outcomes(lane);
	if (!failed) {
		torture.passed++;
		return;
	}
	torture.failed++;
	printf("FAILED: %s, seed %llu, round %u; %s\n", torture.settings.backend,
	       (unsigned long long)torture.settings.seed, lane->round, lane->history);
	print_server(lane);
	print_history(lane);
	fflush(stdout);
}

/* ---- the server: one for all lanes, and for all who share the directory */

/* What was done to the server has a file of its own, in the form of a history's remarks. */
static void note_server(const char *text)
{
	char path[300], line[120];
	int64_t now = now_ns();
	int fd;

	snprintf(path, sizeof(path), "%s/server", torture.settings.directory);
	snprintf(line, sizeof(line), "# %lld.%06lld %s\n", (long long)(now / 1000000),
		 (long long)(now % 1000000), text);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		err(74, "%s", path);
	close(fd);
}

static bool is_wanted(enum fault_kind kind)
{
	return torture.settings.plan.kinds & 1U << kind;
}

/*
 * A server whose clock is set forward ends leases that count by it, which no client can know
 * before it asks: that is outside the contract. Set back, they last longer there than the client
 * thinks, so it is only ever set back, and never put right again.
 */
static void set_server_clock(void)
{
	int back_ms = random_in(&torture.server_random, 50, 500);
	char text[64];

	__atomic_fetch_sub(torture.server_clock, (int64_t)back_ms * 1000000, __ATOMIC_RELAXED);
	snprintf(text, sizeof(text), "server's clock set back by %d ms", back_ms);
	note_server(text);
	strike_counts.struck[FAULT_SERVER_CLOCK]++;
}

static void tell_server(const char *word)
{
	if (write(WORDS_FD, word, strlen(word)) < 0)
		err(71, "nobody to look after the server");
	torture.server_busy = true;
}

/* When the server is to have its next fault. */
static int64_t server_rests(void)
{
	int ms = random_in(&torture.server_random, torture.apart_ms, torture.apart_ms * 7 / 2);

	return now_ns() + (int64_t)ms * 1000000;
}

static void server_turn(void)
{
	struct random *random = &torture.server_random;
	int drawn = random_in(random, 1, 10);
	char word[32];

	if (torture.server_busy || now_ns() < torture.server_next_ns)
		return;
	torture.server_next_ns = server_rests();
	if (torture.fills && torture.serves && random_in(random, 1, 6) == 1 &&
	    is_wanted(FAULT_SERVER_FULL)) {
		snprintf(word, sizeof(word), "full %d\n", random_in(random, 500, 5000));
		tell_server(word);
		note_server("server's disk is full");
		strike_counts.struck[FAULT_SERVER_FULL]++;
	} else if (drawn <= 3 && torture.server_clock && is_wanted(FAULT_SERVER_CLOCK)) {
		set_server_clock();
	} else if (drawn <= torture.stops_of_ten && torture.serves &&
		   is_wanted(FAULT_SERVER_STOP)) {
		snprintf(word, sizeof(word), "stop %d\n", random_in(random, 200, 3000));
		tell_server(word);
		note_server("server stopped");
		strike_counts.struck[FAULT_SERVER_STOP]++;
	} else if (drawn > torture.stops_of_ten && torture.serves &&
		   is_wanted(FAULT_SERVER_RESTART)) {
		tell_server("restart\n");
		note_server("server killed, to be started again");
		strike_counts.struck[FAULT_SERVER_RESTART]++;
	}
}

static void server_done(void)
{
	char answer[64];

	if (read(DONE_FD, answer, sizeof(answer)) <= 0)
		errx(71, "the server did not come back");
	torture.server_busy = false;
	note_server("server serves again");
	torture.server_next_ns = server_rests();
}

/* ---- the loop */

static void reap_children(int signals)
{
	struct signalfd_siginfo info;
	pid_t pid;
	int status, i;

	while (read(signals, &info, sizeof(info)) > 0) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		for (i = 0; i < torture.lane_count; i++) {
			if (torture.lanes[i].phase != PHASE_IDLE)
				strike_all(&torture.lanes[i]);
			lane_close(&torture.lanes[i]);
		}
		exit(128 + (int)info.ssi_signo);
	}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (i = 0; i < torture.lane_count; i++)
			if (lane_ended(&torture.lanes[i], pid, status))
				break;
}

/* Lets all lanes act whose time has come. Returns when the next one wants to. */
static int64_t turn_lanes(void)
{
	int64_t next = now_ns() + 1000000000;
	struct lane *lane;
	int i;

	for (i = 0; i < torture.lane_count; i++) {
		lane = &torture.lanes[i];
		if (lane->phase == PHASE_IDLE && torture.begun < torture.rounds)
			lane_begin(lane, torture.first + torture.begun++);
		if (lane->phase != PHASE_IDLE && lane->next_ns <= now_ns())
			lane_turn(lane);
		if (lane->phase == PHASE_IDLE && torture.begun < torture.rounds)
			next = 0;
		else if (lane->phase != PHASE_IDLE && lane->next_ns < next)
			next = lane->next_ns;
	}
	return next;
}

static void run_lanes(int signals)
{
	struct pollfd pfds[2] = { { .fd = signals, .events = POLLIN },
				  { .fd = torture.serves ? DONE_FD : -1, .events = POLLIN } };
	int64_t next, now;

	while (torture.passed + torture.failed < torture.rounds) {
		if (now_ns() >= torture.stop_ns)
			torture.rounds = torture.begun;
		server_turn();
		next = turn_lanes();
		/* keeps what is known of processes from going stale */
		strike_look(1000);
		now = now_ns();
		if (poll(pfds, 2, next <= now ? 0 : (int)((next - now) / 1000000) + 1) < 0 &&
		    errno != EINTR)
			err(71, "poll");
		if (pfds[1].revents)
			server_done();
		reap_children(signals);
	}
}

/* ---- the beginning and the end */

static double cpu_ms(const struct rusage *usage)
{
	return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000 +
	       (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1000;
}

static void print_summary(int64_t began_ns)
{
	struct rusage self, others;
	int i;

	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &others);
	printf("= rounds all %u\n= rounds failed %u\n", torture.rounds, torture.failed);
	for (i = 0; i < FAULT_KINDS; i++)
		if (strike_counts.struck[i])
			printf("= fault %s %u\n", fault_name((enum fault_kind)i),
			       strike_counts.struck[i]);
	for (i = 0; i < ROLES; i++)
		printf("= victim %s %u\n", role_name((enum role)i), strike_counts.roles[i]);
	printf("= victim none %u\n", strike_counts.missed);
	for (i = 0; i < 256; i++)
		if (torture.outcomes[i])
			printf("= status %d %u\n", i, torture.outcomes[i]);
	printf("= status killed %u\n= ms processor %.0f\n= ms harness %.0f\n", torture.by_signal,
	       cpu_ms(&self) + cpu_ms(&others), cpu_ms(&self));
	printf("= ms taken %lld\n", (long long)((now_ns() - began_ns) / 1000000));
}

static unsigned kinds_of(char *names)
{
	unsigned kinds = 0;
	char *name, *rest;

	for (name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		if (fault_by_name(name) == FAULT_KINDS)
			errx(64, "no such fault: %s", name);
		kinds |= 1U << fault_by_name(name);
	}
	return kinds;
}

static int64_t *map_clock(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *map;

	if (fd < 0)
		err(64, "%s", path);
	map = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		err(71, "%s", path);
	close(fd);
	return map;
}

static void take_option(struct settings *settings, int option)
{
	switch (option) {
	case 'A':
		torture.apart_ms = atoi(optarg);
		torture.stops_of_ten = 5;
		break;
	case 'C':
		settings->plan.contained = true;
		break;
	case 'D':
		torture.fills = true;
		break;
	case 'F':
		torture.first = (unsigned)strtoul(optarg, NULL, 10);
		break;
	case 'G':
		torture.server_clock = map_clock(optarg);
		break;
	case 'H':
		settings->whole = optarg;
		break;
	case 'I':
		torture.first_lane = atoi(optarg);
		break;
	case 'K':
		settings->plan.kinds = kinds_of(optarg);
		break;
	case 'L':
		torture.lane_count = atoi(optarg);
		break;
	case 'M':
		settings->plan.shared = !strstr(optarg, "shared");
		settings->plan.slots = !strstr(optarg, "slots");
		settings->fair = !strstr(optarg, "order");
		break;
	case 'N':
		settings->names = atoi(optarg);
		break;
	case 'P':
		settings->server_port = atoi(optarg);
		settings->plan.network = true;
		break;
	case 'S':
		torture.serves = true;
		break;
	case 'T':
		torture.stop_ns = now_ns() + atoll(optarg) * 1000000000;
		break;
	case 'V':
		settings->plan.varied = true;
		break;
	case 'W':
		settings->wallclock = optarg;
		break;
	case 'n':
		torture.rounds = (unsigned)strtoul(optarg, NULL, 10);
		break;
	case 's':
		settings->seed = strtoull(optarg, NULL, 10);
		break;
	default:
		errx(64, "see the head of torture.c");
	}
}

static void take_arguments(int argc, char **argv)
{
	struct settings *settings = &torture.settings;
	char word[64];
	int option;

	*settings = (struct settings){ .seed = 1, .names = 1000000, .fair = true,
				       .done = end_lane };
	settings->plan = (struct plan_options){ .shared = true, .slots = true, .kinds = ~0U };
	torture.first = 1;
	torture.rounds = 100;
	torture.stop_ns = INT64_MAX;
	torture.lane_count = 40;
	torture.apart_ms = 4000;
	torture.stops_of_ten = 8;
	while ((option = getopt(argc, argv, "+A:CDF:G:H:I:K:L:M:N:P:ST:VW:n:s:")) != -1)
		take_option(settings, option);
	if (argc - optind < 5 || torture.lane_count < 1 || torture.lane_count > MAX_LANES ||
	    settings->names < 1)
		errx(64, "see the head of torture.c");
	settings->backend = argv[optind];
	settings->uri = argv[optind + 1];
	settings->dlock = argv[optind + 2];
	snprintf(torture.witness, sizeof(torture.witness), "%s/witness", argv[optind + 3]);
	snprintf(torture.proxy, sizeof(torture.proxy), "%s/proxy", argv[optind + 3]);
	settings->witness = torture.witness;
	settings->proxy = torture.proxy;
	settings->directory = argv[optind + 4];
	settings->options = argv + optind + 5;
	snprintf(word, sizeof(word), "%s-%d", settings->backend, (int)getpid());
	process_word(word);
	torture.server_random = (struct random){ settings->seed };
}

int main(int argc, char **argv)
{
	int64_t began_ns = now_ns();
	sigset_t set;
	int signals, i;

	take_arguments(argc, argv);
	if (torture.serves &&
	    (fcntl(WORDS_FD, F_SETFD, FD_CLOEXEC) != 0 || fcntl(DONE_FD, F_SETFD, FD_CLOEXEC) != 0))
		err(64, "-S");
	/* what loses its parents becomes a child of this process, as of an init that reaps */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		err(71, "signalfd");
	if (torture.lane_count > (int)torture.rounds)
		torture.lane_count = (int)torture.rounds;
	for (i = 0; i < torture.lane_count; i++)
		lane_open(&torture.lanes[i], &torture.settings, torture.first_lane + i);
	/* soon, unless they are to be rare */
	torture.server_next_ns = torture.apart_ms < 10000 ? now_ns() + 2000000000 : server_rests();
	run_lanes(signals);
	for (i = 0; i < torture.lane_count; i++)
		lane_close(&torture.lanes[i]);
	print_summary(began_ns);
	return torture.failed > 0;
}
