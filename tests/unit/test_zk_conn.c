/* SPDX-License-Identifier: MIT */
/* What the client library's thread reports to a connection. */
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
#endif

int main(void)
{
#ifndef WITHOUT_ZOOKEEPER
	test_connected_at_close();
#endif
	return unit_done();
}
