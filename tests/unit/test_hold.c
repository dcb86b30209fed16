/* SPDX-License-Identifier: MIT */
/* The rules of hold.h, over a backend that returns rows of the test and notes what it is asked. */
#include "unit.h"

#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"
#include "lock/lease.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

/* What show_rows() returns, and what the other slots were asked for. */
static struct stored {
	struct row row;
	bool holds;
	const char *text;
} stored[4];
static size_t stored_count;
static struct request asked;
static char asked_text[HOLDER_TEXT_SIZE];
static struct grant given;
static enum outcome answer;
static bool sent_twice;
static char broken[256];

static int show_rows(struct backend *backend, const struct request *request, struct rows *rows,
		     struct error *err)
{
	struct row *row;

	(void)backend;
	(void)err;
	rows->fence = 77;
	if (!request->name) {
		name_list_add(&rows->names, "b", 1);
		name_list_add(&rows->names, "a", 1);
		name_list_add(&rows->names, "b", 1);
		return 0;
	}
	for (size_t i = 0; i < stored_count; i++) {
		row = rows_add(rows, stored[i].holds, stored[i].text, strlen(stored[i].text));
		stored[i].row.holder = row->holder;
		*row = stored[i].row;
	}
	return 0;
}

static enum outcome note_request(const struct request *request)
{
	asked = *request;
	snprintf(asked_text, sizeof(asked_text), "%s", request->text ? request->text : "(none)");
	return answer;
}

static enum outcome renew_row(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err)
{
	(void)backend;
	(void)err;
	*grant = given;
	return note_request(request);
}

static enum outcome release_row(struct backend *backend, const struct request *request,
				struct error *err)
{
	(void)err;
	backend->resent |= sent_twice;
	return note_request(request);
}

static enum outcome break_hold(struct backend *backend, const char *name, const struct row *row,
			       struct error *err)
{
	(void)backend;
	(void)name;
	(void)err;
	strcat(broken, row->id);
	return answer;
}

static const struct backend_ops ops = {
	.acquire = renew_row, .renew = renew_row, .release = release_row, .show = show_rows,
	.break_hold = break_hold,
};
static struct backend backend = { .ops = &ops };

static void store_row(size_t i, const char *id, bool mine, bool holds, const char *text)
{
	stored[i] = (struct stored){ .row = { .mine = mine,
					      .age_ms = 1000,
					      .left_ms = 5000,
					      .fence = holds ? 70 + i : 0 },
				     .holds = holds,
				     .text = text };
	snprintf(stored[i].row.id, sizeof(stored[i].row.id), "%s", id);
	stored_count = i + 1;
}

static void test_views(void)
{
	struct rows view = { 0 };
	struct name_list names = { 0 };
	struct error err = { 0 };
	char text[64];

	store_row(0, "x", false, true, "host=web2&pid=12");
	store_row(1, "y", false, false, "host=web3");
	store_row(2, "z", true, false, "host=web4");
	CHECK_INT(hold_show(&backend, "n", TOKEN, &view, &err), 0);
	CHECK_INT((int)view.hold_count, 1);
	CHECK_INT((int)view.waiter_count, 2);
	CHECK_INT((int)view.fence, 77);
	CHECK_STR(view.holds->holder.host, "web2");
	CHECK_INT(view.holds[0].left_ms, 5000);
	CHECK_INT(rows_ahead(&view), 1);
	rows_finish(&view);
	/* The end of a hold that lives with a process is in its record. */
	snprintf(text, sizeof(text), "until=%lld", (long long)clock_wall_ms() + 60000);
	store_row(0, "x", false, true, text);
	stored[0].row.left_ms = -1;
	stored[0].row.age_ms = INT64_MAX;
	CHECK_INT(hold_show(&backend, "n", "", &view, &err), 0);
	CHECK(view.holds[0].left_ms > 59000 && view.holds[0].left_ms <= 60000);
	CHECK_INT(view.holds[0].age_ms, LEASE_SHOWN_MS);
	CHECK_INT(rows_ahead(&view), -1);
	rows_finish(&view);
	CHECK_INT(hold_names(&backend, &names, &err), 0);
	CHECK_INT((int)names.count, 2);
	CHECK_STR(names.names[0], "a");
	name_list_finish(&names);
}

static void test_verify(void)
{
	struct request request = { .name = "n", .token = TOKEN, .mode = HOLD_EXCLUSIVE };
	struct error err = { 0 };
	uint64_t fence = 0;

	store_row(0, "x", true, true, "host=web2");
	stored[0].row.fence = 7;
	CHECK_INT(hold_verify(&backend, &request, &fence, &err), OUTCOME_HELD);
	CHECK_INT((int)fence, 7);
	stored[0].row.mode = HOLD_SHARED;
	CHECK_INT(hold_verify(&backend, &request, &fence, &err), OUTCOME_BUSY);
	request.mode = HOLD_ANY;
	CHECK_INT(hold_verify(&backend, &request, &fence, &err), OUTCOME_HELD);
	store_row(0, "x", false, true, "host=web2&pid=5");
	CHECK_INT(hold_verify(&backend, &request, &fence, &err), OUTCOME_LOST);
	CHECK(strstr(err.message, "held by web2 pid 5") != NULL);
	/* A hold that is only kept for its minimum is nobody's. */
	store_row(0, "x", true, true, "kept=99");
	CHECK_INT(hold_verify(&backend, &request, &fence, &err), OUTCOME_LOST);
	store_row(0, "x", true, false, "host=web2");
	CHECK_INT(hold_verify(&backend, &request, &fence, &err), OUTCOME_LOST);
	stored_count = 0;
	CHECK_INT(hold_verify(&backend, &request, &fence, &err), OUTCOME_LOST);
	CHECK(strstr(err.message, "free") != NULL);
}

/* Sorted, as a list of all locks is, and not each name compared with all. */
static void test_many_names(void)
{
	struct name_list names = { 0 };
	char name[16];
	clock_t began;

	for (int i = 0; i < 200000; i++)
		name_list_add(&names, name, (size_t)snprintf(name, sizeof(name), "n%d",
							     i * 7919 % 100000));
	began = clock();
	name_list_sort(&names);
	CHECK(clock() - began < 10 * CLOCKS_PER_SEC);
	CHECK_INT((int)names.count, 100000);
	CHECK_STR(names.names[99999], "n99999");
	name_list_finish(&names);
}

static void test_renew(void)
{
	struct request request = { .name = "n", .token = TOKEN, .mode = HOLD_ANY,
				   .text = "host=other" };
	struct grant grant = { 0 };
	struct error err = { 0 };

	answer = OUTCOME_HELD;
	given = (struct grant){ .ttl_ms = 9000 };
	store_row(0, "x", true, true, "ttl=8000&host=h");
	CHECK_INT(hold_renew_other(&backend, &request, &grant, &err), OUTCOME_HELD);
	CHECK_INT(asked.ttl_ms, 8000);
	CHECK_STR(asked_text, "(none)");
	CHECK_INT(grant.ttl_ms, 8000);
	CHECK_INT((int)grant.fence, 70);
	/* Not to less than is left, and 30 s where no TTL is stored. */
	stored[0].row.left_ms = 20000;
	CHECK_INT(hold_renew_other(&backend, &request, &grant, &err), OUTCOME_HELD);
	CHECK_INT(asked.ttl_ms, 20000);
	store_row(0, "x", true, true, "host=h");
	CHECK_INT(hold_renew_other(&backend, &request, &grant, &err), OUTCOME_HELD);
	CHECK_INT(asked.ttl_ms, BACKEND_TTL_MS);
	/* A TTL that is asked for becomes the hold's own. */
	request.ttl_ms = 3000;
	CHECK_INT(hold_renew_other(&backend, &request, &grant, &err), OUTCOME_HELD);
	CHECK_INT(asked.ttl_ms, 3000);
	CHECK_STR(asked_text, "ttl=3000&host=h");
	store_row(0, "x", false, true, "host=h");
	CHECK_INT(hold_renew_other(&backend, &request, &grant, &err), OUTCOME_LOST);
	/* No later fence is larger than a forged one. */
	given.fence = BACKEND_FENCE_END;
	CHECK_INT(hold_acquire(&backend, &request, &grant, &err), OUTCOME_ERROR);
	given.fence = BACKEND_FENCE_END - 1;
	CHECK_INT(hold_acquire(&backend, &request, &grant, &err), OUTCOME_HELD);
}

static void test_release(void)
{
	const struct request request = { .name = "n", .token = TOKEN };
	const struct holder self = { .host = "h" };
	const int64_t end_ms = clock_boot_ms() + 60000;
	struct error err = { 0 };

	answer = OUTCOME_HELD;
	CHECK_INT(hold_release(&backend, &request, &self, 0, end_ms, &err), OUTCOME_HELD);
	CHECK_INT(asked.keep_ms, 0);
	CHECK_STR(asked_text, "(none)");
	CHECK_INT(hold_release(&backend, &request, &self, 500, end_ms, &err), OUTCOME_HELD);
	CHECK_INT(asked.keep_ms, 500);
	CHECK(!strncmp(asked_text, "kept=", 5) && strstr(asked_text, "&host=h"));
	answer = OUTCOME_LOST;
	CHECK_INT(hold_release(&backend, &request, &self, 0, end_ms, &err), OUTCOME_LOST);
	sent_twice = true;
	CHECK_INT(hold_release(&backend, &request, &self, 0, end_ms, &err), OUTCOME_HELD);
	CHECK_INT(hold_release(&backend, &request, &self, 0, clock_boot_ms() - 1, &err),
		  OUTCOME_LOST);
	sent_twice = false;
	/* Another process finds the minimum hold in the record. */
	answer = OUTCOME_HELD;
	store_row(0, "x", true, true, "host=h&min=1500");
	CHECK_INT(hold_release_other(&backend, &request, &err), OUTCOME_HELD);
	CHECK_INT(asked.keep_ms, 500);
	stored[0].row.age_ms = 2000;
	CHECK_INT(hold_release_other(&backend, &request, &err), OUTCOME_HELD);
	CHECK_INT(asked.keep_ms, 0);
	/* Once it has been released, no second release ends the minimum hold. */
	store_row(0, "x", true, true, "host=h&min=1500&kept=99");
	asked.name = NULL;
	CHECK_INT(hold_release_other(&backend, &request, &err), OUTCOME_LOST);
	CHECK(!asked.name);
}

static void test_break(void)
{
	struct rows view = { 0 };
	struct error err = { 0 };

	store_row(0, "x", false, true, "");
	store_row(1, "y", true, true, "");
	store_row(2, "z", false, false, "");
	CHECK_INT(hold_show(&backend, "n", "", &view, &err), 0);
	answer = OUTCOME_LOST;
	CHECK_INT(hold_break(&backend, "n", &view, &err), OUTCOME_LOST);
	CHECK_STR(broken, "xy");
	answer = OUTCOME_HELD;
	CHECK_INT(hold_break(&backend, "n", &view, &err), OUTCOME_HELD);
	answer = OUTCOME_ERROR;
	CHECK_INT(hold_break(&backend, "n", &view, &err), OUTCOME_ERROR);
	rows_finish(&view);
}

static int64_t look_in(int64_t left_ms, int64_t ahead, bool foreign)
{
	return hold_retry_at(left_ms, ahead, foreign) - clock_boot_ms();
}

static void test_looks(void)
{
	struct hold_late late = { .since_ms = 0 };
	const int64_t now = clock_boot_ms();

	for (int i = 0; i < 100; i++) {
		unit_case("look %d", i);
		CHECK(look_in(-1, 1, false) >= HOLD_RETRY_MS - 1);
		CHECK(look_in(5500, 1, false) >= HOLD_RETRY_MS - 1);
		CHECK(look_in(10, 7, false) >= HOLD_RETRY_MS - 1);
		CHECK(look_in(10, INT64_MAX, false) >= HOLD_RETRY_MS - 1);
		CHECK(look_in(100, 1, true) >= 190 && look_in(100, 1, true) <= 202);
		CHECK(look_in(100, 2, false) >= 190 + HOLD_LATE_MS);
		CHECK(look_in(0, INT64_MIN, false) <= 20);
		CHECK(look_in(-1, 0, false) <= HOLD_RETRY_MS + 500);
		CHECK(look_in(1000, 0, false) <= 1002 && look_in(1000, 0, false) >= 990);
		CHECK(look_in(0, 0, false) >= 10 && look_in(0, 0, false) <= 20);
		CHECK(look_in(-1, 0, true) >= 190 && look_in(-1, 0, true) <= 300);
		CHECK(look_in(100, 0, true) <= 102);
	}
	unit_case("late");
	CHECK(hold_watch_late(&late, "") == CLOCK_NEVER);
	CHECK(hold_watch_late(&late, "x") >= now + HOLD_LATE_MS);
	late.since_ms -= HOLD_LATE_MS;
	CHECK_INT(hold_watch_late(&late, "x"), 0);
	CHECK(hold_watch_late(&late, "y") >= now + HOLD_LATE_MS);
}

int main(void)
{
	test_views();
	test_verify();
	test_many_names();
	test_renew();
	test_release();
	test_break();
	test_looks();
	return unit_done();
}
