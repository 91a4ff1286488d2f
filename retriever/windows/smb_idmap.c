/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_idmap.c - the administrator's table of identities.
 *
 * Lines become ranges of SIDs that differ in the last number only, sorted; no two of
 * one kind overlap, so the last one that begins at or before a SID is the only one
 * that may hold it.  Names of NFSv4 are sorted, too, and there once.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "windows/smb_idmap.h"

#define FILE_MAX (16 << 20)
#define ID_MAX	 (UINT32_MAX - 1) /* the last one means "leave it" to chown() */

enum kind { KIND_UID, KIND_GID, KIND_EVERYONE, N_KINDS };

struct range {
	struct smb_sid sid; /* the first one */
	uint32_t more; /* how many follow */
	uint32_t id; /* of the first one */
	unsigned int line;
};

struct table {
	struct range *r;
	size_t n, room;
};

struct name {
	char *text;
	size_t len;
	uint32_t id;
	unsigned int line;
};

struct names {
	struct name *of;
	size_t n, room;
};

struct smb_idmap {
	struct table of[N_KINDS];
	struct names names[2]; /* KIND_UID, KIND_GID */
	uint32_t def[2]; /* KIND_UID, KIND_GID */
	unsigned int def_line[2]; /* 0: not in the table */
};

struct reader {
	struct smb_idmap *m;
	const char *name;
	unsigned int line;
	char *why;
};

struct word {
	const char *s;
	size_t len;
};

#define MAX_WORDS 4 /* one more than any line has */

__attribute__((format(printf, 2, 3))) static int bad(const struct reader *r, const char *fmt, ...)
{
	int at = snprintf(r->why, SMB_IDMAP_WHY, "%s line %u: ", r->name, r->line);
	va_list ap;

	if (at < 0 || at >= SMB_IDMAP_WHY)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(r->why + at, SMB_IDMAP_WHY - (size_t)at, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static bool is(struct word w, const char *s)
{
	return w.len == strlen(s) && !memcmp(w.s, s, w.len);
}

/* For messages: no more of a word than a line of them has room for. */
static int shown(struct word w)
{
	return w.len > 80 ? 80 : (int)w.len;
}

static bool id_parse(const char *s, size_t len, uint32_t *out)
{
	uint64_t x = 0;

	if (!len || len > 10)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		x = x * 10 + (uint64_t)(s[i] - '0');
	}
	*out = (uint32_t)x;
	return x <= ID_MAX;
}

/* "N" or "N-M" */
static int ids_parse(const struct reader *r, struct word w, uint32_t *first, uint32_t *more)
{
	const char *dash = memchr(w.s, '-', w.len);
	size_t len = dash ? (size_t)(dash - w.s) : w.len;
	uint32_t last;

	if (!id_parse(w.s, len, first))
		return bad(r, "'%.*s' is no id", shown(w), w.s);
	last = *first;
	if (dash && !id_parse(dash + 1, w.len - len - 1, &last))
		return bad(r, "'%.*s' is no range of ids", shown(w), w.s);
	if (last < *first)
		return bad(r, "the range '%.*s' ends before it begins", shown(w), w.s);
	*more = last - *first;
	return 0;
}

static int table_add(struct table *t, const struct range *r)
{
	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 64;
		struct range *more = reallocarray(t->r, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		t->r = more;
		t->room = room;
	}
	t->r[t->n++] = *r;
	return 0;
}

static int read_default(struct reader *r, const struct word *w, size_t n)
{
	int kind = n == 3 && is(w[1], "uid") ? KIND_UID : n == 3 && is(w[1], "gid") ? KIND_GID : -1;
	uint32_t id;

	if (kind < 0)
		return bad(r, "expected 'default uid N' or 'default gid N'");
	if (!id_parse(w[2].s, w[2].len, &id))
		return bad(r, "'%.*s' is no id", shown(w[2]), w[2].s);
	if (r->m->def_line[kind])
		return bad(r, "there is a default in line %u already", r->m->def_line[kind]);
	r->m->def[kind] = id;
	r->m->def_line[kind] = r->line;
	return 0;
}

static int read_name(struct reader *r, enum kind kind, struct word id, struct word name)
{
	struct names *t = &r->m->names[kind];
	struct name x = { .len = name.len, .line = r->line };

	if (!id_parse(id.s, id.len, &x.id))
		return bad(r, "'%.*s' is no id", shown(id), id.s);
	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 64;
		struct name *more = reallocarray(t->of, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		t->of = more;
		t->room = room;
	}
	x.text = malloc(name.len);
	if (!x.text)
		return -ENOMEM;
	memcpy(x.text, name.s, name.len);
	t->of[t->n++] = x;
	return 0;
}

static int read_range(struct reader *r, enum kind kind, const struct word *w, size_t n)
{
	struct range x = { .line = r->line };
	struct word sid;
	int e;

	if (n != (kind == KIND_EVERYONE ? 2 : 3))
		return bad(r, "expected '%.*s %sSID'", shown(w[0]), w[0].s,
			   kind == KIND_EVERYONE ? "" : "N ");
	sid = w[n - 1];
	if (kind != KIND_EVERYONE && memchr(sid.s, '@', sid.len))
		return read_name(r, kind, w[1], sid);
	if (smb_sid_parse(sid.s, sid.len, &x.sid) < 0 || !x.sid.n)
		return bad(r, "'%.*s' is no SID", shown(sid), sid.s);
	if (kind != KIND_EVERYONE) {
		e = ids_parse(r, w[1], &x.id, &x.more);
		if (e < 0)
			return e;
		if (x.more > UINT32_MAX - x.sid.sub[x.sid.n - 1])
			return bad(r, "the range goes beyond the largest SID");
	}
	return table_add(&r->m->of[kind], &x);
}

static int read_line(struct reader *r, const char *s, size_t len)
{
	struct word w[MAX_WORDS];
	size_t n = 0, i = 0;

	while (i < len && s[i] != '#') {
		if (s[i] == ' ' || s[i] == '\t' || s[i] == '\r') {
			i++;
			continue;
		}
		if (n == MAX_WORDS)
			return bad(r, "too many words");
		w[n] = (struct word){ s + i, 0 };
		while (i < len && !strchr(" \t\r#", s[i]))
			i++;
		w[n].len = (size_t)(s + i - w[n].s);
		n++;
	}
	if (!n)
		return 0;
	if (is(w[0], "uid"))
		return read_range(r, KIND_UID, w, n);
	if (is(w[0], "gid"))
		return read_range(r, KIND_GID, w, n);
	if (is(w[0], "everyone"))
		return read_range(r, KIND_EVERYONE, w, n);
	if (is(w[0], "default"))
		return read_default(r, w, n);
	return bad(r, "'%.*s': expected uid, gid, everyone or default", shown(w[0]), w[0].s);
}

static int range_cmp(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	int c = smb_sid_cmp(&x->sid, &y->sid);

	return c ? c : (x->line > y->line) - (x->line < y->line);
}

static bool range_has(const struct range *r, const struct smb_sid *sid)
{
	struct smb_sid first = r->sid;
	unsigned int last = r->sid.n - 1u;

	if (sid->n != r->sid.n)
		return false;
	first.sub[last] = sid->sub[last];
	return !smb_sid_cmp(&first, sid) && sid->sub[last] >= r->sid.sub[last] &&
	       sid->sub[last] - r->sid.sub[last] <= r->more;
}

/* Sort by SID; it is an error if a SID is in the table twice. */
static int table_sort(struct reader *r, struct table *t)
{
	if (t->n)
		qsort(t->r, t->n, sizeof(*t->r), range_cmp);
	for (size_t i = 1; i < t->n; i++) {
		const struct range *a = &t->r[i - 1], *b = &t->r[i];
		char text[SMB_SID_TEXT];

		if (!range_has(a, &b->sid))
			continue;
		r->line = a->line > b->line ? a->line : b->line;
		return bad(r, "%s is in line %u already", smb_sid_text(&b->sid, text),
			   a->line > b->line ? b->line : a->line);
	}
	return 0;
}

static int text_cmp(const void *a, size_t a_len, const void *b, size_t b_len)
{
	int c = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return c ? c : (a_len > b_len) - (a_len < b_len);
}

static int name_cmp(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int c = text_cmp(x->text, x->len, y->text, y->len);

	return c ? c : (x->line > y->line) - (x->line < y->line);
}

/* Sort by name; it is an error if one is in the table twice. */
static int names_sort(struct reader *r, struct names *t)
{
	if (t->n)
		qsort(t->of, t->n, sizeof(*t->of), name_cmp);
	for (size_t i = 1; i < t->n; i++) {
		const struct name *a = &t->of[i - 1], *b = &t->of[i];

		if (text_cmp(a->text, a->len, b->text, b->len))
			continue;
		r->line = b->line;
		return bad(r, "%.*s is in line %u already", b->len > 80 ? 80 : (int)b->len, b->text,
			   a->line);
	}
	return 0;
}

static int read_lines(struct reader *r, const char *text, size_t len)
{
	int e = 0;

	for (size_t at = 0; !e && at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - text) - at : len - at;

		r->line++;
		if (memchr(text + at, '\0', n))
			e = bad(r, "there is a NUL byte in it");
		else
			e = read_line(r, text + at, n);
		at += n + 1;
	}
	for (int kind = 0; !e && kind < N_KINDS; kind++)
		e = table_sort(r, &r->m->of[kind]);
	for (int kind = 0; !e && kind < 2; kind++)
		e = names_sort(r, &r->m->names[kind]);
	return e;
}

int smb_idmap_parse(const char *text, size_t len, const char *name, struct smb_idmap **out,
		    char *why)
{
	struct reader r = { .m = calloc(1, sizeof(*r.m)), .name = name, .why = why };
	int e = r.m ? read_lines(&r, text, len) : -ENOMEM;

	if (e == -ENOMEM)
		snprintf(why, SMB_IDMAP_WHY, "%s: out of memory", name);
	if (e < 0) {
		smb_idmap_destroy(r.m);
		return e;
	}
	*out = r.m;
	return 0;
}

static int file_check(int fd, size_t *size)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	if (st.st_size > FILE_MAX)
		return -EFBIG;
	*size = (size_t)st.st_size;
	return 0;
}

static int file_read(int fd, char *buf, size_t size, size_t *len)
{
	*len = 0;
	while (*len < size) {
		ssize_t n = read(fd, buf + *len, size - *len);

		if (n < 0)
			return -errno;
		if (!n)
			break;
		*len += (size_t)n;
	}
	return 0;
}

int smb_idmap_read(const char *path, struct smb_idmap **out, char *why)
{
	const char *file = path ? path : SMB_IDMAP_PATH;
	int fd = open(file, O_RDONLY | O_CLOEXEC), r;
	char *text = NULL;
	size_t size = 0, len = 0;

	if (fd < 0 && errno == ENOENT && !path)
		return smb_idmap_parse("", 0, file, out, why);
	r = fd < 0 ? -errno : file_check(fd, &size);
	if (r == 0) {
		text = malloc(size + 1);
		r = text ? file_read(fd, text, size, &len) : -ENOMEM;
	}
	if (r == -EPERM)
		snprintf(why, SMB_IDMAP_WHY,
			 "%s: must belong to root and be writable by nobody else", file);
	else if (r < 0)
		snprintf(why, SMB_IDMAP_WHY, "%s: %s", file, strerror(-r));
	else
		r = smb_idmap_parse(text, len, file, out, why);
	free(text);
	if (fd >= 0)
		close(fd);
	return r;
}

void smb_idmap_destroy(struct smb_idmap *m)
{
	if (!m)
		return;
	for (int kind = 0; kind < N_KINDS; kind++)
		free(m->of[kind].r);
	for (int kind = 0; kind < 2; kind++) {
		for (size_t i = 0; i < m->names[kind].n; i++)
			free(m->names[kind].of[i].text);
		free(m->names[kind].of);
	}
	free(m);
}

bool smb_idmap_name(const struct smb_idmap *m, bool group, const void *name, size_t len,
		    uint32_t *id)
{
	const struct names *t = m ? &m->names[group ? KIND_GID : KIND_UID] : NULL;
	size_t low = 0, high = t ? t->n : 0;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int c = text_cmp(name, len, t->of[mid].text, t->of[mid].len);

		if (!c) {
			*id = t->of[mid].id;
			return true;
		}
		if (c < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return false;
}

static bool table_find(const struct table *t, const struct smb_sid *sid, uint32_t *id)
{
	size_t low = 0, high = t->n;
	const struct range *r;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (smb_sid_cmp(&t->r[mid].sid, sid) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low || !range_has(&t->r[low - 1], sid))
		return false;
	r = &t->r[low - 1];
	*id = r->id + (sid->sub[sid->n - 1] - r->sid.sub[r->sid.n - 1]);
	return true;
}

static void built_in(const struct smb_sid *sid, struct smb_id *out)
{
	static const uint32_t system[] = { 18 }, administrators[] = { 32, 544 };
	bool admins = smb_sid_is(sid, 5, 2, administrators);

	if (sid->authority == 22 && sid->n == 2 && sid->sub[1] <= ID_MAX) {
		out->has_uid = sid->sub[0] == 1;
		out->has_gid = sid->sub[0] == 2;
		out->uid = out->has_uid ? sid->sub[1] : 0;
		out->gid = out->has_gid ? sid->sub[1] : 0;
	}
	if (admins || smb_sid_is(sid, 5, 1, system))
		out->has_uid = true;
	if (admins)
		out->has_gid = true;
}

void smb_idmap_find(const struct smb_idmap *m, const struct smb_sid *sid, struct smb_id *out)
{
	uint32_t none;

	memset(out, 0, sizeof(*out));
	out->has_uid = table_find(&m->of[KIND_UID], sid, &out->uid);
	out->has_gid = table_find(&m->of[KIND_GID], sid, &out->gid);
	out->everyone = table_find(&m->of[KIND_EVERYONE], sid, &none);
	if (!out->has_uid && !out->has_gid)
		built_in(sid, out);
}

uid_t smb_idmap_default_uid(const struct smb_idmap *m)
{
	return m->def[KIND_UID];
}

gid_t smb_idmap_default_gid(const struct smb_idmap *m)
{
	return m->def[KIND_GID];
}
