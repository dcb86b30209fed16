/* SPDX-License-Identifier: MIT */
/*
 * Random faults against many locks at once: see README.md, and `run`, which starts the servers.
 *
 *	torture [-C] [-F FIRST] [-G FILE] [-K FAULTS] [-L LANES] [-M LACKS] [-N NAMES] [-P PORT]
 *		[-S] [-W LIBRARY] [-n ROUNDS] [-s SEED] BACKEND URI DLOCK TOOLS DIRECTORY
 *		[OPTION]...
 *
 *	-C  dlock's OPTIONs have --contain
 *	-F  the number of the first round (1): -F N -n 1 plays round N again
 *	-G  a file like that of wallclock.c, for the server's clock, which is then set back now
 *	    and then
 *	-K  kinds of faults, with commas (all); see plan.c for their names
 *	-L  locks at once (40)
 *	-M  what the strategy lacks, some of "shared slots"
 *	-N  how many names a lane may use; the locks are called torture_LANE_NUMBER
 *	-P  the server's port: there is a server, and the word PORT in URI becomes that of a proxy
 *	-S  descriptor 3 takes words for whoever has started the server, "stop MS" and "restart";
 *	    a line on descriptor 4 tells that it is done
 *	-W  wallclock.so: set the contenders' clocks
 *
 * Prints each round that fails, with its faults and its history, and a summary. Status 1: a round
 * has failed; the files of these stay in DIRECTORY.
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
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_LANES = 200, WORDS_FD = 3, DONE_FD = 4 };

static struct {
	struct settings settings;
	struct lane lanes[MAX_LANES];
	int lane_count;
	unsigned first, rounds, begun, passed, failed;
	bool serves;			/* the server can be stopped and restarted */
	bool server_busy;		/* it is being so */
	int64_t server_next_ns;
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

static void done(struct lane *lane, bool failed)
{
	count_outcomes(lane);
	if (!failed) {
		torture.passed++;
		return;
	}
	torture.failed++;
	printf("FAILED: %s, seed %llu, round %u; %s\n", torture.settings.backend,
	       (unsigned long long)torture.settings.seed, lane->round, lane->history);
	print_history(lane);
	fflush(stdout);
}

/* ---- the server: one for all lanes */

static void note_all(const char *text)
{
	int i;

	for (i = 0; i < torture.lane_count; i++)
		if (torture.lanes[i].phase != PHASE_IDLE)
			lane_note(&torture.lanes[i], "%s", text);
}

static bool wanted(enum fault_kind kind)
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
	note_all(text);
	strike_counts.struck[FAULT_SERVER_CLOCK]++;
}

static void tell_server(const char *word)
{
	if (write(WORDS_FD, word, strlen(word)) < 0)
		err(71, "nobody to look after the server");
	torture.server_busy = true;
}

static void server_turn(void)
{
	struct random *random = &torture.server_random;
	int drawn = random_in(random, 1, 10);
	char word[32];

	if (torture.server_busy || now_ns() < torture.server_next_ns)
		return;
	torture.server_next_ns = now_ns() + (int64_t)random_in(random, 4000, 14000) * 1000000;
	if (drawn <= 3 && torture.server_clock && wanted(FAULT_SERVER_CLOCK)) {
		set_server_clock();
	} else if (drawn <= 8 && torture.serves && wanted(FAULT_SERVER_STOP)) {
		snprintf(word, sizeof(word), "stop %d\n", random_in(random, 200, 3000));
		tell_server(word);
		note_all("server stopped");
		strike_counts.struck[FAULT_SERVER_STOP]++;
	} else if (drawn > 8 && torture.serves && wanted(FAULT_SERVER_RESTART)) {
		tell_server("restart\n");
		note_all("server killed, to be started again");
		strike_counts.struck[FAULT_SERVER_RESTART]++;
	}
}

static void server_done(void)
{
	char answer[64];

	if (read(DONE_FD, answer, sizeof(answer)) <= 0)
		errx(71, "the server did not come back");
	torture.server_busy = false;
	note_all("server serves again");
	torture.server_next_ns = now_ns() +
				 (int64_t)random_in(&torture.server_random, 4000, 14000) * 1000000;
}

/* ---- the loop */

static void reap(int signals)
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

static void loop(int signals)
{
	struct pollfd pfds[2] = { { .fd = signals, .events = POLLIN },
				  { .fd = torture.serves ? DONE_FD : -1, .events = POLLIN } };
	int64_t next, now;

	while (torture.passed + torture.failed < torture.rounds) {
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
		reap(signals);
	}
}

/* ---- the beginning and the end */

static void summary(int64_t began_ns)
{
	int i;

	printf("%s: %u rounds in %lld s, %u failed, seed %llu\n", torture.settings.backend,
	       torture.rounds, (long long)((now_ns() - began_ns) / 1000000000), torture.failed,
	       (unsigned long long)torture.settings.seed);
	printf("  faults:");
	for (i = 0; i < FAULT_KINDS; i++)
		if (strike_counts.struck[i])
			printf(" %s %u", fault_name((enum fault_kind)i), strike_counts.struck[i]);
	printf("\n  killed or stopped:");
	for (i = 0; i < ROLES; i++)
		printf(" %s %u", role_name((enum role)i), strike_counts.roles[i]);
	printf("; struck nobody: %u\n  dlock ended with:", strike_counts.missed);
	for (i = 0; i < 256; i++)
		if (torture.outcomes[i])
			printf(" %d: %u", i, torture.outcomes[i]);
	printf("; killed: %u\n", torture.by_signal);
}

static unsigned kinds_of(char *names)
{
	unsigned kinds = 0;
	char *name;

	for (name = strtok(names, ","); name; name = strtok(NULL, ",")) {
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
	case 'C':
		settings->plan.contained = true;
		break;
	case 'F':
		torture.first = (unsigned)strtoul(optarg, NULL, 10);
		break;
	case 'G':
		torture.server_clock = map_clock(optarg);
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
	case 'W':
		settings->wallclock = optarg;
		settings->plan.clock = true;
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

	*settings = (struct settings){ .seed = 1, .names = 1000000, .done = done };
	settings->plan = (struct plan_options){ .shared = true, .slots = true, .kinds = ~0U };
	torture.first = 1;
	torture.rounds = 100;
	torture.lane_count = 40;
	while ((option = getopt(argc, argv, "+CF:G:K:L:M:N:P:SW:n:s:")) != -1)
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
		lane_open(&torture.lanes[i], &torture.settings, i);
	torture.server_next_ns = now_ns() + 2000000000;
	loop(signals);
	for (i = 0; i < torture.lane_count; i++)
		lane_close(&torture.lanes[i]);
	summary(began_ns);
	return torture.failed > 0;
}
