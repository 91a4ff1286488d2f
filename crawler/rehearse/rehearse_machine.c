/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "rehearse/rehearse_inside.h"

static uint64_t us(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

void machine_look(struct machine *m)
{
	uint64_t t[8] = { 0 }; /* user nice system idle iowait irq softirq steal */
	FILE *f = fopen("/proc/stat", "re");
	struct rusage own;

	memset(m, 0, sizeof(*m));
	if (f && fscanf(f,
			"cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
			" %" SCNu64 " %" SCNu64,
			&t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) >= 4) {
		m->cpu_busy = t[0] + t[1] + t[2] + t[5] + t[6] + t[7];
		m->cpu_all = m->cpu_busy + t[3] + t[4];
	}
	if (f)
		fclose(f);
	if (getrusage(RUSAGE_SELF, &own) == 0)
		m->own_us = us(own.ru_utime) + us(own.ru_stime);
}
