// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_read.c - one READ, whole.
 *
 * The usual reply brings all: its data goes to the caller where libnfs received
 * it.  Only when a server answers in pieces are they put together in a buffer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs.h"

struct reading {
	struct nfs_call call;
	struct nfs_source *s;
	source_read_fn fn;
	void *arg;
	uint64_t offset;
	uint32_t length;
	uint32_t got; /* bytes in pieces */
	uint8_t *pieces;
	struct source_read result;
};

static void deliver(struct reading *r, int64_t result, const void *data)
{
	r->result.result = result;
	r->result.data = data;
	if (result > 0) {
		pthread_mutex_lock(&r->s->pool.lock);
		r->s->pool.n.read_bytes += (uint64_t)result;
		pthread_mutex_unlock(&r->s->pool.lock);
	}
	r->fn(r->arg, &r->result);
	free(r->pieces);
	free(r);
}

/* Keep a piece and ask for the rest. */
static void go_on(struct reading *r, const struct nfs_answer *a)
{
	if (!r->pieces)
		r->pieces = malloc(r->length);
	if (!r->pieces) {
		deliver(r, -ENOMEM, NULL);
		return;
	}
	memcpy(r->pieces + r->got, a->data, a->len);
	r->got += a->len;
	if (r->got == r->length || a->eof) {
		deliver(r, r->got, r->pieces);
		return;
	}
	r->call.offset = r->offset + r->got;
	r->call.count = r->length - r->got;
	if (nfs_submit(r->s, &r->call))
		deliver(r, -ECANCELED, NULL);
}

static void on_read(struct nfs_call *c, int err, const struct nfs_answer *a)
{
	struct reading *r = (struct reading *)c;

	if (err) {
		if (err == -EBADMSG && a)
			nfs_log(r->s, STUB_LOG_ERROR, "source %s: impossible answer to READ",
				r->s->uri.host);
		deliver(r, err, NULL);
		return;
	}
	r->result.have_attr = a->have_attr;
	if (a->have_attr)
		r->result.attr = a->attr;
	if (!r->got && (a->len == r->length || a->eof)) {
		deliver(r, a->len, a->data);
	} else if (!a->len && !a->eof) {
		nfs_log(r->s, STUB_LOG_ERROR, "source %s: READ brings nothing before the end",
			r->s->uri.host);
		deliver(r, -EIO, NULL);
	} else {
		go_on(r, a);
	}
}

int nfs_source_read(struct source *base, enum source_priority p, const struct stub_origin *o,
	     uint64_t offset, uint32_t length, source_read_fn fn, void *arg)
{
	struct nfs_source *s = nfs_of(base);
	struct reading *r;
	int err;

	if (!length || length > NFS_READ_MAX || offset > UINT64_MAX - length)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->call.op = NFS_OP_READ;
	r->call.prio = p;
	r->call.fh = *o;
	r->call.offset = offset;
	r->call.count = length;
	r->call.done = on_read;
	r->s = s;
	r->fn = fn;
	r->arg = arg;
	r->offset = offset;
	r->length = length;
	err = nfs_submit(s, &r->call);
	if (err)
		free(r);
	return err;
}
