/* SPDX-License-Identifier: MIT */
/* Reading and writing the data of dlock's nodes: record.h. */
#include "record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const states[] = {
	[ZK_NEW] = "new", [ZK_WAITING] = "waiting", [ZK_HELD] = "held",
};

void zk_record_write(char data[static ZK_RECORD_SIZE], const char *uuid, enum zk_state state,
		     int64_t taken_ms, const char *text)
{
	snprintf(data, ZK_RECORD_SIZE, "state=%s&taken=%" PRId64 "&%s%s%s%s", states[state],
		 taken_ms, uuid ? "uuid=" : "", uuid ? uuid : "", uuid ? "&" : "", text);
}

void zk_record_read(struct zk_record *record, const char *data, const char *uuid)
{
	char state[8], own[ZK_UUID_SIZE] = "";
	int64_t taken_ms;

	*record = (struct zk_record){ .state = ZK_FOREIGN };
	if (!data || sscanf(data, "state=%7[a-z]&taken=%" SCNd64 "&uuid=%36[^&]", state, &taken_ms,
			    own) < 2)
		return;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (!strcmp(state, states[i]))
			record->state = (enum zk_state)i;
	record->taken_ms = taken_ms < 0 ? 0 : taken_ms;
	record->mine = own[0] && !strcmp(own, uuid);
}
