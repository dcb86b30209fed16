/* SPDX-License-Identifier: MIT */
/*
 * A process whose main thread has ended while another one runs on, so that the kernel shows it as
 * a zombie. Prints its pid once it is one. The other thread ends on TERM, unless -i is given, and
 * after SECONDS at the latest.
 *
 *	deadmain [-i] SECONDS
 */
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The state in /proc/PID/stat stands behind the name in parentheses. */
static bool is_zombie(void)
{
	char line[512];
	const char *rest = NULL;
	FILE *file = fopen("/proc/self/stat", "re");

	if (!file)
		err(70, "/proc/self/stat");
	if (fgets(line, sizeof(line), file))
		rest = strrchr(line, ')');
	fclose(file);
	return rest && rest[1] && rest[2] == 'Z';
}

static void *run_on(void *seconds)
{
	while (!is_zombie())
		usleep(1000);
	printf("%ld\n", (long)getpid());
	fflush(stdout);
	sleep(*(const unsigned int *)seconds);
	exit(0);
}

int main(int argc, char **argv)
{
	static unsigned int seconds;
	pthread_t thread;
	int errnum;

	if (argc == 3 && !strcmp(argv[1], "-i")) {
		signal(SIGTERM, SIG_IGN);
		argv++;
	} else if (argc != 2) {
		errx(64, "usage: deadmain [-i] SECONDS");
	}
	seconds = (unsigned int)strtoul(argv[1], NULL, 10);
	errnum = pthread_create(&thread, NULL, run_on, &seconds);
	if (errnum)
		errx(70, "pthread_create: %s", strerror(errnum));
	pthread_exit(NULL);
}
