/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * refused.c - names that the new file system will not have (docs/decisions/0006).
 *
 * A symlink's target may be longer, a file larger, a link one more than it takes.
 * Such a name does not keep the rest of its directory away; but it is not lost in
 * silence (docs/design.md, invariants 6 and 7): the directory keeps its record, which holds the
 * name, until the name could be made or is gone on the old server.  Whoever asks
 * for it meanwhile gets an I/O error.
 *
 * Once listed, the directory is the clients': they remove names that the old server
 * still has.  So only the names in the record are ever tried again, and a name
 * leaves the record under the same exclusion under which it is linked.
 */
#include <fcntl.h>

#include "internal.h"

STUB_PUBLIC bool stub_refusal(int error)
{
	static const int refusals[] = { ENAMETOOLONG, EFBIG, EMLINK, EINVAL,	EOVERFLOW,
					EILSEQ,	      EPERM, EACCES, EOPNOTSUPP,
					EXDEV /* a name of a file in another project */ };

	for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
		if (error == -refusals[i])
			return true;
	return false;
}

STUB_PUBLIC bool stub_refused_next(const struct stub_refused *r, size_t *at, const char **name,
				   size_t *len)
{
	if (*at >= r->len)
		return false;
	*len = r->names[*at];
	*name = (const char *)r->names + *at + 1;
	*at += 1 + *len;
	return true;
}

/* Where the name stands; r->len: nowhere. */
static size_t find(const struct stub_refused *r, const char *name, size_t len)
{
	size_t at = 0, here = 0, n;
	const char *p;

	while (stub_refused_next(r, &at, &p, &n)) {
		if (n == len && !memcmp(p, name, len))
			return here;
		here = at;
	}
	return r->len;
}

STUB_PUBLIC bool stub_refused_contains(const struct stub_refused *r, const char *name, size_t len)
{
	return find(r, name, len) < r->len;
}

STUB_PUBLIC int stub_refused_add(struct stub_refused *r, const char *name, size_t len, int error)
{
	if (find(r, name, len) == r->len) {
		if (len + 1 > sizeof(r->names) - r->len)
			return error;
		r->names[r->len] = (uint8_t)len;
		memcpy(r->names + r->len + 1, name, len);
		r->len += (uint16_t)(len + 1);
	}
	r->error = error;
	return 0;
}

unsigned int stub_refused_count(const struct stub_refused *r)
{
	unsigned int count = 0;
	const char *name;
	size_t at = 0, n;

	while (stub_refused_next(r, &at, &name, &n))
		count++;
	return count;
}

/* False: it was not there. */
static bool take_out(struct stub_refused *r, const char *name, size_t len)
{
	size_t at = find(r, name, len), end = at + 1 + len;

	if (at == r->len)
		return false;
	memmove(r->names + at, r->names + end, r->len - end);
	r->len -= (uint16_t)(len + 1);
	return true;
}

STUB_PUBLIC int stub_refused_load(struct stub_volume *v, const struct stub_handle *h,
				  struct stub_refused *out)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stat st;
	int r;

	out->len = 0;
	out->error = 0;
	if (!rec)
		return -ENOMEM;
	r = stub_record_load_at(v, h, &st, rec);
	if (r == 0)
		*out = rec->refused;
	return r == -ENOENT ? 0 : r;
}

STUB_PUBLIC int stub_refused_has(struct stub_volume *v, const struct stub_handle *h,
				 const char *name)
{
	struct stub_refused refused;
	int r = stub_refused_load(v, h, &refused);

	return r < 0 ? r : stub_refused_contains(&refused, name, strlen(name));
}

/* Under the exclusion: the staged inode gets its name, the name leaves the record. */
static int settle(struct stub_volume *v, const struct stub_object *dir, struct stub_staged *s,
		  const struct stub_entry *e, const char *name, size_t len,
		  struct stub_record *rec)
{
	char path[STUB_NAME_MAX + 1];
	int r = 0;

	if (!take_out(&rec->refused, name, len))
		return 0;
	memcpy(path, name, len);
	path[len] = '\0';
	if (s->kind != STUB_STAGED_NONE) {
		r = stub_staged_link(v, s, dir->fd, path);
		if (r == 0 && !s->journalled)
			stub_finished_name(v, dir->fd, path, e->attr.fileid);
		if (r == -EEXIST)
			r = 0;
		if (r == 0)
			r = stub_times_restore(dir->fd, rec);
	}
	if (r < 0)
		return r;
	if (!rec->refused.len)
		rec->flags &= (uint16_t)~STUB_FLAG_REFUSED;
	if (rec->flags)
		return stub_record_store(v, dir->fd, rec);
	r = stub_place_note(v, dir->fd, rec->origin.bytes, rec->origin.len);
	if (r == 0 && v->way_back)
		r = stub_place_sync(v);
	if (r == 0)
		r = stub_record_drop(dir->fd);
	if (r == 0)
		stub_finished_record(v, dir->fd, rec, false);
	return r;
}

STUB_PUBLIC int stub_refused_make(struct stub_volume *v, struct stub_journal *j,
				  const struct stub_object *dir, const char *name, size_t len,
				  const struct stub_entry *e)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stub_staging at CLEANUP_STAGING = { .fd = -1 };
	struct stub_staged s = { .kind = STUB_STAGED_NONE, .fd = -1 };
	struct stat st;
	uint64_t ino;
	int r = 0;

	if (!rec)
		return -ENOMEM;
	if (e) {
		r = stub_entry_check(dir, e);
		if (r == 0)
			r = stub_stage(v, dir, &at, e, &s);
		if (r == 0 && s.journalled)
			r = stub_journal_add(j, &s.entry, 1);
	}
	if (r == 0)
		r = stub_lock_record(v, dir, &ino, &st, rec);
	if (r == 0) {
		r = settle(v, dir, &s, e, name, len, rec);
		stub_unlock(&v->locks, &ino, 1);
	}
	if (r == 0) /* a name in a listed directory, whose mtime has not moved */
		stub_news_post(v, &dir->h, STUB_NEWS_NAMES);
	stub_staged_drop(v, &s);
	return r;
}
