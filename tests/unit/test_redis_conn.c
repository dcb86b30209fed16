/* SPDX-License-Identifier: MIT */
/* What of a server's replies may be given to hiredis. */
#include <stdlib.h>
#include <string.h>

#include "backends/redis/limit.h"
#include "unit.h"

#define LARGE "sends a reply that is too large"
#define ODD "does not speak the Redis protocol"

static void test_texts(void)
{
	static const struct {
		const char *text, *wrong;	/* NULL: nothing */
	} rows[] = {
		{ "+OK\r\n:1\r\n-ERR a\nb\r\n", NULL },
		{ "$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n", NULL },
		{ "$5\r\n*9\r\n\n\r\n+OK\r\n", NULL },
		{ "*2\r\n*1\r\n:1\r\n$3\r\nabc\r\n", NULL },
		{ "*262144\r\n", NULL },
		{ "*262145\r\n", LARGE },
		{ "*200000\r\n*200000\r\n", LARGE },
		{ "*2\r\n*262142\r\n*2\r\n:1\r\n", LARGE },
		/* The limit is that of one reply. */
		{ "*1\r\n*262143\r\n", NULL },
		{ "*1\r\n*2\r\n:1\r\n:2\r\n*262144\r\n:1\r\n", NULL },
		{ "*2147483647\r\n", LARGE },
		{ "*99999999999999999999\r\n", LARGE },
		{ "$16777216\r\n", NULL },
		{ "$16777217\r\n", LARGE },
		{ "*000000000000000000000000000001\r\n", ODD },
		{ "HTTP/1.1 400 Bad Request\r\n", ODD },
		{ "%1\r\n", ODD },
		{ "\r\n", ODD },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct redis_limit whole = { 0 }, pieces = { 0 };
		const size_t length = strlen(rows[i].text);
		const char *wrong = NULL;

		unit_case("%s", rows[i].text);
		CHECK_STR(redis_limit_pass(&whole, rows[i].text, length), rows[i].wrong);
		for (size_t at = 0; at < length && !wrong; at++)
			wrong = redis_limit_pass(&pieces, rows[i].text + at, 1);
		CHECK_STR(wrong, rows[i].wrong);
	}
}

/* Returns how many of these pieces pass, at most. */
static int count_passed(const char *begin, char fill, size_t size, int most)
{
	struct redis_limit limit = { 0 };
	char *data = malloc(size);
	int count = 0;

	CHECK(data && !redis_limit_pass(&limit, begin, strlen(begin)));
	memset(data, fill, size);
	while (count < most && !redis_limit_pass(&limit, data, size))
		count++;
	free(data);
	return count;
}

int main(void)
{
	test_texts();
	CHECK_INT(count_passed("+", 'A', 1024, 100), 63);
	CHECK_INT(count_passed("*2\r\n$16000000\r\n", 'A', 1 << 20, 100), 15);
	return unit_done();
}
