/* SPDX-License-Identifier: MIT */
/* Tests src/engine/shared.c. */
#include "unit.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/shared.h"

#define ROUNDS 200000

/* Publishes leases whose two values belong together, and nothing else, for ever. */
static void __attribute__((noreturn)) write_leases(struct shared *shared)
{
	for (int64_t n = 1;; n++)
		shared_set_lease(shared, (struct lease_span){ .end_ms = 3 * n, .ttl_ms = n });
}

int main(void)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t last = 0;
	pid_t writer;

	CHECK(shared != MAP_FAILED);
	shared_set_lease(shared, (struct lease_span){ .end_ms = CLOCK_NEVER });
	CHECK_INT(shared_lease(shared).end_ms, CLOCK_NEVER);
	CHECK_INT(shared_lease(shared).ttl_ms, 0);

	/* A reader sees no mix of two leases, and none older than it has seen. */
	writer = fork();
	if (writer == 0)
		write_leases(shared);
	while (shared_lease(shared).end_ms == CLOCK_NEVER)
		;
	for (int i = 0; i < ROUNDS; i++) {
		struct lease_span lease = shared_lease(shared);

		CHECK_INT(lease.end_ms, 3 * lease.ttl_ms);
		CHECK(lease.ttl_ms >= last);
		last = lease.ttl_ms;
	}
	/* A writer that is gone, at whatever point, holds nobody up. */
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
	CHECK_INT(shared_lease(shared).end_ms, 3 * shared_lease(shared).ttl_ms);
	return unit_done();
}
