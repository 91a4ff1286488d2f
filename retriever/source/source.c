// SPDX-License-Identifier: GPL-3.0-or-later
/* source.c - the functions of source.h: each calls that of the source's backend. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "source/source_ops.h"

void source_stop(struct source *s)
{
	s->ops->stop(s);
}

void source_destroy(struct source *s)
{
	if (s)
		s->ops->destroy(s);
}

void source_state(struct source *s, struct source_state *out)
{
	s->ops->state(s, out);
}

void source_reload(struct source *s)
{
	if (s->ops->reload)
		s->ops->reload(s);
}

int source_connections(struct source *s, unsigned int n)
{
	if (!n || n > SOURCE_CONNECTIONS_MAX)
		return -EINVAL;
	return s->ops->connections(s, n);
}

void source_hurry(struct source *s, uint64_t trace)
{
	s->ops->hurry(s, trace);
}

int source_root(struct source *s, struct stub_origin *out, struct stub_attr *attr)
{
	return s->ops->root(s, out, attr);
}

/* ---- a name that is ours, and is not shown ---- */

static bool hides_in(const struct source *s, const struct source_id *as)
{
	return s->hides[0] && as && as->fsid == s->root.fsid && as->fileid == s->root.fileid;
}

static bool hides(const struct source *s, const char *name, size_t len)
{
	return len == strlen(s->hides) && !memcmp(name, s->hides, len);
}

struct showing {
	const struct source *s;
	source_entries_fn fn;
	void *arg;
};

static int show(void *arg, const struct stub_entry *e, size_t n)
{
	const struct showing *w = arg;
	size_t to;
	int r = 0;

	for (size_t at = 0; at < n && r == 0; at = to + 1) {
		for (to = at; to < n && !hides(w->s, e[to].name, e[to].name_len); to++)
			;
		if (to > at)
			r = w->fn(w->arg, e + at, to - at);
	}
	return r;
}

int source_lookup(struct source *s, enum source_priority p, const struct stub_origin *dir,
		  const struct source_id *as, const char *name, size_t len,
		  struct stub_origin *out, struct stub_attr *attr)
{
	if (hides_in(s, as) && hides(s, name, len))
		return -ENOENT;
	return s->ops->lookup(s, p, dir, as, name, len, out, attr);
}

int source_verify(struct source *s)
{
	struct stub_origin root;
	struct stub_attr then, now;

	if (s->ops->verify)
		return s->ops->verify(s);
	if (s->ops->root(s, &root, &then) < 0)
		return -ENOMEDIUM;
	return s->ops->getattr(s, SOURCE_DEMAND, &root, &now) < 0 || now.fileid != then.fileid ?
		       -ENOMEDIUM :
		       0;
}

const uint8_t *source_inode(const struct source *s, const struct stub_origin *o, size_t *len)
{
	*len = o->len;
	return s->ops->inode ? s->ops->inode(o, len) : o->bytes;
}

int source_getattr(struct source *s, enum source_priority p, const struct stub_origin *o,
		   struct stub_attr *attr)
{
	return s->ops->getattr(s, p, o, attr);
}

int source_rights(struct source *s, enum source_priority p, const struct stub_origin *o,
		  struct stub_attr *attr)
{
	return s->ops->rights ? s->ops->rights(s, p, o, attr) : 0;
}

int source_meta(struct source *s, enum source_priority p, const struct stub_origin *o,
		struct source_meta *out)
{
	int r;

	memset(out, 0, sizeof(*out));
	if (s->ops->meta)
		return s->ops->meta(s, p, o, NULL, out);
	r = s->ops->getattr(s, p, o, &out->attr);
	return r ? r : source_rights(s, p, o, &out->attr);
}

int source_meta_data(struct source *s, enum source_priority p, const struct stub_origin *o,
		     uint32_t want, struct source_meta *out)
{
	if (!want || !s->ops->meta_data)
		return source_meta(s, p, o, out);
	memset(out, 0, sizeof(*out));
	return s->ops->meta_data(s, p, o, want, out);
}

uint32_t source_meta_sends(const struct source *s)
{
	return s->ops->meta_send ? s->ops->meta_bytes : 0;
}

int source_meta_send(struct source *s, const struct stub_origin *o, uint32_t want, source_meta_fn fn,
		     void *arg)
{
	return s->ops->meta_send(s, o, want, fn, arg);
}

int64_t source_stream(struct source *s, enum source_priority p, const struct stub_origin *o,
		      const char *name, uint64_t offset, void *buf, uint32_t length,
		      uint64_t *size)
{
	if (!s->ops->stream || !length || length > SOURCE_STREAM_MAX ||
	    offset > INT64_MAX - (uint64_t)length)
		return -EINVAL;
	return s->ops->stream(s, p, o, name, offset, buf, length, size);
}

bool source_has_meta(const struct source *s, const struct stub_attr *a)
{
	return s->ops->meta && (S_ISREG(a->mode) || S_ISDIR(a->mode)) &&
	       (a->more || !s->ops->meta_told);
}

bool source_by_handle(const struct source *s)
{
	return s->ops->by_handle;
}

void source_meta_free(struct source_meta *m)
{
	free(m->memory);
	free(m->lost_memory);
	free(m->stream_memory);
	free(m->data_memory);
	memset(m, 0, sizeof(*m));
}

int source_readlink(struct source *s, enum source_priority p, const struct stub_origin *o,
		    const struct source_id *as, char *buf, size_t size, size_t *len)
{
	return s->ops->readlink ? s->ops->readlink(s, p, o, as, buf, size, len) : -EBADMSG;
}

int source_access(struct source *s, const struct stub_origin *o, uint32_t uid, uint32_t want,
		  uint32_t *granted)
{
	return s->ops->access ? s->ops->access(s, o, uid, want, granted) : -EOPNOTSUPP;
}

int source_list(struct source *s, enum source_priority p, const struct stub_origin *dir,
		const struct source_id *as, source_entries_fn fn, void *arg)
{
	struct showing w = { s, fn, arg };

	return hides_in(s, as) ? s->ops->list(s, p, dir, as, show, &w) :
				 s->ops->list(s, p, dir, as, fn, arg);
}

int source_read(struct source *s, enum source_priority p, const struct stub_origin *o,
		uint64_t offset, uint32_t length, source_read_fn fn, void *arg)
{
	return s->ops->read(s, p, o, offset, length, fn, arg);
}

int source_open(struct source *s, enum source_priority p, const struct stub_origin *o, int *fd)
{
	return s->ops->open ? s->ops->open(s, p, o, fd) : -EOPNOTSUPP;
}

bool source_opens(const struct source *s)
{
	return s->ops->open;
}

int source_holes(struct source *s, enum source_priority p, const struct stub_origin *o,
		 uint64_t offset, struct source_holes *out)
{
	memset(out, 0, sizeof(*out));
	return s->ops->holes && offset <= INT64_MAX ? s->ops->holes(s, p, o, offset, out) :
						      -EOPNOTSUPP;
}

int source_limits(struct source *s, struct source_limits *out)
{
	return s->ops->limits(s, out);
}

bool source_entrys_own(int error)
{
	static const int own[] = { ENOENT, ESTALE, ENOTDIR, EACCES, EBADMSG, EIO, ENAMETOOLONG, EXDEV };

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (error == -own[i])
			return true;
	return false;
}
