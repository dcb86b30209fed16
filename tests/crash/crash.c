/* SPDX-License-Identifier: MIT */
/*
 * Strikes processes of `dlock run` at each of their system calls: see point.h for what is
 * checked, trace.h for how a process is named.
 *
 *	crash [OPTION]... DLOCK TREE URI
 *
 *	-s SCENARIO	holder	one is struck who finds the lock free; one waits behind it
 *			waiter	one is struck who waits for it, and holds it; one waits behind
 *			leave	as holder, and its command leaves a process behind
 *			pair	two processes, of the holder, of the waiter or of both, at
 *				calls chosen at random; each is killed, or stopped for a while
 *	-m MODE		kill, stop: the process; group-kill, group-stop: its dlock's job, as
 *			kill -KILL %1 does; all-kill, all-stop: all processes of its dlock
 *	-p PATH, -n N	only this process, only this call; -z MS: so long after it has begun
 *	-e N		only each N-th call
 *	-c COUNT	of pairs; -i INDEX: only this one; -r SEED. What is drawn depends on the
 *			number of calls that was counted, which varies.
 *	-k STRIKE	only this pair (two of these): RUN,PATH,CALL,ASLEEP_MS,SIGNAL; -x: what
 *			is stopped is killed, and does not go on
 *	-t TTL		of the locks, in ms; -d MS: for how long something is stopped
 *	-l NAME		what names of locks begin with; -L: names are NAME-0 to NAME-(JOBS - 1)
 *	-j JOBS		number of points at a time, fewer while the machine cannot cope
 *	-o OPTION	one more for dlock run
 *	-v		shows what happened where all is well, too
 *
 * A point that has failed while the tester was short of a processor, or only by being late, is run
 * once more at the end, with a longer TTL. Ends with "N passed, N failed".
 */
#include "point.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_JOBS 256
#define SHOWN 5			/* the most failures whose histories are shown */
#define LEAST_JOBS 8
#define AGAIN 60		/* the most points that are run once more */
#define AGAIN_TTL 3
#define COUNTING 2		/* runs without a strike, which tell what there is to strike */

struct scenario {
	const char *name;
	int contenders;
	int traced;
	bool leave, pairs;
};

static const struct scenario scenarios[] = {
	{ .name = "holder", .contenders = 2, .traced = 1 },
	{ .name = "waiter", .contenders = 3, .traced = 2 },
	{ .name = "leave", .contenders = 2, .traced = 1, .leave = true },
	{ .name = "pair", .contenders = 3, .traced = 3, .pairs = true },
};

struct mode {
	const char *name;
	int sig;
	enum reach reach;
};

static const struct mode modes[] = {
	{ "kill", SIGKILL, REACH_PROCESS },   { "stop", SIGSTOP, REACH_PROCESS },
	{ "group-kill", SIGKILL, REACH_GROUP }, { "group-stop", SIGSTOP, REACH_GROUP },
	{ "all-kill", SIGKILL, REACH_ALL },   { "all-stop", SIGSTOP, REACH_ALL },
};

struct job {
	pid_t pid;		/* 0: none */
	int out;		/* what it writes */
	size_t point;
};

static struct setting setting = { .ttl_ms = 1000, .stop_ms = 10000, .dir = "." };
static const struct scenario *scenario = &scenarios[0];
static const struct mode *mode = &modes[0];
static const char *only_path, *lock_prefix = "crash";
static unsigned int only_call, each = 1;
static int only_asleep_ms;
static bool named_by_job;
static struct strike given[2];	/* -k */
static int given_count;
static bool given_kill;		/* -x */
static int jobs = 40;
static unsigned long long seed;
static long pairs = 200, only_pair = -1;

static struct job running[MAX_JOBS];
static struct result *results;		/* one a job */
static struct point *points;
static size_t point_count, point_room;
static struct process victims[TRACE_PROCESSES];
static int victim_count;
static long passed, failures, missed, kept;
static int at_once;		/* as many points as the machine can cope with, up to jobs */
static size_t again[AGAIN];
static int again_count = -1;	/* -1: none is */
static const char *suffix = "";

/* A random number below limit; splitmix64. */
static int pick_below(unsigned long long *state, int limit)
{
	unsigned long long z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (int)((z ^ z >> 31) % (unsigned int)limit);
}

static void describe_point(const char *verdict, const struct point *point)
{
	printf("%s%s: crash -s %s", verdict, point->lock, scenario->name);
	for (int i = 0; i < point->strike_count && scenario->pairs; i++)
		printf(" -k %d,%s,%u,%d,%d", point->strikes[i].run, point->strikes[i].path,
		       point->strikes[i].call, point->strikes[i].asleep_ms,
		       point->strikes[i].sig);
	if (scenario->pairs && point->kill_stopped)
		printf(" -x");
	if (!scenario->pairs)
		printf(" -m %s -p %s -n %u", mode->name, point->strikes[0].path,
		       point->strikes[0].call);
	if (!scenario->pairs && point->strikes[0].asleep_ms)
		printf(" -z %d", point->strikes[0].asleep_ms);
	printf(" -t %d -d %d", setting.ttl_ms, setting.stop_ms);
	for (int i = 0; setting.options[i]; i++)
		printf(" -o %s", setting.options[i]);
	putchar('\n');
}

static void print_file(int file)
{
	char text[8192];
	ssize_t length;
	off_t from = 0;

	while ((length = pread(file, text, sizeof(text), from)) > 0) {
		fwrite(text, 1, (size_t)length, stdout);
		from += length;
	}
}

static void begin_job(int slot, size_t index)
{
	struct job *job = &running[slot];
	struct point *point = &points[index];

	snprintf(point->lock, sizeof(point->lock), "%s-%ld%s", lock_prefix,
		 named_by_job ? slot : point->index, named_by_job ? "" : suffix);
	results[slot] = (struct result){ .verdict = VERDICT_FAILED };
	job->point = index;
	job->out = memfd_create("out", MFD_CLOEXEC);
	fflush(stdout);
	job->pid = fork();
	if (job->out < 0 || job->pid < 0)
		err(70, "fork");
	if (job->pid == 0) {
		dup2(job->out, STDOUT_FILENO);
		point_run(&setting, point, &results[slot]);
		_exit(0);
	}
}

/*
 * Is the machine overloaded? A delay of a quarter of the time that dlock leaves for a tree to die
 * of KILL before the lease ends, which is 5 % of the TTL; or so much to read in /proc that a sweep
 * takes longer than that.
 */
static bool is_late(const struct result *result)
{
	return result->late_ms > setting.ttl_ms / 80 ||
	       result->running > 3.0 * (double)sysconf(_SC_NPROCESSORS_ONLN);
}

static void end_job(struct job *job, const struct result *result, int status)
{
	if (is_late(result))
		at_once = at_once > 2 * LEAST_JOBS ? at_once * 3 / 4 : LEAST_JOBS;
	else if (at_once < jobs)
		at_once++;
	if (status != 0)
		printf("the tester itself ended with status %#x\n", (unsigned int)status);
	if (result->verdict == VERDICT_FAILED && again_count >= 0 && again_count < AGAIN &&
	    (!result->unsafe || is_late(result))) {
		again[again_count++] = job->point;
	} else if (status != 0 || result->verdict == VERDICT_FAILED) {
		describe_point("not ok ", &points[job->point]);
		if (failures++ < SHOWN)
			print_file(job->out);
	} else {
		if (*suffix)
			describe_point("flaky: ", &points[job->point]);
		if (setting.verbose)
			print_file(job->out);
		passed++;
		missed += result->verdict == VERDICT_NOT_REACHED;
		kept += result->kept;
	}
	close(job->out);
	job->pid = 0;
}

/* Runs all points, some at a time; seen is told of each result. */
static void run_points(void (*seen)(const struct result *result))
{
	size_t next = 0;
	int busy = 0, status;
	pid_t pid;

	while (next < point_count || busy) {
		for (int i = 0; i < jobs && busy < at_once && next < point_count; i++) {
			if (running[i].pid)
				continue;
			begin_job(i, next++);
			busy++;
		}
		pid = wait(&status);
		for (int i = 0; i < jobs; i++) {
			if (running[i].pid != pid)
				continue;
			if (seen)
				seen(&results[i]);
			end_job(&running[i], &results[i], status);
			busy--;
		}
	}
}

/*
 * Once more, few at a time, and with a TTL that leaves a tree more time to die. Locks have
 * other names then.
 */
static void run_again(void)
{
	static struct point chosen[AGAIN];

	for (int i = 0; i < again_count; i++)
		chosen[i] = points[again[i]];
	point_count = (size_t)again_count;
	memcpy(points, chosen, point_count * sizeof(*points));
	again_count = -1;
	suffix = "-again";
	setting.ttl_ms *= AGAIN_TTL;
	jobs = LEAST_JOBS;
	at_once = LEAST_JOBS;
	run_points(NULL);
}

static struct point *add_point(void)
{
	if (point_count == point_room) {
		point_room = point_room ? point_room * 2 : 256;
		points = realloc(points, point_room * sizeof(*points));
		if (!points)
			err(71, "realloc");
	}
	points[point_count] = (struct point){
		.contenders = scenario->contenders, .traced = scenario->traced,
		.leave = scenario->leave, .index = (long)point_count,
	};
	return &points[point_count++];
}

/* What a run without a strike shows there to be; the counts vary somewhat with time. */
static void learn_counts(const struct result *result)
{
	for (int i = 0; i < result->process_count; i++) {
		const struct process *process = &result->processes[i];
		int v = 0;

		while (v < victim_count && (victims[v].run != process->run ||
					    strcmp(victims[v].path, process->path) != 0))
			v++;
		if (v == victim_count)
			victims[victim_count++] = *process;
		else if (process->calls > victims[v].calls)
			victims[v] = *process;
	}
}

/* What will be the command may be killed before it is; but a stopped command is no fault. */
static bool is_fit(const struct process *process, int sig)
{
	return process->calls && (sig == SIGKILL || !process->command);
}

static void plan_point(const struct process *victim, unsigned int call, int asleep_ms)
{
	struct point *point = add_point();

	point->strike_count = 1;
	point->strikes[0] = (struct strike){
		.run = victim->run, .call = call, .sig = mode->sig, .reach = mode->reach,
		.asleep_ms = asleep_ms,
	};
	strcpy(point->strikes[0].path, victim->path);
	point->kill_stopped = point_count % 2;
}

/* Each call, and in the long ones also when half of their time is over. */
static void plan_victim(const struct process *victim)
{
	printf("# %s %s (%s): %u calls, asleep in %d\n", scenario->name, victim->path,
	       victim->comm, victim->calls, victim->sleeps);
	for (unsigned int call = 1; call <= victim->calls; call++)
		if (only_call ? call == only_call && !only_asleep_ms : call % each == 0)
			plan_point(victim, call, 0);
	for (int i = 0; i < victim->sleeps && !only_call; i++)
		plan_point(victim, victim->slept[i], victim->slept_ms[i] / 2);
	if (only_asleep_ms)
		plan_point(victim, only_call, only_asleep_ms);
}

static void plan_all(void)
{
	for (int v = 0; v < victim_count; v++)
		if (is_fit(&victims[v], mode->sig) &&
		    (!only_path || strcmp(only_path, victims[v].path) == 0))
			plan_victim(&victims[v]);
}

static void plan_pair(long index)
{
	unsigned long long state = seed * 1000003ULL + (unsigned long long)index;
	struct point *point = add_point();

	point->index = index;
	while (point->strike_count < 2) {
		const struct process *victim =
			&victims[pick_below(&state, victim_count)];
		int sig = pick_below(&state, 3) ? SIGKILL : SIGSTOP;
		struct strike *strike = &point->strikes[point->strike_count];

		if (!is_fit(victim, sig))
			continue;
		*strike = (struct strike){ .run = victim->run, .sig = sig };
		strike->call = 1 + (unsigned int)pick_below(&state, (int)victim->calls);
		if (victim->sleeps && pick_below(&state, 3) == 0) {
			int i = pick_below(&state, victim->sleeps);

			strike->call = victim->slept[i];
			strike->asleep_ms = 1 + pick_below(&state, victim->slept_ms[i]);
		}
		strcpy(strike->path, victim->path);
		if (point->strike_count == 0 || strike->run != point->strikes[0].run ||
		    strcmp(strike->path, point->strikes[0].path) != 0)
			point->strike_count++;
	}
	point->kill_stopped = pick_below(&state, 2);
}

static const struct scenario *find_scenario(const char *name)
{
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (strcmp(scenarios[i].name, name) == 0)
			return &scenarios[i];
	errx(64, "%s is no scenario", name);
}

static const struct mode *find_mode(const char *name)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, name) == 0)
			return &modes[i];
	errx(64, "%s is no mode", name);
}

static void read_strike(const char *text)
{
	struct strike *strike = &given[given_count];

	if (given_count == 2 ||
	    sscanf(text, "%d,%23[0-9.],%u,%d,%d", &strike->run, strike->path, &strike->call,
		   &strike->asleep_ms, &strike->sig) != 5)
		errx(64, "%s is no strike", text);
	given_count++;
}

static void plan_given(void)
{
	struct point *point = add_point();

	memcpy(point->strikes, given, sizeof(given));
	point->strike_count = given_count;
	point->kill_stopped = given_kill;
}

static long parse_number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || end == text || value < 0)
		errx(64, "%s is no number", text);
	return value;
}

static void set_option(int option)
{
	static int options;

	switch (option) {
	case 's':
		scenario = find_scenario(optarg);
		break;
	case 'm':
		mode = find_mode(optarg);
		break;
	case 'p':
		only_path = optarg;
		break;
	case 'n':
		only_call = (unsigned int)parse_number(optarg);
		break;
	case 'z':
		only_asleep_ms = (int)parse_number(optarg);
		break;
	case 'k':
		read_strike(optarg);
		break;
	case 'x':
		given_kill = true;
		break;
	case 'v':
		setting.verbose = true;
		break;
	case 'e':
		each = (unsigned int)parse_number(optarg);
		break;
	case 'c':
		pairs = parse_number(optarg);
		break;
	case 'i':
		only_pair = parse_number(optarg);
		break;
	case 'r':
		seed = (unsigned long long)parse_number(optarg);
		break;
	case 't':
		setting.ttl_ms = (int)parse_number(optarg);
		break;
	case 'd':
		setting.stop_ms = (int)parse_number(optarg);
		break;
	case 'l':
		lock_prefix = optarg;
		break;
	case 'L':
		named_by_job = true;
		break;
	case 'j':
		jobs = (int)parse_number(optarg);
		break;
	case 'o':
		if (options == 15)
			errx(64, "too many options for dlock");
		setting.options[options++] = optarg;
		if (strcmp(optarg, "--contain") == 0)
			setting.contained = true;
		break;
	default:
		exit(64);
	}
}

static void read_arguments(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "s:m:p:n:z:e:c:i:r:t:d:l:Lj:o:vk:x")) != -1)
		set_option(option);
	if (argc != optind + 3 || jobs < 1 || jobs > MAX_JOBS || !each)
		errx(64, "usage: crash [OPTION]... DLOCK TREE URI");
	setting.dlock = argv[optind];
	setting.tree = argv[optind + 1];
	setting.uri = argv[optind + 2];
}

/* A machine that has too much to do may let a lease lapse: then once more. */
static void count_calls(void)
{
	at_once = 1;
	for (int tries = 0; tries < 3 && (tries == 0 || failures); tries++) {
		failures = 0;
		point_count = 0;
		victim_count = 0;
		for (int i = 0; i < COUNTING; i++)
			add_point();
		run_points(learn_counts);
	}
	passed = 0;
	point_count = 0;
}

static void plan_points(void)
{
	if (given_count)
		plan_given();
	for (long i = 0; i < pairs && scenario->pairs && !given_count; i++)
		if (only_pair < 0 || i == only_pair)
			plan_pair(i);
	if (!scenario->pairs)
		plan_all();
}

int main(int argc, char **argv)
{
	static const char *const settings[] = { "DLOCK_NAME", "DLOCK_TOKEN", "DLOCK_FENCE",
						"DLOCK_BACKEND", "DLOCK_TTL", "DLOCK_WAIT" };
	const char *tmp = getenv("TMPDIR");
	char dir[256], command[300];

	read_arguments(argc, argv);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		unsetenv(settings[i]);
	snprintf(dir, sizeof(dir), "%s/dlock-crash.XXXXXX", tmp ? tmp : "/tmp");
	results = mmap(NULL, sizeof(*results) * MAX_JOBS, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED)
		err(71, "mmap");
	if (!mkdtemp(dir))
		err(70, "%s", dir);
	setting.dir = dir;
	count_calls();
	if (!failures)
		plan_points();
	at_once = jobs < LEAST_JOBS ? jobs : LEAST_JOBS;
	again_count = 0;
	run_points(NULL);
	if (again_count)
		printf("# %d once more\n", again_count);
	run_again();
	printf("# in %ld a strike did not happen, in %ld what was stopped kept the lock\n", missed,
	       kept);
	snprintf(command, sizeof(command), "rm -r '%s'", dir);
	if (system(command))
		warnx("%s: not removed", dir);
	printf("%ld passed, %ld failed\n", passed, failures);
	return failures || !passed;
}
