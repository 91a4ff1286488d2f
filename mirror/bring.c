/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * bring.c - how a name that is missing over there comes there, so that no byte is sent twice: of a
 * file that is known there is made a link, a directory is renamed from where it is, and only
 * what is not known is made.
 *
 * Both look at the place with the inode's lock: of two directories with names of one new file,
 * the second one finds what the first one has made.
 */
#include "bring.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "recent.h"

/* Where a directory is, by `..`, and its name there; -ENOENT: it is moving. */
static int find_dir(struct mirror *m, const struct stub_origin *o, struct stub_origin *up,
		    char name[STUB_NAME_MAX + 1])
{
	struct there_name *n;
	struct stub_attr attr;
	struct there t;
	int r = source_lookup(m->target, SOURCE_BACKGROUND, o, NULL, "..", 2, up, &attr);

	if (r < 0)
		return r;
	r = there_list(m, up, &t);
	n = r == 0 ? there_inode(m, &t, o) : NULL;
	if (n)
		strcpy(name, n->name);
	there_free(&t);
	return r < 0 ? r == -ESTALE ? -ENOENT : r : n ? 0 : -ENOENT;
}

static int bring_dir(const struct bring_to *b, const char *name, const struct stub_origin *place)
{
	struct mirror *m = b->t->m;
	struct there_name *n = there_inode(m, b->there, place);
	char old[STUB_NAME_MAX + 1];
	struct stub_origin up;
	int r;

	if (n) { /* renamed within this directory */
		r = target_rename(m->target, &b->t->place, n->name, &b->t->place, name);
		if (r == 0)
			n->done = true;
	} else {
		r = find_dir(m, place, &up, old);
		if (r == 0)
			r = target_rename(m->target, &up, old, &b->t->place, name);
	}
	return r == -EINVAL ? -EAGAIN : r; /* it is above this one: there, that comes later */
}

/* The object: 1.  Or the directory, or neither: some servers say so of what is being removed elsewhere. */
static int which_is_stale(struct mirror *m, const struct stub_origin *place)
{
	struct stub_attr attr;
	int r = source_getattr(m->target, SOURCE_BACKGROUND, place, &attr);

	return r == -ESTALE ? 1 : r == 0 ? -EAGAIN : r;
}

static int bring_locked(const struct bring_to *b, const char *name, const struct here_object *o)
{
	struct mirror *m = b->t->m;
	struct stub_origin place;
	int r = stub_place_get(m->volume, o->st.st_ino, &o->h, &place);

	if (r == -ENOENT)
		return 1;
	if (r < 0)
		return r;
	if (S_ISDIR(o->st.st_mode))
		r = bring_dir(b, name, &place);
	else
		r = target_link(m->target, &place, &b->t->place, name);
	return r == -ESTALE ? which_is_stale(m, &place) : r;
}

int bring_known(const struct bring_to *b, const char *name, const struct here_object *o)
{
	int r;

	mirror_lock_ino(b->t->m, o->st.st_ino);
	r = bring_locked(b, name, o);
	mirror_unlock_ino(b->t->m, o->st.st_ino);
	return r;
}

static int make(const struct bring_to *b, const char *name, const struct here_object *o)
{
	struct mirror *m = b->t->m;
	struct stub_attr attr, made;
	struct stub_origin out;
	char target[STUB_TARGET_MAX + 1];
	ssize_t n = 0;
	int r;

	if (S_ISLNK(o->st.st_mode)) {
		n = readlinkat(o->fd, "", target, sizeof(target));
		if (n < 0)
			return -errno;
		if ((size_t)n == sizeof(target))
			return -ENAMETOOLONG;
	}
	target[n] = '\0';
	attr_of(&o->st, NULL, &attr);
	r = target_make(m->target, &b->t->place, name, &attr, S_ISLNK(attr.mode) ? target : NULL, &out,
			&made);
	if (r == 0)
		r = stub_place_put(m->volume, o->st.st_ino, &o->h, out.bytes, out.len);
	if (r == 0 && S_ISREG(made.mode))
		recent_put(m->recent, &o->h, &made);
	if (r == 0)
		atomic_store(&m->places_new, true); /* with the inode's lock: who sees the place sees that */
	return r;
}

/* Of what still misses something the rest is over there, or nowhere: nothing is made in its stead. */
static int check_whole(const struct bring_to *b, const struct here_object *o)
{
	const unsigned int rest = STUB_NEEDS_ATTRS | STUB_NEEDS_DATA | STUB_NEEDS_ENTRIES;
	struct stub_view view;
	int r = b->t->m->conf.kind == STUB_MIRROR_WAY_BACK ? stub_view(b->t->m->volume, &o->h, &view) : 1;

	return r < 0 ? r : r == 0 && view.needs & rest ? -ENOENT : 0;
}

int bring_new(const struct bring_to *b, const char *name, const struct here_object *o)
{
	int r;

	mirror_lock_ino(b->t->m, o->st.st_ino);
	r = bring_locked(b, name, o);
	if (r == 1) {
		r = check_whole(b, o);
		r = r < 0 ? r : make(b, name, o);
	}
	mirror_unlock_ino(b->t->m, o->st.st_ino);
	return r;
}
