// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs42_xattr.c - users' extended attributes (RFC 8276), and when an object was made.
 *
 *   met    LISTXATTRS behind LOOKUP, in the same compound; of entries of a listing, one call each
 *          where the server says that their file system has such attributes
 *   meta   LISTXATTRS, page by page, then GETXATTR for each name
 *
 * The protocol's names are those behind "user.".  What a server lists is hostile: names that no
 * Linux has, more of them than a list has room for there, pages that bring nothing or stand still.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs42.h"
#include "source/dos_attrib.h"

#define USER	  "user."
#define NAME_MAX_ 250 /* with that 255, Linux's limit */
#define VALUE_MAX 65536 /* Linux's limits again: of a value, */
#define LIST_MAX  65536 /* and of all names of a file, each with a zero byte */
#define PAGE	  65536u
#define TRIES	  3 /* of a list that changes while it is read */

/* ---- met ---- */

int nfs42_look(struct nfs_source *s, enum source_priority p, const struct stub_origin *o,
	       struct stub_attr *attr)
{
	struct nfs42_call c = { .call.count = NFS42_LOOK_BYTES };
	int r;

	if (s->uri.version->minor < 2 || !(S_ISREG(attr->mode) || S_ISDIR(attr->mode)))
		return 0;
	r = nfs42_ask(s, &c, NFS_OP_LISTXATTRS, p, o);
	if (r == -ECANCELED || r == -ETIMEDOUT)
		return r;
	nfs42_met(r, &c.a, attr);
	return 0;
}

/* ---- names ---- */

struct taking {
	struct nfs_source *s;
	enum source_priority p;
	const struct stub_origin *o;
	struct source_meta *out;
	char names[LIST_MAX + 8]; /* with "user.", each terminated */
	size_t len;
	size_t told; /* as len, with those that cannot be kept */
	uint8_t *value;
	size_t value_len;
	struct stub_xattr *x;
	size_t n, all; /* bytes of names and values so far, with what @out had */
	bool dos; /* the server has Samba's attribute itself */
};

static int lose(struct taking *t, const char *what, const char *name, size_t len)
{
	char shown[128], line[256];

	stub_printable(name, len, shown, sizeof(shown));
	snprintf(line, sizeof(line), "attribute %s%s: %s", USER, shown, what);
	return source_meta_lose(t->out, line);
}

static int add_name(struct taking *t, const uint8_t *name, uint32_t len)
{
	if (!len || memchr(name, '\0', len))
		return -EBADMSG;
	t->told += strlen(USER) + len + 1;
	if (t->told > LIST_MAX)
		return -EBADMSG; /* no list of Linux has room for so many */
	if (len > NAME_MAX_)
		return lose(t, "its name is longer than the new file system takes",
			    (const char *)name, len);
	t->len = (size_t)(stpcpy(t->names + t->len, USER) - t->names);
	memcpy(t->names + t->len, name, len);
	t->len += len;
	t->names[t->len++] = '\0';
	return 0;
}

static int take_names(void *arg, const struct nfs_answer *a)
{
	struct nfs4_in in = { (const uint8_t *)a->data, a->len, false };
	struct taking *t = arg;
	int r = 0;

	for (uint32_t i = 0; i < a->granted && !r; i++) {
		uint32_t len;
		const uint8_t *name = nfs4_get_opaque(&in, UINT32_MAX, &len);

		r = name ? add_name(t, name, len) : -EBADMSG;
	}
	return r;
}

/* -EAGAIN: from the beginning. */
static int list(struct taking *t)
{
	struct nfs42_call c = { .call.count = PAGE, .take = take_names, .arg = t };
	int r;

	t->len = t->told = 0;
	do {
		c.call.offset = c.a.at;
		r = nfs42_ask(t->s, &c, NFS_OP_LISTXATTRS, t->p, t->o);
		if (r)
			return c.a.said == NFS_SAID_COOKIE  ? -EAGAIN :
			       c.a.said == NFS_SAID_NOTSUPP ? 0 :
							      r;
		if (!c.a.eof && (!c.a.granted || c.a.at == c.call.offset)) {
			nfs_log(t->s, STUB_LOG_ERROR,
				"source %s: impossible list of extended attributes: it does not go on",
				t->s->uri.host);
			return -EBADMSG;
		}
	} while (!c.a.eof);
	return 0;
}

/* ---- values ---- */

static int take_value(void *arg, const struct nfs_answer *a)
{
	struct taking *t = arg;

	if (a->len > VALUE_MAX)
		return -EMSGSIZE;
	memcpy(t->value, a->data, a->len);
	t->value_len = a->len;
	return 0;
}

static bool too_large(const struct taking *t, const char *name)
{
	const struct source_smb *l = &t->s->config.smb;

	return (l->xattr_value && t->value_len > l->xattr_value) ||
	       (l->xattr_all && t->all + t->value_len + strlen(name) > l->xattr_all);
}

static int keep(struct taking *t, const char *name)
{
	void *copy = malloc(t->value_len + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, t->value, t->value_len);
	t->all += t->value_len + strlen(name);
	t->x[t->n++] = (struct stub_xattr){ name, copy, t->value_len };
	t->dos = t->dos || !strcmp(name, DOS_ATTRIB);
	return 0;
}

static int get(struct taking *t, const char *name)
{
	const char *behind = name + strlen(USER);
	struct nfs42_call c = { .call = { .name = behind, .count = VALUE_MAX },
				.take = take_value,
				.arg = t };
	int r = nfs42_ask(t->s, &c, NFS_OP_GETXATTR, t->p, t->o);

	if (r && c.a.said == NFS_SAID_NOXATTR)
		return 0; /* removed meanwhile */
	if (r == -EMSGSIZE || (r && c.a.said == NFS_SAID_TOOSMALL))
		return lose(t, "too large to be had", behind, strlen(behind));
	if (r)
		return r;
	if (too_large(t, name))
		return lose(t, "more than the new file system takes", behind, strlen(behind));
	return keep(t, name);
}

static int get_all(struct taking *t)
{
	int r = 0;

	for (size_t at = 0; at < t->len && !r; at += strlen(t->names + at) + 1)
		r = get(t, t->names + at);
	return r;
}

static int list_and_get(struct taking *t)
{
	int r = -EAGAIN;

	for (unsigned int i = 0; i < TRIES && r == -EAGAIN; i++)
		r = list(t);
	if (r)
		return r == -EAGAIN ? -EIO : r;
	t->value = malloc(VALUE_MAX + 1);
	t->x = calloc(t->len + 1, sizeof(*t->x));
	return t->value && t->x ? get_all(t) : -ENOMEM;
}

/* ---- when it was made ---- */

static int add_born(struct taking *t, const struct timespec *born)
{
	uint8_t value[DOS_ATTRIB_BYTES];
	struct stub_xattr x = { DOS_ATTRIB, value, sizeof(value) };

	if (t->dos)
		return 0; /* Samba's over there */
	if (!dos_attrib_born(S_ISDIR(t->out->attr.mode), born, value))
		return source_meta_lose(t->out, "creation time: Windows has none so early or late");
	return source_meta_append(t->out, &x, 1);
}

int nfs42_extras(struct nfs_source *s, enum source_priority p, const struct stub_origin *o,
		 bool xattrs, const struct timespec *born, struct source_meta *out)
{
	struct taking *t;
	int r = 0;

	if (!(S_ISREG(out->attr.mode) || S_ISDIR(out->attr.mode)) || !(xattrs || born))
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->s = s;
	t->p = p;
	t->o = o;
	t->out = out;
	for (size_t i = 0; i < out->n; i++)
		t->all += strlen(out->xattrs[i].name) + out->xattrs[i].len;
	if (xattrs)
		r = list_and_get(t);
	if (!r)
		r = source_meta_append(out, t->x, t->n);
	if (!r && born)
		r = add_born(t, born);
	for (size_t i = 0; i < t->n; i++)
		free((void *)t->x[i].value);
	free(t->x);
	free(t->value);
	free(t);
	return r;
}
