/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * compare_attr.c - owner, ACL, mode, times, in this order: a change of the owner may take set-ID
 * bits, an ACL makes a mode, and all of them leave the times as they are, which come last.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mirror.h"
#include "share.h"
#include "source/posix_acl.h"

#define BITS 07777

struct acls {
	struct stub_xattr x[2];
};

static const char *const names[2] = { POSIX_ACL_ACCESS, POSIX_ACL_DEFAULT };

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static void acls_free(struct acls *a)
{
	free((void *)a->x[0].value);
	free((void *)a->x[1].value);
}

static const struct stub_xattr *of_meta(const struct source_meta *meta, const char *name)
{
	for (size_t i = 0; i < meta->n; i++)
		if (!strcmp(meta->xattrs[i].name, name))
			return &meta->xattrs[i];
	return NULL;
}

static bool same_acl(const struct stub_xattr *a, const struct source_meta *meta)
{
	const struct stub_xattr *b = of_meta(meta, a->name);

	return b ? a->len == b->len && !memcmp(a->value, b->value, b->len) : !a->len;
}

/* 1: it was another one; 0; -errno. */
static int compare_acls(struct task *t, const struct stub_attr *want,
			const struct source_meta *meta)
{
	struct acls a = { 0 };
	int r = 0;

	t->what = "ACL";
	for (int i = 0; i < 2 && r == 0; i++)
		r = task_xattr(t, names[i], &a.x[i]);
	t->acl = a.x[0].len || a.x[1].len;
	if (r == 0 && (!same_acl(&a.x[0], meta) || !same_acl(&a.x[1], meta))) {
		r = t->look ? DIFFERS :
			      target_setacl(t->m->target, &t->place, want, a.x[0].len ? &a.x[0] : NULL,
					    a.x[1].len ? &a.x[1] : NULL);
		if (r == 0)
			r = 1;
	}
	acls_free(&a);
	return r;
}

static int set(struct task *t, const char *what, unsigned int which, const struct stub_attr *want)
{
	t->what = what;
	return t->look ? DIFFERS : target_setattr(t->m->target, &t->place, which, want);
}

/* All but times: 1 if anything was changed. */
static int compare_rights(struct task *t, const struct stub_attr *want,
			  const struct source_meta *meta)
{
	bool acls = t->m->acls && (S_ISREG(want->mode) || S_ISDIR(want->mode)), changed = false;
	int r = 0, refused = 0;

	if (want->uid != meta->attr.uid || want->gid != meta->attr.gid) {
		r = set(t, "owner", TARGET_OWNER, want);
		changed = true;
	}
	if (r == 0 && acls) {
		r = compare_acls(t, want, meta);
		changed |= r == 1;
		/* the rest can be right all the same */
		if (r == -EOPNOTSUPP)
			refused = r;
		if (r == 1 || r == -EOPNOTSUPP)
			r = 0;
	}
	if (r == 0 && !S_ISLNK(want->mode) &&
	    (changed || (want->mode & BITS) != (meta->attr.mode & BITS))) {
		r = set(t, "mode", TARGET_MODE, want);
		changed = true;
	}
	if (r < 0)
		return r;
	if (refused)
		t->what = "ACL";
	return refused ? refused : changed;
}

/* Are the times to be set?  Where it is only looked: those of reading are nobody's change, and servers may
 * keep none of symlinks. */
static bool other_times(const struct task *t, const struct stub_attr *want, const struct stub_attr *is)
{
	if (t->look)
		return !S_ISLNK(want->mode) && !same_time(want->mtime, is->mtime);
	return !same_time(want->mtime, is->mtime) || !same_time(want->atime, is->atime);
}

/* What was refused of an object for good, while the rest of it is made equal all the same. */
struct refusal {
	int error;
	const char *what;
};

static void refuse(struct refusal *f, const struct task *t, int error)
{
	if (error < 0 && !f->error)
		*f = (struct refusal){ error, t->what };
}

/* Rights first, and the descriptor behind the mode, which would take it out of force; times last, if they are
 * others, or @moved. */
static int compare_all(struct task *t, const struct stub_attr *want, const struct source_meta *meta, bool moved)
{
	struct refusal refused = { 0 };
	struct shared over;
	int r = share_look(t, meta->attr.fileid, &over);

	if (r > EQUAL || r == DIFFERS)
		return r;
	refuse(&refused, t, r);
	r = over.holds ? 0 : compare_rights(t, want, meta);
	if (r < 0 && r != -EOPNOTSUPP)
		return mirror_verdict(t->m, r);
	if (!over.in_force) /* else an ACL is not needed over NFS */
		refuse(&refused, t, r);
	moved |= r != 0;
	if (over.differs) {
		r = share_make(t, meta->attr.fileid);
		if (r > EQUAL)
			return r;
		refuse(&refused, t, r);
		moved = true;
	}
	r = moved || other_times(t, want, &meta->attr) ? set(t, "times", TARGET_TIMES, want) : 0;
	if (r == 0 && refused.error) {
		t->what = refused.what;
		return refused.error;
	}
	return r < 0 ? mirror_verdict(t->m, r) : EQUAL;
}

int compare_attr_of(struct task *t, struct source_meta *meta, bool moved)
{
	struct stub_attr want;

	attr_of(&t->st, &t->view, &want);
	if ((meta->attr.mode & S_IFMT) != (want.mode & S_IFMT))
		return -EBADMSG;
	if (moved) /* who writes takes them away */
		meta->attr.mode &= ~(uint32_t)(S_ISUID | S_ISGID);
	return compare_all(t, &want, meta, moved);
}

int compare_attr(struct task *t)
{
	struct source_meta meta;
	int r;

	t->what = "attributes";
	r = source_meta(t->m->target, SOURCE_BACKGROUND, &t->place, &meta);
	r = r < 0 ? mirror_verdict(t->m, r) : compare_attr_of(t, &meta, false);
	source_meta_free(&meta);
	return r;
}

int set_times(struct task *t)
{
	struct stub_attr want;
	int r;

	attr_of(&t->st, &t->view, &want);
	r = set(t, "times", TARGET_TIMES, &want);
	return r < 0 ? mirror_verdict(t->m, r) : EQUAL;
}
