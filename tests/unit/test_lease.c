/* SPDX-License-Identifier: MIT */
/* Tests src/lock/lease.c. */
#include "unit.h"

#include "base/clock.h"
#include "lock/lease.h"

static const int64_t ttls[] = { 1000, 1001, 2000, 3000, 10000, 30000, 60000, 86400000 };
static const int64_t kill_afters[] = { 0, 1, 100, 333, 5000, 60000, INT64_MAX / 4 };

int main(void)
{
	struct lease_stop stop;

	/* 1 % and 2 ms off, from before the request was sent. */
	CHECK_INT(lease_end(0, 30000), 29698);
	CHECK_INT(lease_end(500, 1000), 1488);
	CHECK_INT(lease_renew_at(100, 30000), 10100);
	CHECK(lease_end(1000, INT64_MAX) > 0);
	CHECK(lease_end(1000, INT64_MIN) < 0);
	CHECK_INT(lease_bound(1000, 2000, false), 1000);
	CHECK_INT(lease_bound(INT64_MAX, 2000, false), 2000);
	CHECK_INT(lease_bound(0, 2000, false), 2000);
	CHECK_INT(lease_bound(INT64_MIN, 2000, false), 2000);
	CHECK_INT(lease_bound(0, 0, false), 0);
	CHECK_INT(lease_bound(INT64_MAX, 0, false), LEASE_MOST_MS);
	CHECK_INT(lease_bound(0, 2000, true), 0);
	CHECK_INT(lease_bound(4000, 2000, true), 4000);
	CHECK_INT(lease_bound(INT64_MAX, 2000, true), LEASE_SESSION_MS);
	CHECK_INT(lease_bound(-1, 2000, true), 2000);
	CHECK_INT(lease_shown(INT64_MIN), -1);
	CHECK_INT(lease_shown(INT64_MAX), LEASE_SHOWN_MS);
	CHECK_INT(lease_kill_after(30000, 5000), 5000);
	CHECK_INT(lease_kill_after(3000, 5000), 1000);
	CHECK_INT(lease_kill_after(3000, 0), 0);
	CHECK_INT(lease_kill_after(0, 5000), 5000);

	stop = lease_stop((struct lease_span){ 29698, 30000 }, 5000);
	CHECK_INT(stop.term_ms, 24698);
	CHECK_INT(stop.kill_ms, 29448);
	stop = lease_stop((struct lease_span){ CLOCK_NEVER, 0 }, 5000);
	CHECK_INT(stop.term_ms, CLOCK_NEVER);
	CHECK_INT(stop.kill_ms, CLOCK_NEVER);
	CHECK_INT(stop.force_ms, CLOCK_NEVER);

	for (size_t i = 0; i < sizeof(ttls) / sizeof(ttls[0]); i++) {
		for (size_t j = 0; j < sizeof(kill_afters) / sizeof(kill_afters[0]); j++) {
			int64_t end = lease_end(0, ttls[i]);

			unit_case("ttl %lld, kill-after %lld", (long long)ttls[i],
				  (long long)kill_afters[j]);
			stop = lease_stop((struct lease_span){ end, ttls[i] }, kill_afters[j]);
			CHECK(stop.term_ms <= stop.kill_ms);
			CHECK(stop.kill_ms < stop.force_ms);
			CHECK(stop.force_ms < end);
			/* A renewal, and the retries after it, come before the TERM. */
			CHECK(lease_renew_at(0, ttls[i]) + lease_retry_ms(ttls[i]) <
			      stop.term_ms);
			CHECK(end - stop.term_ms <= ttls[i] / 3 + 250);
		}
	}
	return unit_done();
}
