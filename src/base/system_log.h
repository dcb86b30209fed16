/* SPDX-License-Identifier: MIT */
/*
 * Messages to the log of the system, as syslog(3) with LOG_DAEMON sends them. syslog(3) itself
 * waits for a logger that hangs; a process that watches a lease must not.
 */
#pragma once

/*
 * Sends "dlock[PID]: NAME: text", or without a name when that is NULL. priority is one of LOG_ERR
 * to LOG_DEBUG from <syslog.h>. Never waits: the message is lost when there is no logger, or when
 * the logger does not take it at once.
 */
void system_log(int priority, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
