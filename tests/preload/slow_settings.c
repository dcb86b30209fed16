/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into dlock: the statement with which its first connection to MySQL begins goes on until
 * somebody interrupts it.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	/* The packet's size in three bytes, its number, and COM_QUERY precede the text. */
	static const char begin[] = "SET ", slow[] = "@slow = "
		"(SELECT SUM(SLEEP(60)) FROM information_schema.ENGINES), ";
	static const size_t head = 5, at = head + sizeof(begin) - 1, more = sizeof(slow) - 1;
	static bool done;
	const char *packet = data;
	char *slower;
	ssize_t sent;

	if (done || size < at || size > 65535 - more ||
	    memcmp(packet + head, begin, at - head) != 0)
		return sendto(fd, data, size, flags, NULL, 0);
	done = true;
	slower = malloc(size + more);
	if (!slower)
		return -1;
	memcpy(slower, packet, at);
	memcpy(slower + at, slow, more);
	memcpy(slower + at + more, packet + at, size - at);
	slower[0] = (char)((size - 4 + more) & 0xff);
	slower[1] = (char)((size - 4 + more) >> 8);
	sent = sendto(fd, slower, size + more, flags, NULL, 0);
	free(slower);
	return sent == (ssize_t)(size + more) ? (ssize_t)size : -1;
}
