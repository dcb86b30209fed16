/* SPDX-License-Identifier: MIT */
/* Finds the command that the user typed, answers --help, and checks the number of operands. */
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/text.h"
#include "base/version.h"
#include "lock/name.h"
#include "session.h"

/* The column where the help of an option begins. */
#define COLUMN 30
/* The longest line of help. */
#define WIDTH 79
#define COMMANDS_WITH_DUR (COMMAND_RUN | COMMAND_ACQUIRE | COMMAND_RENEW | COMMAND_WAIT)

static int command_help(struct session *session, struct error *err);

static const struct command commands[] = {
	{ "run", "run [OPTION]... [NAME]... -- COMMAND [ARG]...",
	  "run a command while holding a lock", COMMAND_RUN, 0, INT_MAX, command_run, true },
	{ "acquire", "acquire [OPTION]... NAME",
	  "take a lock, print its token", COMMAND_ACQUIRE, 1, 1, .work = command_acquire },
	{ "renew", "renew [OPTION]... NAME [TOKEN]",
	  "extend the lease to a full TTL from now", COMMAND_RENEW, 1, 2, .work = command_token },
	{ "verify", "verify [OPTION]... NAME [TOKEN]",
	  "check whether this token still holds the lock", COMMAND_VERIFY, 1, 2,
	  .work = command_token },
	{ "release", "release [OPTION]... NAME [TOKEN]",
	  "release a lock", COMMAND_RELEASE, 1, 2, .work = command_token },
	{ "status", "status [OPTION]... [NAME|PATTERN]...",
	  "show who holds locks and who waits", COMMAND_STATUS, 0, INT_MAX,
	  .work = command_status },
	{ "wait", "wait [OPTION]... NAME|PATTERN...",
	  "wait until nobody holds a lock, without taking it", COMMAND_WAIT, 1, INT_MAX,
	  .work = command_wait },
	{ "break", "break [OPTION]... NAME|PATTERN...",
	  "take a lock away from whoever holds it", COMMAND_BREAK, 1, INT_MAX,
	  .work = command_break },
	{ "check", "check [OPTION]...",
	  "find out whether a backend is fit to hold locks", COMMAND_CHECK, 0, 0,
	  .work = command_check },
	{ "setup", "setup [OPTION]...", "create what a backend needs", COMMAND_SETUP, 0, 0,
	  .work = command_setup },
	{ "completion", "completion bash|zsh|fish", "print the completions of a shell",
	  COMMAND_COMPLETION, 1, 1, command_completion, true },
	{ "help", "help [COMMAND]", "show help", COMMAND_HELP, 0, 1, command_help, true },
	{ "version", "version [OPTION]...", "show the version", COMMAND_VERSION, 0, 0,
	  command_version, true },
	{ .name = NULL },
};

static const char exit_statuses[] =
	"Exit status:\n"
	"  0-255   the command's own: it ran, and the lock was held until its end\n"
	"          (with --if-down run, perhaps without the lock)\n"
	"  128+N   signal N killed the command, as for 0-255\n"
	"  121     the command was stopped by --max-run or --until\n"
	"  122     the backend cannot be reached, gives no answer, or refuses\n"
	"  123     the lock was lost while it was held\n"
	"  124     the lock was not obtained in time, or with -n at once (see -E)\n"
	"  125     dlock itself failed: usage, configuration, internal error\n"
	"  126     the command could not be executed\n"
	"  127     the command was not found\n";

static const char examples[] =
	"\nExamples:\n"
	"    dlock run -n backup -- tar czf /var/backups/home.tar.gz /home\n"
	"    dlock run -b redis://redis.example.com -w 30m deploy -- ./deploy.sh\n"
	"    dlock run -b prod -q --once-per 12h -E 0 nightly -- nightly-backup\n"
	"\nEnvironment:\n"
	"  DLOCK_BACKEND, DLOCK_TTL, DLOCK_WAIT      used without -b, -t and -w\n"
	"  DLOCK_REQUIRE_BACKEND                     with 1, refuse the default backend\n"
	"  DLOCK_NAME, DLOCK_TOKEN, DLOCK_FENCE      of the hold, set for the command\n";

static const struct command *find_command(const char *name)
{
	for (const struct command *command = commands; command->name; command++)
		if (!strcmp(command->name, name))
			return command;
	return NULL;
}

/* `dlock deploy -- make` gets a hint and does not run: "status" may be a lock's name, too. */
static int refuse_command(const char *word, struct error *err)
{
	char name[TEXT_QUOTE_SIZE], advice[TEXT_QUOTE_SIZE + 96] = "";

	text_quote(word, name, sizeof(name));
	/* The text after '=' may be a URI with a password. */
	if (name[0] == '-')
		return error_set(err, ERROR_USAGE, 0, "option %.*s belongs behind the name of a "
				 "command, as in 'dlock run [OPTION]... NAME -- COMMAND'",
				 (int)strcspn(name, "="), name);
	for (const struct command *c = commands; c->name && !advice[0]; c++)
		if (options_meant(name, c->name))
			snprintf(advice, sizeof(advice), "did you mean '%s'?", c->name);
	if (!advice[0])
		snprintf(advice, sizeof(advice), "try 'dlock --help', or to run a command under "
			 "a lock: dlock run %s -- COMMAND", name);
	return options_refuse("command", name, advice, err);
}

static void print_option(const struct option_row *row)
{
	const char letter[] = { '-', row->letter, ',', '\0' };
	const char *word = row->help;
	int length, used = printf("  %3s --%s%s%s", row->letter ? letter : "", row->name,
				  row->argument ? " " : "", row->argument ? row->argument : "");

	/* As many words in a line as there is room for. */
	for (; *word; word += length + (word[length] == ' ')) {
		length = (int)strcspn(word, " ");
		if (word == row->help && used < COLUMN - 1)
			used += printf("%*s", COLUMN - 1 - used, "");
		else if (word == row->help || used + 1 + length > WIDTH)
			used = printf("\n%*s", COLUMN - 1, "") - 1;
		used += printf(" %.*s", length, word);
	}
	putchar('\n');
}

/* Print those of the rows from first on, and before end, that a command has. */
static void print_options(const char *title, const struct command *command, int first, int end)
{
	printf("\n%s:\n", title);
	for (int i = first; i < end && option_rows[i].name; i++)
		if (option_rows[i].help && option_rows[i].commands & (unsigned)command->bit)
			print_option(&option_rows[i]);
}

static void print_help(const struct command *command)
{
	const bool is_run = command->bit == COMMAND_RUN;

	printf("usage: dlock %s\n\n%c%s.\n", command->usage,
	       command->summary[0] - 'a' + 'A', command->summary + 1);
	print_options(is_run ? "Usual options" : "Options", command, 0,
		      is_run ? OPTIONS_USUAL : INT_MAX);
	if (is_run)
		print_options("Other options", command, OPTIONS_USUAL, INT_MAX);
	if (command->bit & COMMANDS_WITH_DUR)
		printf("\nDUR is a number with a unit (ms s m h d; none: seconds), or a sum: "
		       "1h30m.\n");
	if (strstr(command->usage, "PATTERN"))
		printf("\nA PATTERN has * ? or [ in it; put it in quotes, as in 'deploy-*'.\n");
	if (!is_run)
		return;
	printf("Without NAME, a name is derived from the command line, the same on every host.\n"
	       "Several locks are taken in the order of their names, all or none.\n"
	       "\nBackends:\n");
	for (const struct backend_driver *d = backend_drivers; d->scheme; d++)
		printf(d->alias_of ? "  %s:%*sanother name for %s:\n" : "  %s:%*s%s\n", d->scheme,
		       COLUMN - 3 - (int)strlen(d->scheme), "",
		       d->alias_of ? d->alias_of : d->summary);
	printf("In a shell, quote a URI that has a '?' or '&': -b 'URI'.\n%s\n%s", examples,
	       exit_statuses);
}

static void print_overview(void)
{
	printf("usage: dlock COMMAND [OPTION]... [NAME]...\n\n"
	       "dlock holds a named lock, shared by many machines, while a command runs.\n\n");
	for (const struct command *command = commands; command->name; command++)
		printf("  dlock %-12s%s\n", command->name, command->summary);
	print_options("Usual options of 'dlock run [OPTION]... [NAME]... -- COMMAND [ARG]...'",
		      commands, 0, OPTIONS_USUAL);
	printf("%s\n'dlock help COMMAND' shows all options of a command.\n"
	       "See also: dlock(1), dlock-output(5), dlock.conf(5), dlock-backends(7),\n"
	       "dlock-etcd(7), dlock-file(7), dlock-mysql(7), dlock-postgres(7),\n"
	       "dlock-redis(7), dlock-zookeeper(7). The packages install these pages, and\n"
	       "a release has them for the web: dlock-" DLOCK_VERSION "-docs.tar.gz.\n",
	       examples);
}

/*
 * Print lines COMMAND;OPTION;ARGUMENT;TEXT for the completions. A line without an option describes
 * the command. A line without a command describes a backend, whose scheme is in the second column.
 */
static void print_words(void)
{
	for (const struct command *command = commands; command->name; command++) {
		printf("%s;;;%s\n", command->name, command->summary);
		for (const struct option_row *row = option_rows; row->name; row++) {
			const char *argument = row->argument ? row->argument : "";
			const int length = row->help ? (int)strcspn(row->help, ",:;(") : 0;

			if (!length || !(row->commands & (unsigned)command->bit))
				continue;
			if (row->letter)
				printf("%s;-%c;%s;%.*s\n", command->name, row->letter, argument,
				       length, row->help);
			printf("%s;--%s;%s;%.*s\n", command->name, row->name, argument, length,
			       row->help);
		}
	}
	for (const struct backend_driver *d = backend_drivers; d->scheme; d++)
		printf(";%s;;%s\n", d->scheme, d->alias_of ? d->alias_of : d->summary);
}

static int command_help(struct session *session, struct error *err)
{
	const struct options *options = &session->options;
	const char *name = options->operand_count ? options->operands[0] : "";
	const struct command *command = find_command(name);

	if (command) {
		print_help(command);
	} else if (*name) {
		return refuse_command(name, err);
	} else if (options->words) {
		print_words();
	} else {
		print_overview();
	}
	return 0;
}

static int check_operands(const struct command *command, const struct options *options,
			  struct error *err)
{
	const int names = command->most == INT_MAX ? options->operand_count : command->least;

	if (options->operand_count < command->least)
		return error_set(err, ERROR_USAGE, 0, options_may_be_cut(options)
				 ? "no NAME given; a URI with & needs quotes in a shell"
				 : command->bare ? "usage: dlock %s"
				 : "no NAME given; usage: dlock %s", command->usage);
	/* The word is not shown, because it may be a token. */
	if (options->operand_count > command->most)
		return error_set(err, ERROR_USAGE, 0, "too many operands; usage: dlock %s",
				 command->usage);
	for (int i = 0; i < names; i++)
		if (name_check(options->operands[i], err))
			return -1;
	return 0;
}

static int run_command(const struct command *command, char **argv)
{
	struct options options;
	struct error err = { 0 };
	int failed = options_parse(&options, command->bit, argv, &err);

	log_begin(&options);
	if (!failed && options.help) {
		print_help(command);
		return 0;
	}
	if (!failed && options.version)
		return session_run(find_command("version"), &options);
	if (failed || check_operands(command, &options, &err))
		return log_fail(&err);
	return session_run(command, &options);
}

static void end_by_signal(int sig)
{
	_exit(EXIT_SIGNAL + sig);
}

/*
 * Handle the signals that end a program if dlock is the first process of a PID namespace, as in a
 * container: there the kernel ignores them without a handler. run and acquire read signals
 * themselves.
 */
static void obey_signals_as_init(void)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };

	for (size_t i = 0; getpid() == 1 && i < sizeof(signals) / sizeof(signals[0]); i++)
		if (signal(signals[i], end_by_signal) == SIG_IGN)
			signal(signals[i], SIG_IGN);
}

int main(int argc, char **argv)
{
	const struct command *command;
	const char *name = argc < 2 ? "" : argv[1];
	struct error err;

	/* Otherwise a socket could get the number 2, and messages with it. */
	fds_fill_standard();
	obey_signals_as_init();
	if (!strcmp(name, "--help") || !strcmp(name, "-h"))
		name = "help";
	else if (!strcmp(name, "--version") || !strcmp(name, "-V"))
		name = "version";
	command = find_command(name);
	if (command)
		return log_flush(run_command(command, argv + 1));
	if (argc < 2) {
		/* Nothing has run. */
		dup2(STDERR_FILENO, STDOUT_FILENO);
		print_overview();
		return log_flush(EXIT_DLOCK);
	}
	refuse_command(name, &err);
	return log_fail(&err);
}
