/* SPDX-License-Identifier: MIT */
/* The arithmetic of leases: lease.h. */
#include "lease.h"

#include "base/clock.h"

/* Returns the time that KILL may need for a whole tree: 5 % of the TTL, 20 to 250 ms. */
static int64_t kill_margin(int64_t ttl_ms)
{
	const int64_t margin = ttl_ms / 20;

	return margin < 20 ? 20 : clock_earlier(margin, 250);
}

int64_t lease_end(int64_t sent_ms, int64_t ttl_ms)
{
	return sent_ms + (ttl_ms - (ttl_ms / 100 + 2));
}

int64_t lease_bound(int64_t granted_ms, int64_t asked_ms, bool session)
{
	int64_t most_ms = asked_ms ? asked_ms : LEASE_MOST_MS;

	if (granted_ms <= 0)
		return session && !granted_ms ? 0 : asked_ms;
	if (session && most_ms < LEASE_SESSION_MS)
		most_ms = LEASE_SESSION_MS;
	return clock_earlier(granted_ms, most_ms);
}

int64_t lease_shown(int64_t ms)
{
	return ms < 0 ? -1 : clock_earlier(ms, LEASE_SHOWN_MS);
}

int64_t lease_renew_at(int64_t sent_ms, int64_t ttl_ms)
{
	return sent_ms + ttl_ms / 3;
}

int64_t lease_retry_ms(int64_t ttl_ms)
{
	return clock_earlier(ttl_ms / 20, 1000);
}

int64_t lease_kill_after(int64_t ttl_ms, int64_t kill_after_ms)
{
	return ttl_ms ? clock_earlier(kill_after_ms, ttl_ms / 3) : kill_after_ms;
}

int64_t lease_keep(int64_t held_ms, int64_t min_hold_ms, int64_t now_ms)
{
	int64_t rest_ms = min_hold_ms - (now_ms - held_ms);

	return min_hold_ms > 0 && rest_ms > 0 ? rest_ms : 0;
}

struct lease_stop lease_stop(struct lease_span lease, int64_t kill_after_ms)
{
	int64_t margin = kill_margin(lease.ttl_ms);
	int64_t grace = lease_kill_after(lease.ttl_ms, kill_after_ms);
	struct lease_stop stop = { CLOCK_NEVER, CLOCK_NEVER, CLOCK_NEVER };

	if (lease.end_ms == CLOCK_NEVER)
		return stop;
	stop.kill_ms = lease.end_ms - margin;
	stop.force_ms = lease.end_ms - margin / 2;
	stop.term_ms = lease.end_ms - (grace > margin ? grace : margin);
	return stop;
}
