/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "lock/holder.h"
#include "lock/uri.h"

/* The commands that talk to a backend, and those that take a lock. */
#define BACKEND_COMMANDS (COMMAND_RUN | COMMAND_ACQUIRE | COMMAND_RENEW | COMMAND_VERIFY | \
			  COMMAND_RELEASE | COMMAND_STATUS | COMMAND_WAIT | \
			  COMMAND_BREAK | COMMAND_CHECK | COMMAND_SETUP)
#define HOLDING_COMMANDS (COMMAND_RUN | COMMAND_ACQUIRE)

#define FIELD(name) offsetof(struct options, name)

const struct option_row option_rows[] = {
	{ 'b', "backend", "URI", "where the lock lives: a URI, or a name from the\n"
	  "configuration file (default: file:)", BACKEND_COMMANDS,
	  OPTION_URI, FIELD(backend), 0, 0 },
	{ 'n', "nonblock", NULL, "do not wait", HOLDING_COMMANDS,
	  OPTION_FLAG, FIELD(nonblock), 0, 0 },
	{ 'w', "wait", "DUR", "wait no longer than this, or 'none' for no limit\n(the default)",
	  HOLDING_COMMANDS | COMMAND_WAIT, OPTION_TEXT, FIELD(wait), 0, 0 },
	{ 't', "ttl", "DUR", "TTL of the lease, at least 1s (default: 30s; for renew\n"
	  "the TTL that the hold has)", HOLDING_COMMANDS | COMMAND_RENEW,
	  OPTION_TEXT, FIELD(ttl), 0, 0 },
	{ 's', "shared", NULL, "take a shared hold: many shared holders, or one exclusive",
	  HOLDING_COMMANDS, OPTION_FLAG, FIELD(shared), 0, 0 },
	{ 0, "slots", "N", "take one of N slots: up to N holders at once; all users\n"
	  "of the name must agree on N", HOLDING_COMMANDS, OPTION_NUMBER, FIELD(slots), 1, 9999 },
	{ 'E', "conflict-exit-code", "N", "exit status for 'not obtained' (default: 124)",
	  HOLDING_COMMANDS | COMMAND_WAIT, OPTION_NUMBER, FIELD(conflict_exit_code), 0, 255 },
	{ 0, "min-hold", "DUR", "keep the lock at least this long, even when it is\n"
	  "given back earlier", HOLDING_COMMANDS, OPTION_DURATION, FIELD(min_hold_ms), 0, 0 },
	{ 'o', "close", NULL, "do not let the command inherit the descriptor of the lock\n"
	  "file (only file: has one)", COMMAND_RUN, OPTION_FLAG, FIELD(closes), 0, 0 },
	{ 0, "no-renew", NULL, "stop the command before the first lease ends",
	  COMMAND_RUN, OPTION_FLAG, FIELD(no_renew), 0, 0 },
	{ 'k', "kill-after", "DUR", "time from TERM to KILL when the command must stop\n"
	  "(default: 5s, at most a third of the TTL)", COMMAND_RUN,
	  OPTION_TEXT, FIELD(kill_after), 0, 0 },
	{ 0, "leftovers", "kill|wait", "what to do when the command ends and leaves processes\n"
	  "running: end them (default), or keep the lock until they end", COMMAND_RUN,
	  OPTION_CHOICE, FIELD(wait_for_leftovers), 0, 0 },
	{ 0, "max-run", "DUR", "stop the command when it has run for this long",
	  COMMAND_RUN, OPTION_DURATION, FIELD(max_run_ms), 0, 0 },
	{ 0, "until", "HH:MM", "stop the command, or the wait, at this time of day",
	  COMMAND_RUN, OPTION_TIME_OF_DAY, FIELD(until_ms), 0, 0 },
	{ 0, "contain", NULL, "run the command in a PID namespace: when dlock ends, for\n"
	  "whatever reason, the kernel ends everything in it", COMMAND_RUN,
	  OPTION_SET, FIELD(contain), 1, 0 },
	{ 0, "no-contain", NULL, "do not contain the command, although the configuration\n"
	  "file says so",
	  COMMAND_RUN, OPTION_SET, FIELD(contain), -1, 0 },
	{ 0, "on-lost", "kill|warn", "when the lock is lost: kill (default) stops the command,\n"
	  "or the process of --pid; warn only warns", HOLDING_COMMANDS,
	  OPTION_CHOICE, FIELD(only_warn), 0, 0 },
	{ 0, "on-lost-run", "CMD", "run this shell command when the lock is lost and the command\n"
	  "has ended", COMMAND_RUN, OPTION_TEXT, FIELD(on_lost_run), 1, 0 },
	{ 0, "if-down", "fail|run", "what to do when the backend is down: fail (default), or\n"
	  "run the command without the lock", COMMAND_RUN,
	  OPTION_CHOICE, FIELD(run_if_down), 0, 0 },
	{ 0, "metrics", "FILE", "write metrics of this run for Prometheus' node_exporter",
	  COMMAND_RUN, OPTION_TEXT, FIELD(metrics), 1, 0 },
	{ 0, "note", "TEXT", "show this text to those who are refused the lock, and in\n"
	  "status",
	  HOLDING_COMMANDS, OPTION_TEXT, FIELD(note), 0, 0 },
	{ 0, "replace-waiters", NULL, "send away earlier waiters that also have this option",
	  HOLDING_COMMANDS, OPTION_FLAG, FIELD(replaces), 0, 0 },
	{ 0, "syslog", NULL, "send messages to syslog, too", HOLDING_COMMANDS,
	  OPTION_FLAG, FIELD(syslog), 0, 0 },
	{ 0, "log", "text|json", "the form of messages; json is one object per line, and\n"
	  "reports each step", HOLDING_COMMANDS, OPTION_CHOICE, FIELD(log_json), 0, 0 },
	{ 0, "pid", "PID", "hold and renew for as long as this process lives",
	  COMMAND_ACQUIRE, OPTION_NUMBER, FIELD(pid), 1, INT_MAX },
	{ 0, "watch", NULL, "show the locks every 2 seconds, until interrupted", COMMAND_STATUS,
	  OPTION_FLAG, FIELD(watch), 0, 0 },
	{ 0, "names", NULL, "print only the names of all locks that are held or waited\n"
	  "for, one per line", COMMAND_STATUS, OPTION_FLAG, FIELD(names), 0, 0 },
	{ 0, "yes", NULL, "do not ask", COMMAND_BREAK, OPTION_FLAG, FIELD(yes), 0, 0 },
	{ 0, "dry-run", NULL, "only print what would be made, and the permissions needed",
	  COMMAND_SETUP, OPTION_FLAG, FIELD(dry_run), 0, 0 },
	{ 0, "json", NULL, "print JSON",
	  COMMAND_ACQUIRE | COMMAND_RENEW | COMMAND_STATUS | COMMAND_CHECK,
	  OPTION_FLAG, FIELD(json), 0, 0 },
	{ 'q', "quiet", NULL, "print only errors, and warnings of a lost lock", BACKEND_COMMANDS,
	  OPTION_ADD, FIELD(verbosity), -1, 0 },
	{ 'v', "verbose", NULL, "report each step; with version, name the libraries",
	  BACKEND_COMMANDS | COMMAND_VERSION, OPTION_ADD, FIELD(verbosity), 1, 0 },
	{ 'h', "help", NULL, "show this help",
	  BACKEND_COMMANDS | COMMAND_HELP | COMMAND_VERSION, OPTION_FLAG, FIELD(help), 0, 0 },
	{ 0, "words", NULL, NULL, COMMAND_HELP, OPTION_FLAG, FIELD(words), 0, 0 },
	{ .name = NULL },
};

#define OPTION_ROWS (sizeof(option_rows) / sizeof(option_rows[0]))

/* What getopt_long() returns for the long form of a row; for the short one it is the letter. */
#define LONG_ID 256

/* Room for an option in a message. */
#define OPTION_SIZE 64

/* What getopt_long() returns for an operand where options may follow. */
#define OPERAND 1

/*
 * Makes the tables for getopt_long(), of the options that the command has. Those of run end at its
 * first operand, so that nothing of the user's command is taken for an option where "--" is
 * forgotten. Those of the other commands may stand anywhere before "--".
 */
static void make_getopt_tables(enum command_bit command, struct option *longs, char *shorts)
{
	*shorts++ = command == COMMAND_RUN ? '+' : '-';
	*shorts++ = ':';	/* getopt_long() returns ':' for a missing argument */
	for (const struct option_row *row = option_rows; row->name; row++) {
		if (!(row->commands & command))
			continue;
		*longs++ = (struct option){ row->name, row->argument ? 1 : 0, NULL,
					     LONG_ID + (int)(row - option_rows) };
		if (!row->letter)
			continue;
		*shorts++ = row->letter;
		if (row->argument)
			*shorts++ = ':';
	}
	*longs = (struct option){ 0 };
	*shorts = '\0';
}

static const struct option_row *row_of(int id)
{
	const struct option_row *row = option_rows;

	if (id >= LONG_ID)
		return option_rows + (id - LONG_ID);
	while (row->letter != id)
		row++;
	return row;
}

static int parse_number(const struct option_row *row, const char *text, int *value,
			struct error *err)
{
	int64_t number;

	if (!text[0] || !text_number(text, strlen(text), &number) || number < row->low ||
	    number > row->high)
		return error_set(err, ERROR_USAGE, 0, "--%s: '%s' is not a number from %d to %d",
				 row->name, text, row->low, row->high);
	*value = (int)number;
	return 0;
}

static int parse_choice(const struct option_row *row, const char *text, bool *second,
			struct error *err)
{
	const int length = (int)strcspn(row->argument, "|");
	const char *other = row->argument + length + 1;

	*second = !strcmp(text, other);
	if (*second || ((int)strlen(text) == length &&
			!strncmp(text, row->argument, (size_t)length)))
		return 0;
	return error_set(err, ERROR_USAGE, 0, "--%s: '%s' is neither %.*s nor %s", row->name, text,
			 length, row->argument, other);
}

void options_blank(struct options *options)
{
	if (options->secret)
		memset(options->secret, '*', options->secret_length);
	options->secret = NULL;
}

/* Keeps a copy of a URI that has a password, which options_blank() overwrites in argv. */
static const char *take_uri(struct options *options, char *text)
{
	size_t length;
	const char *password = uri_find_password(text, &length);

	/* An option that is given twice: the last one counts, the one before it is not used. */
	options_blank(options);
	options->password_in_argv = password && length;
	if (!options->password_in_argv)
		return text;
	options->secret = text + (password - text);
	options->secret_length = length;
	return memory_copy(text);
}

static int apply(struct options *options, const struct option_row *row, char *argument,
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
	case OPTION_ADD:
		*(int *)field += row->low;
		break;
	case OPTION_NUMBER:
		return parse_number(row, argument, field, err);
	case OPTION_DURATION:
		if (!duration_parse(argument, field, err))
			break;
		return error_prefix(err, "--%s", row->name);
	case OPTION_TIME_OF_DAY:
		if (!time_of_day_next(argument, clock_wall_ms(), field, err))
			break;
		return error_prefix(err, "--%s", row->name);
	case OPTION_TEXT:
		*(const char **)field = argument;
		if ((int)strnlen(argument, (size_t)row->low) >= row->low)
			break;
		return error_set(err, ERROR_USAGE, 0, "--%s: no %s given", row->name,
				 row->argument);
	case OPTION_URI:
		*(const char **)field = take_uri(options, argument);
		break;
	case OPTION_CHOICE:
		return parse_choice(row, argument, field, err);
	}
	return 0;
}

/*
 * Takes in what is left of argv when getopt_long() has come to its end, which was a "--" if ended.
 * Only run has a command behind that; for the others it lets a NAME begin with "-".
 */
static void split_operands(struct options *options, enum command_bit command, char **argv,
			   bool ended)
{
	char **word = argv + optind;

	while (*word && (command != COMMAND_RUN || !ended)) {
		ended = ended || !strcmp(*word, "--");
		if (command != COMMAND_RUN || !ended)
			options->operands[options->operand_count++] = *word;
		word++;
	}
	options->ended = ended;
	if (command == COMMAND_RUN && ended)
		options->argv = word;
}

/* Words of flock(1) and of other lock programs, and how dlock says what they mean. */
static const struct {
	const char *words, *advice;
} hints[] = {
	{ "list ls", "'dlock status' shows locks" },
	{ "lock", "to take a lock: 'dlock run NAME -- COMMAND' or 'dlock acquire NAME'" },
	{ "unlock -u --unlock", "'dlock release' gives back what 'dlock acquire' took" },
	{ "-c --command", "put the command behind '--': dlock run NAME -- sh -c 'COMMAND'" },
	{ "-x -e --exclusive", "a lock is exclusive unless --shared is given" },
	{ "--timeout", "the option is --wait" },
	{ "--nb", "the option is --nonblock" },
	{ "-o --close", "the command never gets the lock's descriptor" },
	{ "-F --no-fork", "dlock stays, to end the command when the lock is lost" },
};

const char *options_hint(const char *word)
{
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		const char *at = strstr(hints[i].words, word);

		if (at && (at == hints[i].words || at[-1] == ' ') &&
		    strcspn(at, " ") == strlen(word))
			return hints[i].advice;
	}
	return NULL;
}

bool options_meant(const char *typed, const char *word)
{
	size_t a, b;

	for (; *typed && *typed == *word; typed++)
		word++;
	for (a = strlen(typed), b = strlen(word); a && b && typed[a - 1] == word[b - 1]; a--)
		b--;
	return a + b == 1 || (a == 1 && b == 1) ||
	       (a == 2 && b == 2 && typed[0] == word[1] && typed[1] == word[0]);
}

/* The option in word, which is "--name", "--name=value", or "-x" or "-vx" if it was refused. */
static void name_option(const char *word, char option[static OPTION_SIZE])
{
	if (strncmp(word, "--", 2) != 0)
		snprintf(option, OPTION_SIZE, "-%c", optopt);
	else
		snprintf(option, OPTION_SIZE, "%.*s", (int)strcspn(word, "="), word);
}

/* getopt_long() does not say what is wrong. self: the command as the user wrote it. */
static int unknown_option(enum command_bit command, const char *self, const struct option *longs,
			  const char *option, struct error *err)
{
	const char *hint = command & HOLDING_COMMANDS ? options_hint(option) : NULL;

	if (hint)
		return error_set(err, ERROR_USAGE, 0, "unknown option %s; %s", option, hint);
	/* For a long option that it knows, getopt_long() has set optopt. */
	if (optopt >= LONG_ID && !strcmp(option + 2, row_of(optopt)->name))
		return error_set(err, ERROR_USAGE, 0, "option %s takes no argument", option);
	for (; option[1] == '-' && option[2] && longs->name; longs++)
		if (!strncmp(longs->name, option + 2, strlen(option + 2)) ||
		    options_meant(option + 2, longs->name))
			return error_set(err, ERROR_USAGE, 0, "unknown option %s; did you mean "
					 "--%s?", option, longs->name);
	return error_set(err, ERROR_USAGE, 0, "'%s' has no option %s; try 'dlock %s --help'", self,
			 option, self);
}

int options_parse(struct options *options, enum command_bit command, int argc,
		  char **argv, struct error *err)
{
	struct option longs[OPTION_ROWS];
	char shorts[2 * OPTION_ROWS + 3], option[OPTION_SIZE];
	int id, known, before;

	*options = (struct options){ .conflict_exit_code = EXIT_NOT_OBTAINED };
	make_getopt_tables(command, longs, shorts);
	options->operands = argv + 1;
	opterr = 0;
	optind = 1;
	for (;;) {
		before = optind;
		id = getopt_long(argc, argv, shorts, longs, NULL);
		if (id == -1)
			break;
		known = id == ':' ? optopt : id;
		if (id == ':' || id == '?' || known >= LONG_ID)
			name_option(argv[before], option);
		/* getopt_long() accepts the beginning of a long option. */
		if (id == '?' ||
		    (known >= LONG_ID && strcmp(option + 2, row_of(known)->name) != 0))
			return unknown_option(command, argv[0], longs, option, err);
		if (id == ':')
			return error_set(err, ERROR_USAGE, 0, "option %s needs an argument",
					 option);
		/* The place was read already: operands are never more than the words before. */
		if (id == OPERAND) {
			options->operands[options->operand_count++] = optarg;
			continue;
		}
		if (apply(options, row_of(id), optarg, err))
			return -1;
	}
	if (options->shared && options->slots)
		return error_set(err, ERROR_USAGE, 0, "--shared and --slots exclude each other");
	if (options->note && strlen(options->note) > HOLDER_NOTE_MAX)
		return error_set(err, ERROR_USAGE, 0, "--note: the text is longer than %d bytes",
				 HOLDER_NOTE_MAX);
	split_operands(options, command, argv, optind > before && !strcmp(argv[before], "--"));
	return 0;
}

bool options_may_be_cut(const struct options *options)
{
	return !options->operand_count && options->backend && strchr(options->backend, '?');
}
