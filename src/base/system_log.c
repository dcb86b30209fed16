/* SPDX-License-Identifier: MIT */
/* Sends a message to the socket of the logger without waiting. */
#include "system_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "text.h"

/* Connect for each message, because the logger may restart, or change with a mount namespace. */
static void send_text(const char *text, size_t length)
{
	const struct sockaddr_un logger = { .sun_family = AF_UNIX, .sun_path = "/dev/log" };
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	/* A failure cannot be reported anywhere. */
	sendto(fd, text, length, MSG_NOSIGNAL, (const struct sockaddr *)&logger, sizeof(logger));
	close(fd);
}

void system_log(int priority, const char *name, const char *format, ...)
{
	char text[1500], when[32] = "";
	const time_t now = time(NULL);
	struct tm local;
	va_list args;
	int used;

	/* The month is English, as loggers expect, because dlock sets no locale. */
	if (localtime_r(&now, &local))
		strftime(when, sizeof(when), "%b %e %T", &local);
	used = snprintf(text, sizeof(text), "<%d>%s dlock[%d]: %s%s", LOG_DAEMON | priority, when,
			(int)getpid(), name ? name : "", name ? ": " : "");
	va_start(args, format);
	vsnprintf(text + used, sizeof(text) - (size_t)used, format, args);
	va_end(args);
	send_text(text, text_clean(text, strlen(text), text, sizeof(text)));
}
