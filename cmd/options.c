/* SPDX-License-Identifier: MIT */
/* The table of options, and the parser of the command line that uses it. */
#include "options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/memory.h"
#include "base/text.h"
#include "config.h"

/* The commands that use a backend, and those that take a lock. */
#define BACKEND_COMMANDS (COMMAND_RUN | COMMAND_ACQUIRE | COMMAND_RENEW | COMMAND_VERIFY | \
			  COMMAND_RELEASE | COMMAND_STATUS | COMMAND_WAIT | \
			  COMMAND_BREAK | COMMAND_CHECK | COMMAND_SETUP)
#define HOLDING_COMMANDS (COMMAND_RUN | COMMAND_ACQUIRE)
#define WAITING_COMMANDS (HOLDING_COMMANDS | COMMAND_WAIT)
#define ALL_COMMANDS (BACKEND_COMMANDS | COMMAND_COMPLETION | COMMAND_HELP | COMMAND_VERSION)

#define FIELD(name) offsetof(struct options, name)

/* The first OPTIONS_USUAL rows are those that help shows first. */
const struct option_row option_rows[] = {
	{ 'b', "backend", "URI", "where the lock lives: a URI, or a name from the configuration "
	  "file (default: file:)", BACKEND_COMMANDS, OPTION_URI, FIELD(backend), 0, 0 },
	{ 'n', "nonblock", NULL, "do not wait (also --nonblocking, --nb, --no-wait)",
	  HOLDING_COMMANDS, OPTION_FLAG, FIELD(nonblock), 0, 0 },
	{ 'w', "wait", "DUR", "wait no longer than this, or 'none' for no limit, the default "
	  "(also --timeout)", WAITING_COMMANDS, OPTION_WAIT, FIELD(wait_ms), 0, 0 },
	{ 'E', "conflict-exit-code", "N", "exit status when the lock is taken (default: 124)",
	  WAITING_COMMANDS, OPTION_NUMBER, FIELD(conflict_exit_code), 0, 255 },
	{ 't', "ttl", "DUR", "TTL of the lease, at least 1s (default: 30s)", HOLDING_COMMANDS,
	  OPTION_TTL, FIELD(run.asked_ttl_ms), 0, 0 },
	{ 'c', "command", "STRING", "run 'sh -c STRING' in place of a command",
	  COMMAND_RUN, OPTION_TEXT, FIELD(shell[2]), 1, 0 },
	{ 0, "once-per", "DUR", "let the command succeed once in this time on all hosts together; "
	  "when it fails, another host runs it", COMMAND_RUN, OPTION_DURATION,
	  FIELD(run.once_ms), 1, 0 },
	{ 0, "max-run", "DUR", "stop the command when it has run for this long",
	  COMMAND_RUN, OPTION_DURATION, FIELD(run.max_run_ms), 0, 0 },
	{ 'q', "quiet", NULL, "print only errors, and warnings of a lost lock", BACKEND_COMMANDS,
	  OPTION_SET, FIELD(least), LEVEL_ERROR, 0 },
	{ 'v', "verbose", NULL, "report each step", BACKEND_COMMANDS, OPTION_SET, FIELD(least),
	  LEVEL_STEP, 0 },
	{ 't', "ttl", "DUR", "TTL from now on, at least 1s (default: the hold's)",
	  COMMAND_RENEW, OPTION_TTL, FIELD(run.asked_ttl_ms), 0, 0 },
	{ 's', "shared", NULL, "take a shared hold: many shared holders, or one exclusive",
	  HOLDING_COMMANDS, OPTION_SET, FIELD(run.mode), HOLD_SHARED, 0 },
	{ 0, "slots", "N", "take one of N slots: up to N holders at once; all users of the name "
	  "must agree on N", HOLDING_COMMANDS, OPTION_NUMBER, FIELD(run.slots), 1, 9999 },
	{ 0, "min-hold", "DUR", "keep the lock at least this long, even when it is released "
	  "earlier", HOLDING_COMMANDS, OPTION_DURATION, FIELD(run.min_hold_ms), 0, 0 },
	{ 'o', "close", NULL, "do not let the command inherit the descriptor of the lock file "
	  "(only file: has one)", COMMAND_RUN, OPTION_FLAG, FIELD(run.closes), 0, 0 },
	{ 0, "no-renew", NULL, "stop the command before the first lease ends",
	  COMMAND_RUN, OPTION_FLAG, FIELD(run.no_renew), 0, 0 },
	{ 'k', "kill-after", "DUR", "time from TERM to KILL when the command must stop, at most a "
	  "third of the TTL (default: 5s, or less with a short TTL)", COMMAND_RUN,
	  OPTION_DURATION, FIELD(kill_after_ms), 0, 0 },
	{ 0, "leftovers", "kill|wait|leave", "what to do when the command ends and leaves "
	  "processes running: end them (default), keep the lock until they end, or release it "
	  "and leave them alone", COMMAND_RUN, OPTION_CHOICE, FIELD(run.leftovers), 0, 0 },
	{ 0, "until", "HH:MM", "stop the command, or the wait, at this time",
	  COMMAND_RUN, OPTION_TIME_OF_DAY, FIELD(run.until_ms), 0, 0 },
	{ 0, "contain", NULL, "run the command in a PID namespace: when dlock ends, for whatever "
	  "reason, the kernel ends everything in it", COMMAND_RUN,
	  OPTION_SET, FIELD(contain), 1, 0 },
	{ 0, "no-contain", NULL, "do not contain the command, although the configuration file "
	  "says so", COMMAND_RUN, OPTION_SET, FIELD(contain), -1, 0 },
	{ 0, "on-lost", "kill|warn", "when the lock is lost: kill (default) ends the command, or "
	  "the process of --pid; warn only warns", HOLDING_COMMANDS, OPTION_CHOICE,
	  FIELD(run.kill_on_lost), 1, 0 },
	{ 0, "on-lost-run", "CMD", "run this shell command when the lock is lost and the command "
	  "has ended", COMMAND_RUN, OPTION_TEXT, FIELD(run.on_lost_run), 1, 0 },
	{ 0, "if-down", "fail|run|wait", "what to do when the backend is down: fail (default), run "
	  "the command without the lock (not for acquire), or wait for it until --wait ends",
	  HOLDING_COMMANDS, OPTION_CHOICE, FIELD(run.if_down), 0, 0 },
	{ 0, "metrics", "FILE", "write metrics of this run for Prometheus' node_exporter",
	  COMMAND_RUN, OPTION_TEXT, FIELD(metrics), 1, 0 },
	{ 0, "note", "TEXT", "show this text to those who are refused the lock, and with the "
	  "holders", HOLDING_COMMANDS, OPTION_TEXT, FIELD(run.note), 0, 0 },
	{ 0, "syslog", NULL, "send messages to syslog, too", HOLDING_COMMANDS,
	  OPTION_FLAG, FIELD(syslog), 0, 0 },
	{ 0, "log", "text|json", "the form of messages; json is one object per line, and reports "
	  "each step", HOLDING_COMMANDS, OPTION_CHOICE, FIELD(log_json), 0, 0 },
	{ 0, "pid", "PID", "hold and renew for as long as this process lives",
	  COMMAND_ACQUIRE, OPTION_NUMBER, FIELD(pid), 1, INT_MAX },
	{ 0, "watch", NULL, "show the locks every 2 seconds, until interrupted", COMMAND_STATUS,
	  OPTION_FLAG, FIELD(watch), 0, 0 },
	{ 0, "names", NULL, "print only the names of all locks that are held or waited for, one "
	  "per line", COMMAND_STATUS, OPTION_FLAG, FIELD(names), 0, 0 },
	{ 0, "prometheus", NULL, "print gauges for the textfile collector of Prometheus' "
	  "node_exporter", COMMAND_STATUS, OPTION_FLAG, FIELD(prometheus), 0, 0 },
	{ 0, "yes", NULL, "do not ask", COMMAND_BREAK, OPTION_FLAG, FIELD(yes), 0, 0 },
	{ 0, "dry-run", NULL, "only print what would be made, and the permissions needed",
	  COMMAND_SETUP, OPTION_FLAG, FIELD(dry_run), 0, 0 },
	{ 0, "json", NULL, "print JSON",
	  COMMAND_ACQUIRE | COMMAND_RENEW | COMMAND_STATUS | COMMAND_CHECK,
	  OPTION_FLAG, FIELD(json), 0, 0 },
	{ 'v', "verbose", NULL, "name the libraries, too", COMMAND_VERSION, OPTION_SET,
	  FIELD(least), LEVEL_STEP, 0 },
	{ 'h', "help", NULL, "show this help", ALL_COMMANDS, OPTION_FLAG, FIELD(help), 0, 0 },
	/* Other names, also those of flock(1) and timeout(1). */
	{ 0, "nonblocking", NULL, NULL, HOLDING_COMMANDS, OPTION_FLAG, FIELD(nonblock), 0, 0 },
	{ 0, "nb", NULL, NULL, HOLDING_COMMANDS, OPTION_FLAG, FIELD(nonblock), 0, 0 },
	{ 0, "no-wait", NULL, NULL, HOLDING_COMMANDS, OPTION_FLAG, FIELD(nonblock), 0, 0 },
	{ 0, "timeout", "DUR", NULL, WAITING_COMMANDS, OPTION_WAIT, FIELD(wait_ms), 0, 0 },
	{ 'V', "version", NULL, NULL, ALL_COMMANDS, OPTION_FLAG, FIELD(version), 0, 0 },
	{ 0, "nested", "MS", NULL, COMMAND_RUN, OPTION_TEXT, FIELD(nested), 0, 0 },
	{ 0, "words", NULL, NULL, COMMAND_HELP, OPTION_FLAG, FIELD(words), 0, 0 },
	{ .name = NULL },
};

/* Room for an option in a message. */
#define OPTION_SIZE 64

static int parse_number(const struct option_row *row, const char *text, int *value,
			struct error *err)
{
	char quoted[TEXT_QUOTE_SIZE];
	int64_t number;

	if (!text[0] || !text_number(text, strlen(text), &number) || number < row->low ||
	    number > row->high)
		return error_set(err, ERROR_USAGE, 0, "'%s' is not a number from %d to %d",
				 text_quote(text, quoted, sizeof(quoted)), row->low, row->high);
	*value = (int)number;
	return 0;
}

static int parse_choice(const struct option_row *row, const char *text, unsigned char *chosen,
			struct error *err)
{
	const char *word = row->argument;
	char quoted[TEXT_QUOTE_SIZE];
	size_t length;

	for (int number = 0;; number++, word += length + 1) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): it has an argument. */
		length = strcspn(word, "|");
		if (strlen(text) == length && !strncmp(text, word, length)) {
			*chosen = (unsigned char)abs(row->low - number);
			return 0;
		}
		if (!word[length])
			return error_set(err, ERROR_USAGE, 0, "'%s' is not one of %s",
					 text_quote(text, quoted, sizeof(quoted)), row->argument);
	}
}

/* Move a URI with a password out of argv, which other users can read with ps. */
static const char *take_uri(char *text)
{
	size_t length;
	const char *password = text_find_password(text, &length), *copy = memory_copy(text);

	if (password)
		memset(text + (password - text), '*', length);
	return copy;
}

static int apply_option(struct options *options, const struct option_row *row, char *argument,
			struct error *err)
{
	void *field = (char *)options + row->field;

	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)field = true;
		break;
	case OPTION_SET:
		*(int *)field = row->low;
		break;
	case OPTION_NUMBER:
		return parse_number(row, argument, field, err);
	case OPTION_DURATION:
		if (duration_parse(argument, field, err))
			return -1;
		if (*(int64_t *)field >= row->low)
			break;
		return error_set(err, ERROR_USAGE, 0, "it must be more than 0");
	case OPTION_TTL:
		return config_parse_ttl(argument, field, err);
	case OPTION_WAIT:
		return config_parse_wait(argument, field, err);
	case OPTION_TIME_OF_DAY:
		return time_of_day_next(argument, clock_wall_ms(), field, err);
	case OPTION_TEXT:
	case OPTION_URI:
		if ((row->low && !argument[0]) || !strcmp(argument, "--"))
			return error_set(err, ERROR_USAGE, 0, "no %s given", row->argument);
		*(const char **)field = row->kind == OPTION_URI ? take_uri(argument)
								: argument;
		break;
	case OPTION_CHOICE:
		return parse_choice(row, argument, field, err);
	}
	return 0;
}

/* Words of flock(1) and of other lock programs, and dlock's form of each. */
static const struct {
	const char *words, *advice;
} hints[] = {
	{ " list ls ", "'dlock status' shows locks" },
	{ " lock ", "to take a lock: 'dlock run NAME -- COMMAND' or 'dlock acquire NAME'" },
	{ " unlock -u --unlock ", "'dlock release' releases what 'dlock acquire' took" },
	{ " -x -e --exclusive ", "a lock is exclusive unless --shared is given" },
	{ " -F --no-fork ", "dlock stays, to end the command when the lock is lost" },
};

bool options_meant(const char *typed, const char *word)
{
	const size_t length = strlen(typed), wanted = strlen(word);
	const bool is_start = length && !strncmp(typed, word, length);

	/* The length may differ by one. */
	return is_start ||
	       (length <= wanted + 1 && wanted <= length + 1 && strspn(typed, word) == length);
}

int options_refuse(const char *kind, const char *word, const char *advice, struct error *err)
{
	char needle[OPTION_SIZE];

	snprintf(needle, sizeof(needle), " %s ", word);
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
		if (strstr(hints[i].words, needle))
			advice = hints[i].advice;
	return error_set(err, ERROR_USAGE, 0, "unknown %s '%s'; %s", kind, word, advice);
}

/* self: the command as the user wrote it. */
static int refuse_option(enum command_bit command, const char *self, const char *option,
			 struct error *err)
{
	const char *name = option + strspn(option, "-");
	char advice[OPTION_SIZE] = "";

	for (const struct option_row *row = option_rows; row->name && !advice[0]; row++)
		if (row->commands & command && options_meant(name, row->name))
			snprintf(advice, sizeof(advice), "did you mean --%s?", row->name);
	if (!advice[0])
		snprintf(advice, sizeof(advice), "try 'dlock %s --help'", self);
	return options_refuse("option", option, advice, err);
}

static const struct option_row *find_row(enum command_bit command, bool is_long, const char *name,
					 size_t length)
{
	for (const struct option_row *row = option_rows; row->name; row++)
		if (row->commands & command &&
		    (is_long ? !strncmp(row->name, name, length) && !row->name[length]
			     : row->letter == *name))
			return row;
	return NULL;
}

/*
 * Parse a long option, or the letters of short ones, in *word. The argument may be the next word,
 * to which *word is then moved.
 */
static int parse_word(struct options *options, enum command_bit command, const char *self,
		      char ***word, struct error *err)
{
	const bool is_long = (**word)[1] == '-';
	char *name = **word + 1 + is_long, *argument, option[OPTION_SIZE];
	const struct option_row *row;
	int length;

	do {
		length = is_long ? (int)strcspn(name, "=") : 1;
		snprintf(option, sizeof(option), "-%c", *name);
		/* The whole word may be a URI with a password. */
		if (is_long)
			*strchrnul(text_quote(**word, option, sizeof(option)), '=') = '\0';
		row = find_row(command, is_long, name, (size_t)length);
		name += length;
		if (!row)
			return refuse_option(command, self, option, err);
		if (!row->argument && is_long && *name)
			return error_set(err, ERROR_USAGE, 0, "option %s takes no argument",
					 option);
		argument = name + (is_long && *name);
		if (row->argument && !*name && !(argument = *++*word))
			return error_set(err, ERROR_USAGE, 0, "option %s needs an argument",
					 option);
		if (apply_option(options, row, argument, err))
			return error_prefix(err, "--%s", row->name);
	} while (!is_long && !row->argument && *name);
	return 0;
}

static int check_options(struct options *options, struct error *err)
{
	if (options->run.mode == HOLD_SHARED && options->run.slots)
		return error_set(err, ERROR_USAGE, 0, "--shared cannot be combined with --slots");
	if (options->run.slots)
		options->run.mode = HOLD_SLOT;
	if (options->run.once_ms && (options->run.mode != HOLD_EXCLUSIVE ||
				     options->run.min_hold_ms))
		return error_set(err, ERROR_USAGE, 0, "--once-per cannot be combined with "
				 "--shared, --slots or --min-hold");
	if (options->run.note && strlen(options->run.note) > HOLDER_NOTE_MAX)
		return error_set(err, ERROR_USAGE, 0, "--note: the text is longer than %d bytes",
				 HOLDER_NOTE_MAX);
	return 0;
}

/* Is there a command behind these words of run, or -c? Otherwise its "--" may be missing. */
static bool has_command(char **word)
{
	while (*word && strcmp(*word, "--") != 0 && strncmp(*word, "-c", 2) != 0 &&
	       strncmp(*word, "--command", 9) != 0)
		word++;
	return *word;
}

int options_parse(struct options *options, enum command_bit command, char **argv,
		  struct error *err)
{
	const bool is_run = command == COMMAND_RUN;
	char **word = argv;
	bool ended = false;

	*options = (struct options){ .conflict_exit_code = EXIT_NOT_OBTAINED,
				     .least = LEVEL_WARNING, .wait_ms = -1, .kill_after_ms = -1,
				     .shell = { "sh", "-c" },
				     .run.kill_on_lost = true, .line = argv };
	while (*word)
		word++;
	options->operands = memory_new((size_t)(word - argv), sizeof(*word));
	for (word = argv; *++word && !options->run.argv;) {
		if (!ended && !strcmp(*word, "--")) {
			ended = true;
			options->run.argv = is_run ? word + 1 : NULL;
			if (!is_run && options->operand_count && word[1])
				return error_set(err, ERROR_USAGE, 0,
						 "a command behind '--' is for 'dlock run' only");
		} else if (ended || (*word)[0] != '-' || !(*word)[1]) {
			options->operands[options->operand_count++] = *word;
		} else if (parse_word(options, command, argv[0], &word, err)) {
			if (!is_run || !options->operand_count || has_command(argv))
				return -1;
			/* It is most likely an option of the command. */
			break;
		}
	}
	return check_options(options, err);
}

bool options_may_be_cut(const struct options *options)
{
	return !options->operand_count && options->backend && strchr(options->backend, '?');
}
