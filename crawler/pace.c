/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "pace.h"

#include <string.h>

#define EPOCH_MS      500
#define EPOCH_GROW_MS 100 /* while nothing has been in vain */
#define EPOCH_ROUNDS  2	  /* so many answers for each place, too */
#define STEP	      1.5 /* a window to the next one */
#define GROW_STEP     2.0
#define WORTH	      0.3 /* more are kept for this part of what they could bring */
#define EQUAL	      0.95 /* fewer are kept if the rate is that of the usual number, about */
#define REST_MIN_MS   4000
#define REST_MAX_MS   60000

static unsigned int clamp(const struct pace *p, double window)
{
	return window < p->least ? p->least :
	       window > p->most	 ? p->most :
				   (unsigned int)window;
}

static void begin_epoch(struct pace *p, uint64_t now_ms)
{
	p->since_ms = now_ms;
	p->answers = p->busy = 0;
}

void pace_init(struct pace *p, unsigned int least, unsigned int most)
{
	memset(p, 0, sizeof(*p));
	p->least = p->window = p->usual = least;
	p->most = most;
	p->growing = p->up = true;
	p->rest_ms = REST_MIN_MS;
}

static void rest(struct pace *p, uint64_t now_ms)
{
	p->window = p->usual;
	p->trying = PACE_MEASURE;
	p->growing = false;
	p->try_at_ms = now_ms + p->rest_ms;
}

static void try_window(struct pace *p, uint64_t now_ms, bool more)
{
	double step = p->growing ? GROW_STEP : STEP;

	p->window = clamp(p, more ? p->usual * step : p->usual / step);
	p->trying = more ? PACE_MORE : PACE_FEWER;
	p->up = !more;
	if (p->window == p->usual)
		rest(p, now_ms);
}

/* With the usual number in flight. */
static void measured(struct pace *p, uint64_t now_ms, double rate)
{
	p->rate = p->rate > 0 && !p->growing ? (p->rate + rate) / 2 : rate;
	if (p->growing || now_ms >= p->try_at_ms)
		try_window(p, now_ms, p->growing || p->up);
}

/* Is it worth it to go on with the number that was tried? */
static bool is_better(const struct pace *p, double rate)
{
	double could = (double)p->window / p->usual - 1;

	if (p->trying == PACE_FEWER)
		return rate >= p->rate * EQUAL;
	return rate >= p->rate * (1 + WORTH * could);
}

static void tried(struct pace *p, uint64_t now_ms, double rate)
{
	if (is_better(p, rate)) {
		p->usual = p->window;
		p->rate = rate;
		p->rest_ms = REST_MIN_MS;
		try_window(p, now_ms, p->trying == PACE_MORE); /* on in this direction */
		return;
	}
	if (!p->growing && (p->rest_ms *= 2) > REST_MAX_MS)
		p->rest_ms = REST_MAX_MS;
	rest(p, now_ms);
}

void pace_done(struct pace *p, uint64_t now_ms, bool busy)
{
	unsigned int epoch_ms = p->growing ? EPOCH_GROW_MS : EPOCH_MS;
	uint64_t took;
	double rate;

	if (p->least == p->most)
		return;
	if (!p->since_ms)
		begin_epoch(p, now_ms);
	p->answers++;
	p->busy += busy;
	took = now_ms - p->since_ms;
	if (took < epoch_ms || p->answers < EPOCH_ROUNDS * p->window)
		return;
	rate = p->answers * 1000.0 / (double)took;
	if (p->busy < p->answers - p->answers / 4)
		; /* not for want of places */
	else if (p->trying == PACE_MEASURE)
		measured(p, now_ms, rate);
	else
		tried(p, now_ms, rate);
	begin_epoch(p, now_ms);
}
