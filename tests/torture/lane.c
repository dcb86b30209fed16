/* SPDX-License-Identifier: MIT */
/* One lane: starts contenders for a lock, and records their history. */
#include "lane.h"

#include "process.h"
#include "strike.h"
#include "verdict.h"

#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long things may take that the contract bounds: generous, for machines that are busy. */
enum { ROUND_LIMIT_MS = 60000, PROBE_LIMIT_MS = 60000, LEFT_LIMIT_MS = 20000 };

int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- the history */

static void write_line(const char *path, const char *line)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		err(74, "%s", path);
	close(fd);
}

/* TIME as the history has it, with what is to stand before it. */
static int format_time(char *line, size_t size, const char *before, int64_t ns)
{
	return snprintf(line, size, "%s%lld.%06lld ", before, (long long)(ns / 1000000),
			(long long)(ns % 1000000));
}

static void note_event(struct lane *lane, const char *what, const char *format, va_list args)
{
	char line[600];
	int length = format_time(line, sizeof(line), "# ", now_ns());

	length += snprintf(line + length, sizeof(line) - (size_t)length, "%s", what);
	vsnprintf(line + length, sizeof(line) - (size_t)length - 1, format, args);
	strcat(line, "\n");
	write_line(lane->history, line);
}

void lane_note(struct lane *lane, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	note_event(lane, "", format, args);
	va_end(args);
}

void lane_find(struct lane *lane, const char *format, ...)
{
	va_list args;

	if (lane->findings++ >= MAX_FINDINGS)
		return;
	va_start(args, format);
	note_event(lane, "FINDING: ", format, args);
	va_end(args);
}

const char *lane_history(const struct lane *lane, size_t *length)
{
	static char *text;
	static size_t capacity;
	struct stat stat;
	ssize_t n = 0;
	int fd;

	*length = 0;
	fd = open(lane->history, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &stat) != 0)
		err(74, "%s", lane->history);
	if (!text || capacity < (size_t)stat.st_size + 1) {
		capacity = 2 * (size_t)stat.st_size + 65536;
		text = realloc(text, capacity);
		if (!text)
			err(71, "realloc");
	}
	n = read(fd, text, (size_t)stat.st_size);
	close(fd);
	*length = n < 0 ? 0 : (size_t)n;
	text[*length] = '\0';
	return text;
}

/* The last hold of the rounds before: the fences of this one have to be greater. */
static void carry_over(struct lane *lane)
{
	const struct hold *hold = &lane->carried;
	char line[200];
	int length;

	if (!hold->fence)
		return;
	length = format_time(line, sizeof(line), "", hold->begin_ns);
	snprintf(line + length, sizeof(line) - (size_t)length, "begin before 0 %llu x\n",
		 hold->fence);
	write_line(lane->history, line);
	length = format_time(line, sizeof(line), "", hold->last_ns);
	snprintf(line + length, sizeof(line) - (size_t)length, "beat before 0\n");
	write_line(lane->history, line);
}

/* ---- processes */

/* What a contender is called in the history. A probe that fails is followed by another one. */
static void hold_name(const struct lane *lane, int who, char *name, size_t size)
{
	if (who == PROBE)
		snprintf(name, size, "probe%d", lane->probes);
	else
		snprintf(name, size, "c%d", who);
}

static void spawn_contender(struct lane *lane, int who, char **argv)
{
	char mark[120], clock[330], preload[330], *environment[6];
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int i = 0, code;

	process_mark(mark, sizeof(mark), lane->round, who);
	environment[i++] = mark;
	environment[i++] = (char *)"PATH=/usr/bin:/bin:/usr/sbin:/sbin";
	environment[i++] = (char *)"XDG_CONFIG_HOME=/nonexistent";
	if (lane->clocked) {
		snprintf(clock, sizeof(clock), "TORTURE_CLOCK=%s/clock.%d",
			 lane->settings->directory, lane->index);
		snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", lane->settings->wallclock);
		environment[i++] = clock;
		environment[i++] = preload;
	}
	environment[i] = NULL;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
						      POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, 1, lane->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	posix_spawn_file_actions_adddup2(&files, 1, 2);
	lane->contenders[who].start_ns = now_ns();
	code = posix_spawn(&lane->contenders[who].pid, argv[0], &files, &attributes, argv,
			   environment);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	if (code != 0)
		errx(71, "%s: %s", argv[0], strerror(code));
	lane->contenders[who].ended = false;
}

/* Those of a contender's options, up to the lock's name, that are not in its line "start". */
static void note_options(struct lane *lane, const char *hold, char **option)
{
	char text[200] = "";

	for (; strcmp(*option, lane->name) != 0; option++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s", *option);
	if (*text)
		lane_note(lane, "%s has%s", hold, text);
}

/* A contender as it is planned; the probe is one that waits for its turn and ends at once. */
static void start_contender(struct lane *lane, int who, const struct contender_plan *plan)
{
	char ttl[16], wait[16], kill_after[16], hold[16], mode[16], lasts[16], slots[24];
	char min_hold[24], max_run[24];
	char *argv[56];
	int i = 0, k;

	/* that the lock can be had is the question, not whether it can be kept on a busy machine */
	snprintf(ttl, sizeof(ttl), "%dms", who == PROBE ? 10000 : lane->plan.ttl_ms);
	snprintf(wait, sizeof(wait), "-w%dms", plan->wait_ms);
	snprintf(kill_after, sizeof(kill_after), "%dms", plan->kill_after_ms);
	hold_name(lane, who, hold, sizeof(hold));
	snprintf(mode, sizeof(mode), plan->slots > 0 ? "%d" : plan->slots < 0 ? "s" : "x",
		 plan->slots);
	snprintf(slots, sizeof(slots), "--slots=%d", plan->slots);
	snprintf(lasts, sizeof(lasts), "%d", plan->command_ms);
	snprintf(min_hold, sizeof(min_hold), "--min-hold=%dms", plan->min_hold_ms);
	snprintf(max_run, sizeof(max_run), "--max-run=%dms", plan->max_run_ms);
	argv[i++] = (char *)lane->settings->dlock;
	argv[i++] = (char *)"run";
	argv[i++] = (char *)"-b";
	argv[i++] = lane->uri;
	argv[i++] = (char *)"-t";
	argv[i++] = ttl;
	argv[i++] = (char *)"-k";
	argv[i++] = kill_after;
	argv[i++] = plan->wait_ms ? wait : (char *)"-n";
	if (plan->slots)
		argv[i++] = plan->slots > 0 ? slots : (char *)"-s";
	if (plan->min_hold_ms)
		argv[i++] = min_hold;
	if (plan->max_run_ms)
		argv[i++] = max_run;
	if (plan->no_renew)
		argv[i++] = (char *)"--no-renew";
	if (plan->contain)
		argv[i++] = (char *)"--contain";
	if (plan->if_down_wait)
		argv[i++] = (char *)"--if-down=wait";
	if (plan->leftovers_wait)
		argv[i++] = (char *)"--leftovers=wait";
	for (k = 0; lane->settings->options[k] && i < 36; k++)
		argv[i++] = lane->settings->options[k];
	argv[i++] = lane->name;
	argv[i++] = (char *)"--";
	argv[i++] = (char *)lane->settings->witness;
	argv[i++] = (char *)"-H";
	argv[i++] = lane->history;
	argv[i++] = (char *)"-n";
	argv[i++] = hold;
	argv[i++] = (char *)"-m";
	argv[i++] = mode;
	argv[i++] = (char *)"-e20";
	argv[i++] = (char *)"-f";
	argv[i++] = lasts;
	if (plan->daemon)
		argv[i++] = (char *)"-d";
	if (plan->ignores_term)
		argv[i++] = (char *)"-i";
	argv[i] = NULL;
	spawn_contender(lane, who, argv);
	note_options(lane, hold, argv + 8);
	lane_note(lane, "start %s: pid %d, -t %s %s -k %s, mode %s, %s ms%s%s", hold,
		  (int)lane->contenders[who].pid, ttl, plan->wait_ms ? wait : "-n", kill_after,
		  mode, lasts, plan->daemon ? ", with a daemon" : "",
		  plan->ignores_term ? ", ignores TERM" : "");
}

bool lane_ended(struct lane *lane, pid_t pid, int status)
{
	struct contender *contender;
	char line[120], hold[16];
	int who, length;

	for (who = 0; who <= PROBE; who++) {
		contender = &lane->contenders[who];
		if (contender->pid != pid || contender->ended)
			continue;
		contender->ended = true;
		contender->exit_ns = now_ns();
		contender->status = status;
		length = format_time(line, sizeof(line), WIFEXITED(status) ? "" : "# ",
				     contender->exit_ns);
		length += snprintf(line + length, sizeof(line) - (size_t)length, "%s ",
				   WIFEXITED(status) ? "exit" : "killed");
		hold_name(lane, who, hold, sizeof(hold));
		snprintf(line + length, sizeof(line) - (size_t)length, "%s %d\n", hold,
			 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
		write_line(lane->history, line);
		lane->next_ns = 0;
		return true;
	}
	return false;
}

/* ---- a lane */

static void set_name(struct lane *lane)
{
	snprintf(lane->name, sizeof(lane->name), "torture_%d_%d", lane->index,
		 lane->name_number % lane->settings->names);
}

static uint16_t start_proxy(struct lane *lane)
{
	char target[16], answer[16] = "";
	int ends[2], port;

	snprintf(lane->control, sizeof(lane->control), "%s/proxy.%d", lane->settings->directory,
		 lane->index);
	snprintf(target, sizeof(target), "%d", lane->settings->server_port);
	if (pipe2(ends, O_CLOEXEC) != 0)
		err(71, "pipe");
	lane->proxy = fork();
	if (lane->proxy < 0)
		err(71, "fork");
	if (lane->proxy == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], 1);
		/* its only complaint is that nobody waits for its answers */
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
		execl(lane->settings->proxy, "proxy", target, lane->control, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	if (read(ends[0], answer, sizeof(answer) - 1) <= 0)
		errx(71, "the proxy did not start");
	close(ends[0]);
	port = atoi(answer);
	return (uint16_t)port;
}

static void open_clock(struct lane *lane)
{
	char path[330];
	void *map;
	int fd;

	snprintf(path, sizeof(path), "%s/clock.%d", lane->settings->directory, lane->index);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*lane->clock)) != 0)
		err(74, "%s", path);
	map = mmap(NULL, sizeof(*lane->clock), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		err(71, "mmap");
	close(fd);
	lane->clock = map;
}

void lane_open(struct lane *lane, const struct settings *settings, int index)
{
	const char *at = strstr(settings->uri, "PORT");

	memset(lane, 0, sizeof(*lane));
	lane->settings = settings;
	lane->index = index;
	if (settings->server_port && at)
		snprintf(lane->uri, sizeof(lane->uri), "%.*s%u%s", (int)(at - settings->uri),
			 settings->uri, start_proxy(lane), at + 4);
	else
		snprintf(lane->uri, sizeof(lane->uri), "%s", settings->uri);
	if (settings->wallclock)
		open_clock(lane);
	set_name(lane);
}

void lane_close(struct lane *lane)
{
	if (lane->proxy)
		kill(lane->proxy, SIGKILL);
	if (lane->clock)
		munmap(lane->clock, sizeof(*lane->clock));
}

void lane_begin(struct lane *lane, unsigned round)
{
	const struct settings *settings = lane->settings;
	struct plan_options options = settings->plan;

	lane->round = round;
	lane->clocked = options.clock = lane->clock && round % 2 == 0;
	plan_make(&lane->plan, &options, settings->seed, settings->backend, round);
	snprintf(lane->history, sizeof(lane->history), "%s/%s.%u.history", settings->directory,
		 settings->backend, round);
	snprintf(lane->log, sizeof(lane->log), "%s/%s.%u.log", settings->directory,
		 settings->backend, round);
	memset(lane->contenders, 0, sizeof(lane->contenders));
	memset(lane->strikes, 0, sizeof(lane->strikes));
	lane->findings = lane->probes = 0;
	lane->late_ns = 0;
	lane->phase = PHASE_RUN;
	lane->began_ns = lane->phase_ns = now_ns();
	lane->next_ns = 0;
	lane_note(lane, "backend %s, seed %llu, round %u, lock %s at %s", settings->backend,
		  (unsigned long long)settings->seed, round, lane->name, lane->uri);
	carry_over(lane);
}

static void enter_phase(struct lane *lane, enum phase phase)
{
	lane->phase = phase;
	lane->phase_ns = now_ns();
	lane->next_ns = 0;
}

static int since_ms(int64_t then_ns)
{
	return (int)((now_ns() - then_ns) / 1000000);
}

static void wake_at(struct lane *lane, int64_t ns)
{
	if (lane->next_ns > ns)
		lane->next_ns = ns;
}

/* Returns how many contenders have not ended. */
static int run_contenders(struct lane *lane)
{
	struct contender *contender;
	int i, left = 0;
	int64_t due;

	for (i = 0; i < lane->plan.contender_count; i++) {
		contender = &lane->contenders[i];
		due = lane->began_ns + (int64_t)lane->plan.contenders[i].start_ms * 1000000;
		if (!contender->pid && now_ns() >= due)
			start_contender(lane, i, &lane->plan.contenders[i]);
		else if (!contender->pid)
			wake_at(lane, due);
		left += !contender->ended;
	}
	return left;
}

/* Returns how many faults last. Those that have not begun when all has ended never do. */
static int run_faults(struct lane *lane, bool all_ended)
{
	struct strike *strike;
	int i, lasting = 0;
	int64_t due;

	for (i = 0; i < lane->plan.fault_count; i++) {
		strike = &lane->strikes[i];
		due = lane->began_ns + (int64_t)lane->plan.faults[i].at_ms * 1000000;
		if (!strike->fired && !all_ended) {
			if (now_ns() >= due)
				strike_fire(lane, i);
			else
				wake_at(lane, due);
		}
		if (!strike->fired || strike->over)
			continue;
		if (now_ns() >= strike->until_ns) {
			strike_end(lane, i);
		} else {
			wake_at(lane, strike->until_ns);
			lasting++;
		}
	}
	return lasting;
}

static void start_probe(struct lane *lane)
{
	static const struct contender_plan probe = { .command_ms = 1, .wait_ms = 10000,
						     .kill_after_ms = 100 };

	start_contender(lane, PROBE, &probe);
}

static void turn_run(struct lane *lane)
{
	int left = run_contenders(lane), i;

	if (run_faults(lane, left == 0) == 0 && left == 0) {
		strike_proxy(lane, "pass");
		strike_proxy(lane, "cut-after 0");
		enter_phase(lane, PHASE_PROBE);
		start_probe(lane);
		return;
	}
	if (since_ms(lane->began_ns) < ROUND_LIMIT_MS) {
		wake_at(lane, lane->began_ns + (int64_t)ROUND_LIMIT_MS * 1000000);
		return;
	}
	for (i = 0; i < lane->plan.contender_count; i++)
		if (!lane->contenders[i].ended)
			lane_find(lane, "c%d has not ended within %d s", i, ROUND_LIMIT_MS / 1000);
	for (i = 0; i < lane->plan.fault_count; i++)
		strike_end(lane, i);
	strike_proxy(lane, "pass");
	strike_all(lane);
	enter_phase(lane, PHASE_LEFT);
}

/* Is the lock free? Whoever asks for it gets it. */
static void turn_probe(struct lane *lane)
{
	struct contender *probe = &lane->contenders[PROBE];

	if (!probe->ended) {
		wake_at(lane, lane->phase_ns + 2LL * PROBE_LIMIT_MS * 1000000);
		if (since_ms(lane->phase_ns) < 2 * PROBE_LIMIT_MS)
			return;
		lane_find(lane, "the lock's probe hangs");
		strike_all(lane);
	} else if (WIFEXITED(probe->status) && WEXITSTATUS(probe->status) == 0) {
		enter_phase(lane, PHASE_LEFT);
		return;
	} else if (since_ms(lane->phase_ns) < PROBE_LIMIT_MS) {
		/* the server may be down: not at once */
		if (now_ns() < lane->retry_ns) {
			lane->next_ns = lane->retry_ns;
			return;
		}
		lane->retry_ns = now_ns() + 500000000;
		lane->probes++;
		start_probe(lane);
		return;
	} else {
		lane_find(lane, "the lock was not free %d s after its last contender had ended",
			  PROBE_LIMIT_MS / 1000);
	}
	enter_phase(lane, PHASE_LEFT);
}

static void tell_finding(void *context, const char *finding)
{
	lane_find(context, "%s", finding);
}

/* One hold of this round for the history of all rounds: its begin, last sign of life and exit. */
static void keep_hold(const struct lane *lane, const char *path, const struct hold *hold)
{
	char text[400], mode[16], fence[24] = "-";
	int length;

	if (hold->fence)
		snprintf(fence, sizeof(fence), "%llu", hold->fence);
	snprintf(mode, sizeof(mode), hold->slots > 0 ? "%d" : hold->slots < 0 ? "s" : "x",
		 hold->slots);
	length = format_time(text, sizeof(text), "", hold->begin_ns);
	length += snprintf(text + length, sizeof(text) - (size_t)length,
			   "begin %u.%s %lld %s %s\n", lane->round, hold->name, hold->pid, fence,
			   mode);
	length += format_time(text + length, sizeof(text) - (size_t)length, "", hold->last_ns);
	length += snprintf(text + length, sizeof(text) - (size_t)length, "beat %u.%s %lld\n",
			   lane->round, hold->name, hold->pid);
	if (hold->exit_ns) {
		length += format_time(text + length, sizeof(text) - (size_t)length, "",
				      hold->exit_ns);
		snprintf(text + length, sizeof(text) - (size_t)length, "exit %u.%s 0\n",
			 lane->round, hold->name);
	}
	write_line(path, text);
}

static void keep_holds(const struct lane *lane, const struct history *history)
{
	char path[330];
	size_t i;

	snprintf(path, sizeof(path), "%s/%s.%s", lane->settings->whole, lane->settings->backend,
		 lane->name);
	for (i = 0; i < history->count; i++)
		if (strcmp(history->holds[i].name, "before") != 0)
			keep_hold(lane, path, &history->holds[i]);
}

static void judge_lane(struct lane *lane)
{
	struct history history;
	const char *text;
	size_t length, i;

	text = lane_history(lane, &length);
	if (history_check(text, length, &history, tell_finding, lane) < 0)
		errx(71, "out of memory");
	verdict_round(lane, &history);
	if (lane->settings->whole)
		keep_holds(lane, &history);
	for (i = 0; i < history.count; i++)
		if (history.holds[i].fence > lane->carried.fence)
			lane->carried = history.holds[i];
	history_free(&history);
}

/* Is anything left of the round? Then it is looked for again, up to the limit. */
static bool is_left(struct lane *lane)
{
	const struct process *process;
	const char *name;
	bool late = since_ms(lane->phase_ns) >= LEFT_LIMIT_MS, left = false;
	size_t at = 0;

	strike_look(50);
	while ((process = process_next(lane->round, -1, &at))) {
		name = process_name(process->pid);
		if (!*name)
			continue;
		left = true;
		if (late)
			lane_find(lane, "process %d (%s) of c%d is left after %d s",
				  (int)process->pid, name, process->contender,
				  LEFT_LIMIT_MS / 1000);
	}
	if (left && late)
		strike_all(lane);
	return left && !late;
}

static void turn_left(struct lane *lane)
{
	if (is_left(lane)) {
		lane->next_ns = now_ns() + 150000000;
		return;
	}
	judge_lane(lane);
	if (lane->findings) {
		/* what was found must not be found again in the next round */
		lane->name_number++;
		set_name(lane);
		lane->carried = (struct hold){ 0 };
	}
	lane->phase = PHASE_IDLE;
	lane->settings->done(lane, lane->findings > 0);
	if (!lane->findings) {
		unlink(lane->history);
		unlink(lane->log);
	}
	if (lane->clock)
		__atomic_store_n(lane->clock, 0, __ATOMIC_RELAXED);
}

void lane_turn(struct lane *lane)
{
	int64_t late_ns = lane->next_ns ? now_ns() - lane->next_ns : 0;

	if (lane->late_ns < late_ns)
		lane->late_ns = late_ns;
	lane->next_ns = INT64_MAX;
	switch (lane->phase) {
	case PHASE_RUN:
		turn_run(lane);
		break;
	case PHASE_PROBE:
		turn_probe(lane);
		break;
	case PHASE_LEFT:
		turn_left(lane);
		break;
	case PHASE_IDLE:
		break;
	}
}
