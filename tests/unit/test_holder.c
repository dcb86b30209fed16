/* SPDX-License-Identifier: MIT */
/* Tests src/lock/holder.c. */
#include <stdlib.h>
#include <unistd.h>

#include "lock/holder.h"
#include "unit.h"

static const struct holder web2 = {
	.host = "web2", .user = "root", .command = "/usr/local/bin/backup",
	.pid = 4312, .since_ms = 1700000000123,
};

static void check_same(const struct holder *got, const struct holder *want)
{
	CHECK_STR(got->host, want->host);
	CHECK_STR(got->user, want->user);
	CHECK_STR(got->command, want->command);
	CHECK_STR(got->note, want->note);
	CHECK_INT(got->pid, want->pid);
	CHECK_INT(got->since_ms, want->since_ms);
	CHECK_INT(got->ttl_ms, want->ttl_ms);
	CHECK_INT(got->kept_ms, want->kept_ms);
	CHECK_INT(got->min_ms, want->min_ms);
}

static void check_round_trip(const struct holder *holder)
{
	char text[HOLDER_TEXT_SIZE];
	struct holder again;
	size_t length = holder_encode(holder, text);

	CHECK_INT(length, strlen(text));
	CHECK(length < HOLDER_TEXT_SIZE);
	CHECK_INT(holder_decode(&again, text, length), 0);
	check_same(&again, holder);
}

/* [32] */
static void test_encode(void)
{
	char text[HOLDER_TEXT_SIZE], shown[HOLDER_DESCRIPTION_SIZE];
	struct holder holder = { .pid = 1 }, again;

	unit_case("encode");
	holder_encode(&web2, text);
	CHECK_STR(text, "pid=4312&since=1700000000123&host=web2&user=root"
			"&cmd=/usr/local/bin/backup");
	check_round_trip(&web2);
	holder_encode(&holder, text);
	CHECK_STR(text, "pid=1");
	check_round_trip(&holder);
	holder.ttl_ms = 30000;
	holder_encode(&holder, text);
	CHECK_STR(text, "ttl=30000&pid=1");
	check_round_trip(&holder);
	holder.ttl_ms = 0;
	holder.pid = -1;
	CHECK_INT(holder_encode(&holder, text), 0);
	CHECK_STR(text, "");

	unit_case("encode, with a note");
	holder = web2;
	strcpy(holder.note, "deploying 4.2 & more: ask Ann");
	holder_encode(&holder, text);
	CHECK_HAS(text, "&note=deploying%204.2%20%26%20more:%20ask%20Ann");
	check_round_trip(&holder);
	holder_describe(&holder, -1, shown, sizeof(shown));
	CHECK_STR(shown, "held by web2 pid 4312 (root): /usr/local/bin/backup: "
			 "deploying 4.2 & more: ask Ann");
	/* What does not fit is cut, with room for the digits of a longer TTL. */
	memset(holder.note, '%', HOLDER_NOTE_MAX);
	memset(holder.command, '%', sizeof(holder.command) - 1);
	CHECK(holder_encode(&holder, text) < HOLDER_COLUMN_SIZE);
	CHECK_INT(holder_decode(&again, text, strlen(text)), 0);
	CHECK_STR(again.command, holder.command);
	CHECK(again.note[0] == '%');

	unit_case("encode, awkward");
	holder = (struct holder){ .host = "a&b=c", .user = "100%", .command = "\xe2\x82\xac +;",
				  .pid = INT64_MAX, .since_ms = INT64_MAX, .ttl_ms = INT64_MAX,
				  .kept_ms = INT64_MAX, .min_ms = INT64_MAX };
	check_round_trip(&holder);
	holder_encode(&holder, text);
	CHECK_STR(text, "ttl=9223372036854775807&pid=9223372036854775807"
			"&since=9223372036854775807&kept=9223372036854775807"
			"&min=9223372036854775807&host=a%26b%3Dc&user=100%25"
			"&cmd=%E2%82%AC%20%2B%3B");

	unit_case("encode, full");
	memset(holder.host, '&', sizeof(holder.host) - 1);
	memset(holder.user, '%', sizeof(holder.user) - 1);
	memset(holder.command, ' ', sizeof(holder.command) - 1);
	check_round_trip(&holder);
}

static const struct {
	const char *text;
	int rc;
	struct holder want;
} decoded[] = {
	{ "", -1, { .pid = 0 } },
	{ "6b8d2f0c-token", -1, { .pid = 0 } },
	{ "token=1", -1, { .pid = 0 } },
	{ "host=", -1, { .pid = 0 } },
	{ "=x", -1, { .pid = 0 } },
	{ "&&&=&", -1, { .pid = 0 } },
	{ "pid=0", -1, { .pid = 0 } },
	{ "pid=-5", -1, { .pid = 0 } },
	{ "pid=1x", -1, { .pid = 0 } },
	{ "pid=9223372036854775808", -1, { .pid = 0 } },
	{ "pid=99999999999999999999999999", -1, { .pid = 0 } },
	{ "host=%zz", -1, { .pid = 0 } },
	{ "host=%2", -1, { .pid = 0 } },
	{ "hosts=a", -1, { .pid = 0 } },
	{ "hos=a", -1, { .pid = 0 } },
	{ "host=%zz&pid=7", 0, { .pid = 7 } },
	{ "v=2&pid=7&x&host=h&", 0, { .host = "h", .pid = 7 } },
	{ "since=12&pid=03", 0, { .pid = 3, .since_ms = 12 } },
	{ "pid=3&note=n&min=9&kept=1795399800000", 0,
	  { .pid = 3, .note = "n", .kept_ms = 1795399800000, .min_ms = 9 } },
	{ "pid=3&kept=soon&min=-1", 0, { .pid = 3 } },
	{ "ttl=5000&pid=3", 0, { .pid = 3, .ttl_ms = 5000 } },
	{ "ttl=-5&pid=3", 0, { .pid = 3 } },
	{ "host=a%0ab", 0, { .host = "a?b" } },
	{ "host=%1b[2J", 0, { .host = "?[2J" } },
	{ "host=\x1b[2J", 0, { .host = "?[2J" } },
	{ "host=%00", 0, { .host = "?" } },
	{ "user=%c2%9b", 0, { .user = "?" } },
	{ "user=%ff\xfe", 0, { .user = "??" } },
	{ "user=%c3%a9", 0, { .user = "\xc3\xa9" } },
	{ "cmd=a=b", 0, { .command = "a=b" } },
	/* Of a column that was too short. */
	{ "pid=3&cmd=ab%2", 0, { .pid = 3, .command = "ab" } },
	{ "pid=3&cmd=ab%", 0, { .pid = 3, .command = "ab" } },
	{ "pid=3&cm", 0, { .pid = 3 } },
};

/* Values that are too long, plain or escaped, at every distance from the cut. */
static void test_decode_long(void)
{
	char text[2000] = "cmd=", want[129];
	struct holder holder;
	size_t pad, i, wrong = 0;

	unit_case("decode, long");
	memset(text + 4, 'y', sizeof(text) - 5);
	CHECK_INT(holder_decode(&holder, text, sizeof(text) - 1), 0);
	CHECK_INT(strlen(holder.command), 128);
	memset(text + 4, '\n', sizeof(text) - 5);
	CHECK_INT(holder_decode(&holder, text, sizeof(text) - 1), 0);
	CHECK_INT(strspn(holder.command, "?"), 128);
	for (pad = 0; pad < 9; pad++) {
		memset(text + 4, 'p', pad);
		memset(want, 'p', pad);
		for (i = 4 + pad; i + 9 < sizeof(text); i += 9)
			memcpy(text + i, "%E2%82%AC", 9);
		for (i = pad; i + 3 < sizeof(want); i += 3)
			memcpy(want + i, "\xe2\x82\xac", 3);
		want[i] = '\0';
		if (holder_decode(&holder, text, strlen(text)) < 0 ||
		    strcmp(holder.command, want) != 0)
			wrong++;
	}
	CHECK_INT(wrong, 0);
}

/* [32] */
static void test_decode(void)
{
	struct holder holder;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(decoded); i++) {
		unit_case("decode \"%s\"", decoded[i].text);
		memset(&holder, 'x', sizeof(holder));
		CHECK_INT(holder_decode(&holder, decoded[i].text, strlen(decoded[i].text)),
			  decoded[i].rc);
		check_same(&holder, &decoded[i].want);
	}
	unit_case("decode with a NUL");
	CHECK_INT(holder_decode(&holder, "host=a\0b&pid=3", 14), 0);
	CHECK_STR(holder.host, "a?b");
	CHECK_INT(holder.pid, 3);
	unit_case("decode no more than length");
	CHECK_INT(holder_decode(&holder, "pid=123", 5), 0);
	CHECK_INT(holder.pid, 1);
}

static const struct {
	struct holder holder;
	int64_t age_ms;
	const char *text;
} described[] = {
	{ { .host = "web2", .user = "root", .command = "/usr/local/bin/backup", .pid = 4312 },
	  192000, "held by web2 pid 4312 (root) for 3m12s: /usr/local/bin/backup" },
	{ { .host = "web2", .user = "root", .command = "c", .pid = 4312 }, -1,
	  "held by web2 pid 4312 (root): c" },
	{ { .host = "web2" }, 5000, "held by web2 for 5s" },
	{ { .pid = 12 }, -1, "held by pid 12" },
	{ { .user = "alice", .pid = 12 }, -1, "held by pid 12 (alice)" },
	{ { .user = "alice" }, -1, "held by user alice" },
	{ { .host = "web2", .user = "alice" }, -1, "held by web2 (alice)" },
	{ { .command = "sh" }, 0, "held by another client for 0s: sh" },
	{ { .pid = 0 }, -1, "held by another client" },
	{ { .note = "it may be lost" }, -1, "held by nobody known: it may be lost" },
	{ { .host = "web2", .command = "backup", .note = "ask Ann", .pid = 43,
	    .kept_ms = 1700000000123 }, 5000, "held by web2 pid 43 for 5s, "
	  "kept until 2023-11-14 22:13:20 (backup has ended): ask Ann" },
	{ { .command = "sh", .kept_ms = 1700000000123, .min_ms = 1 }, -1,
	  "held by another client, kept until 2023-11-14 22:13:20 (released)" },
	{ { .pid = 43, .kept_ms = 1700000000123 }, -1,
	  "held by pid 43, kept until 2023-11-14 22:13:20 (its command has ended)" },
	{ { .host = "web1", .command = "backup", .kept_ms = 1700000000123,
	    .done_ms = 1700000000000 }, 4000,
	  "held by web1 for 4s, done until 2023-11-14 22:13:20 (backup has succeeded)" },
	{ { .pid = -4 }, 60000, "held by another client for 1m00s" },
};

static void test_describe(void)
{
	struct holder holder = web2;
	char buf[400], small[16], full[HOLDER_DESCRIPTION_SIZE];
	size_t i;

	setenv("TZ", "UTC0", 1);
	for (i = 0; i < ARRAY_SIZE(described); i++) {
		unit_case("describe %zu", i);
		CHECK_STR(holder_describe(&described[i].holder, described[i].age_ms, buf,
					  sizeof(buf)), described[i].text);
	}
	unit_case("describe, cut");
	CHECK_STR(holder_describe(&web2, 1, small, sizeof(small)), "held by web2 pi");
	unit_case("describe, full");
	memset(holder.host, 'h', sizeof(holder.host) - 1);
	memset(holder.user, 'u', sizeof(holder.user) - 1);
	memset(holder.command, 'c', sizeof(holder.command) - 1);
	holder.pid = INT64_MAX;
	holder_describe(&holder, INT64_MAX, buf, sizeof(buf));
	CHECK_HAS(buf, "cccc");
	CHECK_INT(buf[strlen(buf) - 1], 'c');
	memset(holder.note, 'n', sizeof(holder.note) - 1);
	holder.kept_ms = INT64_MAX;
	CHECK(strlen(holder_describe(&holder, INT64_MAX, full, sizeof(full))) <
	      sizeof(full) - 1);
	CHECK_INT(full[strlen(full) - 1], 'n');
}

static void test_self(void)
{
	struct holder holder;
	char long_command[300];

	unit_case("self");
	holder_self(&holder, "/bin/true");
	CHECK_STR(holder.command, "/bin/true");
	CHECK_INT(holder.pid, getpid());
	CHECK(holder.since_ms > INT64_C(1700000000000));
	CHECK(*holder.host);
	CHECK(*holder.user);
	if (geteuid() == 0)
		CHECK_STR(holder.user, "root");
	check_round_trip(&holder);
	holder_self(&holder, NULL);
	CHECK_STR(holder.command, "");
	memset(long_command, 'c', sizeof(long_command));
	long_command[sizeof(long_command) - 1] = '\0';
	holder_self(&holder, long_command);
	CHECK_INT(strlen(holder.command), 128);
	if (geteuid() != 0)
		return;
	unit_case("self, no local user");
	CHECK_INT(seteuid(3123456789), 0);
	setenv("LOGNAME", "alice-of-ldap", 1);
	holder_self(&holder, NULL);
	CHECK_STR(holder.user, "alice-of-ldap");
	setenv("LOGNAME", "root", 1);	/* inherited: not who this is */
	holder_self(&holder, NULL);
	CHECK_STR(holder.user, "3123456789");
	unsetenv("LOGNAME");
	holder_self(&holder, NULL);
	CHECK_STR(holder.user, "3123456789");
	CHECK_INT(seteuid(0), 0);
}

int main(void)
{
	test_encode();
	test_decode();
	test_decode_long();
	test_describe();
	test_self();
	return unit_done();
}
