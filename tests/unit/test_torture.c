/* SPDX-License-Identifier: MIT */
/* Tests tests/torture/plan.c. */
#include "unit.h"

#include "../torture/plan.h"

static const struct plan_options everything = {
	.shared = true, .slots = true, .network = true, .clock = true, .kinds = ~0U,
};

static bool has_daemon(const struct plan *plan)
{
	for (int i = 0; i < plan->contender_count; i++)
		if (plan->contenders[i].daemon)
			return true;
	return false;
}

/* Counts rounds of a thousand: those with a daemon, where all of dlock is killed or stopped. */
static int orphans_allowed(const struct plan_options *options, enum fault_kind kind)
{
	struct plan plan;
	int count = 0;

	for (unsigned round = 1; round <= 1000; round++) {
		plan_make(&plan, options, 1, "redis", round);
		for (int i = 0; i < plan.fault_count; i++)
			if (plan.faults[i].kind == kind && has_daemon(&plan)) {
				count++;
				break;
			}
	}
	return count;
}

static void test_bounds(void)
{
	unsigned kinds = 0, modes = 0;
	struct plan plan;
	bool ok = true;

	for (unsigned round = 1; round <= 1000; round++) {
		plan_make(&plan, &everything, 1, "redis", round);
		ok = ok && plan.contender_count >= 2 && plan.contender_count <= MAX_CONTENDERS &&
		     plan.fault_count >= 1 && plan.fault_count <= MAX_FAULTS && plan.ttl_ms >= 1000;
		for (int i = 0; i < plan.fault_count; i++) {
			kinds |= 1U << plan.faults[i].kind;
			ok = ok && plan.faults[i].victim < plan.contender_count;
		}
		for (int i = 0; i < plan.contender_count; i++)
			modes |= 1U << (plan.contenders[i].slots + 1);
	}
	CHECK(ok);
	/* what is done to servers is not planned by the round */
	CHECK_HEX(kinds, (1U << FAULT_SERVER_STOP) - 1);
	/* shared, exclusive, two and three slots */
	CHECK_HEX(modes, 1U << 0 | 1U << 1 | 1U << 3 | 1U << 4);
}

static bool is_same(const struct plan *one, const struct plan *other)
{
	bool ok = one->ttl_ms == other->ttl_ms && one->fault_count == other->fault_count &&
		  one->contender_count == other->contender_count;

	for (int i = 0; ok && i < one->fault_count; i++)
		ok = one->faults[i].kind == other->faults[i].kind &&
		     one->faults[i].at_ms == other->faults[i].at_ms &&
		     one->faults[i].for_ms == other->faults[i].for_ms &&
		     one->faults[i].victim == other->faults[i].victim;
	for (int i = 0; ok && i < one->contender_count; i++)
		ok = one->contenders[i].start_ms == other->contenders[i].start_ms &&
		     one->contenders[i].command_ms == other->contenders[i].command_ms &&
		     one->contenders[i].daemon == other->contenders[i].daemon;
	return ok;
}

static void test_again(void)
{
	struct plan one, other;

	plan_make(&one, &everything, 7, "redis", 12);
	plan_make(&other, &everything, 7, "redis", 12);
	CHECK(is_same(&one, &other));
	plan_make(&other, &everything, 8, "redis", 12);
	CHECK(!is_same(&one, &other));
	plan_make(&other, &everything, 7, "mysql", 12);
	CHECK(!is_same(&one, &other));
	plan_make(&other, &everything, 7, "redis", 13);
	CHECK(!is_same(&one, &other));
}

static void test_lacks(void)
{
	struct plan_options options = { .kinds = ~0U };
	struct plan plan;
	bool ok = true;

	for (unsigned round = 1; round <= 1000; round++) {
		plan_make(&plan, &options, 1, "file", round);
		for (int i = 0; i < plan.fault_count; i++)
			ok = ok && plan.faults[i].kind < FAULT_CUT &&
			     (plan.faults[i].kind > FAULT_STOP ||
			      plan.faults[i].role != ROLE_KEEPER);
		for (int i = 0; i < plan.contender_count; i++)
			ok = ok && plan.contenders[i].slots == 0;
	}
	CHECK(ok);
	options.kinds = 1U << FAULT_CUT;
	plan_make(&plan, &options, 1, "file", 1);
	CHECK_INT(plan.fault_count, 0);
}

static void test_contract(void)
{
	struct plan_options contained = everything;

	contained.contained = true;
	CHECK(orphans_allowed(&everything, FAULT_GROUP_KILL) > 0);
	CHECK_INT(orphans_allowed(&everything, FAULT_ALL_KILL), 0);
	CHECK_INT(orphans_allowed(&everything, FAULT_ALL_STOP), 0);
	CHECK(orphans_allowed(&contained, FAULT_ALL_KILL) > 0);
	CHECK(orphans_allowed(&contained, FAULT_ALL_STOP) > 0);
}

int main(void)
{
	test_bounds();
	test_again();
	test_lacks();
	test_contract();
	CHECK_INT(fault_by_name("server-restart"), FAULT_SERVER_RESTART);
	CHECK_INT(fault_by_name("flood"), FAULT_KINDS);
	return unit_done();
}
