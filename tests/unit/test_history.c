/* SPDX-License-Identifier: MIT */
/* Tests tests/torture/history.c. */
#include "unit.h"

#include "../torture/history.h"

/* What is wrong with a history: its findings, one after the other. */
static char found[1000];

static void append_finding(void *context, const char *finding)
{
	size_t used = strlen(found);

	(void)context;
	snprintf(found + used, sizeof(found) - used, "%s\n", finding);
}

static int judge_text(const char *text)
{
	found[0] = '\0';
	return history_check(text, strlen(text), NULL, append_finding, NULL);
}

static const struct {
	const char *name, *text;
	const char *finding;	/* NULL: nothing is wrong */
} rows[] = {
	{ "empty", "", NULL },
	{ "one after the other",
	  "1.000000 begin a 10 5 x\n1.500000 beat a 10\n2.000000 end a 10\n2.100000 exit a 0\n"
	  "3.000000 begin b 11 6 x\n4.000000 end b 11\n", NULL },
	{ "lines in any order, and remarks",
	  "3.000000 begin b 11 6 x\n# 1.0 kill\n1.500000 beat a 12\n1.000000 begin a 10 5 x\n",
	  NULL },
	{ "a line cut short by a kill", "1.000000 begin a 10 5 x\n1.50", NULL },
	{ "overlap", "1.000000 begin a 10 5 x\n3.000001 beat a 10\n3.000000 begin b 11 6 x\n",
	  "overlap: hold a" },
	{ "overlap in one instant",
	  "1.000000 begin a 10 5 x\n3.000000 beat a 10\n3.000000 begin b 11 6 x\n",
	  "overlap: hold a" },
	{ "overlap by what the command has left behind",
	  "1.000000 begin a 10 5 x\n2.000000 end a 10\n3.000000 begin b 11 6 x\n"
	  "3.000001 beat a 99\n",
	  "overlap: hold a" },
	{ "overlap with one before the last",
	  "1.000000 begin a 10 5 x\n2.000000 begin b 11 6 s\n9.000000 begin c 12 7 x\n"
	  "2.100000 end b 11\n9.500000 beat a 10\n", "hold c (fence 7) began" },
	{ "fence that shrinks",
	  "1.000000 begin a 10 6 x\n2.000000 end a 10\n3.000000 begin b 11 5 x\n",
	  "fence of hold b, 5, is below 6" },
	{ "fence that stays",
	  "1.000000 begin a 10 6 x\n2.000000 end a 10\n3.000000 begin b 11 6 x\n",
	  "have the same fence" },
	{ "fence that shrinks behind one that grew",
	  "1.000000 begin a 10 6 x\n2.000000 begin b 11 9 x\n3.000000 begin c 12 7 x\n",
	  "fence of hold c, 7, is below 9" },
	{ "no fences", "1.000000 begin a 10 - x\n2.000000 begin b 11 - x\n", NULL },
	{ "a beat after its own end",
	  "1.000000 begin a 10 5 x\n2.000000 end a 10\n2.000001 beat a 10\n", "after its end" },
	{ "a beat after the end of its dlock",
	  "1.000000 begin a 10 5 x\n2.000000 end a 10\n2.100000 exit a 0\n2.200000 beat a 12\n",
	  "after its dlock had ended" },
	{ "a daemon that outlives the command alone",
	  "1.000000 begin a 10 5 x\n2.000000 end a 10\n2.200000 beat a 12\n2.300000 exit a 0\n",
	  NULL },
	{ "shared ones", "1.000000 begin a 10 6 s\n3.000000 beat a 10\n2.000000 begin b 11 5 s\n",
	  NULL },
	{ "shared and exclusive",
	  "1.000000 begin a 10 5 s\n3.000000 beat a 10\n2.000000 begin b 11 6 x\n", "overlap" },
	{ "exclusive and shared",
	  "1.000000 begin a 10 5 x\n3.000000 beat a 10\n2.000000 begin b 11 6 s\n", "overlap" },
	{ "shared and slots",
	  "1.000000 begin a 10 5 s\n3.000000 beat a 10\n2.000000 begin b 11 6 2\n", "overlap" },
	{ "two numbers of slots",
	  "1.000000 begin a 10 5 3\n3.000000 beat a 10\n2.000000 begin b 11 6 2\n", "overlap" },
	{ "two of two slots",
	  "1.000000 begin a 10 5 2\n3.000000 beat a 10\n2.000000 begin b 11 6 2\n", NULL },
	{ "three of two slots",
	  "1.000000 begin a 10 5 2\n3.000000 beat a 10\n2.000000 begin b 11 6 2\n"
	  "4.000000 beat b 11\n"
	  "2.500000 begin c 12 7 2\n", "number 3 of 2 slots" },
	{ "three of two slots, never more than two at once",
	  "1.000000 begin a 10 5 2\n3.000000 beat a 10\n2.000000 begin b 11 6 2\n"
	  "4.000000 beat b 11\n"
	  "3.500000 begin c 12 7 2\n", NULL },
	{ "a beat of nobody", "1.000000 beat a 10\n", "never began" },
	{ "two begins of one hold", "1.000000 begin a 10 5 x\n2.000000 begin a 11 6 x\n",
	  "began twice" },
	{ "not a history", "something else\n", "not a line" },
	{ "a mode that is none", "1.000000 begin a 10 5 0\n", "not a line" },
	{ "a word that is none", "1.000000 breathe a 10\n", "not a line" },
};

int main(void)
{
	struct history history;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		unit_case("%s", rows[i].name);
		if (rows[i].finding) {
			CHECK(judge_text(rows[i].text) > 0);
			CHECK_HAS(found, rows[i].finding);
		} else {
			CHECK_INT(judge_text(rows[i].text), 0);
			CHECK_STR(found, "");
		}
	}
	unit_case("holds");
	CHECK_INT(history_check(rows[2].text, strlen(rows[2].text), &history,
				append_finding, NULL), 0);
	CHECK_INT(history.count, 2);
	CHECK_STR(history.holds[0].name, "a");
	CHECK_INT(history.holds[0].begin_ns, 1000000);
	CHECK_INT(history.holds[0].last_ns, 1500000);
	CHECK_INT(history.holds[0].fence, 5);
	CHECK_STR(history.holds[1].name, "b");
	history_free(&history);
	return unit_done();
}
