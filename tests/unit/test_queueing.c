/* SPDX-License-Identifier: MIT */
#include "base/error.h"
#include "lock/holder.h"
#include "lock/queueing.h"
#include "unit.h"

static void test_text(void)
{
	static const struct {
		const char *text;
		struct queueing queueing;
	} good[] = {
		{ "0", { .priority = 0 } },
		{ "5", { .priority = 5 } },
		{ "0n", { .newest = true } },
		{ "0r", { .replace = true } },
		{ "9nr", { .priority = 9, .newest = true, .replace = true } },
	};
	static const char *const bad[] = { "", "n", "r", "10", "5x", "5rn", "5nrr", "-1", " 5" };
	char text[QUEUEING_TEXT_SIZE];
	struct queueing read;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		unit_case("text %s", good[i].text);
		queueing_encode(&good[i].queueing, text);
		CHECK_STR(text, good[i].text);
		CHECK(queueing_decode(&read, text, strlen(text)));
		CHECK_INT(read.priority, good[i].queueing.priority);
		CHECK_INT(read.newest, good[i].queueing.newest);
		CHECK_INT(read.replace, good[i].queueing.replace);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		unit_case("bad text '%s'", bad[i]);
		read = (struct queueing){ .priority = 3 };
		CHECK(!queueing_decode(&read, bad[i], strlen(bad[i])));
		CHECK_INT(read.priority, 3);
	}
}

static void test_admitted(void)
{
	const unsigned all = QUEUE_PRIORITY | QUEUE_NEWEST | QUEUE_REPLACE;
	static const struct {
		unsigned bit;
		struct queueing queueing;
		const char *option;
	} wishes[] = {
		{ QUEUE_PRIORITY, { .priority = 1 }, "file: has no --priority; " },
		{ QUEUE_NEWEST, { .newest = true }, "file: has no --queue newest; " },
		{ QUEUE_REPLACE, { .replace = true }, "file: has no --replace-waiters; " },
	};
	const struct queueing none = { .priority = 0 };
	struct error err = { .kind = ERROR_NONE };

	unit_case("admitted");
	CHECK(!queueing_wishes(&none));
	CHECK(queueing_admitted(&none, 0, "file:", &err));
	for (size_t i = 0; i < ARRAY_SIZE(wishes); i++) {
		CHECK(queueing_wishes(&wishes[i].queueing));
		CHECK(queueing_admitted(&wishes[i].queueing, all, "file:", &err));
		CHECK(!queueing_admitted(&wishes[i].queueing, all & ~wishes[i].bit, "file:", &err));
		CHECK_INT(err.kind, ERROR_USAGE);
		CHECK_HAS(err.message, wishes[i].option);
	}
}

static void test_holder(void)
{
	struct holder waiter = { .host = "web3", .pid = 77, .note = "x&queue=0n",
				 .queueing = { .priority = 9, .newest = true, .replace = true } };
	char text[HOLDER_TEXT_SIZE], shown[HOLDER_DESCRIPTION_SIZE];
	struct holder read;

	unit_case("in the text of a waiter");
	holder_encode(&waiter, text);
	CHECK_STR(text, "host=web3&pid=77&queue=9nr&note=x%26queue%3D0n");
	CHECK_INT(holder_decode(&read, text, strlen(text)), 0);
	CHECK_INT(read.queueing.priority, 9);
	CHECK(read.queueing.newest && read.queueing.replace);
	CHECK_STR(holder_describe_newer(&waiter, shown, sizeof(shown)),
		  "replaced by web3 pid 77: x&queue=0n");
	/* What says nothing is as if it were not there, like a number that is 0. */
	CHECK_INT(holder_decode(&read, "queue=3&queue=0&queue=x", 23), 0);
	CHECK_INT(read.queueing.priority, 3);
	CHECK_INT(holder_decode(&read, "queue=0", 7), -1);
	waiter.queueing = (struct queueing){ .priority = 0 };
	holder_encode(&waiter, text);
	CHECK_STR(text, "host=web3&pid=77&note=x%26queue%3D0n");
}

int main(void)
{
	test_text();
	test_admitted();
	test_holder();
	return unit_done();
}
