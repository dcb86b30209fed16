/* SPDX-License-Identifier: MIT */
/*
 * The commands under the lock: "stamp hold DIR" says "ready", waits for a byte in DIR/go
 * and says when it ended; "stamp mark DIR" says when it started.
 */
#include "bench.h"

int main(int argc, char **argv)
{
	int64_t born = now_ns();
	int out, go;
	char byte;

	if (argc != 3)
		return 2;
	out = open_pipe(argv[2], "out", O_WRONLY);
	if (!strcmp(argv[1], "mark")) {
		send_time(out, "start", born);
		return 0;
	}
	go = open_pipe(argv[2], "go", O_RDONLY);
	send_time(out, "ready", born);
	if (read(go, &byte, 1) != 1)
		return 1;
	send_time(out, "end", now_ns());
	_exit(0);
}
