/* SPDX-License-Identifier: MIT */
/* What the client library's thread reports to a connection. */
#include <string.h>

#include "unit.h"

#ifndef WITHOUT_ZOOKEEPER
#include "backends/zookeeper/conn.h"
#include "lock/uri.h"

/* The library connects again while dlock closes the session, and nobody reads that in time. */
static void test_connected_at_close(void)
{
	struct backend limits = { .cancel_fd = -1 };
	struct zk_conn conn = { 0 };
	struct error err;
	struct uri uri;

	CHECK(!uri_parse(&uri, "zookeeper://127.0.0.1", &err));
	CHECK(!zk_conn_init(&conn, &limits, &uri, &err));
	zk_conn_report(&conn, (struct zk_news){ .state = ZOO_CONNECTED_STATE });
	zk_conn_close(&conn);
	CHECK_INT(conn.state, 0);
	zk_conn_finish(&conn);
	uri_finish(&uri);
}

static void add_contact(struct zk_conn *conn, int64_t sent_ms)
{
	memmove(&conn->contacts[1], conn->contacts, (ZK_CONTACTS - 1) * sizeof(sent_ms));
	conn->contacts[0] = sent_ms;
}

/* A hold is renewed after a third of its lease, with another contact halfway: see zk_renew(). */
static void test_leases(bool halfway)
{
	struct zk_conn conn = { .ttl_ms = 10000, .started_ms = 1000 };
	int64_t sent_ms = 1200, lease_ms, least_ms = conn.ttl_ms;

	unit_case("leases%s", halfway ? ", with contacts halfway" : "");
	for (int i = 0; i < 100; i++) {
		lease_ms = zk_conn_lease(&conn, sent_ms);
		add_contact(&conn, sent_ms);
		if (halfway)
			add_contact(&conn, sent_ms + lease_ms / 6);
		sent_ms += lease_ms / 3;
		least_ms = lease_ms < least_ms ? lease_ms : least_ms;
	}
	CHECK_INT(least_ms >= conn.ttl_ms * 3 / 5, halfway);
}
#endif

int main(void)
{
#ifndef WITHOUT_ZOOKEEPER
	test_connected_at_close();
	test_leases(true);
	test_leases(false);
#endif
	return unit_done();
}
