/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/error.h"
#include "lock/uri.h"
#include "exit_status.h"

#define KILL_AFTER_MS 5000
#define SLOTS_MAX 9999

/* Letters serve as ids where there is one. */
enum option_id {
	OPTION_MIN_HOLD = 256,
	OPTION_SLOTS,
	OPTION_NO_RENEW,
	OPTION_CONTAIN,
	OPTION_NO_CONTAIN,
	OPTION_ON_LOST,
	OPTION_IF_DOWN,
	OPTION_PID,
	OPTION_WATCH,
	OPTION_YES,
	OPTION_JSON,
	OPTION_DRY_RUN,
};

/* Commands that talk to a backend; those that may have to wait; those that hold. */
#define BACKEND_COMMANDS (COMMAND_RUN | COMMAND_ACQUIRE | COMMAND_RENEW | COMMAND_VERIFY | \
			  COMMAND_RELEASE | COMMAND_STATUS | COMMAND_WAIT | \
			  COMMAND_BREAK | COMMAND_CHECK | COMMAND_SETUP)
#define HOLDING_COMMANDS (COMMAND_RUN | COMMAND_ACQUIRE)

const struct option_row option_rows[] = {
	{ 'b', "backend", "URI", "where the lock lives: a URI, or a name from the\n"
	  "configuration file (default: file:)", BACKEND_COMMANDS, 'b' },
	{ 'n', "nonblock", NULL, "do not wait", HOLDING_COMMANDS, 'n' },
	{ 'w', "wait", "DUR", "wait no longer than this (default: no limit)",
	  HOLDING_COMMANDS | COMMAND_WAIT, 'w' },
	{ 't', "ttl", "DUR", "lease time, at least 1s (default: 30s; to renew: what\n"
	  "the lock was taken with)",
	  HOLDING_COMMANDS | COMMAND_RENEW, 't' },
	{ 's', "shared", NULL, "a shared hold: many shared ones, or one exclusive",
	  HOLDING_COMMANDS, 's' },
	{ 0, "slots", "N", "a semaphore: up to N holders at once; all users of the\n"
	  "name must agree on N", HOLDING_COMMANDS, OPTION_SLOTS },
	{ 'E', "conflict-exit-code", "N", "exit status for \"not obtained\" (default: 124)",
	  HOLDING_COMMANDS | COMMAND_WAIT, 'E' },
	{ 0, "min-hold", "DUR", "keep the lock at least this long, even when it is\n"
	  "given back earlier", HOLDING_COMMANDS, OPTION_MIN_HOLD },
	{ 0, "no-renew", NULL, "one lease only: stop the command before it ends",
	  COMMAND_RUN, OPTION_NO_RENEW },
	{ 'k', "kill-after", "DUR", "time from TERM to KILL when the command must stop\n"
	  "(default: 5s, at most a third of the TTL)", COMMAND_RUN, 'k' },
	{ 0, "contain", NULL, "run the command in a PID namespace: when dlock goes, in\n"
	  "whatever way, the kernel ends all of it", COMMAND_RUN, OPTION_CONTAIN },
	{ 0, "no-contain", NULL, "not so, though the configuration file says contain = yes",
	  COMMAND_RUN, OPTION_NO_CONTAIN },
	{ 0, "on-lost", "kill|warn", "when the lock is lost: stop the command, or the\n"
	  "process of --pid (default), or only say so", HOLDING_COMMANDS, OPTION_ON_LOST },
	{ 0, "if-down", "fail|run", "when the backend is down: fail (default), or run\n"
	  "the command without the lock", COMMAND_RUN, OPTION_IF_DOWN },
	{ 0, "pid", "PID", "hold and renew for as long as this process lives",
	  COMMAND_ACQUIRE, OPTION_PID },
	{ 0, "watch", NULL, "show again and again, until interrupted", COMMAND_STATUS,
	  OPTION_WATCH },
	{ 0, "yes", NULL, "do not ask", COMMAND_BREAK, OPTION_YES },
	{ 0, "dry-run", NULL, "only print what it would make, and the permissions needed",
	  COMMAND_SETUP, OPTION_DRY_RUN },
	{ 0, "json", NULL, "print JSON",
	  COMMAND_ACQUIRE | COMMAND_RENEW | COMMAND_STATUS | COMMAND_CHECK, OPTION_JSON },
	{ 'q', "quiet", NULL, "say nothing but errors", BACKEND_COMMANDS, 'q' },
	{ 'v', "verbose", NULL, "say each step", BACKEND_COMMANDS, 'v' },
	{ 'h', "help", NULL, "show this help",
	  BACKEND_COMMANDS | COMMAND_HELP | COMMAND_VERSION, 'h' },
	{ .name = NULL },
};

#define OPTION_ROWS (sizeof(option_rows) / sizeof(option_rows[0]))

/* The tables that getopt_long() wants, of the options that the command knows. */
static void make_getopt_tables(enum command_bit command, struct option *longs, char *shorts)
{
	*shorts++ = '+';	/* options end at the first operand */
	*shorts++ = ':';	/* a missing argument is told apart */
	for (const struct option_row *row = option_rows; row->name; row++) {
		if (!(row->commands & command))
			continue;
		*longs++ = (struct option){ row->name, row->argument ? 1 : 0, NULL, row->id };
		if (!row->letter)
			continue;
		*shorts++ = row->letter;
		if (row->argument)
			*shorts++ = ':';
	}
	*longs = (struct option){ 0 };
	*shorts = '\0';
}

/* -1 with a message that names the option. */
static int parse_duration(const char *option, const char *text, int64_t *ms,
			  struct error *err)
{
	if (!duration_parse(text, ms, err))
		return 0;
	error_prefix(err, "%s", option);
	return -1;
}

static int parse_choice(const char *option, const char *text, const char *yes,
			const char *no, bool *value, struct error *err)
{
	*value = !strcmp(text, yes);
	if (*value || !strcmp(text, no))
		return 0;
	error_set(err, ERROR_USAGE, 0, "%s: '%s' is neither %s nor %s", option, text, yes, no);
	return -1;
}

static int parse_number(const char *option, const char *text, int least, int most,
			int *value, struct error *err)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || number < least || number > most) {
		error_set(err, ERROR_USAGE, 0, "%s: '%s' is not a number from %d to %d",
			  option, text, least, most);
		return -1;
	}
	*value = (int)number;
	return 0;
}

void options_blank(struct options *options)
{
	if (options->secret)
		memset(options->secret, '*', options->secret_length);
	options->secret = NULL;
}

/* Keeps the URI for when the password is blanked where it stood. */
static const char *take_uri(struct options *options, char *text)
{
	size_t length;
	const char *password = uri_find_password(text, &length);
	char *copy;

	/* The last one counts; the one before it is of no use to anybody. */
	options_blank(options);
	if (!password || !length)
		return text;
	copy = strdup(text);
	if (!copy)
		return text;
	options->secret = text + (password - text);
	options->secret_length = length;
	return copy;
}

static int apply(struct options *options, int id, char *argument, struct error *err)
{
	switch (id) {
	case 'b':
		options->backend = take_uri(options, argument);
		return 0;
	case 'n':
		options->nonblock = true;
		return 0;
	case 'w':
		options->wait = argument;
		return 0;
	case 't':
		options->ttl = argument;
		return 0;
	case 'E':
		return parse_number("--conflict-exit-code", argument, 0, 255,
				    &options->conflict_exit_code, err);
	case 's':
		options->shared = true;
		return 0;
	case OPTION_SLOTS:
		return parse_number("--slots", argument, 1, SLOTS_MAX, &options->slots, err);
	case 'k':
		return parse_duration("--kill-after", argument, &options->kill_after_ms, err);
	case 'q':
		options->verbosity--;
		return 0;
	case 'v':
		options->verbosity++;
		return 0;
	case 'h':
		options->help = true;
		return 0;
	case OPTION_MIN_HOLD:
		return parse_duration("--min-hold", argument, &options->min_hold_ms, err);
	case OPTION_NO_RENEW:
		options->no_renew = true;
		return 0;
	case OPTION_CONTAIN:
	case OPTION_NO_CONTAIN:
		options->contain = id == OPTION_CONTAIN ? CONTAIN_YES : CONTAIN_NO;
		return 0;
	case OPTION_ON_LOST:
		return parse_choice("--on-lost", argument, "kill", "warn",
				    &options->kill_on_lost, err);
	case OPTION_IF_DOWN:
		return parse_choice("--if-down", argument, "run", "fail",
				    &options->run_if_down, err);
	case OPTION_PID:
		return parse_number("--pid", argument, 1, INT_MAX, &options->pid, err);
	case OPTION_WATCH:
		options->watch = true;
		return 0;
	case OPTION_YES:
		options->yes = true;
		return 0;
	case OPTION_JSON:
		options->json = true;
		return 0;
	case OPTION_DRY_RUN:
		options->dry_run = true;
		return 0;
	default:
		abort();	/* a row without a case */
	}
}

/* What is left: operands, and the command behind "--". */
static void split_operands(struct options *options, enum command_bit command, int argc,
			   char **argv, bool ended)
{
	options->operands = argv + optind;
	/* Only run has a command; for the others "--" lets a NAME begin with "-". */
	if (ended && command != COMMAND_RUN) {
		options->operand_count = argc - optind;
		return;
	}
	if (ended) {
		options->argv = argv + optind;
		return;
	}
	while (optind < argc) {
		if (!strcmp(argv[optind], "--")) {
			options->argv = argv + optind + 1;
			return;
		}
		options->operand_count++;
		optind++;
	}
}

/* getopt_long() does not say what is wrong with an option; find out. */
static void unknown_option(const struct option *longs, const char *word, struct error *err)
{
	size_t length = strcspn(word, "="), matches = 0;

	if (strncmp(word, "--", 2) != 0) {
		error_set(err, ERROR_USAGE, 0, "unknown option -%c", optopt);
		return;
	}
	for (; longs->name; longs++) {
		matches += !strncmp(longs->name, word + 2, length - 2);
		if (strlen(longs->name) == length - 2 &&
		    !strncmp(longs->name, word + 2, length - 2)) {
			error_set(err, ERROR_USAGE, 0, "option --%s takes no argument",
				  longs->name);
			return;
		}
	}
	error_set(err, ERROR_USAGE, 0, matches > 1 ? "option %.*s is ambiguous"
						   : "unknown option %.*s", (int)length, word);
}

int options_parse(struct options *options, enum command_bit command, int argc,
		  char **argv, struct error *err)
{
	struct option longs[OPTION_ROWS];
	char shorts[2 * OPTION_ROWS + 3];
	int id, before;

	*options = (struct options){
		.conflict_exit_code = EXIT_NOT_OBTAINED,
		.kill_after_ms = KILL_AFTER_MS,
		.kill_on_lost = true,
	};
	make_getopt_tables(command, longs, shorts);
	opterr = 0;
	optind = 1;
	for (;;) {
		before = optind;
		id = getopt_long(argc, argv, shorts, longs, NULL);
		if (id == -1)
			break;
		if (id == ':') {
			error_set(err, ERROR_USAGE, 0, "option %s needs an argument",
				  argv[optind - 1]);
			return -1;
		}
		if (id == '?') {
			unknown_option(longs, argv[optind - 1], err);
			return -1;
		}
		if (apply(options, id, optarg, err))
			return -1;
	}
	if (options->shared && options->slots) {
		error_set(err, ERROR_USAGE, 0, "--shared and --slots exclude each other");
		return -1;
	}
	split_operands(options, command, argc, argv,
		       optind > before && !strcmp(argv[before], "--"));
	return 0;
}

enum hold_mode options_mode(const struct options *options)
{
	if (options->slots)
		return HOLD_SLOT;
	return options->shared ? HOLD_SHARED : HOLD_EXCLUSIVE;
}
