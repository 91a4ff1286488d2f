/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_brought.c - the bytes of a small file that come with its attributes, for the fill that
 * follows in the same job (docs/decisions/0091).
 *
 * They have taken their turn and their memory before they were asked for, so nothing is asked for
 * while the crawler is paused, or has to wait.  They are stored as any bytes are: if they are not of
 * the version that was listed, or somebody has written meanwhile, it shows there.
 */
#include "jobs/jobs_internal.h"

#define CHARGE 4096 /* memory counts so much at least */

uint32_t jobs_brought_begin(struct jobs *j, const struct job *job, const struct stub_object *o,
			    struct brought **out)
{
	struct brought *b;
	uint32_t want;

	*out = NULL;
	if (job->kind != STUB_ASK_FILL || job->brought || o->type != S_IFREG || !o->size ||
	    o->size > j->c.small_file || !atomic_load(&j->limits_known) ||
	    o->size > j->limits.read_bytes)
		return 0;
	want = (uint32_t)o->size;
	b = calloc(1, sizeof(*b));
	if (!b)
		return 0;
	b->charge = want > CHARGE ? want : CHARGE;
	if (!budget_try(&j->budget, BUDGET_CRAWLER, b->charge)) {
		free(b);
		return 0;
	}
	if (turns_try(&j->turns, want, 0) != 0) {
		jobs_brought_free(j, b);
		return 0;
	}
	*out = b;
	return want;
}

void jobs_brought_end(struct jobs *j, struct job *job, struct brought *b, struct source_meta *m)
{
	if (!b || !m->data) {
		jobs_brought_free(j, b);
		return;
	}
	b->attr = m->attr;
	b->len = (uint32_t)m->data_len;
	b->bytes = m->data_memory;
	m->data = m->data_memory = NULL;
	job->brought = b;
}

void jobs_brought_free(struct jobs *j, struct brought *b)
{
	if (!b)
		return;
	budget_give(&j->budget, BUDGET_CRAWLER, b->charge);
	free(b->bytes);
	free(b);
}
