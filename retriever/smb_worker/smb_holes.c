// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_holes.c - where a file has no data.
 *
 * What the server does not name as data is never read, and zeros for the new server's
 * clients.  So nothing is taken on a guess: the file is sparse and no more than that
 * (smb_ranges_apply), the answer is well-formed, the ends of some holes are read, and the
 * attributes are asked for after all of it: the caller compares them with the version it means.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "smb/smb_ranges.h"
#include "smb_worker/smb_worker.h"

#define UNIT	   65536u /* what servers round the question to, or less */
#define LEAST	   (256 * 1024u) /* a shorter hole is read with what is around it */
#define MOST	   1024u /* holes of one answer to the retriever */
#define RANGES	   4096u /* of one answer of the server */
#define SPAN_LEAST (1u << 20) /* for which an answer has room, unless it makes no sense */
#define SAMPLES	   8u /* holes of an answer whose ends are read */
#define SAMPLE	   4096u

struct asking {
	struct worker *w;
	struct worker_file *f;
	struct stub_range *hole;
	unsigned int n;
	uint64_t end;
};

static int unsupported(struct worker *w, const char *why, const char *path)
{
	worker_lost(w, why, "holes", path);
	return -EOPNOTSUPP;
}

/* A server that says such things is not asked again on this connection. */
static int nonsense(struct asking *k, const char *why)
{
	k->w->no_holes = true;
	worker_lost(k->w, why, "holes", k->f->path);
	return -EBADMSG;
}

/* About as much of the file as fits in an answer: all that is left, or what has fitted before. */
static int ask(struct asking *k, uint64_t offset)
{
	uint64_t from = offset - offset % UNIT, length = k->f->size - from;
	uint8_t *answer = malloc(RANGES * SMB_RANGE_BYTES);
	size_t len = 0;
	int r = answer ? -EMSGSIZE : -ENOMEM;

	if (k->f->span && length > k->f->span)
		length = k->f->span;
	while (r == -EMSGSIZE) {
		r = exact_ranges(k->w, k->f->path, k->f->file, from, length, answer,
				 RANGES * SMB_RANGE_BYTES, &len);
		if (r == -EMSGSIZE && length <= SPAN_LEAST)
			r = nonsense(k, "the server names more ranges than there can be");
		if (r == -EMSGSIZE)
			k->f->span = length = length / 16 > SPAN_LEAST ? length / 16 : SPAN_LEAST;
	}
	if (r == 0) {
		k->f->span *= 4; /* next time; 16 EiB and more: all */
		r = smb_ranges_holes(answer, len, from, from + length, LEAST, k->hole, MOST,
				     &k->end);
		k->n = r > 0 ? (unsigned int)r : 0;
		r = r < 0 ? nonsense(k, "the server's ranges make no sense") : 0;
	}
	free(answer);
	return r;
}

/* Is there what is said to be there?  0, or as the rooms' results. */
static int sample(struct asking *k, uint64_t at)
{
	static const char zeros[SAMPLE];
	char buf[SAMPLE];
	int64_t n = worker_file_read(k->w, k->f, at, buf, sizeof(buf));

	if (n < 0)
		return worker_failed(k->w, errno, "reading", k->f->path);
	if (n < SAMPLE)
		return unsupported(k->w, "it was cut meanwhile", k->f->path);
	return memcmp(buf, zeros, sizeof(buf)) ?
		       nonsense(k, "there is data where the server says that there is none") :
		       0;
}

static int sample_all(struct asking *k)
{
	unsigned int step = k->n > SAMPLES ? k->n / SAMPLES : 1;
	int r = 0;

	for (unsigned int i = 0; i < k->n && r == 0; i += step) {
		r = sample(k, k->hole[i].start);
		if (r == 0)
			r = sample(k, k->hole[i].end - SAMPLE);
	}
	return r;
}

static int send(struct asking *k, const struct stub_attr *attr)
{
	struct smb_out *o = &k->w->out;

	smb_out_begin(o, SMB_WIRE_HOLES);
	smb_out_attr(o, attr);
	smb_out_u64(o, k->end);
	smb_out_u32(o, k->n);
	for (unsigned int i = 0; i < k->n; i++) {
		smb_out_u64(o, k->hole[i].start);
		smb_out_u64(o, k->hole[i].end);
	}
	return worker_send(k->w);
}

int worker_holes(struct worker *w, const char *path, uint64_t offset)
{
	struct stub_range hole[MOST];
	struct asking k = { .w = w, .hole = hole };
	struct stub_attr attr;
	struct exact_info i;
	int r = w->no_holes ? unsupported(w, "not asked any more", path) :
			      worker_file_open(w, path, &k.f);

	if (r != 0)
		return r;
	if (!smb_ranges_apply(k.f->attributes) || offset >= k.f->size)
		return unsupported(w, "no sparse file", path);
	r = ask(&k, offset);
	if (r == 0)
		r = sample_all(&k);
	if (r == 0)
		r = worker_file_look(w, k.f, &i);
	if (r == 0 && !smb_ranges_apply(i.attributes))
		r = unsupported(w, "no sparse file any more", path);
	if (r == 0 && k.end > i.size)
		r = unsupported(w, "it was cut meanwhile", path);
	if (r != 0) {
		if (r == WORKER_LOST)
			worker_file_close(w, k.f);
		return r;
	}
	worker_attr(w, path, "", &i, &attr);
	return send(&k, &attr);
}
