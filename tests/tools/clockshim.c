/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * clockshim.c - LD_PRELOAD: somebody sets the clock.  time() is off by as many seconds as the
 * file $CLOCK_OFF says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

time_t time(time_t *out)
{
	const char *path = getenv("CLOCK_OFF");
	FILE *f = path ? fopen(path, "re") : NULL;
	struct timespec now;
	long off = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	if (f) {
		if (fscanf(f, "%ld", &off) != 1)
			off = 0;
		fclose(f);
	}
	now.tv_sec += off;
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}
