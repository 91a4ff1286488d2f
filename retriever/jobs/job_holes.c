/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_holes.c - what the old server has no data for is not read.
 *
 * Of a file that is filled as a whole the source is asked where its holes are, if it can
 * tell; they are left holes here (stub_fill_hole), each in one step.  This only saves reads:
 * whatever is not as it should be (another version, no answer, no room in the record), the
 * bytes are read, and that tells what is wrong.
 */
#include <stdio.h>

#include "jobs/job_holes.h"

/* A smaller file, or rest of one, is read: a question costs about as much. */
#define WORTH_A_QUESTION (4u << 20)

/* Where a part of a file has no holes, so much is read before the next question, and each time
 * twice as much: a file in many small pieces has a long answer for each of its parts. */
#define REST_LEAST (16u << 20)
#define REST_MOST  (1u << 30)

void holes_init(struct holes *h)
{
	*h = (struct holes){ .wanted = true, .rest = REST_LEAST };
}

void holes_finish(struct holes *h)
{
	free(h->known.hole);
	*h = (struct holes){ 0 };
}

void holes_known(struct holes *h, uint64_t at)
{
	h->at = 0;
	if (h->known.n) {
		h->rest = REST_LEAST;
		return;
	}
	if (h->known.end < at + h->rest)
		h->known.end = at + h->rest;
	if (h->rest < REST_MOST)
		h->rest *= 2;
}

bool holes_cut(struct holes *h, struct stub_range *r)
{
	const struct source_holes *k = &h->known;

	while (h->at < k->n && k->hole[h->at].end <= r->start)
		h->at++;
	if (r->end > k->end)
		r->end = k->end;
	if (h->at == k->n || k->hole[h->at].start >= r->end)
		return false;
	if (k->hole[h->at].start > r->start) {
		r->end = k->hole[h->at].start;
		return false;
	}
	r->end = k->hole[h->at].end;
	return true;
}

/* False: nothing is known of what comes at @at. */
static bool ask(struct jobs *j, struct job *job, const struct stub_object *o, struct holes *h,
		uint64_t at)
{
	char why[STUB_REASON_MAX + 1];
	int r;

	if (at < h->known.end)
		return true;
	if (o->size < WORTH_A_QUESTION || at > o->size - WORTH_A_QUESTION)
		return false;
	job_wait_turn(j, job, 0);
	free(h->known.hole);
	h->known = (struct source_holes){ 0 };
	r = source_holes(j->c.source, job_priority(job), &o->origin, at, &h->known);
	/* a moved change time is no conflict, but a reason to read */
	if (r == 0 && (jobs_changed(o, &h->known.attr, why, sizeof(why)) ||
		       jobs_touched(o, &h->known.attr)))
		r = -ESTALE;
	if (r == 0 && h->known.end > at) {
		holes_known(h, at);
		return true;
	}
	holes_finish(h);
	return false;
}

enum holes_step holes_next(struct jobs *j, struct job *job, const struct stub_object *o,
			   struct holes *h, bool alone, struct stub_range *r, int64_t *left)
{
	struct stub_range hole = *r;

	if (!h->wanted || !ask(j, job, o, h, r->start))
		return HOLES_READ;
	if (!holes_cut(h, &hole)) {
		*r = hole;
		return HOLES_READ;
	}
	*left = stub_fill_hole(j->c.volume, o, hole.start, hole.end);
	if (!alone && (*left == -E2BIG || *left == -EOVERFLOW))
		return HOLES_WAIT;
	if (*left < 0) {
		holes_finish(h);
		return HOLES_READ;
	}
	trace(job->trace, "%llu bytes from %llu on are a hole",
	      (unsigned long long)(hole.end - hole.start), (unsigned long long)hole.start);
	atomic_fetch_add(&j->n.holes, hole.end - hole.start);
	*r = hole;
	return HOLES_LEFT;
}
