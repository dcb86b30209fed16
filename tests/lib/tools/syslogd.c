/* SPDX-License-Identifier: MIT */
/*
 * A logger of the system: binds the datagram socket PATH, prints "ready", then each message on a
 * line, until it is killed.
 *
 *	syslogd PATH
 */
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char message[4096];
	ssize_t length;

	if (argc != 2 || strlen(argv[1]) >= sizeof(address.sun_path))
		errx(70, "usage: syslogd PATH");
	strcpy(address.sun_path, argv[1]);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)))
		err(70, "%s", argv[1]);
	puts("ready");
	fflush(stdout);
	while ((length = recv(fd, message, sizeof(message), 0)) >= 0) {
		printf("%.*s\n", (int)length, message);
		fflush(stdout);
	}
	err(70, "recv");
}
