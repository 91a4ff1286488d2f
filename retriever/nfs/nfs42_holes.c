// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs42_holes.c - where a file has no data, as SEEK tells it.
 *
 *   SEEK for a hole, then for data behind it, ...      (each with the attributes as of then)
 *   READ of the ends of some of the holes
 *   GETATTR
 *
 * What is told to be a hole is never read, and zeros for the new server's clients.  So nothing is
 * taken on a guess: places that go backwards, or are both, end all asking of this server; so does
 * data where there should be none.  What is not clear is data.  What a server says of the end of
 * file counts for holes only: every file has one there (RFC 7862, 15.11.3).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs42.h"

#define LEAST	 (256 * 1024u) /* a shorter hole is read with what is around it */
#define MOST	 256u /* holes of one answer */
#define STEPS	 256u /* holes that are looked at for it, with those that are too short */
#define IN_VAIN	 32u /* so many short ones, and nothing else: the file is in many pieces */
#define SAMPLES	 8u /* holes whose ends are read */
#define SAMPLE	 4096u

struct asking {
	struct nfs_source *s;
	enum source_priority p;
	const struct stub_origin *o;
	struct stub_attr attr; /* as told last */
	bool known; /* is it? */
	struct source_holes *out;
};

static int nonsense(struct asking *k, const char *why)
{
	bool tell;

	pthread_mutex_lock(&k->s->pool.lock);
	tell = !k->s->no_holes;
	k->s->no_holes = true;
	pthread_mutex_unlock(&k->s->pool.lock);
	if (tell)
		nfs_log(k->s, STUB_LOG_WARN,
			"source %s: %s (fsid %" PRIu64 ", file id %" PRIu64
			"): files are read as a whole from now on",
			k->s->uri.host, why, k->attr.fsid, k->attr.fileid);
	return -EOPNOTSUPP;
}

static bool is_asked(struct nfs_source *s)
{
	bool no;

	pthread_mutex_lock(&s->pool.lock);
	no = s->no_holes;
	pthread_mutex_unlock(&s->pool.lock);
	return !no && s->uri.version->minor >= 2;
}

/* The version that the answer is about must be that of the answers before. */
static int take_attr(struct asking *k, const struct nfs_answer *a)
{
	if (!a->have_attr)
		return 0;
	if (!S_ISREG(a->attr.mode) || (k->known && a->attr.size != k->attr.size))
		return -ESTALE;
	k->attr = a->attr;
	k->known = true;
	return 0;
}

/* The next @what from @from on; *@at is UINT64_MAX if there is none. */
static int seek(struct asking *k, uint32_t what, uint64_t from, uint64_t *at, bool *eof)
{
	struct nfs42_call c = { .call = { .offset = from, .count = what } };
	int r = nfs42_ask(k->s, &c, NFS_OP_SEEK, k->p, k->o);

	if (r)
		return c.a.said == NFS_SAID_NOTSUPP ? -EOPNOTSUPP : r;
	*at = c.a.at;
	*eof = c.a.eof;
	return take_attr(k, &c.a);
}

/* The next hole from *@at on: [hole->start, hole->end), up to where the next data begins. */
static int next_hole(struct asking *k, uint64_t at, struct stub_range *hole)
{
	uint64_t data;
	bool eof;
	int r = seek(k, NFS42_SEEK_HOLE, at, &hole->start, &eof);

	if (r)
		return r;
	if (!k->known || at >= k->attr.size)
		return -EOPNOTSUPP; /* it was cut meanwhile */
	hole->end = hole->start;
	if (eof || hole->start >= k->attr.size) {
		*hole = (struct stub_range){ k->attr.size, k->attr.size };
		return 0;
	}
	if (hole->start < at)
		return nonsense(k, "its holes go backwards");
	r = seek(k, NFS42_SEEK_DATA, hole->start, &data, &eof);
	if (r)
		return r;
	if (data == UINT64_MAX || data >= k->attr.size || (eof && data <= hole->start))
		data = k->attr.size;
	if (data <= hole->start)
		return nonsense(k, "what is a hole is data, too");
	hole->end = data;
	return 0;
}

static int find(struct asking *k, uint64_t at)
{
	struct source_holes *out = k->out;
	struct stub_range hole = { 0 };
	int r;

	for (unsigned int steps = 0; steps < STEPS && out->n < MOST; steps++) {
		if ((k->known && at >= k->attr.size) || (steps >= IN_VAIN && !out->n))
			break;
		r = next_hole(k, at, &hole);
		if (r)
			return r;
		if (hole.end - hole.start >= LEAST)
			out->hole[out->n++] = hole;
		at = hole.end;
	}
	out->end = at;
	return 0;
}

/* ---- is it so? ---- */

static int look_for_data(void *arg, const struct nfs_answer *a)
{
	static const char zeros[SAMPLE];
	bool *data = arg;

	if (a->len < SAMPLE)
		return -EOPNOTSUPP;
	*data = memcmp(a->data, zeros, SAMPLE);
	return 0;
}

static int sample(struct asking *k, uint64_t at)
{
	bool data = false;
	struct nfs42_call c = { .call = { .offset = at, .count = SAMPLE },
				.take = look_for_data,
				.arg = &data };
	int r = nfs42_ask(k->s, &c, NFS_OP_READ, k->p, k->o);

	return r ? r : data ? nonsense(k, "there is data where it says that there is none") : 0;
}

static int sample_all(struct asking *k)
{
	const struct source_holes *out = k->out;
	unsigned int step = out->n > SAMPLES ? out->n / SAMPLES : 1;
	int r = 0;

	for (unsigned int i = 0; i < out->n && !r; i += step) {
		r = sample(k, out->hole[i].start);
		if (!r)
			r = sample(k, out->hole[i].end - SAMPLE);
	}
	return r;
}

int nfs42_holes(struct source *base, enum source_priority p, const struct stub_origin *o,
		uint64_t offset, struct source_holes *out)
{
	struct asking k = { .s = nfs_of(base), .p = p, .o = o, .out = out };
	struct nfs42_call c = { .take = NULL };
	int r;

	if (!is_asked(k.s))
		return -EOPNOTSUPP;
	out->hole = calloc(MOST, sizeof(*out->hole));
	if (!out->hole)
		return -ENOMEM;
	r = find(&k, offset);
	if (!r)
		r = sample_all(&k);
	if (!r)
		r = nfs42_ask(k.s, &c, NFS_OP_GETATTR, p, o);
	if (!r)
		r = take_attr(&k, &c.a);
	out->attr = k.attr;
	return r;
}
