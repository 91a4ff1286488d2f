/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "source/pace.h"

#include <string.h>

#define EPOCH_MS      500
#define EPOCH_GROW_MS 100 /* before it has settled */
#define EPOCH_ROUNDS  2	  /* so many answers for each place, too */
#define STEP	      1.5 /* a window to the next one */
#define GROW_STEP     2.0
#define WORTH	      0.3 /* more are kept for this part of what they could bring */
#define EQUAL	      0.95 /* fewer are kept if the rate is that of the usual number, about */
#define IDLE_MS	      5000 /* without an answer: what was before says nothing */
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
	p->work = 0;
}

void pace_init(struct pace *p, unsigned int least, unsigned int most)
{
	memset(p, 0, sizeof(*p));
	p->least = least;
	p->most = most;
	pace_begin(p, least);
}

void pace_begin(struct pace *p, unsigned int window)
{
	p->begin = p->window = p->usual = clamp(p, window);
	p->trying = PACE_MEASURE;
	p->phase = PACE_GROWS;
	p->up = true;
	p->rate = 0;
	p->rest_ms = REST_MIN_MS;
	begin_epoch(p, 0);
}

static void rest(struct pace *p, uint64_t now_ms)
{
	p->window = p->usual;
	p->trying = PACE_MEASURE;
	p->phase = PACE_SETTLED;
	p->try_at_ms = now_ms + p->rest_ms;
}

static void try_window(struct pace *p, uint64_t now_ms, bool more)
{
	double step = p->phase == PACE_SETTLED ? STEP : GROW_STEP;

	p->window = clamp(p, !more			     ? p->usual / step :
			     p->usual * step >= p->usual + 1 ? p->usual * step :
							       p->usual + 1);
	p->trying = more ? PACE_MORE : PACE_FEWER;
	p->up = !more;
	if (p->window == p->usual)
		rest(p, now_ms);
}

/* What was tried was in vain. */
static void turn(struct pace *p, uint64_t now_ms)
{
	if (p->phase == PACE_GROWS && p->usual == p->begin) {
		p->phase = PACE_SHRINKS;
		try_window(p, now_ms, false);
		return;
	}
	if (p->phase == PACE_SETTLED && (p->rest_ms *= 2) > REST_MAX_MS)
		p->rest_ms = REST_MAX_MS;
	rest(p, now_ms);
}

void pace_room(struct pace *p, uint64_t now_ms, unsigned int room)
{
	room = clamp(p, room);
	if (p->window <= room)
		return;
	if (p->trying == PACE_MORE && p->usual <= room) {
		turn(p, now_ms);
	} else {
		p->window = p->usual = room;
		p->trying = PACE_MEASURE;
		if (p->phase == PACE_GROWS)
			p->begin = room;
	}
	begin_epoch(p, now_ms);
}

/* With the usual number in flight. */
static void measured(struct pace *p, uint64_t now_ms, double rate)
{
	p->rate = p->rate > 0 && p->phase == PACE_SETTLED ? (p->rate + rate) / 2 : rate;
	if (p->phase != PACE_SETTLED || now_ms >= p->try_at_ms)
		try_window(p, now_ms, p->up);
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
	if (!is_better(p, rate)) {
		turn(p, now_ms);
		return;
	}
	p->usual = p->window;
	if (p->trying == PACE_MORE || rate > p->rate)
		p->rate = rate; /* else what fewer are compared to: many small losses are a large one */
	p->rest_ms = REST_MIN_MS;
	try_window(p, now_ms, p->trying == PACE_MORE); /* on in this direction */
}

void pace_done(struct pace *p, uint64_t now_ms, uint64_t work, bool busy)
{
	unsigned int epoch_ms = p->phase == PACE_SETTLED ? EPOCH_MS : EPOCH_GROW_MS;
	uint64_t took;
	double rate;

	if (p->least == p->most)
		return;
	if (!p->since_ms || now_ms - p->last_ms > IDLE_MS)
		begin_epoch(p, now_ms);
	p->last_ms = now_ms;
	p->answers++;
	p->work += work;
	p->busy += busy;
	took = now_ms - p->since_ms;
	if (took < epoch_ms || p->answers < EPOCH_ROUNDS * p->window)
		return;
	rate = (double)p->work * 1000 / (double)took;
	if (p->busy < p->answers - p->answers / 4)
		; /* not for want of places */
	else if (p->trying == PACE_MEASURE)
		measured(p, now_ms, rate);
	else
		tried(p, now_ms, rate);
	begin_epoch(p, now_ms);
}
