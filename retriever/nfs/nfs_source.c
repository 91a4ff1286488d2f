// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_source.c - the NFS backend's table, and what has no room of its own.
 *
 * The blocking ones are a call on the caller's stack and a wait for its done().
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "krb5/tickets.h"
#include "nfs/nfs42.h"
#include "windows/smb_idmap.h"

/* ---- life ---- */

static struct nfs_source *allocate(const struct source_config *c)
{
	struct nfs_source *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->base.ops = &nfs_source_ops;
	s->config = nfs_config(c);
	s->config.uri = NULL; /* the caller's */
	s->config.smb.idmap = NULL;
	memset(&s->config.nfs, 0, sizeof(s->config.nfs));
	s->silence_ms = s->config.call_timeout_ms;
	if (c->give_up_ms && c->give_up_ms < s->silence_ms)
		s->silence_ms = c->give_up_ms;
	source_pool_init(&s->pool, s->config.give_up_ms);
	s->pool.limiter = c->limiter;
	s->pool.lane = c->lane;
	stub_cond_init(&s->schedule);
	TAILQ_INIT(&s->queue[0]);
	TAILQ_INIT(&s->queue[1]);
	TAILQ_INIT(&s->delayed);
	return s;
}

static void release(struct nfs_source *s)
{
	tickets_destroy(s->tickets); /* first: it calls back */
	pthread_cond_destroy(&s->schedule);
	source_pool_finish(&s->pool);
	smb_idmap_destroy(s->ids);
	free(s);
}

static void stop(struct source *base)
{
	struct nfs_source *s = nfs_of(base);
	unsigned int i;

	tickets_stop(s->tickets); /* nobody waits for them any more */
	pthread_mutex_lock(&s->pool.lock);
	s->pool.stop = true;
	pthread_cond_broadcast(&s->pool.ready);
	pthread_cond_broadcast(&s->schedule);
	for (i = 0; i < s->n; i++)
		nfs_conn_wake(&s->conn[i]);
	pthread_mutex_unlock(&s->pool.lock);
}

static void destroy(struct source *base)
{
	struct nfs_source *s = nfs_of(base);
	unsigned int i;

	stop(base);
	for (i = 0; i < s->n; i++)
		nfs_conn_join(&s->conn[i]);
	pthread_join(s->timer, NULL);
	release(s);
}

static int connections(struct source *base, unsigned int n)
{
	struct nfs_source *s = nfs_of(base);
	int r = 0;

	/* no thread looks at s->n connections before all are there */
	pthread_mutex_lock(&s->pool.lock);
	for (; s->n < n && !s->pool.stop && !r; s->n += !r)
		r = nfs_conn_start(s, s->n);
	if (!r)
		s->wanted = n;
	for (unsigned int i = 0; i < s->n; i++)
		nfs_conn_wake(&s->conn[i]);
	nfs_pump(s);
	pthread_mutex_unlock(&s->pool.lock);
	return r;
}

static int create(const struct source_config *c, struct source **out)
{
	struct nfs_source *s = allocate(c);
	char why[NFS_WHY_MAX], shown[SOURCE_SHOWN_MAX];
	int r;

	if (!s)
		return -ENOMEM;
	r = nfs_uri_parse(c->uri, &s->uri, why, sizeof(why));
	if (r) {
		source_uri_shown(c->uri ? c->uri : "(none)", shown, sizeof(shown));
		nfs_log(s, STUB_LOG_ERROR, "source URI %s: %s", shown, why);
	} else {
		r = nfs_ids(c, &s->uri, &s->ids, why, sizeof(why));
		if (!r)
			r = nfs_krb5_prepare(s, c, why, sizeof(why));
		if (r)
			nfs_log(s, STUB_LOG_ERROR, "%s", why);
		else
			r = nfs_queue_start(s);
	}
	if (r) {
		release(s);
		return r;
	}
	r = connections(&s->base, s->config.connections);
	if (r) {
		destroy(&s->base);
		return r;
	}
	*out = &s->base;
	return 0;
}

static void state(struct source *base, struct source_state *out)
{
	struct nfs_source *s = nfs_of(base);
	unsigned int i;

	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&s->pool.lock);
	source_pool_state(&s->pool, out);
	out->wanted = s->wanted;
	for (i = 0; i < s->n; i++)
		out->inflight += s->conn[i].inflight;
	if (s->pool.usable)
		out->trouble[0] = '\0';
	if (s->pool.usable && s->astray_ms && stub_now_ms() - s->astray_ms < NFS_ASTRAY_MS)
		snprintf(out->trouble, sizeof(out->trouble), "%s", s->astray);
	if (s->tickets && !s->pool.usable)
		nfs_pace_state(s, out);
	pthread_mutex_unlock(&s->pool.lock);
}

static void reload(struct source *base)
{
	nfs_pace_hurry(nfs_of(base));
}

static void hurry(struct source *base, uint64_t trace)
{
	nfs_hurry(nfs_of(base), trace);
}

/* ---- blocking calls ---- */

struct blocking {
	struct nfs_call call;
	struct nfs_wait wait;
	int err;
	bool have_attr, have_dir; /* dir: where the name was looked up */
	struct stub_attr attr, dir;
	struct stub_origin origin;
	uint32_t granted;
	char *buf;
	size_t size;
	size_t len;
	bool have_born, xattrs;
	struct timespec born;
	bool kept; /* GETACL: of what is kept here */
	/* GETACL: all that it brings; NULL: the mode.  GETATTR: likewise, if the version's
	 * attributes have it all */
	struct source_meta *meta;
	struct nfs_source *s;
};

static int take_target(struct blocking *b, const struct nfs_answer *a)
{
	b->len = a->len;
	if (b->len > b->size || b->len > STUB_TARGET_MAX)
		return -ENAMETOOLONG;
	memcpy(b->buf, a->data, b->len);
	return 0;
}

static void take(struct blocking *b, const struct nfs_answer *a)
{
	b->have_attr = a->have_attr;
	b->have_dir = a->have_dir;
	if (a->have_attr)
		b->attr = a->attr;
	b->have_born = a->have_attr && a->have_born;
	b->born = a->born;
	b->xattrs = a->have_attr && a->xattrs;
	if (a->have_dir)
		b->dir = a->dir;
	if (a->error)
		return;
	if (b->call.op == NFS_OP_LOOKUP)
		b->origin = a->origin;
	else if (b->call.op == NFS_OP_ACCESS)
		b->granted = a->granted;
	else if (b->call.op == NFS_OP_READLINK)
		b->err = take_target(b, a);
}

static void on_done(struct nfs_call *c, int err, const struct nfs_answer *a)
{
	struct blocking *b = (struct blocking *)c;
	const void *reply = a ? a->reply : NULL;

	b->err = err;
	if (c->op != NFS_OP_GETACL) {
		if (a)
			take(b, a);
		if (!err && b->meta)
			b->err = b->s->uri.version->meta(b->s, c, a, b->meta);
	} else if (b->meta) {
		b->err = nfs_acl_meta(err, reply, b->kept, b->meta);
	} else if (err != -ECANCELED && err != -ETIMEDOUT) {
		nfs_acl_met(err, reply, b->kept, &b->attr);
		b->err = 0;
	}
	nfs_wait_done(&b->wait);
}

static int call(struct nfs_source *s, struct blocking *b, enum nfs_op op, enum source_priority p,
		const struct stub_origin *o)
{
	int r;

	b->call.op = op;
	b->call.prio = p;
	b->call.fh = *o;
	b->call.done = on_done;
	nfs_wait_init(&b->wait);
	nfs_wait_add(&b->wait);
	r = nfs_submit(s, &b->call);
	if (!r) {
		nfs_wait_below(&b->wait, 1);
		r = b->err;
	}
	nfs_wait_finish(&b->wait);
	if (r == -EBADMSG)
		nfs_log(s, STUB_LOG_ERROR, "source %s: impossible answer to %s", s->uri.host,
			nfs_op_name(op));
	return r;
}

static int getattr(struct source *s, enum source_priority p, const struct stub_origin *o,
		   struct stub_attr *attr)
{
	struct blocking b = { 0 };
	int r = call(nfs_of(s), &b, NFS_OP_GETATTR, p, o);

	if (!r)
		*attr = b.attr;
	return r;
}

/* Narrow the mode; @kept: as of an object whose ACL will come. */
static int narrow(struct nfs_source *s, enum source_priority p, const struct stub_origin *o,
		  bool kept, struct stub_attr *attr)
{
	struct blocking b = { .call.count = nfs_acl_mask(attr), .attr = *attr, .kept = kept };
	int r = nfs_wait_known(s);

	if (r || !nfs_acl_wanted(s, attr))
		return r;
	r = call(s, &b, NFS_OP_GETACL, p, o);
	if (!r)
		*attr = b.attr;
	return r;
}

static int rights(struct source *s, enum source_priority p, const struct stub_origin *o,
		  struct stub_attr *attr)
{
	return narrow(nfs_of(s), p, o, false, attr);
}

static int meta(struct source *base, enum source_priority p, const struct stub_origin *o,
		const struct stub_attr *as, struct source_meta *out)
{
	struct nfs_source *s = nfs_of(base);
	const bool whole = s->uri.version->meta;
	struct blocking b = { .kept = nfs_acl_kept(s), .meta = out };
	struct blocking g = { .meta = whole ? out : NULL, .s = s };
	int r = call(s, &g, NFS_OP_GETATTR, p, o);

	(void)as;
	if (!whole)
		out->attr = g.attr;
	if (!r)
		r = nfs_wait_known(s);
	if (!r && nfs_acl_wanted(s, &out->attr)) {
		b.call.count = nfs_acl_mask(&out->attr);
		r = call(s, &b, NFS_OP_GETACL, p, o);
	}
	if (!r)
		r = nfs42_extras(s, p, o, g.xattrs, g.have_born ? &g.born : NULL, out);
	if (r)
		out->n = 0;
	return r;
}

static int root(struct source *base, struct stub_origin *out, struct stub_attr *attr)
{
	struct nfs_source *s = nfs_of(base);
	int r = nfs_wait_known(s);

	if (r)
		return r;
	pthread_mutex_lock(&s->pool.lock);
	*out = s->root;
	pthread_mutex_unlock(&s->pool.lock);
	r = getattr(base, SOURCE_DEMAND, out, attr);
	if (!r)
		r = nfs42_look(s, SOURCE_DEMAND, out, attr);
	return r ? r : narrow(s, SOURCE_DEMAND, out, nfs_acl_kept(s), attr);
}

static int lookup(struct source *s, enum source_priority p, const struct stub_origin *dir,
		  const struct source_id *as, const char *name, size_t len,
		  struct stub_origin *out, struct stub_attr *attr)
{
	char text[STUB_NAME_MAX + 1];
	struct blocking b = { .call.name = text };
	int r, of_dir = 0;

	if (len > STUB_NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(text, name, len);
	text[len] = '\0';
	r = call(nfs_of(s), &b, NFS_OP_LOOKUP, p, dir);
	if (!r || r == -ENOENT || b.have_dir)
		of_dir = nfs_confirm(nfs_of(s), p, dir, as, b.have_dir ? &b.dir : NULL);
	if (r || of_dir)
		return of_dir ? of_dir : r;
	*out = b.origin;
	*attr = b.attr;
	r = b.have_attr ? 0 : getattr(s, p, out, attr); /* NFSv4 always has them */
	return r ? r : narrow(nfs_of(s), p, out, nfs_acl_kept(nfs_of(s)), attr);
}

static const uint8_t *inode(const struct stub_origin *o, size_t *len)
{
	*len = nfs_handle_inode(o->bytes, o->len);
	return o->bytes;
}

static int read_link(struct source *s, enum source_priority p, const struct stub_origin *o,
		     const struct source_id *as, char *buf, size_t size, size_t *len)
{
	struct blocking b = { .buf = buf, .size = size };
	int r = call(nfs_of(s), &b, NFS_OP_READLINK, p, o);

	if (!r && b.have_attr && !nfs_is(as, &b.attr))
		r = nfs_astray(nfs_of(s), as, &b.attr);
	if (!r)
		*len = b.len;
	return r;
}

static int check_access(struct source *s, const struct stub_origin *o, uint32_t uid, uint32_t want,
			uint32_t *granted)
{
	struct blocking b = { .call.uid = uid, .call.count = want };
	int r;

	if (uid && nfs_of(s)->uri.sec)
		return -EOPNOTSUPP; /* with Kerberos we are who the ticket says */
	r = call(nfs_of(s), &b, NFS_OP_ACCESS, SOURCE_DEMAND, o);

	if (!r)
		*granted = b.granted;
	return r;
}

const struct source_ops nfs_source_ops = {
	.create = create,
	.stop = stop,
	.destroy = destroy,
	.probe = nfs_source_probe,
	.traits = nfs_source_traits,
	.settle = nfs_source_settle,
	.state = state,
	.reload = reload,
	.connections = connections,
	.hurry = hurry,
	.root = root,
	.lookup = lookup,
	.verify = nfs_source_verify,
	.inode = inode,
	.getattr = getattr,
	.rights = rights,
	.meta_told = true,
	.by_handle = true,
	.meta = meta,
	.readlink = read_link,
	.access = check_access,
	.list = nfs_source_list,
	.holes = nfs42_holes,
	.read = nfs_source_read,
	.limits = nfs_source_limits,
	.target = &nfs_target_ops,
};
