// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_page.c - the entries of one reply, copied out of libnfs's buffer.
 *
 * Nothing is believed: a cookie may not stand still, "." and ".." must be
 * directories.  An entry whose attributes or handle are impossible has an error.  Names
 * are left as they are for the receiver to judge.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs_page.h"

static bool is_dots(const char *name, size_t len)
{
	return (len == 1 && name[0] == '.') || (len == 2 && !memcmp(name, "..", 2));
}

int nfs_page_reserve(struct nfs_page *p, size_t n, size_t text)
{
	memset(p, 0, sizeof(*p));
	p->entries = calloc(n + 1, sizeof(*p->entries));
	p->handles = calloc(n + 1, sizeof(*p->handles));
	p->complete = calloc(n + 1, sizeof(*p->complete));
	p->narrowed = calloc(n + 1, sizeof(*p->narrowed));
	p->maybe = calloc(n + 1, sizeof(*p->maybe));
	p->text = malloc(text + 1);
	if (p->entries && p->handles && p->complete && p->narrowed && p->maybe && p->text)
		return 0;
	nfs_page_finish(p);
	return -ENOMEM;
}

int nfs_page_handle(struct nfs_page *p, struct stub_entry *e, const void *from, size_t len)
{
	uint8_t *to = p->handles[e - p->entries];

	if (len < 1 || len > NFS_HANDLE_MAX)
		return -EBADMSG;
	e->origin = memcpy(to, from, len);
	e->origin_len = len;
	e->inode = e->origin;
	e->inode_len = nfs_handle_inode(e->origin, e->origin_len);
	return 0;
}

int nfs_page_add(struct nfs_page *p, const struct nfs_item *i, const char **why)
{
	struct stub_entry *e = &p->entries[p->n];

	if (p->seen++ && i->cookie == p->last_cookie) {
		*why = "the same cookie twice";
		return -EBADMSG;
	}
	p->last_cookie = i->cookie;
	e->error = i->error;
	e->attr = i->attr;
	if (is_dots(i->name, i->len)) {
		*why = "'.' or '..' is no directory";
		return e->error || (i->have_attr && !S_ISDIR(e->attr.mode)) ? -EBADMSG : 0;
	}
	if (i->have_handle && nfs_page_handle(p, e, i->handle, i->handle_len))
		e->error = -EBADMSG;
	e->name = memcpy(p->text + p->text_used, i->name, i->len);
	e->name_len = i->len;
	p->text_used += i->len;
	p->maybe[p->n] = i->maybe;
	e->dummy = e->attr.more;
	p->complete[p->n++] = i->have_attr && i->have_handle;
	return 0;
}

/* ---- NFSv3 ---- */

static int add(struct nfs_page *p, const char *name, uint64_t cookie,
	       const struct post_op_attr *attr, const struct post_op_fh3 *fh, const char **why)
{
	struct nfs_item i = { .name = name, .len = strlen(name), .cookie = cookie };

	if (attr && nfs_post_attr(attr, &i.have_attr, &i.attr))
		i.error = -EBADMSG;
	if (fh && fh->handle_follows && fh->post_op_fh3_u.handle.data.data_len > NFS3_FHSIZE) {
		i.error = -EBADMSG;
	} else if (fh && fh->handle_follows) {
		i.have_handle = true;
		i.handle = fh->post_op_fh3_u.handle.data.data_val;
		i.handle_len = fh->post_op_fh3_u.handle.data.data_len;
	}
	return nfs_page_add(p, &i, why);
}

/* Keep the directory's own attributes: they tell which directory has answered. */
static int take_dir(struct nfs_page *p, const struct post_op_attr *a, const char **why)
{
	if (!nfs_post_attr(a, &p->have_dir, &p->dir))
		return 0;
	*why = "impossible attributes of the directory";
	return -EBADMSG;
}

int nfs_page_plus(const struct READDIRPLUS3resok *ok, struct nfs_page *out, const char **why)
{
	const struct entryplus3 *e;
	size_t n = 0, bytes = 0;
	int r;

	for (e = ok->reply.entries; e; e = e->nextentry)
		n++, bytes += strlen(e->name);
	r = nfs_page_reserve(out, n, bytes);
	if (!r)
		r = take_dir(out, &ok->dir_attributes, why);
	for (e = ok->reply.entries; e && !r; e = e->nextentry)
		r = add(out, e->name, e->cookie, &e->name_attributes, &e->name_handle, why);
	memcpy(out->verf, ok->cookieverf, sizeof(out->verf));
	out->eof = ok->reply.eof;
	if (r)
		nfs_page_finish(out);
	return r;
}

int nfs_page_plain(const struct READDIR3resok *ok, struct nfs_page *out, const char **why)
{
	const struct entry3 *e;
	size_t n = 0, bytes = 0;
	int r;

	for (e = ok->reply.entries; e; e = e->nextentry)
		n++, bytes += strlen(e->name);
	r = nfs_page_reserve(out, n, bytes);
	if (!r)
		r = take_dir(out, &ok->dir_attributes, why);
	for (e = ok->reply.entries; e && !r; e = e->nextentry)
		r = add(out, e->name, e->cookie, NULL, NULL, why);
	memcpy(out->verf, ok->cookieverf, sizeof(out->verf));
	out->eof = ok->reply.eof;
	if (r)
		nfs_page_finish(out);
	return r;
}

void nfs_page_finish(struct nfs_page *p)
{
	size_t i;

	for (i = 0; i < p->n; i++)
		free((char *)p->entries[i].target);
	free(p->entries);
	free(p->handles);
	free(p->complete);
	free(p->narrowed);
	free(p->maybe);
	free(p->text);
	memset(p, 0, sizeof(*p));
}
