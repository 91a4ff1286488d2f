// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_list.c - all entries of a directory, page by page.
 *
 *      READDIRPLUS page 0 -> READDIRPLUS page 1 -> ...      (always one ahead)
 *              |                    |
 *        LOOKUP what is      LOOKUP ...                     (LIST_WINDOW at a time)
 *        incomplete
 *        READLINK symlinks, GETACL the others if the server has ACLs; NFSv4.2: LISTXATTRS
 *              |
 *           fn(entries)
 *
 * Cookies that go in a circle are found with Brent's method: the cookie of one
 * page is remembered, and replaced after 2, 4, 8 ... pages.  A server without
 * READDIRPLUS is listed with READDIR; then every entry is looked up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs42.h"
#include "nfs/nfs_page.h"

#define LIST_WINDOW 64

struct fetch { /* of one page */
	struct nfs_call call;
	struct nfs_wait wait;
	struct nfs_page page;
	struct nfs_source *s;
	enum nfs_said said;
	int err;
	const char *why;
};

struct listing {
	struct nfs_source *s;
	enum source_priority prio;
	struct stub_origin dir;
	const struct source_id *as;
	uint32_t bytes;
	bool plain; /* READDIR */
	struct fetch fetch[2];

	/* circle of cookies */
	uint64_t mark, pages, next_mark;

	/* completing one page */
	struct nfs_wait wait;
	pthread_mutex_t lock; /* guards err */
	int err;
};

/* ---- pages ---- */

static void on_page(struct nfs_call *c, int err, const struct nfs_answer *a)
{
	struct fetch *f = (struct fetch *)c;

	f->err = err;
	f->said = err && a ? a->said : NFS_SAID_NOTHING;
	if (!err)
		f->err = f->s->uri.version->page(f->s, c, a, &f->page, &f->why);
	nfs_wait_done(&f->wait);
}

static void ask(struct listing *l, struct fetch *f, uint64_t cookie, const char *verf)
{
	int err;

	f->call.op = l->plain ? NFS_OP_READDIR : NFS_OP_READDIRPLUS;
	f->call.prio = l->prio;
	f->call.fh = l->dir;
	f->call.offset = cookie;
	f->call.count = l->bytes;
	memcpy(f->call.verf, verf, sizeof(f->call.verf));
	f->call.done = on_page;
	memset(&f->page, 0, sizeof(f->page));
	f->why = NULL;
	f->said = NFS_SAID_NOTHING;
	f->s = l->s;
	nfs_wait_add(&f->wait);
	err = nfs_submit(l->s, &f->call);
	if (!err)
		return; /* f is on_page()'s until the wait is over */
	f->err = err;
	nfs_wait_done(&f->wait);
}

static int bad(struct listing *l, const char *why)
{
	nfs_log(l->s, STUB_LOG_ERROR, "source %s: impossible listing: %s", l->s->uri.host, why);
	return -EBADMSG;
}

/* Wait for @f's page; ask again where another way is left. */
static int wait_page(struct listing *l, struct fetch *f)
{
	for (;;) {
		uint64_t cookie = f->call.offset;
		char verf[NFS3_COOKIEVERFSIZE];

		nfs_wait_below(&f->wait, 1);
		if (!f->err)
			return 0;
		memcpy(verf, f->call.verf, sizeof(verf));
		if (f->said == NFS_SAID_TOOSMALL && l->bytes < NFS_READDIR_MAX)
			l->bytes = NFS_READDIR_MAX;
		else if (f->said == NFS_SAID_NOTSUPP && !l->plain && !cookie)
			l->plain = true;
		else if (f->said == NFS_SAID_COOKIE)
			return -EAGAIN; /* the server says that the directory was changed */
		else
			return f->why ? bad(l, f->why) : f->err;
		ask(l, f, cookie, verf);
	}
}

/* May the listing go on from this page? */
static int check_page(struct listing *l, const struct nfs_page *p)
{
	if (p->eof)
		return 0;
	if (!p->seen)
		return bad(l, "a page without entries that is not the last");
	if (!p->last_cookie)
		return bad(l, "cookie 0 before the end");
	if (l->pages++ && p->last_cookie == l->mark)
		return bad(l, "cookies go in a circle");
	if (l->pages >= l->next_mark) {
		l->mark = p->last_cookie;
		l->next_mark = l->pages * 2;
	}
	return 0;
}

/* ---- completing ---- */

struct complete { /* of one entry */
	struct nfs_call call;
	struct listing *l;
	struct nfs_page *page;
	struct stub_entry *e;
	char name[STUB_NAME_MAX + 1];
};

static void failed(struct complete *c, int err)
{
	struct listing *l = c->l;

	if (source_entrys_own(err)) {
		c->e->error = err;
		return;
	}
	pthread_mutex_lock(&l->lock);
	if (!l->err)
		l->err = err;
	pthread_mutex_unlock(&l->lock);
}

static int take_target(struct complete *c, const struct nfs_answer *a)
{
	const struct source_id as = { c->e->attr.fsid, c->e->attr.fileid };

	if (a->have_attr && !nfs_is(&as, &a->attr))
		return -ESTALE; /* the object was replaced just after it was listed */
	c->e->target_len = a->len;
	if (c->e->target_len > STUB_TARGET_MAX)
		return -ENAMETOOLONG;
	c->e->target = strndup(a->data, a->len);
	return c->e->target ? 0 : -ENOMEM;
}

/* What is still missing, or -1. */
static int next_op(const struct listing *l, const struct nfs_page *p, const struct stub_entry *e)
{
	if (!e->origin_len)
		return NFS_OP_LOOKUP;
	if (!e->attr.mode)
		return NFS_OP_GETATTR;
	if (S_ISLNK(e->attr.mode) && !e->target)
		return NFS_OP_READLINK;
	if (!p->narrowed[e - p->entries] && nfs_acl_wanted(l->s, &e->attr))
		return NFS_OP_GETACL;
	if (p->maybe[e - p->entries])
		return NFS_OP_LISTXATTRS;
	return -1;
}

static int take(struct complete *c, const struct nfs_answer *a)
{
	switch (c->call.op) {
	case NFS_OP_LOOKUP:
		if (a->have_attr)
			c->e->attr = a->attr;
		else
			memset(&c->e->attr, 0, sizeof(c->e->attr)); /* no half of an old reply */
		c->page->maybe[c->e - c->page->entries] = false; /* LOOKUP has said it */
		return nfs_page_handle(c->page, c->e, a->origin.bytes, a->origin.len);
	case NFS_OP_GETATTR:
		c->e->attr = a->attr;
		return 0;
	default:
		return take_target(c, a);
	}
}

static void end(struct complete *c, int err)
{
	struct listing *l = c->l;

	if (err)
		failed(c, err);
	free(c);
	nfs_wait_done(&l->wait);
}

static void send(struct complete *c);

/* Is the answer, a name or that there is none, of another directory than the listed one?  (Why is
 * found out, and logged, with the next try.) */
static bool is_elsewhere(const struct listing *l, const struct nfs_answer *a)
{
	return a->have_dir && !nfs_is(l->as, &a->dir);
}

static void on_part(struct nfs_call *call, int err, const struct nfs_answer *a)
{
	struct complete *c = (struct complete *)call;

	if (call->op == NFS_OP_GETACL && err != -ECANCELED && err != -ETIMEDOUT) {
		nfs_acl_met(err, a ? a->reply : NULL, nfs_acl_kept(c->l->s), &c->e->attr);
		c->page->narrowed[c->e - c->page->entries] = true;
		err = 0;
	} else if (call->op == NFS_OP_LISTXATTRS && err != -ECANCELED && err != -ETIMEDOUT) {
		nfs42_met(err, a, &c->e->attr);
		c->page->maybe[c->e - c->page->entries] = false;
		err = 0;
	} else if (a && call->op == NFS_OP_LOOKUP && is_elsewhere(c->l, a)) {
		err = -ENOMEDIUM;
	} else if (!err) {
		err = take(c, a);
	}
	if (err || next_op(c->l, c->page, c->e) < 0)
		end(c, err);
	else
		send(c);
}

static void send(struct complete *c)
{
	int err;

	c->call.op = (enum nfs_op)next_op(c->l, c->page, c->e);
	c->call.count = c->call.op == NFS_OP_GETACL	? nfs_acl_mask(&c->e->attr) :
			c->call.op == NFS_OP_LISTXATTRS ? NFS42_LOOK_BYTES :
							  0;
	c->call.prio = c->l->prio;
	if (c->call.op == NFS_OP_LOOKUP) {
		c->call.fh = c->l->dir;
	} else {
		c->call.fh.len = (uint16_t)c->e->origin_len;
		memcpy(c->call.fh.bytes, c->e->origin, c->e->origin_len);
	}
	c->call.name = c->name;
	c->call.done = on_part;
	err = nfs_submit(c->l->s, &c->call);
	if (err)
		end(c, err);
}

static int complete_entry(struct listing *l, struct nfs_page *p, struct stub_entry *e)
{
	struct complete *c;

	/* such a name cannot be asked for; the receiver would refuse it anyway */
	if (!e->name_len || e->name_len > STUB_NAME_MAX || memchr(e->name, '/', e->name_len) ||
	    memchr(e->name, '\0', e->name_len)) {
		e->error = -EBADMSG;
		return 0;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->l = l;
	c->page = p;
	c->e = e;
	memcpy(c->name, e->name, e->name_len);
	nfs_wait_below(&l->wait, LIST_WINDOW);
	nfs_wait_add(&l->wait);
	send(c);
	return 0;
}

/* Attributes and handles come together or from LOOKUP: never half of an old reply. */
static int complete_page(struct listing *l, struct nfs_page *p)
{
	size_t i;
	int r = 0;

	for (i = 0; i < p->n && !r; i++) {
		struct stub_entry *e = &p->entries[i];

		/* at a mount point over there, attributes and handle in a listing may be those of
		 * two different directories: look it up */
		if (!p->complete[i] ||
		    (S_ISDIR(e->attr.mode) && p->have_dir && e->attr.fsid != p->dir.fsid))
			e->origin_len = 0;
		if (!e->error && next_op(l, p, e) >= 0)
			r = complete_entry(l, p, e);
		if (!r && !(i % LIST_WINDOW)) {
			pthread_mutex_lock(&l->lock);
			r = l->err;
			pthread_mutex_unlock(&l->lock);
		}
	}
	nfs_wait_below(&l->wait, 1);
	for (i = 0; i < p->n; i++)
		p->entries[i].dummy = p->entries[i].attr.more;
	return r ? r : l->err;
}

/* ---- the whole ---- */

static int run(struct listing *l, source_entries_fn fn, void *arg)
{
	static const char no_verf[NFS3_COOKIEVERFSIZE];
	unsigned int turn = 0;
	int r;

	ask(l, &l->fetch[0], 0, no_verf);
	for (;;) {
		struct fetch *f = &l->fetch[turn], *ahead = &l->fetch[!turn];
		bool last;

		r = wait_page(l, f);
		if (r)
			return r;
		last = f->page.eof;
		r = check_page(l, &f->page);
		if (!r)
			r = nfs_confirm(l->s, l->prio, &l->dir, l->as,
					f->page.have_dir ? &f->page.dir : NULL);
		if (!r && !last)
			ask(l, ahead, f->page.last_cookie, f->page.verf);
		if (!r)
			r = complete_page(l, &f->page);
		if (!r && f->page.n)
			r = fn(arg, f->page.entries, f->page.n);
		nfs_page_finish(&f->page);
		if (r || last)
			return r;
		turn = !turn;
	}
}

int nfs_source_list(struct source *s, enum source_priority p, const struct stub_origin *dir,
	     const struct source_id *as, source_entries_fn fn, void *arg)
{
	struct source_limits limits;
	struct listing *l;
	unsigned int i;
	int r = nfs_source_limits(s, &limits);

	if (r)
		return r;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->s = nfs_of(s);
	l->prio = p;
	l->dir = *dir;
	l->as = as;
	l->bytes = limits.readdir_bytes;
	nfs_wait_init(&l->wait);
	pthread_mutex_init(&l->lock, NULL);
	for (i = 0; i < 2; i++)
		nfs_wait_init(&l->fetch[i].wait);
	r = run(l, fn, arg);
	for (i = 0; i < 2; i++) {
		nfs_wait_below(&l->fetch[i].wait, 1); /* the page ahead, after an error */
		nfs_page_finish(&l->fetch[i].page);
		nfs_wait_finish(&l->fetch[i].wait);
	}
	pthread_mutex_destroy(&l->lock);
	nfs_wait_finish(&l->wait);
	free(l);
	return r;
}
