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

/* An entry of either reply; READDIR has no attributes and handles (NULL). */
struct item {
	const char *name;
	uint64_t cookie;
	const struct post_op_attr *attr;
	const struct post_op_fh3 *fh;
};

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

static int reserve(struct nfs_page *p, size_t n, size_t text)
{
	memset(p, 0, sizeof(*p));
	p->entries = calloc(n + 1, sizeof(*p->entries));
	p->handles = calloc(n + 1, sizeof(*p->handles));
	p->complete = calloc(n + 1, sizeof(*p->complete));
	p->narrowed = calloc(n + 1, sizeof(*p->narrowed));
	p->text = malloc(text + 1);
	if (p->entries && p->handles && p->complete && p->narrowed && p->text)
		return 0;
	nfs_page_finish(p);
	return -ENOMEM;
}

int nfs_page_handle(struct nfs_page *p, struct stub_entry *e, const struct nfs_fh3 *from)
{
	uint8_t *to = p->handles[e - p->entries];

	if (from->data.data_len < 1 || from->data.data_len > NFS3_FHSIZE)
		return -EBADMSG;
	e->origin = memcpy(to, from->data.data_val, from->data.data_len);
	e->origin_len = from->data.data_len;
	e->inode = e->origin;
	e->inode_len = nfs_handle_inode(e->origin, e->origin_len);
	return 0;
}

static int add(struct nfs_page *p, char **text, const struct item *i, const char **why)
{
	struct stub_entry *e = &p->entries[p->n];
	bool have_attr = false, have_fh = i->fh && i->fh->handle_follows;

	if (p->seen++ && i->cookie == p->last_cookie) {
		*why = "the same cookie twice";
		return -EBADMSG;
	}
	p->last_cookie = i->cookie;
	if (i->attr && nfs_post_attr(i->attr, &have_attr, &e->attr))
		e->error = -EBADMSG;
	if (is_dots(i->name)) {
		*why = "'.' or '..' is no directory";
		return e->error || (have_attr && !S_ISDIR(e->attr.mode)) ? -EBADMSG : 0;
	}
	if (have_fh && nfs_page_handle(p, e, &i->fh->post_op_fh3_u.handle))
		e->error = -EBADMSG;
	e->name_len = strlen(i->name);
	e->name = memcpy(*text, i->name, e->name_len);
	*text += e->name_len;
	p->complete[p->n++] = have_attr && have_fh;
	return 0;
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
	char *text;
	int r;

	for (e = ok->reply.entries; e; e = e->nextentry)
		n++, bytes += strlen(e->name);
	r = reserve(out, n, bytes);
	text = out->text;
	if (!r)
		r = take_dir(out, &ok->dir_attributes, why);
	for (e = ok->reply.entries; e && !r; e = e->nextentry) {
		struct item i = { e->name, e->cookie, &e->name_attributes, &e->name_handle };

		r = add(out, &text, &i, why);
	}
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
	char *text;
	int r;

	for (e = ok->reply.entries; e; e = e->nextentry)
		n++, bytes += strlen(e->name);
	r = reserve(out, n, bytes);
	text = out->text;
	if (!r)
		r = take_dir(out, &ok->dir_attributes, why);
	for (e = ok->reply.entries; e && !r; e = e->nextentry) {
		struct item i = { e->name, e->cookie, NULL, NULL };

		r = add(out, &text, &i, why);
	}
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
	free(p->text);
	memset(p, 0, sizeof(*p));
}
