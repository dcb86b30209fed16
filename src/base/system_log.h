/* SPDX-License-Identifier: MIT */
/*
 * Sends messages to the system's log, as syslog(3) with LOG_DAEMON does. But syslog(3) waits when
 * the logger hangs, and a process that watches a lease must not wait.
 */
#pragma once

/*
 * Send "dlock[PID]: NAME: text"; NULL: without a name. priority is one of LOG_ERR to LOG_DEBUG from
 * <syslog.h>. Never waits: the message is lost when the logger does not take it at once.
 */
void system_log(int priority, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
