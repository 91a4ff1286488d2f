// SPDX-License-Identifier: GPL-3.0-or-later
/* dual_source.c - the joined backend's table: life, state, and what NFS answers. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "source/dual.h"
#include "source/uri.h"

static struct source_config one(const struct source_config *c, const char *uri)
{
	struct source_config out = *c;

	out.uri = uri;
	out.join = NULL;
	return out;
}

/* ---- life ---- */

static void stop(struct source *base)
{
	source_stop(dual_of(base)->nfs);
	source_stop(dual_of(base)->smb);
}

static void destroy(struct source *base)
{
	struct dual_source *d = dual_of(base);

	source_destroy(d->nfs);
	source_destroy(d->smb);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static int wrong_kinds(const struct source_config *c, char *why, size_t size)
{
	if (source_uri_nfs4(c->uri))
		snprintf(why, size, "an smb:// source cannot be joined to NFSv4 yet: use version=3");
	else if (source_uri_kind(c->uri) == SOURCE_NFS && source_uri_kind(c->join) == SOURCE_SMB)
		return 0;
	else
		snprintf(why, size,
			 "only an smb:// source can be joined, and only to an nfs:// one");
	return -EPROTO;
}

static int create(const struct source_config *c, struct source **out)
{
	struct source_config nfs = one(c, c->uri), smb = one(c, c->join);
	struct dual_source *d;
	char why[128];
	int r;

	if (wrong_kinds(c, why, sizeof(why)) < 0) {
		stub_log_to(c->log, c->log_arg, STUB_LOG_ERROR, "%s", why);
		return -EINVAL;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	smb.lane = 1;
	d->base.ops = &dual_source_ops;
	d->log = c->log;
	d->log_arg = c->log_arg;
	pthread_mutex_init(&d->lock, NULL);
	r = nfs_source_ops.create(&nfs, &d->nfs);
	if (r == 0)
		r = smb_source_ops.create(&smb, &d->smb);
	if (r < 0) {
		destroy(&d->base);
		return r;
	}
	*out = &d->base;
	return 0;
}

static int probe(const struct source_config *c, unsigned int timeout_ms, char *why, size_t size)
{
	struct source_config nfs = one(c, c->uri), smb = one(c, c->join);
	int r = wrong_kinds(c, why, size);

	if (r == 0)
		r = nfs_source_ops.probe(&nfs, timeout_ms, why, size);
	return r < 0 ? r : smb_source_ops.probe(&smb, timeout_ms, why, size);
}

static int traits(const struct source_config *c, unsigned int timeout_ms, struct source_traits *out,
		  char *why, size_t size)
{
	struct source_config nfs = one(c, c->uri), smb = one(c, c->join);
	struct source_traits more;
	int r = wrong_kinds(c, why, size);

	if (r == 0)
		r = nfs_source_ops.traits(&nfs, timeout_ms, out, why, size);

	if (r == 0)
		r = smb_source_ops.traits(&smb, timeout_ms, &more, why, size);
	if (r == 0)
		out->windows = more.windows;
	return r;
}

static void state(struct source *base, struct source_state *out)
{
	struct dual_source *d = dual_of(base);
	struct source_state smb;

	source_state(d->nfs, out);
	source_state(d->smb, &smb);
	if (smb.lost_since_ms && (!out->lost_since_ms || smb.lost_since_ms < out->lost_since_ms))
		out->lost_since_ms = smb.lost_since_ms;
	out->connected = out->connected && smb.connected;
	out->reconnects += smb.reconnects;
	out->calls += smb.calls;
	out->lookups += smb.lookups;
	out->readdirs += smb.readdirs;
	out->reads += smb.reads;
	out->read_bytes += smb.read_bytes;
	out->retries += smb.retries;
	out->inflight += smb.inflight;
	if (smb.trouble[0])
		memcpy(out->trouble, smb.trouble, sizeof(out->trouble));
	out->refused = smb.refused;
	out->next_try_ms = smb.next_try_ms;
	pthread_mutex_lock(&d->lock);
	out->mismatches = d->mismatches;
	memcpy(out->mismatch, d->mismatch, sizeof(out->mismatch));
	pthread_mutex_unlock(&d->lock);
}

static void reload(struct source *base)
{
	source_reload(dual_of(base)->nfs);
	source_reload(dual_of(base)->smb);
}

static int connections(struct source *base, unsigned int n)
{
	int r = source_connections(dual_of(base)->nfs, n);
	int smb = source_connections(dual_of(base)->smb, n);

	return r < 0 ? r : smb;
}

static void hurry(struct source *base, uint64_t trace)
{
	source_hurry(dual_of(base)->nfs, trace);
	source_hurry(dual_of(base)->smb, trace);
}

/* ---- names, attributes, data: NFS ---- */

static int limits(struct source *base, struct source_limits *out)
{
	return source_limits(dual_of(base)->nfs, out);
}

/* Make @origin, of NFS, one of the joined source: with the path. */
static int with_path(const struct dual_origin *dir, const char *name, size_t len,
		     struct stub_origin *origin)
{
	struct stub_origin nfs = *origin;
	int n = dual_origin_encode(dir, name, len, nfs.bytes, nfs.len, origin->bytes);

	if (n < 0)
		return n;
	origin->len = (uint16_t)n;
	return 0;
}

static int root(struct source *base, struct stub_origin *out, struct stub_attr *attr)
{
	int r = source_root(dual_of(base)->nfs, out, attr);

	return r < 0 ? r : with_path(NULL, NULL, 0, out);
}

static int lookup(struct source *base, enum source_priority p, const struct stub_origin *dir,
		  const struct source_id *as, const char *name, size_t len,
		  struct stub_origin *out, struct stub_attr *attr)
{
	struct dual_origin above;
	int r = dual_origin_decode(dir, &above);

	if (r == 0)
		r = source_lookup(dual_of(base)->nfs, p, &above.nfs, as, name, len, out,
				  attr);
	return r < 0 ? r : with_path(&above, name, len, out);
}

static const uint8_t *inode(const struct stub_origin *o, size_t *len)
{
	struct dual_origin own;

	if (dual_origin_decode(o, &own) < 0) {
		*len = o->len;
		return o->bytes;
	}
	nfs_source_ops.inode(&own.nfs, len);
	return o->bytes + DUAL_ORIGIN_HEAD;
}

static int getattr(struct source *base, enum source_priority p, const struct stub_origin *o,
		   struct stub_attr *attr)
{
	struct dual_origin own;
	int r = dual_origin_decode(o, &own);

	return r < 0 ? r : source_getattr(dual_of(base)->nfs, p, &own.nfs, attr);
}

static int verify(struct source *base)
{
	return source_verify(dual_of(base)->nfs);
}

static int read_link(struct source *base, enum source_priority p, const struct stub_origin *o,
		     const struct source_id *as, char *buf, size_t size, size_t *len)
{
	struct dual_origin own;
	int r = dual_origin_decode(o, &own);

	return r < 0 ? r : source_readlink(dual_of(base)->nfs, p, &own.nfs, as, buf, size, len);
}

static int check_access(struct source *base, const struct stub_origin *o, uint32_t uid,
			uint32_t want, uint32_t *granted)
{
	struct dual_origin own;
	int r = dual_origin_decode(o, &own);

	return r < 0 ? r : source_access(dual_of(base)->nfs, &own.nfs, uid, want, granted);
}

static int start_read(struct source *base, enum source_priority p, const struct stub_origin *o,
		      uint64_t offset, uint32_t length, source_read_fn fn, void *arg)
{
	struct dual_origin own;
	int r = dual_origin_decode(o, &own);

	return r < 0 ? r :
		       source_read(dual_of(base)->nfs, p, &own.nfs, offset, length, fn, arg);
}

struct listing {
	const struct dual_origin *dir;
	source_entries_fn fn;
	void *arg;
};

static int with_paths(void *arg, const struct stub_entry *e, size_t n)
{
	const struct listing *l = arg;
	struct stub_entry *own = malloc(n * sizeof(*own) + 1);
	uint8_t *origins, *at;
	size_t size = 1;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		size += STUB_ORIGIN_MAX < 8 + l->dir->path_len + e[i].name_len + e[i].origin_len ?
				STUB_ORIGIN_MAX :
				8 + l->dir->path_len + e[i].name_len + e[i].origin_len;
	origins = at = malloc(size);
	if (!own || !origins)
		r = -ENOMEM;
	for (size_t i = 0; i < n && r >= 0; i++) {
		own[i] = e[i];
		if (e[i].error)
			continue;
		r = dual_origin_encode(l->dir, e[i].name, e[i].name_len, e[i].origin,
				       e[i].origin_len, at);
		if (r < 0)
			break;
		own[i].origin = at;
		own[i].origin_len = (size_t)r;
		own[i].dummy = S_ISREG(e[i].attr.mode) || S_ISDIR(e[i].attr.mode);
		at += r;
	}
	if (r >= 0)
		r = l->fn(l->arg, own, n);
	free(own);
	free(origins);
	return r;
}

static int list(struct source *base, enum source_priority p, const struct stub_origin *dir,
		const struct source_id *as, source_entries_fn fn, void *arg)
{
	struct dual_origin own;
	struct listing l = { &own, fn, arg };
	int r = dual_origin_decode(dir, &own);

	return r < 0 ? r : source_list(dual_of(base)->nfs, p, &own.nfs, as, with_paths, &l);
}

const struct source_ops dual_source_ops = {
	.create = create,
	.stop = stop,
	.destroy = destroy,
	.probe = probe,
	.traits = traits,
	.state = state,
	.reload = reload,
	.connections = connections,
	.hurry = hurry,
	.root = root,
	.lookup = lookup,
	.verify = verify,
	.inode = inode,
	.getattr = getattr,
	.meta = dual_meta,
	.stream = dual_stream,
	.readlink = read_link,
	.access = check_access,
	.list = list,
	.read = start_read,
	.limits = limits,
};
