/* SPDX-License-Identifier: MIT */
/*
 * The two clocks. Deadlines are on CLOCK_BOOTTIME, which advances while the machine sleeps and
 * which nobody can set. Wall-clock time is only shown to people and stored for other hosts.
 */
#pragma once

#include <limits.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <time.h>

#define CLOCK_NEVER INT64_MAX

/* Return the time of a clock in us. */
static inline int64_t clock_read_us(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static inline int64_t clock_boot_ms(void)
{
	return clock_read_us(CLOCK_BOOTTIME) / 1000;
}

static inline int64_t clock_wall_ms(void)
{
	return clock_read_us(CLOCK_REALTIME) / 1000;
}

/*
 * Return the whole seconds of a time or a duration. Where time_t has 32 bits, as on i386, this is
 * at most its last second, in 2038.
 */
static inline time_t clock_seconds(int64_t ms)
{
	const int64_t seconds = ms / 1000;

	if (sizeof(time_t) < sizeof(seconds) && seconds > INT32_MAX)
		return INT32_MAX;
	return (time_t)seconds;
}

static inline int64_t clock_earlier(int64_t a_ms, int64_t b_ms)
{
	return a_ms < b_ms ? a_ms : b_ms;
}

/* Return the time duration_ms after start_ms, both at most CLOCK_NEVER; so is the result. */
static inline int64_t clock_after(int64_t start_ms, int64_t duration_ms)
{
	return duration_ms > CLOCK_NEVER - start_ms ? CLOCK_NEVER : start_ms + duration_ms;
}

/* Return the timeout for poll() until deadline_ms, rounded up so that poll() never ends early. */
static inline int clock_poll_timeout(int64_t deadline_ms)
{
	int64_t left;

	if (deadline_ms == CLOCK_NEVER)
		return -1;
	left = deadline_ms - clock_boot_ms();
	if (left < 0)
		return 0;
	return left > INT_MAX / 2 ? INT_MAX / 2 : (int)left;
}

/*
 * Open a timer on CLOCK_BOOTTIME, whose descriptor becomes readable. The timeout of poll() does not
 * advance while the machine sleeps and would end too late. -1: the kernel gives no timer, and the
 * caller has only that timeout.
 */
static inline int clock_timer_open(void)
{
	return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

/* Return deadline_ms as an absolute time for a timer; CLOCK_NEVER disarms the timer. */
static inline struct itimerspec clock_timer_spec(int64_t deadline_ms)
{
	struct itimerspec when = { .it_value = { 0, 0 } };

	/* A time of 0 would disarm the timer. */
	if (deadline_ms < 1)
		deadline_ms = 1;
	if (deadline_ms != CLOCK_NEVER) {
		when.it_value.tv_sec = clock_seconds(deadline_ms);
		when.it_value.tv_nsec = (long)(deadline_ms % 1000 * 1000000);
	}
	return when;
}

/* Make the timer readable at deadline_ms, and not before. */
static inline void clock_timer_set(int timer, int64_t deadline_ms)
{
	const struct itimerspec when = clock_timer_spec(deadline_ms);

	timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}
