/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * window.h - when the crawler may crawl: hours of days of the week, by the clock on the wall.
 *
 *   Mon..Fri 20:00-06:00     begins on these days, ends on the next one
 *   Sat,Sun 00:00-24:00      two whole days
 *   22:30-05:00              every day
 *
 * It is open if one of them is; without any it is always open.  The clock is looked at anew each
 * time, in the machine's time zone: a clock that was set counts at once, an hour that is left out
 * in spring opens nothing, and one that comes twice in autumn counts twice.
 */
#ifndef WINDOW_H
#define WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define WINDOWS_MAX 16
#define WINDOW_TEXT 48

struct window {
	uint8_t days; /* on which it begins: bits by tm_wday */
	uint16_t from, to; /* minutes of the day, to: up to 1440; not above from: of the next day */
};

struct windows {
	struct window w[WINDOWS_MAX];
	unsigned int n;
};

/* -EINVAL and why: what is wrong, and what would be right. */
int window_parse(const char *text, struct window *out, char *why, size_t size);
/* As window_parse() takes it, and always the same. */
void window_text(const struct window *w, char out[WINDOW_TEXT]);

bool windows_open(const struct windows *w, time_t now);
/* When that will be otherwise, as far as 15 days tell; 0: not in these. */
time_t windows_change(const struct windows *w, time_t now);

/* ---- .postcopy/window of the volume whose root is @root_fd (window_file.c) ---- */

/* None if there is no such file.  -EBADMSG: not what windows_store() writes; other -errno. */
int windows_load(int root_fd, struct windows *out);
/* On the disk when it returns, whole or not at all; none: removes it.  -errno */
int windows_store(int root_fd, const struct windows *w);

#endif
