/* SPDX-License-Identifier: GPL-3.0-or-later */
/* window.c - windows as text, and by the clock. */
#include "window/window.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DAY_MINUTES 1440
#define ALL_DAYS    0x7f
/* two weeks: a night in which the clock is changed may have none */
#define LOOK_AHEAD  (15 * DAY_MINUTES)

static const char *const names[] = { "Sunday",	 "Monday", "Tuesday", "Wednesday",
				     "Thursday", "Friday", "Saturday" };

static const char *skip_blanks(const char *s)
{
	return s + strspn(s, " \t");
}

/* ---- text ---- */

/* The day that @s begins with, by three letters or all of them; -1. */
static int take_day(const char **s)
{
	size_t n = strspn(*s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

	for (int i = 0; i < 7; i++) {
		if ((n == 3 || n == strlen(names[i])) && !strncasecmp(*s, names[i], n)) {
			*s += n;
			return i;
		}
	}
	return -1;
}

/* A list of days and ranges of days, which may go over Saturday. */
static int take_days(const char **s, uint8_t *days)
{
	do {
		int from, to;

		*s += *days && **s == ',';
		from = to = take_day(s);
		if (from >= 0 && !strncmp(*s, "..", 2)) {
			*s += 2;
			to = take_day(s);
		}
		if (from < 0 || to < 0)
			return -EINVAL;
		for (int i = from;; i = (i + 1) % 7) {
			*days |= (uint8_t)(1 << i);
			if (i == to)
				break;
		}
	} while (**s == ',');
	return 0;
}

static int take_time(const char **s, unsigned int *minutes)
{
	static const char digits[] = "0123456789";
	size_t n = strspn(*s, digits);
	unsigned int h, m;

	if (n < 1 || n > 2 || (*s)[n] != ':' || strspn(*s + n + 1, digits) != 2)
		return -EINVAL;
	sscanf(*s, "%u:%u", &h, &m);
	if (m > 59 || h * 60 + m > DAY_MINUTES)
		return -EINVAL;
	*s += n + 3;
	*minutes = h * 60 + m;
	return 0;
}

static int parse(const char *s, struct window *out)
{
	unsigned int from, to;

	*out = (struct window){ .days = 0 };
	s = skip_blanks(s);
	if (*s < '0' || *s > '9') {
		if (take_days(&s, &out->days) < 0 || *s == *skip_blanks(s))
			return -EINVAL;
	} else {
		out->days = ALL_DAYS;
	}
	s = skip_blanks(s);
	if (take_time(&s, &from) < 0 || *s++ != '-' || take_time(&s, &to) < 0 || *skip_blanks(s))
		return -EINVAL;
	if (from == to || from == DAY_MINUTES || to == 0)
		return -ERANGE;
	out->from = (uint16_t)from;
	out->to = (uint16_t)to;
	return 0;
}

int window_parse(const char *text, struct window *out, char *why, size_t size)
{
	int r = parse(text, out);

	if (r == -ERANGE)
		snprintf(why, size, "'%.60s' has no time in it: a whole day is 00:00-24:00, and a window "
				    "that ends at midnight ends at 24:00", text);
	else if (r < 0)
		snprintf(why, size, "'%.60s' is no window: want days and hours such as "
				    "'Mon..Fri 20:00-06:00', 'Sat,Sun 00:00-24:00' or '22:30-05:00'", text);
	return r < 0 ? -EINVAL : 0;
}

/* Runs of three days and more as A..B, from Monday on. */
static size_t put_days(uint8_t days, char *out, size_t size)
{
	size_t n = 0;

	for (int i = 0; i < 7; i++) {
		int run = 0;

		while (i + run < 7 && days & 1 << (i + run + 1) % 7)
			run++;
		if (run == 0)
			continue;
		n += (size_t)snprintf(out + n, size - n, "%s%.3s", n ? "," : "", names[(i + 1) % 7]);
		if (run > 2) {
			i += run - 1;
			n += (size_t)snprintf(out + n, size - n, "..%.3s", names[(i + 1) % 7]);
		}
	}
	return n;
}

void window_text(const struct window *w, char out[WINDOW_TEXT])
{
	size_t n = w->days == ALL_DAYS ? 0 : put_days(w->days, out, WINDOW_TEXT);

	snprintf(out + n, WINDOW_TEXT - n, "%s%02u:%02u-%02u:%02u", n ? " " : "", w->from / 60u,
		 w->from % 60u, w->to / 60u, w->to % 60u);
}

/* ---- the clock ---- */

static bool is_open(const struct windows *w, const struct tm *tm)
{
	int now = tm->tm_hour * 60 + tm->tm_min, before = (tm->tm_wday + 6) % 7;

	for (unsigned int i = 0; i < w->n; i++) {
		const struct window *a = &w->w[i];
		bool over_night = a->to <= a->from;

		if (a->days & 1 << tm->tm_wday && now >= a->from && (over_night || now < a->to))
			return true;
		if (over_night && a->days & 1 << before && now < a->to)
			return true;
	}
	return w->n == 0;
}

bool windows_open(const struct windows *w, time_t now)
{
	struct tm tm;

	tzset(); /* the machine may have got another zone */
	return localtime_r(&now, &tm) && is_open(w, &tm);
}

time_t windows_change(const struct windows *w, time_t now)
{
	bool open = windows_open(w, now);
	struct tm tm;

	if (w->n == 0 || !localtime_r(&now, &tm))
		return 0;
	now -= tm.tm_sec;
	for (int i = 0; i < LOOK_AHEAD; i++) {
		now += 60;
		if (localtime_r(&now, &tm) && is_open(w, &tm) != open)
			return now;
	}
	return 0;
}
